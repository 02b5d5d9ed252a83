"""Comparing objects with what a grove case expects of them.

Maps match when every expected key does, and ``null`` means that there is nothing. Lists have the same length;
those of named objects match by name, all others element by element.
"""

from __future__ import annotations

from typing import Any

from tests.harness.matching import json_equal, show

__all__ = ["contains", "controller_of", "differs", "split_ref"]

Json = dict[str, Any]


def differs(what: str, expected: Any, found: Any) -> list[str]:
    """A line for a report."""
    return [f"{what}: expected {show(expected)}, found {show(found)}"]


def contains(what: str, expected: Any, found: Any) -> list[str]:
    """Where ``found`` does not hold what is expected; empty when it does."""
    if isinstance(expected, dict):
        if found is None and not expected:
            return []
        if not isinstance(found, dict):
            return differs(what, expected, found)
        return [
            line
            for key, value in expected.items()
            for line in contains(f"{what}.{key}", value, found.get(key))
        ]
    if isinstance(expected, list):
        return _list(what, expected, found)
    return [] if json_equal(expected, found) else differs(what, expected, found)


def _list(what: str, expected: list[Any], found: Any) -> list[str]:
    items = [] if found is None else found
    if not isinstance(items, list) or len(items) != len(expected):
        return differs(what, expected, found)
    if expected and all(isinstance(each, dict) and "name" in each for each in (*expected, *items)):
        by_name = {each["name"]: each for each in items}
        return [
            line
            for each in expected
            for line in contains(f"{what}[{each['name']}]", each, by_name.get(each["name"]))
        ]
    return [
        line
        for index, each in enumerate(expected)
        for line in contains(f"{what}[{index}]", each, items[index])
    ]


def controller_of(document: Json) -> str:
    """Who controls an object, as ``Kind/name``; empty for nobody."""
    for owner in document.get("metadata", {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner['kind']}/{owner['name']}"
    return ""


def split_ref(ref: str) -> tuple[str, str]:
    """The kind and the name in ``Kind/name``."""
    kind, _, name = ref.partition("/")
    return kind, name
