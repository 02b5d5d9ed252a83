"""Strategic merge of pod templates, as far as overrides and patches reach into them.

Maps merge, lists with a key merge by it, other lists are replaced. Directives (``$patch``) do not occur: the
patches are made from typed fields, so that what is not set is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .template import Json

__all__ = ["strategic_merge"]

_MERGE_KEYS: Final[Mapping[str, str]] = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}


def strategic_merge(original: Json, patch: Json) -> Json:
    """``original`` with ``patch`` merged in; neither is changed, parts may be shared with both.

    >>> strategic_merge({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]})
    {'env': [{'name': 'A', 'value': '2'}]}
    """
    merged = dict(original)
    for key, value in patch.items():
        known = merged.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            merged[key] = strategic_merge(known, value)
        elif isinstance(value, list) and isinstance(known, list) and key in _MERGE_KEYS:
            merged[key] = _merge_list(known, value, _MERGE_KEYS[key])
        elif value is not None:
            merged[key] = value
    return merged


def _merge_list(original: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = list(original)
    for element in patch:
        for place, known in enumerate(merged):
            if known.get(key) == element.get(key):
                merged[place] = strategic_merge(known, element)
                break
        else:
            merged.append(element)
    return merged
