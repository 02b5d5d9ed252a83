"""JSON documents as values: copies, and equality that tells 1 from true."""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

import msgspec

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def deep_copy(value: T) -> T:
    """A copy of a document; the codec in C beats ``copy.deepcopy`` by far."""
    return cast("T", _decode(_encode(value))) if isinstance(value, dict | list) else value


def same(left: Any, right: Any) -> bool:
    """Equal as Go's DeepEqual sees it: type and value, at every level; 1 is neither 1.0 nor true."""
    if left is right:
        return True
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


def equal(left: Any, right: Any) -> bool:
    """Equal as JSON sees it: 1 is 1.0, but not true."""
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(equal(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)


def without_nulls(value: Any) -> Any:
    """A copy without the keys that hold null, also inside lists; a null in a list stays."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
