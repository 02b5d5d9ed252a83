"""Correlation of an object with its previous state, for ratcheting.

Values correlate through properties, map entries and the elements of map lists by key; elements of other
lists do not. Errors at a value that equals its old value are forgiven on update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.cel.type.schema import Schema

_SCALARS = (bool, int, float, str)


class Correlated:
    """A value, its old value and their schema; comparisons are cached."""

    __slots__ = ("_children", "_equal", "_keyed", "old", "schema", "value")

    def __init__(self, value: Any, old: Any, schema: Schema) -> None:
        self.value = value
        self.old = old
        self.schema = schema
        self._children: dict[str | int, Correlated | None] = {}
        self._equal: bool | None = None
        self._keyed: MapListIndex | None = None

    def key(self, name: str) -> Correlated | None:
        """Child of an object or map, None when it has no old counterpart."""
        if name not in self._children:
            self._children[name] = self._key(name)
        return self._children[name]

    def _key(self, name: str) -> Correlated | None:
        if not isinstance(self.value, dict) or not isinstance(self.old, dict):
            return None
        if name not in self.value or name not in self.old:
            return None
        schema = (self.schema.get("properties") or {}).get(name)
        if schema is None:
            schema = self.schema.get("additionalProperties")
        if not isinstance(schema, Mapping):
            return None
        return Correlated(self.value[name], self.old[name], schema)

    def index(self, at: int) -> Correlated | None:
        """Element of a map list, None when it has no old counterpart."""
        if at not in self._children:
            self._children[at] = self._index(at)
        return self._children[at]

    def _index(self, at: int) -> Correlated | None:
        if not isinstance(self.value, list) or not isinstance(self.old, list):
            return None
        items = self.schema.get("items")
        if self.schema.get("x-kubernetes-list-type") != "map" or not isinstance(items, Mapping):
            return None
        if self._keyed is None:
            self._keyed = MapListIndex(self.schema, self.old)
        old = self._keyed.get(self.value[at])
        return None if old is None else Correlated(self.value[at], old, items)

    def is_equal(self) -> bool:
        """Whether the value is what it was."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if isinstance(value, dict) and isinstance(old, dict):
            if len(value) != len(old):
                return False
            children = [self.key(name) for name in value]
            return all(child is not None and child.is_equal() for child in children)
        if isinstance(value, list) and isinstance(old, list):
            if len(value) != len(old):
                return False
            if self.schema.get("x-kubernetes-list-type") != "map":
                return same(value, old)
            elements = [self.index(at) for at in range(len(value))]
            return all(element is not None and element.is_equal() for element in elements)
        return same(value, old)


def same(left: Any, right: Any) -> bool:
    """Deep equality of JSON that keeps bools, ints and floats apart."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(k in right and same(v, right[k]) for k, v in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


class MapListIndex:
    """Elements of a map list by the values of their keys; the first of duplicates counts."""

    __slots__ = ("_by_key", "_keys")

    def __init__(self, schema: Schema, items: list[Any]) -> None:
        self._keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self._by_key: dict[tuple[Any, ...], Any] = {}
        for item in items:
            key = self._key(item)
            if key is not None:
                self._by_key.setdefault(key, item)

    def _key(self, item: Any) -> tuple[Any, ...] | None:
        if not isinstance(item, dict) or not self._keys:
            return None
        values = tuple(item.get(name) for name in self._keys)
        if not all(isinstance(value, _SCALARS) for value in values):
            return None
        return tuple((type(value), value) for value in values)

    def get(self, item: Any) -> Any:
        """The element with the keys of `item`, None when there is none."""
        key = self._key(item)
        return None if key is None else self._by_key.get(key)
