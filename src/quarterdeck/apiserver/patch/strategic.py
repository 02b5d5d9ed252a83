"""Strategic merge patch: a merge patch that knows the built-in types.

A field's strategy decides: lists with `merge` are merged by their merge key, or united if their items
are scalars; everything else behaves as in a merge patch. Directives in the patch change that:

    $patch: replace | delete              in a map or a list item
    $deleteFromPrimitiveList/<field>      scalars to take out of a list
    $setElementOrder/<field>              the order of the result; other items stay near their place
    $retainKeys                           of the map only these keys survive
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.apiserver.apply import gotext
from quarterdeck.apiserver.builtin.typetable import Field, StructType, Type
from quarterdeck.apiserver.status import StatusError, bad_request, plain_error

from .decode import decode_json, unmarshal_error

__all__ = ["apply", "decode"]

Json = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_SET_ORDER: Final = "$setElementOrder"
_BAD_PRIMITIVE_LIST: Final = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def decode(body: bytes) -> Json:
    """The patch in a body; 400 if it is no object."""
    patch = decode_json(body)
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise bad_request(unmarshal_error(patch, "Go value of type map[string]interface {}"))
    return patch


def apply(original: Json, patch: Json, struct: StructType) -> Json:
    """A copy of `original`, an object of type `struct`, with the patch applied.

    StatusError: 400 for malformed directives, 422 for lists of lists, 500 without a reason for what the
    type does not allow.
    """
    merged: Json = _decode(_encode(original))
    return _merge_map(merged, _decode(_encode(patch)), Type("struct", struct.name))


def _merge_map(original: Json, patch: Json, type_: Type | None) -> Json:
    """Merge into `original`; both arguments are used up."""
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise plain_error(f"unknown patch type: {_text(directive)} in map: {gotext.plain(patch)}")
    _apply_retain_keys(original, patch)
    _apply_set_orders(original, patch, type_)
    # Upstream takes the fields in random order; here an item both deleted and added is added.
    for key, value in sorted(patch.items(), key=lambda each: not each[0].startswith(_DELETE_FROM)):
        is_deletion = key.startswith(_DELETE_FROM)
        if is_deletion:
            key = _field_of(key, _DELETE_FROM, _BAD_PRIMITIVE_LIST)
        if value is None:
            original.pop(key, None)
        elif key not in original or type(original[key]) is not type(value):
            if not is_deletion:
                _take(original, key, _without_nulls(value))
        elif isinstance(value, dict):
            field = _lookup(type_, key)
            if _strategy(field) == "replace":
                original[key] = value
            else:
                original[key] = _merge_map(original[key], value, field.type)
        elif isinstance(value, list):
            field = _lookup_list(type_, key)
            original[key] = _merge_list_field(original[key], value, field, is_deletion)
        else:
            original[key] = value
    return original


def _take(original: Json, key: str, value: Any) -> None:
    kept = _without_directives(value)
    if kept is _DROP:
        original.pop(key, None)
    else:
        original[key] = kept


def _apply_retain_keys(original: Json, patch: Json) -> None:
    if _RETAIN_KEYS not in patch:
        return
    keys = patch.pop(_RETAIN_KEYS)
    if not isinstance(keys, list):
        raise bad_request(_BAD_RETAIN_KEYS)
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _SET_ORDER)) and key not in keys:
            raise bad_request(_BAD_RETAIN_KEYS)
    for key in [key for key in original if key not in keys]:
        del original[key]


def _apply_set_orders(original: Json, patch: Json, type_: Type | None) -> None:
    """Merge and order the lists that have a $setElementOrder; they leave `patch`."""
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise _bad_type("[]interface {}", order)
        key = _field_of(directive, _SET_ORDER, _BAD_SET_ORDER)
        live, changes = original.get(key), patch.get(key)
        for given, holder in ((live, original), (changes, patch)):
            if key in holder and not isinstance(given, list):
                raise _bad_type("[]interface {}", given)
        field = _lookup_list(type_, key)
        merge_key = field.patch_merge_key or ""
        _check_order(changes or [], order, merge_key)
        if changes is not None and live is not None:
            merged = _merge_list_field(live, changes, field, False)
        elif changes is not None:
            merged = [item for item in map(_without_directives, changes) if item is not _DROP]
        elif live is not None:
            merged = live
        else:
            continue
        _element_kind(*(each for each in (live, changes) if each))
        original[key] = _ordered(merged, order, live or [], merge_key)
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
        if _same(_identity(changes[at], merge_key), _identity(order[to], merge_key)):
            at += 1
        to += 1
    if at < len(changes) and to >= len(order):
        raise plain_error(
            f"The order in patch list:\n{gotext.plain(changes)}\n"
            f" doesn't match {_SET_ORDER} list:\n{gotext.plain(order)}\n"
        )


def _merge_list_field(original: list[Any], patch: list[Any], field: Field, is_deletion: bool) -> list[Any]:
    if not is_deletion and _strategy(field) != "merge":
        return patch
    if not original and not patch:
        return original
    if _element_kind(original, patch) is not dict:
        if is_deletion:
            return [item for item in original if not any(_same(item, gone) for gone in patch)]
        united: list[Any] = []
        for item in [*original, *patch]:
            if not any(_same(item, known) for known in united):
                united.append(item)
        return _ordered(united, patch, original, field.patch_merge_key or "")
    merge_key = field.patch_merge_key
    if not merge_key:
        raise plain_error("cannot merge lists without merge key for struct")
    assert field.type.elem is not None
    original, patch = _apply_item_directives(original, patch, merge_key)
    merged = list(original)
    for item in patch:
        identity = _identity(item, merge_key)
        index = next((at for at, known in enumerate(merged) if _has(known, merge_key, identity)), None)
        if index is None:
            merged.append(item)
        else:
            merged[index] = _merge_map(merged[index], item, field.type.elem)
    return _ordered(merged, patch, original, merge_key)


def _apply_item_directives(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    plain: list[Any] = []
    is_replaced = False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if _DIRECTIVE not in item:
            plain.append(item)
        elif directive == "delete":
            identity = _identity(item, merge_key)
            original = [known for known in original if not _has(known, merge_key, identity)]
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise plain_error("merging lists cannot yet be specified in the patch")
        else:
            raise plain_error(f"unknown patch type: {_text(directive)} in map: {gotext.plain(item)}")
    return (plain, []) if is_replaced else (original, plain)


def _ordered(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Items named by `order` in that order, the others in live order, interleaved as they were live."""
    wanted = [_identity(item, merge_key) for item in order]
    known = [_identity(item, merge_key) for item in live]
    named: list[tuple[Any, Any]] = []
    others: list[tuple[Any, Any]] = []
    for item in merged:
        identity = _identity(item, merge_key)
        (named if _position(wanted, identity) >= 0 else others).append((identity, item))
    named.sort(key=lambda each: _position(wanted, each[0]))
    others.sort(key=lambda each: _position(known, each[0]))
    out: list[Any] = []
    at, to = 0, 0
    while at < len(others) and to < len(named):
        ours, theirs = _position(known, others[at][0]), _position(known, named[to][0])
        if 0 <= ours < theirs:
            out.append(others[at][1])
            at += 1
        else:
            out.append(named[to][1])
            to += 1
    return out + [item for _, item in others[at:]] + [item for _, item in named[to:]]


def _position(identities: list[Any], identity: Any) -> int:
    return next((at for at, known in enumerate(identities) if _same(known, identity)), -1)


def _identity(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    if merge_key not in _require_map(item):
        raise plain_error(f"map: {gotext.plain(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _has(item: Any, merge_key: str, identity: Any) -> bool:
    return merge_key in _require_map(item) and _same(item[merge_key], identity)


def _require_map(item: Any) -> Json:
    if not isinstance(item, dict):
        raise _bad_type("map[string]interface {}", item)
    return item


def _element_kind(*lists: list[Any]) -> type:
    """The one kind of all items."""
    items = [item for each in lists for item in each]
    kinds = {type(item) for item in items}
    if not kinds:
        raise plain_error("no elements in any of the given slices")
    if len(kinds) > 1:
        raise plain_error(f"list element types are not identical: {gotext.plain(list(lists))}")
    if isinstance(items[0], list):
        raise StatusError(
            422,
            "the server rejected our request due to an error in our request",
            reason="Invalid",
            details={},
        )
    return type(items[0])


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


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _lookup(type_: Type | None, key: str) -> Field:
    if type_ is None or type_.kind != "struct":
        kind = (
            "map" if type_ is None or type_.kind == "map" else "slice" if type_.kind == "list" else "string"
        )
        raise plain_error(f"merging an object in json but data type is not struct, instead is: {kind}")
    struct = type_.struct
    field = struct.fields.get(key)
    if field is None:
        raise plain_error(f'unable to find api field in struct {struct.go_name} for the json field "{key}"')
    return field


def _lookup_list(type_: Type | None, key: str) -> Field:
    field = _lookup(type_, key)
    if field.type.kind != "list":
        raise plain_error("expected slice or array type, but got: struct")
    return field


def _strategy(field: Field) -> str:
    return next((each for each in field.patch_strategies if each != "retainKeys"), "")


def _field_of(directive: str, prefix: str, message: str) -> str:
    head, slash, key = directive.partition("/")
    if not slash or head != prefix:
        raise bad_request(message)
    return key


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else gotext.plain(value)


def _bad_type(expected: str, actual: Any) -> StatusError:
    return plain_error(f"expected a {expected}, but received a {gotext.type_name(actual)}")
