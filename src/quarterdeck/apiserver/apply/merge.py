"""Merging an apply configuration into an object, and taking fields out again.

`merge` lays a configuration over the live object: its leaves win, maps are united, lists are merged by
identity in an order that respects both sides. `remove_items` takes a set of paths out of an object. Both
return new containers where something changed and share the rest with their arguments.
"""

from __future__ import annotations

from typing import Any

from .fieldset import FieldSet
from .typed import ABSENT, AnyType, ListType, MapType, Type, TypeModel


def merge(model: TypeModel, live: Any, config: Any) -> Any:
    """`live` with everything `config` states; nothing is removed. Both must fit the model."""
    return _merge(model.root, live, config)


def _merge(type_: Type, left: Any, right: Any) -> Any:
    if right is ABSENT:
        return left
    if left is ABSENT or type_.is_leaf:
        return right
    if isinstance(type_, AnyType):
        return _merge(type_.select(right), left, right)
    if isinstance(type_, MapType):
        return _merge_maps(
            type_, left if isinstance(left, dict) else None, right if isinstance(right, dict) else None, right
        )
    assert isinstance(type_, ListType)
    # Empty against empty keeps the difference between [] and null; null against items changes nothing.
    ours = left if isinstance(left, list) else []
    theirs = right if isinstance(right, list) else []
    return _merge_lists(type_, ours, theirs) if ours or theirs else right


def _merge_maps(type_: MapType, left: dict[str, Any] | None, right: dict[str, Any] | None, value: Any) -> Any:
    if not left and not right:
        return value
    if not right:
        return left
    out = dict(left or {})
    for name, item in right.items():
        entry = type_.resolve(name)
        out[name] = _merge(entry[1], out.get(name, ABSENT), item) if entry else item
    return out


def _merge_lists(type_: ListType, left: list[Any], right: list[Any]) -> list[Any]:
    """Both lists as one: shared items in the order of `right`, the others near their old neighbours."""
    left_paths = [type_.element_of(item) for item in left]
    right_paths = [type_.element_of(item) for item in right]
    ours: dict[str, Any] = {}
    for path, item in zip(left_paths, left, strict=True):
        # An identity that occurs twice has no one item to merge with.
        ours[path] = ABSENT if path in ours else item
    theirs = dict(zip(right_paths, right, strict=True))
    shared = iter([path for path in right_paths if path in ours])
    next_shared = next(shared, None)
    done: set[str] = set()
    out: list[Any] = []
    at, to = 0, 0
    while at < len(left) or to < len(right):
        if at < len(left):
            path = left_paths[at]
            if to < len(right):
                if path == right_paths[to]:
                    done.add(path)
                    out.append(_merge(type_.element, ours[path], theirs[path]))
                    at, to = at + 1, to + 1
                    next_shared = next(shared, None)
                    continue
                if path in theirs and next_shared is not None and next_shared != path:
                    at += 1  # its turn comes with `right`
                    continue
            if path not in theirs:
                out.append(left[at])
                at += 1
                continue
            if path in done:
                at += 1
        if to < len(right):
            path = right_paths[to]
            done.add(path)
            out.append(_merge(type_.element, ours.get(path, ABSENT), theirs[path]))
            to += 1
            if next_shared == path:
                next_shared = next(shared, None)
    return out


def remove_items(model: TypeModel, value: Any, items: FieldSet) -> Any:
    """`value` without the members of `items`; what loses everything becomes null, as upstream has it."""
    return _remove(model.root, value, items) if items else value


def _remove(type_: Type, value: Any, items: FieldSet) -> Any:
    if isinstance(type_, AnyType):
        type_ = type_.select(value)
    if isinstance(type_, MapType):
        return _remove_fields(type_, value, items) if isinstance(value, dict) and not type_.is_leaf else None
    if isinstance(type_, ListType):
        return _remove_listed(type_, value, items) if isinstance(value, list) and not type_.is_leaf else None
    return value


def _remove_fields(type_: MapType, value: dict[str, Any], items: FieldSet) -> Any:
    out = {}
    for name, item in value.items():
        below = items.get("f:" + name)
        if below is None:
            out[name] = item
        elif below and "." not in below:
            entry = type_.resolve(name)
            out[name] = _remove(entry[1], item, below) if entry else None
    return out or None


def _remove_listed(type_: ListType, value: list[Any], items: FieldSet) -> Any:
    out = []
    for item in value:
        # Null is what an item is left as when all its fields are taken; it has no identity.
        below = None if item is None else items.get(type_.element_of(item))
        if below is None:
            out.append(item)
        elif below and "." not in below:
            out.append(_remove(type_.element, item, below))
    return out or None
