"""Conversions between the types of CEL: `int(x)`, `string(x)`, `type(x)` and the like."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    type_param,
    type_type,
)
from quarterdeck.cel.value import gotime, operators
from quarterdeck.cel.value.operators import checked_int, checked_timestamp
from quarterdeck.cel.value.value import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NANOS,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    type_name,
)
from quarterdeck.wire.gonumber import float_text, parse_float, parse_int, parse_uint

_A: Final = type_param("A")
_TWO_TO_63: Final = float(1 << 63)
_TWO_TO_64: Final = float(1 << 64)


def conversion_error(value: Value, target: str) -> EvalError:
    """Error of a conversion that is not possible."""
    return EvalError(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_int(value: Value) -> int:
    """`int(value)`."""
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is UInt:
        return checked_int(int(value))
    if kind is float:
        if math.isnan(value) or math.isinf(value) or value <= -_TWO_TO_63 or value >= _TWO_TO_63:
            raise EvalError("integer overflow")
        return int(value)
    if kind is str:
        number = parse_int(value, MIN_INT, MAX_INT)
        if number is not None:
            return number
    if kind is Duration:
        return int(value.nanos)
    if kind is Timestamp:
        return int(value.nanos // NANOS)
    raise conversion_error(value, "int")


def to_uint(value: Value) -> UInt:
    """`uint(value)`."""
    kind = type(value)
    if kind is UInt:
        return UInt(value)
    if kind is int:
        return operators.checked_uint(value)
    if kind is float:
        if math.isnan(value) or math.isinf(value) or value < 0 or value >= _TWO_TO_64:
            raise EvalError("unsigned integer overflow")
        return UInt(value)
    if kind is str:
        number = parse_uint(value, MAX_UINT)
        if number is not None:
            return UInt(number)
    raise conversion_error(value, "uint")


def to_double(value: Value) -> float:
    """`double(value)`."""
    kind = type(value)
    if kind in (float, int, UInt):
        return float(value)
    if kind is str:
        number = parse_float(value)
        if number is not None:
            return number
    raise conversion_error(value, "double")


def to_string(value: Value) -> str:
    """`string(value)`."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is float:
        return float_text(value)
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError as problem:
            raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from problem
    if kind is Timestamp or kind is Duration:
        return str(value)
    raise conversion_error(value, "string")


def to_bytes(value: Value) -> bytes:
    """`bytes(value)`."""
    if type(value) is bytes:
        return bytes(value)
    if type(value) is str:
        return str(value).encode("utf-8", "surrogatepass")
    raise conversion_error(value, "bytes")


_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def to_bool(value: Value) -> bool:
    """`bool(value)`."""
    if type(value) is bool:
        return bool(value)
    if type(value) is str and value in _BOOLS:
        return _BOOLS[value]
    raise conversion_error(value, "bool")


def to_duration(value: Value) -> Duration:
    """`duration(value)`; integers are nanoseconds."""
    if type(value) is Duration:
        return value
    if type(value) is str:
        nanos = gotime.parse_duration(value)
        if nanos is not None:
            return Duration(nanos)
    raise conversion_error(value, "google.protobuf.Duration")


def to_timestamp(value: Value) -> Timestamp:
    """`timestamp(value)`; integers are seconds since 1970."""
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return checked_timestamp(value * NANOS)
    if type(value) is str:
        parsed = gotime.parse_rfc3339(value)
        if parsed is not None:
            return checked_timestamp(*parsed)
    raise conversion_error(value, "google.protobuf.Timestamp")


def to_type(value: Value) -> TypeValue:
    """`type(value)`."""
    return TypeValue(type_name(value))


def _identity(value: Value) -> Value:
    return value


def functions() -> Iterable[Function]:
    """All conversions."""

    def convert(
        name: str, to: CelType, own: Callable[[Value], Value], *sources: tuple[str, CelType]
    ) -> Function:
        return Function(name, [Overload(id, [source], to, own) for id, source in sources])

    yield convert("bool", BOOL, to_bool, ("bool_to_bool", BOOL), ("string_to_bool", STRING))
    yield convert("bytes", BYTES, to_bytes, ("bytes_to_bytes", BYTES), ("string_to_bytes", STRING))
    yield convert(
        "double",
        DOUBLE,
        to_double,
        ("double_to_double", DOUBLE),
        ("int64_to_double", INT),
        ("string_to_double", STRING),
        ("uint64_to_double", UINT),
    )
    yield convert(
        "duration",
        DURATION,
        to_duration,
        ("duration_to_duration", DURATION),
        ("int64_to_duration", INT),
        ("string_to_duration", STRING),
    )
    yield convert(
        "int",
        INT,
        to_int,
        ("int64_to_int64", INT),
        ("double_to_int64", DOUBLE),
        ("duration_to_int64", DURATION),
        ("string_to_int64", STRING),
        ("timestamp_to_int64", TIMESTAMP),
        ("uint64_to_int64", UINT),
    )
    yield convert(
        "string",
        STRING,
        to_string,
        ("string_to_string", STRING),
        ("bool_to_string", BOOL),
        ("bytes_to_string", BYTES),
        ("double_to_string", DOUBLE),
        ("duration_to_string", DURATION),
        ("int64_to_string", INT),
        ("timestamp_to_string", TIMESTAMP),
        ("uint64_to_string", UINT),
    )
    yield convert(
        "timestamp",
        TIMESTAMP,
        to_timestamp,
        ("timestamp_to_timestamp", TIMESTAMP),
        ("int64_to_timestamp", INT),
        ("string_to_timestamp", STRING),
    )
    yield convert(
        "uint",
        UINT,
        to_uint,
        ("uint64_to_uint64", UINT),
        ("double_to_uint64", DOUBLE),
        ("int64_to_uint64", INT),
        ("string_to_uint64", STRING),
    )
    yield Function("dyn", [Overload("to_dyn", [_A], DYN, _identity, is_guarded=False)])
    yield Function("type", [Overload("type", [_A], type_type(_A), to_type, is_guarded=False)])
