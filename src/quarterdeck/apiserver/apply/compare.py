"""What differs between two objects, and what one object consists of, as field sets.

`compare` finds what an update did: every leaf, item and field on one side only is added or removed with
everything below, every leaf that differs is modified. `field_set` lists what an apply configuration
states. Both are pure walks over plain JSON along the type model and run on every write, so `whole`, the
set of a value that is new as a whole, is written for speed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from quarterdeck.errors import QuarterdeckError

from .fieldset import LEAF, FieldSet, union
from .typed import ABSENT, AnyType, ItemError, ListType, MapType, Scalar, Type, TypeModel

Same: TypeAlias = Callable[[Any, Any], bool]
#: (added, modified, removed) nodes; None where nothing is
_Delta: TypeAlias = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_CHANGED: Final[_Delta] = (None, LEAF, None)
#: stands for an item that was pruned down to nothing: it still keeps its list from being empty
_NAMELESS: Final = "?:"


class TypedError(QuarterdeckError, ValueError):
    """A value that does not fit its type, with the path."""


class Comparison(NamedTuple):
    """The outcome of `compare`; no path is in two of the sets."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def is_same(self) -> bool:
        return not (self.added or self.modified or self.removed)


def same_value(left: Any, right: Any) -> bool:
    """JSON equality: 1 is 1.0 but not true."""
    if left.__class__ is dict:
        if right.__class__ is not dict or len(left) != len(right):
            return False
        for name, value in left.items():
            other = right.get(name, ABSENT)
            if value is not other and not same_value(value, other):
                return False
        return True
    if left.__class__ is list:
        return right.__class__ is list and len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right) and (left.__class__ is bool) is (right.__class__ is bool)


def compare(model: TypeModel, old: Any, new: Any) -> Comparison:
    """What `new` changed. TypedError if either object does not fit the model where they differ."""
    if old is new:
        return Comparison({}, {}, {})
    same: Same = same_value if model.is_loose else operator.eq
    added, modified, removed = _compare_maps(model.root, old, new, same) or (None, None, None)
    return Comparison(added or {}, modified or {}, removed or {})


def whole(type_: Type, value: Any) -> FieldSet:
    """The node of a value that is on one side only: itself and everything below."""
    if type_.is_leaf:
        return LEAF
    if type_.__class__ is MapType:
        if value.__class__ is not dict:
            if value is None:
                return LEAF
            raise TypedError("expected map")
        if not value:
            return LEAF
        out: FieldSet = {".": LEAF}
        if not type_.declared and (element := type_.element) is not None:
            if element.is_leaf:
                for name in value:
                    out["f:" + name] = LEAF
            else:
                for name, item in value.items():
                    out["f:" + name] = whole(element, item)
            return out
        plan = type_.plan
        for name, item in value.items():
            path, field_type = plan.get(name) or _resolve(type_, name)
            out[path] = LEAF if field_type.is_leaf else whole(field_type, item)
        return out
    if type_.__class__ is ListType:
        return _whole_list(type_, value)
    assert isinstance(type_, AnyType)
    return whole(type_.select(value), value)


def _whole_list(type_: ListType, value: Any) -> FieldSet:
    if not _list(value):
        return LEAF
    out: FieldSet = {".": LEAF}
    item_type = type_.element
    for item in value:
        path = _element_of(type_, item)
        # Of items with the same identity only that identity is owned, not what they contain.
        out[path] = LEAF if item_type.is_leaf or path in out else whole(item_type, item)
    return out


def _compare(type_: Type, old: Any, new: Any, same: Same) -> _Delta | None:
    """The difference of two values that both exist and are not the same."""
    if type_.is_leaf:
        return _CHANGED
    if type_.__class__ is MapType:
        return _compare_maps(type_, old, new, same)
    if type_.__class__ is ListType:
        return _compare_lists(type_, old, new, same)
    assert isinstance(type_, AnyType)
    before, after = type_.select(old), type_.select(new)
    if before is after:
        return _compare_selected(after, old, new, same)
    # The kind of the value changed: it is looked at both as what it was and as what it is.
    was = _compare_selected(before, old, new, same) or (None, None, None)
    now = _compare_selected(after, old, new, same) or (None, None, None)
    return _join(was[0], now[0]), _join(was[1], now[1]), _join(was[2], now[2])


def _compare_selected(type_: Scalar | ListType | MapType, old: Any, new: Any, same: Same) -> _Delta | None:
    if type_.__class__ is MapType and not type_.is_leaf:
        ours = old if old.__class__ is dict else None
        theirs = new if new.__class__ is dict else None
        return _compare_maps(type_, ours, theirs, same) if ours or theirs else _CHANGED
    if type_.__class__ is ListType and not type_.is_leaf:
        first = old if old.__class__ is list else None
        second = new if new.__class__ is list else None
        return _compare_lists(type_, first, second, same) if first or second else _CHANGED
    return _CHANGED


def _join(left: FieldSet | None, right: FieldSet | None) -> FieldSet | None:
    if left is None or right is None:
        return right if left is None else left
    return union(left, right) if left and right else LEAF


def _compare_maps(type_: MapType, old: Any, new: Any, same: Same) -> _Delta | None:
    if not old and not new:
        return None if same(_map(old), _map(new)) else _CHANGED
    old, new = _map(old) or {}, _map(new) or {}
    added: FieldSet | None = None
    modified: FieldSet | None = None
    removed: FieldSet | None = None
    plan = type_.plan
    for name, item in new.items():
        was = old.get(name, ABSENT)
        if was is ABSENT:
            path, field_type = plan.get(name) or _resolve(type_, name)
            if added is None:
                added = {}
            added[path] = LEAF if field_type.is_leaf else whole(field_type, item)
        elif was is not item and not same(was, item):
            path, field_type = plan.get(name) or _resolve(type_, name)
            delta = _compare(field_type, was, item, same)
            if delta is not None:
                added, modified, removed = _add(delta, path, added, modified, removed)
    for name, was in old.items():
        if name not in new:
            path, field_type = plan.get(name) or _resolve(type_, name)
            if removed is None:
                removed = {}
            removed[path] = whole(field_type, was)
    return None if added is modified is removed is None else (added, modified, removed)


def _compare_lists(type_: ListType, old: Any, new: Any, same: Same) -> _Delta | None:
    if not old and not new:
        return None if same(_list(old), _list(new)) else _CHANGED
    before, repeated_before = _index(type_, _list(old) or [])
    after, repeated_after = _index(type_, _list(new) or [])
    added: FieldSet | None = None
    modified: FieldSet | None = None
    removed: FieldSet | None = None
    item_type = type_.element
    for path in before | after:
        was, item = before.get(path, ABSENT), after.get(path, ABSENT)
        delta: _Delta | None
        if path in repeated_before or path in repeated_after:
            several = repeated_before.get(path), repeated_after.get(path)
            delta = _compare_repeated(item_type, *several, was, item)
        elif was is ABSENT:
            delta = whole(item_type, item), None, None
        elif item is ABSENT:
            delta = None, None, whole(item_type, was)
        elif was is item or same(was, item):
            continue
        else:
            delta = _compare(item_type, was, item, same)
        if delta is not None:
            added, modified, removed = _add(delta, path, added, modified, removed)
    return None if added is modified is removed is None else (added, modified, removed)


def _compare_repeated(
    type_: Type, before: list[Any] | None, after: list[Any] | None, was: Any, item: Any
) -> _Delta | None:
    """Items of one identity where one side has several: those together count as one value."""
    if before is not None and after is not None:
        return None if same_value(before, after) else _CHANGED
    if before is not None:
        return None if item is ABSENT else whole(type_, item), None, LEAF
    return LEAF, None, None if was is ABSENT else whole(type_, was)


def _index(type_: ListType, items: list[Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Items by identity, and all items of each identity that occurs more than once."""
    index: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for item in items:
        path = _element_of(type_, item)
        if path in index:
            repeated.setdefault(path, [index[path]]).append(item)
        else:
            index[path] = item
    return index, repeated


def _add(
    delta: _Delta, path: str, added: FieldSet | None, modified: FieldSet | None, removed: FieldSet | None
) -> _Delta:
    if delta[0] is not None:
        added = {} if added is None else added
        added[path] = delta[0]
    if delta[1] is not None:
        modified = {} if modified is None else modified
        modified[path] = delta[1]
    if delta[2] is not None:
        removed = {} if removed is None else removed
        removed[path] = delta[2]
    return added, modified, removed


def field_set(model: TypeModel, value: Any) -> FieldSet:
    """What an object states: its leaves, its list items, its map entries; not the structs that hold them."""
    return _stated_map(model.root, value) or {}


def _stated(type_: Type, value: Any) -> FieldSet | None:
    """The node of one value, or None if it states nothing."""
    if type_.is_leaf:
        return LEAF
    if type_.__class__ is MapType:
        return _stated_map(type_, value)
    if type_.__class__ is ListType:
        return _stated_list(type_, value)
    assert isinstance(type_, AnyType)
    return _stated(type_.select(value), value)


def _stated_map(type_: MapType, value: Any) -> FieldSet | None:
    out: FieldSet = {}
    for name, item in (_map(value) or {}).items():
        path, field_type = type_.plan.get(name) or _resolve(type_, name)
        node = _stated(field_type, item)
        if item is None or (item.__class__ is dict and not item) or name not in type_.declared:
            # Map entries, and values that only say "empty", are stated themselves.
            node = {".": LEAF, **node} if node else LEAF
        if node is not None:
            out[path] = node
    return out or None


def _stated_list(type_: ListType, value: Any) -> FieldSet | None:
    out: FieldSet = {}
    for item in _list(value) or []:
        try:
            path = type_.element_of(item)
        except ItemError:
            path = _NAMELESS
        node = None if path in out else _stated(type_.element, item)
        out[path] = {".": LEAF, **node} if node else LEAF
    return out or None


def _resolve(type_: MapType, name: str) -> tuple[str, Type]:
    entry = type_.resolve(name)
    if entry is None:
        raise TypedError(f".{name}: field not declared in schema")
    return entry


def _element_of(type_: ListType, item: Any) -> str:
    try:
        return type_.element_of(item)
    except ItemError as error:
        raise TypedError(str(error)) from error


def _map(value: Any) -> Any:
    if value is not None and value.__class__ is not dict:
        raise TypedError("expected map")
    return value


def _list(value: Any) -> Any:
    if value is not None and value.__class__ is not list:
        raise TypedError("expected list")
    return value
