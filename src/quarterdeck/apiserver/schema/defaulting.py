"""Defaulting: missing fields get their defaults, nulls are removed or defaulted, numbers are normalized.

    null, field not nullable, with a default      the default
    null, field not nullable, without a default   dropped
    null, field nullable                          stays, even with a default

A default is only given where its parent exists; the parent may itself come from a default.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.wire.jsonvalue import deep_copy

from . import number
from .node import SchemaNode, is_numeric, is_scalar


def default(obj: Any, node: SchemaNode) -> None:
    """Fill in defaults in place, drop nulls that may not be, and bring numbers into stored form."""
    drop_nulls(obj, node)
    fill(obj, node)


def drop_nulls(value: Any, node: SchemaNode, *, keep: bool = False) -> None:
    """Drop null fields that are neither nullable nor have a default; normalizes numbers on the way.

    `keep` only normalizes: validation refuses the nulls of an apply.
    """
    if type(value) is dict:
        if not keep and None in value.values():
            for key in [key for key, item in value.items() if item is None]:
                child = node.child(key)
                if child is not None and not child.nullable and child.default is None:
                    del value[key]
        for key in node.numeric:
            if key in value:
                value[key] = number.canonical(value[key])
        for key, child in node.nested:
            if key in value:
                drop_nulls(value[key], child, keep=keep)
        if node.additional is not None:
            _drop_in_map(value, node, node.additional, keep=keep)
        elif node.preserve_unknown:
            for key in value.keys() - node.properties.keys():
                value[key] = number.canonicalize(value[key])
    elif type(value) is list:
        items = node.items
        if items is None:
            number.canonicalize(value)
            return
        if is_numeric(items):
            value[:] = map(number.canonical, value)
        if not is_scalar(items):
            for item in value:
                drop_nulls(item, items, keep=keep)


def _drop_in_map(
    value: dict[str, Any], node: SchemaNode, additional: SchemaNode, *, keep: bool = False
) -> None:
    if is_numeric(additional):
        for key, item in value.items():
            if key not in node.properties:
                value[key] = number.canonical(item)
    if not is_scalar(additional):
        for key, item in value.items():
            if key not in node.properties:
                drop_nulls(item, additional, keep=keep)


def fill(value: Any, node: SchemaNode) -> None:
    """Set the defaults of missing fields and of nulls that may not be null."""
    if not node.has_defaults:
        return
    if type(value) is dict:
        for key, child in node.defaulted:
            if key not in value or (value[key] is None and not child.nullable):
                value[key] = deep_copy(child.default)
        for key, child in node.filled:
            if key in value:
                fill(value[key], child)
        additional = node.additional
        if additional is not None and additional.has_defaults:
            for key, item in value.items():
                if key in node.properties:
                    continue
                if item is None and not additional.nullable:
                    item = value[key] = deep_copy(additional.default)
                fill(item, additional)
    elif type(value) is list and node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            if item is None and not items.nullable:
                item = value[index] = deep_copy(items.default)
            fill(item, items)
