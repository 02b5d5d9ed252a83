"""JSON documents as values: copies, equality that tells 1 from true and from 1.0, and how texts show them."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.apiserver import gostyle

from . import number


def copied(value: Any) -> Any:
    """A deep copy; scalars are shared."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    """Equal as Go's DeepEqual sees it: type and value, at every level."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is dict:
        return len(left) == len(right) and all(
            key in right and same(value, right[key]) for key, value in left.items()
        )
    if kind is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def type_name(value: Any) -> str:
    """The JSON type of a value in error texts; integers beyond int64 are numbers."""
    kind = type(value)
    if kind is str:
        return "string"
    if kind is bool:
        return "boolean"
    if kind is int:
        return "integer" if -(2**63) <= value < 2**63 else "number"
    if kind is float:
        return "number"
    if kind is list:
        return "array"
    if kind is dict:
        return "object"
    return "null"


def presentable(value: Any) -> Any:
    """A value for an error text: floats as Go's `%v` prints them, or its JSON encoder inside a container."""
    kind = type(value)
    if kind is float or (kind is int and not number.is_int64(value)):
        return msgspec.Raw(number.float_text(number.as_float(value)).encode())
    if kind is dict or kind is list:
        return encodable(value)
    return value


def encodable(value: Any) -> Any:
    """A document whose numbers the encoder writes as Go's would."""
    kind = type(value)
    if kind is float or (kind is int and not number.is_int64(value)):
        return msgspec.Raw(number.json_float(number.as_float(value)).encode())
    if kind is dict:
        return {key: encodable(item) for key, item in value.items()}
    if kind is list:
        return [encodable(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """`value` as Go's `json.Marshal` writes it."""
    return gostyle.json_text(encodable(value))
