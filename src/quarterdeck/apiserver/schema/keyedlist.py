"""Lists of type set and map: no value, no key twice.

A separate pass, because upstream reports these after all other schema errors and, on an update, only if
the stored object did not have such errors already.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, duplicate, internal, invalid
from quarterdeck.wire.gostyle import json_text

from . import number
from .node import SchemaNode


def duplicate_errors(obj: Any, node: SchemaNode) -> list[FieldError]:
    """One error for each value or key that occurs more than once, at its second occurrence."""
    errors: list[FieldError] = []
    if node.has_keyed_lists:
        try:
            _walk(obj, node, "", errors)
        except RecursionError:
            return [internal("", "the value is nested too deeply")]
    return errors


def _walk(value: Any, node: SchemaNode, path: str, errors: list[FieldError]) -> None:
    if type(value) is dict:
        if node.additional is not None and node.additional.has_keyed_lists:
            for key, item in value.items():
                _walk(item, node.additional, f"{path}[{key}]", errors)
        for key, child in node.nested:
            if child.has_keyed_lists and key in value:
                _walk(value[key], child, f"{path}.{key}" if path else key, errors)
    elif type(value) is list:
        if len(value) > 1 and node.list_type == "set":
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif node.list_type == "map":
            _check_map(value, node, path, errors)
        if node.items is not None and node.items.has_keyed_lists:
            for index, item in enumerate(value):
                _walk(item, node.items, f"{path}[{index}]", errors)


def _check_map(items: list[Any], node: SchemaNode, path: str, errors: list[FieldError]) -> None:
    for index, item in enumerate(items):
        if type(item) is not dict and item is not None:
            text = "must be an object for an array of list-type map"
            errors.append(invalid(f"{path}[{index}]", item, text))
            return
    if len(items) < 2 or _are_distinct(items, node.list_map_keys):
        return
    keys = [_key(item, node.list_map_keys) for item in items]
    errors += [duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys)]


def _key(item: Json | None, names: tuple[str, ...]) -> Json:
    return {name: item[name] for name in names if name in item} if item is not None else {}


def _are_distinct(items: list[Any], names: tuple[str, ...]) -> bool:
    """A quick yes for the usual case: every key is there, a string or an integer, and none repeats."""
    seen = set()
    for item in items:
        if item is None:
            return False
        if len(names) == 1:
            key = item.get(names[0])
            if type(key) is not str:
                return False
        else:
            key = tuple([item.get(name) for name in names])
            for part in key:
                if type(part) is not str and type(part) is not int:
                    return False
        seen.add(key)
    return len(seen) == len(items)


def _repeated(values: list[Any]) -> list[int]:
    """The index of the second occurrence of each value that occurs more than once."""
    seen: dict[Any, int] = {}
    found = []
    for index, value in enumerate(values):
        kind = type(value)
        if kind is dict or kind is list:
            identity: Any = json_text(value)
        elif kind is int and not number.is_int64(value):
            kind, identity = float, number.as_float(value)
        else:
            identity = value
        times = seen.get((kind, identity), 0)
        seen[(kind, identity)] = times + 1
        if times == 1:
            found.append(index)
    return found
