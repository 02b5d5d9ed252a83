"""Hashes of pod templates: what differs in them makes an update.

FNV-1a with 64 bits over the canonical JSON of what matters, its decimal digits written in letters without
vowels. Values differ from those of the Go operator, which hashes a dump of its own structures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import to_dict
from quarterdeck.operators.grove.types import CliqueTemplate, PodCliqueSet

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def clique_hash(template: CliqueTemplate, priority_class: str) -> str:
    """The hash of one clique: labels, annotations, pod spec with the priority class of the set."""
    return _encoded(_fnv(_canonical(_hashed(template, priority_class))))


def clique_hashes(pcs: PodCliqueSet) -> dict[str, str]:
    """The hashes of all cliques of a set, by name."""
    template = pcs.spec.template
    return {each.name: clique_hash(each, template.priority_class_name) for each in template.cliques}


def generation_hash(pcs: PodCliqueSet) -> str:
    """The hash over all cliques of a set, in order."""
    template = pcs.spec.template
    parts = [_hashed(each, template.priority_class_name) for each in template.cliques]
    return _encoded(_fnv(_canonical(parts)))


def _hashed(template: CliqueTemplate, priority_class: str) -> dict[str, Any]:
    pod_spec = to_dict(template.spec.pod_spec)
    pod_spec["priorityClassName"] = priority_class
    return {
        "labels": dict(template.labels),
        "annotations": dict(template.annotations),
        "podSpec": pod_spec,
    }


def _canonical(value: Any) -> bytes:
    return json.dumps(_without_nothing(value), sort_keys=True, separators=(",", ":")).encode()


def _without_nothing(value: Any) -> Any:
    """The value without nulls and empty strings, lists and objects: leaving them out means the same."""
    if isinstance(value, Mapping):
        kept = {key: _without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if not _is_nothing(item)}
    if isinstance(value, list | tuple):
        return [_without_nothing(item) for item in value]
    return value


def _is_nothing(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _fnv(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value


def _encoded(value: int) -> str:
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
