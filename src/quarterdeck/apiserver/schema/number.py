"""Numbers as the Go server sees them: JSON integers are int64, everything else is float64.

Python reads integers of any size; whatever does not fit int64 counts as a float here, so that error
texts and type checks name the same type as upstream.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeGuard

from quarterdeck.wire.gonumber import float_text

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
_SAFE: Final = 2.0**53 - 1
_EPSILON: Final = 1e-9
#: the smallest value that float32 rounds to infinity
_FLOAT32_OVERFLOW: Final = float.fromhex("0x1.ffffffp+127")


def is_int64(value: Any) -> TypeGuard[int]:
    return type(value) is int and INT64_MIN <= value <= INT64_MAX


def is_number(value: Any) -> TypeGuard[int | float]:
    return type(value) is int or type(value) is float


def as_float(value: int | float) -> float:
    """`value` as float64; integers beyond its range are infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_json_integer(value: float) -> bool:
    """Whether a float is taken for an integer: below 2**53, and whole up to a relative error of 1e-9."""
    if not -_SAFE <= value <= _SAFE:  # NaN and infinities too
        return False
    if value.is_integer():
        return True
    # Upstream converts through uint64: negative fractions never come close, small ones neither.
    whole = float(int(value))
    if value < 0 or whole == 0:
        return False
    return (value - whole) / (value + whole) < _EPSILON


def fits_float32(value: int | float) -> bool:
    return abs(as_float(value)) < _FLOAT32_OVERFLOW


def text(value: int | float) -> str:
    return float_text(value) if type(value) is float else str(value)


def canonical(value: Any) -> Any:
    """A number as it comes back from storage: whole floats are integers, integers beyond int64 floats."""
    if type(value) is float:
        return int(value) if value.is_integer() and -9.2e18 < value < 9.2e18 else value
    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
        return as_float(value)
    return value


def canonicalize(value: Any) -> Any:
    """`canonical` for a whole document, in place; iterative, because unknown data may nest deeply."""
    if type(value) is not dict and type(value) is not list:
        return canonical(value)
    pending: list[dict[str, Any] | list[Any]] = [value]
    while pending:
        container = pending.pop()
        entries: Any = container.items() if type(container) is dict else enumerate(container)
        changed = []
        for key, item in entries:
            kind = type(item)
            if kind is dict or kind is list:
                pending.append(item)
            elif (kind is float or kind is int) and canonical(item) is not item:
                changed.append((key, canonical(item)))
        for key, item in changed:
            container[key] = item
    return value
