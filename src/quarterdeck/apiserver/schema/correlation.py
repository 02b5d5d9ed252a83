"""Which old value belongs to which new one on an update, and whether it changed.

Values correspond through properties, map values and, in lists of type map, equal keys. Everything below
an atomic list or a set is new as far as ratcheting and transition rules are concerned.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.wire import gostyle
from quarterdeck.wire.jsonvalue import same

from .node import ABSENT, SchemaNode


def unchanged(node: SchemaNode, old: Any, new: Any) -> bool:
    """Whether a value is what it was. Lists of type map may be reordered.

    As upstream, an object with fields that its schema does not name never counts as unchanged.
    """
    if type(old) is not type(new):
        return False
    if type(new) is dict:
        if len(old) != len(new):
            return False
        for key, value in new.items():
            child = node.child(key)
            if child is None or key not in old or not unchanged(child, old[key], value):
                return False
        return True
    if type(new) is list:
        if len(old) != len(new):
            return False
        if node.list_type != "map" or node.items is None or not new:
            return same(old, new)
        items = node.items
        return all(
            before is not ABSENT and unchanged(items, before, item)
            for before, item in zip(old_items(node, old, new), new, strict=True)
        )
    return same(old, new)


def old_items(node: SchemaNode, old: Any, new: list[Any]) -> list[Any]:
    """For every item of a list the old item with the same keys, or ABSENT."""
    if not node.is_keyed_list or type(old) is not list:
        return [ABSENT] * len(new)
    keyed: dict[Any, Any] = {}
    for item in old:
        key = item_key(node, item)
        if key is not None:
            keyed.setdefault(key, item)
    found = []
    for item in new:
        key = item_key(node, item)
        found.append(keyed.get(key, ABSENT) if key is not None else ABSENT)
    return found


def item_key(node: SchemaNode, item: Any) -> str | None:
    """The identity of an item of a list of type map; None if a key is missing or no scalar."""
    if type(item) is not dict:
        return None
    parts = []
    for name in node.list_map_keys:
        value = item.get(name)
        if value is None or type(value) is dict or type(value) is list:
            return None
        parts.append(f"{type(value).__name__} {gostyle.scalar(value)}")
    return "\0".join(parts)
