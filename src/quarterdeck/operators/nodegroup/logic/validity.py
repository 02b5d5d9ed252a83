"""Does a v1 document hold what its schema demands?

Used for one purpose: a restored round trip (``roundtrip``) must not carry values past the schema that the
API server checked. It is no replacement for the API server's validation and produces no messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from quarterdeck.operators.nodegroup import names

from .rule import KEYWORDS, Holds, combinations, rule_of
from .shape import schema
from .structure import structure_of

Document = dict[str, Any]
Violation = tuple[str, str]
"""Path and the schema keyword that does not hold; an unknown field breaks ``properties``."""

_ROOTS: Final = ("spec", "status")


class _Node(NamedTuple):
    """A schema whose rules are compiled."""

    rules: tuple[tuple[str, Holds], ...]
    properties: Mapping[str, _Node]
    items: _Node | None


def violations(document: Document, before: Document | None = None) -> set[Violation]:
    """Every rule that ``spec`` and ``status`` of a v1 document break, and did not break ``before``.

    Parts that are the same object in both are not looked at.
    """
    found: set[Violation] = set()
    if _is_in_order(document):
        return found
    for root in _ROOTS:
        if root in document:
            _look(_node(root), document[root], (before or {}).get(root, UNSET), root, found)
    return found


def _is_in_order(document: Document) -> bool:
    """Whether nothing is broken, ``null`` counting as broken: as it is for almost all documents."""
    try:
        for root in _ROOTS:
            if root in document:
                structure, combination = _quick(root)
                msgspec.convert(document[root], structure)
                if not combination(document[root]):
                    return False
    except msgspec.ValidationError:
        return False
    return True


@cache
def _quick(root: str) -> tuple[Any, Holds]:
    node = schema(names.V1)["properties"][root]
    return structure_of(node, strict=True), combinations(node) or (lambda _: True)


@cache
def _node(root: str) -> _Node:
    return _compiled(schema(names.V1)["properties"][root])


def _compiled(node: Mapping[str, Any]) -> _Node:
    return _Node(
        tuple((keyword, rule_of(keyword, rule)) for keyword, rule in node.items() if keyword in KEYWORDS),
        {key: _compiled(child) for key, child in node.get("properties", {}).items()},
        _compiled(node["items"]) if "items" in node else None,
    )


def _look(node: _Node, value: Any, before: Any, path: str, found: set[Violation]) -> None:
    for keyword, holds in node.rules:
        if not holds(value) and (before is UNSET or holds(before)):
            found.add((path, keyword))
    if type(value) is dict:
        known = before if type(before) is dict else {}
        for key, item in value.items():
            old = known.get(key, UNSET)
            if item is old:
                continue
            child = node.properties.get(key)
            if child is not None:
                _look(child, item, old, f"{path}.{key}", found)
            elif node.properties and old is UNSET:
                found.add((f"{path}.{key}", "properties"))
    elif type(value) is list and node.items is not None:
        known_items = before if type(before) is list else []
        for index, item in enumerate(value):
            old = known_items[index] if index < len(known_items) else UNSET
            _look(node.items, item, old, f"{path}[{index}]", found)
