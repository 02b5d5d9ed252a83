"""Strategic merge patch: a merge patch that knows the types of what it merges.

A field's rule decides: lists with the strategy `merge` are merged by their merge key, or united if their
items are scalars; everything else behaves as in a merge patch. Directives in the patch change that:

    $patch: replace | delete              in a map or a list item
    $deleteFromPrimitiveList/<field>      scalars to take out of a list
    $setElementOrder/<field>              the order of the result
    $retainKeys                           of the map only these keys survive

The order of a merged list: the items the patch names (or $setElementOrder, where it is given) come in the
patch's order, the others in theirs; where both ends of a comparison were there before, their old order
decides who goes first, otherwise the named one does. So new items go before everything that follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import PatchError
from quarterdeck.wire import gostyle
from quarterdeck.wire.jsonvalue import deep_copy, without_nulls

from .error import MalformedDirective, NestedList

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_SET_ORDER: Final = "$setElementOrder"
_BAD_PRIMITIVE_LIST: Final = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"
_sorted_json: Final = msgspec.json.Encoder(order="sorted").encode


class FieldRule(NamedTuple):
    """How one field is merged."""

    #: of a map's field what the map is, of a list's field what its items are
    schema: MergeSchema
    #: "merge", "replace", or empty: maps are merged, lists are replaced
    strategy: str = ""
    #: the field that tells the items of a list apart; empty for scalars
    merge_key: str = ""


class MergeSchema(Protocol):
    """What a map holds; the methods raise ``PatchError`` for a field that cannot be merged into."""

    def map_field(self, key: str) -> FieldRule:
        """The rule of a field that is a map."""
        ...

    def list_field(self, key: str) -> FieldRule:
        """The rule of a field that is a list."""
        ...


def strategic_merge(original: Json, patch: Json, schema: MergeSchema) -> Json:
    """`original` with the patch applied; what did not change is shared with it, nothing with the patch.

    Raises ``MalformedDirective``, ``NestedList``, or a plain ``PatchError`` for what the types do not allow.
    """
    return _merge_map(original, deep_copy(patch), schema)


def _merge_map(original: Json, patch: Json, schema: MergeSchema) -> Json:
    """`original` is left alone, `patch` is used up."""
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise PatchError(f"unknown patch type: {gostyle.plain(directive)} in map: {gostyle.plain(patch)}")
    merged = dict(original)
    if any(key.startswith("$") for key in patch):
        _apply_retain_keys(merged, patch)
        _apply_set_orders(merged, patch, schema)
        # Upstream takes the fields in random order; here an item both deleted and added is added.
        for key in [key for key in patch if key.startswith(_DELETE_FROM)]:
            _delete_scalars(merged, key, patch.pop(key), schema)
    for key, value in patch.items():
        known = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif known is None or type(known) is not type(value):
            _take(merged, key, without_nulls(value))
        elif isinstance(value, dict):
            rule = schema.map_field(key)
            merged[key] = value if rule.strategy == "replace" else _merge_map(known, value, rule.schema)
        elif isinstance(value, list):
            rule = schema.list_field(key)
            merged[key] = _merge_list(known, value, rule)[0] if rule.strategy == "merge" else value
        else:
            merged[key] = value
    return merged


def _take(merged: Json, key: str, value: Any) -> None:
    kept = _without_directives(value)
    if kept is _DROP:
        merged.pop(key, None)
    else:
        merged[key] = kept


def _apply_retain_keys(merged: Json, patch: Json) -> None:
    if _RETAIN_KEYS not in patch:
        return
    keys = patch.pop(_RETAIN_KEYS)
    if not isinstance(keys, list):
        raise MalformedDirective(_BAD_RETAIN_KEYS)
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _SET_ORDER)) and key not in keys:
            raise MalformedDirective(_BAD_RETAIN_KEYS)
    for key in [key for key in merged if key not in keys]:
        del merged[key]


def _apply_set_orders(merged: Json, patch: Json, schema: MergeSchema) -> None:
    """Merge and order the lists that have a $setElementOrder; they leave `patch`."""
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise _bad_type("[]interface {}", order)
        key = _field_of(directive, _SET_ORDER, _BAD_SET_ORDER)
        live, changes = merged.get(key), patch.get(key)
        for given, holder in ((live, merged), (changes, patch)):
            if key in holder and not isinstance(given, list):
                raise _bad_type("[]interface {}", given)
        rule = schema.list_field(key)
        _check_order(changes or [], order, rule.merge_key)
        before = live or []
        if changes is not None and live is not None:
            result = changes
            if rule.strategy == "merge":
                result, before = _merge_list(live, changes, rule)
        elif changes is not None:
            result = [item for item in map(_without_directives, changes) if item is not _DROP]
        elif live is not None:
            result = live
        else:
            continue
        _element_kind(*(each for each in (live, changes) if each))
        merged[key] = _ordered(result, order, before, rule.merge_key)
        patch.pop(key, None)


def _check_order(changes: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of the patch must be in the order list, in that order; deletions are not looked at."""
    if not order or not changes:
        return
    if merge_key:
        for item in changes:
            _require_map(item)
        changes = [item for item in changes if item.get(_DIRECTIVE) != "delete"]
    at, to = 0, 0
    while at < len(changes) and to < len(order):
        if isinstance(changes[at], dict) and _DIRECTIVE in changes[at]:
            at += 1
            continue
        if _identity(changes[at], merge_key) == _identity(order[to], merge_key):
            at += 1
        to += 1
    if at < len(changes) and to >= len(order):
        raise PatchError(
            f"The order in patch list:\n{gostyle.plain(changes)}\n"
            f" doesn't match {_SET_ORDER} list:\n{gostyle.plain(order)}\n"
        )


def _delete_scalars(merged: Json, directive: str, gone: Any, schema: MergeSchema) -> None:
    key = _field_of(directive, _DELETE_FROM, _BAD_PRIMITIVE_LIST)
    known = merged.get(key)
    if gone is None:
        merged.pop(key, None)
    elif isinstance(gone, dict) and isinstance(known, dict):
        rule = schema.map_field(key)
        merged[key] = gone if rule.strategy == "replace" else _merge_map(known, gone, rule.schema)
    elif isinstance(gone, list) and isinstance(known, list):
        rule = schema.list_field(key)
        if (known or gone) and _element_kind(known, gone) is dict:
            merged[key] = _merge_keyed(known, gone, rule)[0]
        else:
            names = {_token(item) for item in gone}
            merged[key] = [item for item in known if _token(item) not in names]
    elif known is not None and type(known) is type(gone):
        merged[key] = gone


def _merge_list(live: list[Any], patch: list[Any], rule: FieldRule) -> tuple[list[Any], list[Any]]:
    """The merged list, and the live one as $setElementOrder sees it afterwards."""
    if not live and not patch:
        return live, live
    if _element_kind(live, patch) is dict:
        return _merge_keyed(live, patch, rule)
    united = {_token(item): item for item in [*live, *patch]}
    return _ordered(list(united.values()), patch, live, rule.merge_key), live


def _merge_keyed(live: list[Any], patch: list[Any], rule: FieldRule) -> tuple[list[Any], list[Any]]:
    merge_key = rule.merge_key
    if not merge_key:
        raise PatchError("cannot merge lists without merge key for struct")
    slots = list(live)
    live, patch = _apply_item_directives(slots, patch, merge_key)
    merged = list(live)
    places: dict[Any, int] = {}
    for place, known in enumerate(merged):
        if merge_key in known:
            places.setdefault(_token(known[merge_key]), place)
    for item in patch:
        identity = _identity(item, merge_key)
        at = places.get(identity)
        if at is None:
            at = places[identity] = len(merged)
            merged.append(item)
            if at < len(slots):
                slots[at] = item
        else:
            merged[at] = _merge_map(merged[at], item, rule.schema)
    return _ordered(merged, patch, live, merge_key), slots


def _apply_item_directives(slots: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The live items that stay, and the items of the patch that are no directives.

    Upstream deletes by moving the items behind forward, in memory that it looks at again for the order of
    $setElementOrder; an item added in the place of a deleted one then counts as one that was there. So
    `slots` is that memory: as long as before, the places left over at its end.
    """
    plain: list[Any] = []
    size, is_replaced = len(slots), False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if _DIRECTIVE not in item:
            plain.append(item)
        elif directive == "delete":
            gone = _identity(item, merge_key)
            for at in reversed(range(size)):
                if merge_key in slots[at] and _token(slots[at][merge_key]) == gone:
                    slots[at : size - 1] = slots[at + 1 : size]
                    size -= 1
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise PatchError(f"unknown patch type: {gostyle.plain(directive)} in map: {gostyle.plain(item)}")
    return (plain, []) if is_replaced else (slots[:size], plain)


def _ordered(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Items named by `order` in that order, the others in live order, interleaved as they were live."""
    wanted, known = _positions(order, merge_key), _positions(live, merge_key)
    named: list[tuple[int, int, Any]] = []
    others: list[tuple[int, Any]] = []
    for item in merged:
        identity = _identity(item, merge_key)
        place = wanted(identity)
        if place >= 0:
            named.append((place, known(identity), item))
        else:
            others.append((known(identity), item))
    named.sort(key=lambda each: each[0])
    others.sort(key=lambda each: each[0])
    out: list[Any] = []
    at, to = 0, 0
    while at < len(others) and to < len(named):
        if 0 <= others[at][0] < named[to][1]:
            out.append(others[at][1])
            at += 1
        else:
            out.append(named[to][2])
            to += 1
    return out + [item for _, item in others[at:]] + [item for _, _, item in named[to:]]


def _positions(items: Iterable[Any], merge_key: str) -> Callable[[Any], int]:
    """Where an identity stands first; -1 if it does not."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_identity(item, merge_key), place)
    return lambda identity: places.get(identity, -1)


def _identity(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return _token(item)
    if merge_key not in _require_map(item):
        raise PatchError(f"map: {gostyle.plain(item)} does not contain declared merge key: {merge_key}")
    return _token(item[merge_key])


def _token(value: Any) -> Any:
    """What tells values apart: 1 is neither 1.0 nor true."""
    kind = type(value)
    if kind is str:
        return value
    return kind, _sorted_json(value) if kind is dict or kind is list else value


def _require_map(item: Any) -> Json:
    if not isinstance(item, dict):
        raise _bad_type("map[string]interface {}", item)
    return item


def _element_kind(*lists: list[Any]) -> type:
    """The one kind of all items."""
    items = [item for each in lists for item in each]
    kinds = {type(item) for item in items}
    if not kinds:
        raise PatchError("no elements in any of the given slices")
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {gostyle.plain(list(lists))}")
    kind = type(items[0])
    if kind is list:
        raise NestedList("not supporting nested slices of type []interface {}")
    return kind


_DROP: Final = object()


def _without_directives(value: Any) -> Any:
    """The value without parts that are directives; `_DROP` if it is one itself."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _DROP
        kept = ((key, _without_directives(item)) for key, item in value.items())
        return {key: item for key, item in kept if item is not _DROP}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROP]
    return value


def _field_of(directive: str, prefix: str, message: str) -> str:
    head, slash, key = directive.partition("/")
    if not slash or head != prefix:
        raise MalformedDirective(message)
    return key


def _bad_type(expected: str, actual: Any) -> PatchError:
    return PatchError(f"expected a {expected}, but received a {gostyle.type_name(actual)}")
