"""The names that error texts give to the types of JSON values."""

from __future__ import annotations

from typing import Any


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
