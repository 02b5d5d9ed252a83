"""Standard CEL functions and operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from quarterdeck.cel import gotime, operators
from quarterdeck.cel.declaration import Function, Implementation, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.operators import checked_int, checked_timestamp, no_such_overload
from quarterdeck.cel.pattern import compile_pattern
from quarterdeck.cel.types import (
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
    list_type,
    map_type,
    type_param,
    type_type,
)
from quarterdeck.cel.value import (
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
_B: Final = type_param("B")
_LIST: Final = list_type(_A)
_MAP: Final = map_type(_A, _B)
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


def size(value: Value) -> int:
    """`size(value)` in characters, bytes, elements or entries."""
    if not isinstance(value, (str, bytes, list, dict)):
        no_such_overload("size")
    return len(value)


def _string_function(test: Callable[[str, str], bool]) -> Implementation:
    def call(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            no_such_overload()
        return test(text, part)

    return call


def matches(text: Value, pattern: Value) -> bool:
    """`text.matches(pattern)`: whether the regular expression occurs in the text."""
    if type(text) is not str or type(pattern) is not str:
        no_such_overload()
    return compile_pattern(pattern).occurs_in(text)


def _in_zone(timestamp: Timestamp, zone: str) -> datetime:
    where = gotime.load_zone(zone)
    if where is None:
        raise EvalError(f"unknown time zone {zone}")
    return gotime.civil(timestamp.nanos, where)


def _getter(name: str, ids: tuple[str, str], read: Callable[[datetime], int]) -> Function:
    def utc(timestamp: Timestamp) -> int:
        return read(gotime.civil(timestamp.nanos))

    def zoned(timestamp: Timestamp, zone: str) -> int:
        return read(_in_zone(timestamp, zone))

    return Function(
        name,
        [
            Overload(ids[0], [TIMESTAMP], INT, utc, is_member=True),
            Overload(ids[1], [TIMESTAMP, STRING], INT, zoned, is_member=True),
        ],
    )


def _with_duration(function: Function, id: str, read: Callable[[int], int]) -> Function:
    def from_duration(duration: Duration) -> int:
        return read(duration.nanos)

    function.overloads.append(Overload(id, [DURATION], INT, from_duration, is_member=True))
    return function


def _towards_zero(unit: int) -> Callable[[int], int]:
    return lambda nanos: -(-nanos // unit) if nanos < 0 else nanos // unit


def _milliseconds() -> Function:
    def of(timestamp: Timestamp, zone: str = "UTC") -> int:
        if gotime.load_zone(zone) is None:
            raise EvalError(f"unknown time zone {zone}")
        return timestamp.nanos % NANOS // 1_000_000

    return Function(
        "getMilliseconds",
        [
            Overload("timestamp_to_milliseconds", [TIMESTAMP], INT, of, is_member=True),
            Overload("timestamp_to_milliseconds_with_tz", [TIMESTAMP, STRING], INT, of, is_member=True),
        ],
    )


def _time_functions() -> Iterable[Function]:
    def plain(name: str, stem: str, read: Callable[[datetime], int]) -> Function:
        return _getter(name, (f"timestamp_to_{stem}", f"timestamp_to_{stem}_with_tz"), read)

    yield plain("getFullYear", "year", lambda t: t.year)
    yield plain("getMonth", "month", lambda t: t.month - 1)
    yield plain("getDayOfYear", "day_of_year", lambda t: t.timetuple().tm_yday - 1)
    yield plain("getDayOfMonth", "day_of_month", lambda t: t.day - 1)
    yield plain("getDate", "day_of_month_1_based", lambda t: t.day)
    yield plain("getDayOfWeek", "day_of_week", lambda t: t.isoweekday() % 7)
    yield _with_duration(
        plain("getHours", "hours", lambda t: t.hour), "duration_to_hours", _towards_zero(3600 * NANOS)
    )
    yield _with_duration(
        plain("getMinutes", "minutes", lambda t: t.minute), "duration_to_minutes", _towards_zero(60 * NANOS)
    )
    yield _with_duration(
        plain("getSeconds", "seconds", lambda t: t.second), "duration_to_seconds", _towards_zero(NANOS)
    )
    yield _with_duration(_milliseconds(), "duration_to_milliseconds", _towards_zero(1_000_000))


def _operator(name: str, signatures: Iterable[tuple[str, tuple[CelType, ...], CelType]]) -> Function:
    implementation = operators.BINARY[name]
    return Function(
        name,
        [Overload(id, args, result, implementation, is_guarded=False) for id, args, result in signatures],
    )


def _arithmetic() -> Iterable[Function]:
    yield _operator(
        "_+_",
        [
            ("add_bytes", (BYTES, BYTES), BYTES),
            ("add_double", (DOUBLE, DOUBLE), DOUBLE),
            ("add_duration_duration", (DURATION, DURATION), DURATION),
            ("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
            ("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("add_int64", (INT, INT), INT),
            ("add_list", (_LIST, _LIST), _LIST),
            ("add_string", (STRING, STRING), STRING),
            ("add_uint64", (UINT, UINT), UINT),
        ],
    )
    yield _operator(
        "_/_",
        [
            ("divide_double", (DOUBLE, DOUBLE), DOUBLE),
            ("divide_int64", (INT, INT), INT),
            ("divide_uint64", (UINT, UINT), UINT),
        ],
    )
    yield _operator("_%_", [("modulo_int64", (INT, INT), INT), ("modulo_uint64", (UINT, UINT), UINT)])
    yield _operator(
        "_*_",
        [
            ("multiply_double", (DOUBLE, DOUBLE), DOUBLE),
            ("multiply_int64", (INT, INT), INT),
            ("multiply_uint64", (UINT, UINT), UINT),
        ],
    )
    yield _operator(
        "_-_",
        [
            ("subtract_double", (DOUBLE, DOUBLE), DOUBLE),
            ("subtract_duration_duration", (DURATION, DURATION), DURATION),
            ("subtract_int64", (INT, INT), INT),
            ("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
            ("subtract_uint64", (UINT, UINT), UINT),
        ],
    )
    yield Function(
        "-_",
        [
            Overload("negate_double", [DOUBLE], DOUBLE, operators.negate, is_guarded=False),
            Overload("negate_int64", [INT], INT, operators.negate, is_guarded=False),
        ],
    )


_ORDERED: Final = (
    ("bool", BOOL, BOOL),
    ("int64", INT, INT),
    ("int64_double", INT, DOUBLE),
    ("int64_uint64", INT, UINT),
    ("uint64", UINT, UINT),
    ("uint64_double", UINT, DOUBLE),
    ("uint64_int64", UINT, INT),
    ("double", DOUBLE, DOUBLE),
    ("double_int64", DOUBLE, INT),
    ("double_uint64", DOUBLE, UINT),
    ("string", STRING, STRING),
    ("bytes", BYTES, BYTES),
    ("timestamp", TIMESTAMP, TIMESTAMP),
    ("duration", DURATION, DURATION),
)


def _relations() -> Iterable[Function]:
    for name, stem in (
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        ("_>_", "greater"),
        ("_>=_", "greater_equals"),
    ):
        yield _operator(name, [(f"{stem}_{suffix}", (a, b), BOOL) for suffix, a, b in _ORDERED])
    yield _operator("_==_", [("equals", (_A, _A), BOOL)])
    yield Function("_!=_", [Overload("not_equals", [_A, _A], BOOL, _not_equal, is_guarded=False)])
    yield _operator("@in", [("in_list", (_A, _LIST), BOOL), ("in_map", (_A, _MAP), BOOL)])
    yield _operator("_[_]", [("index_list", (_LIST, INT), _A), ("index_map", (_MAP, _A), _B)])


def _not_equal(left: Value, right: Value) -> bool:
    try:
        return not operators.equal(left, right)
    except EvalError:
        return True


def _logic() -> Iterable[Function]:
    def never(*_: Value) -> Value:
        raise AssertionError("evaluated by the evaluator itself")

    yield Function("_?_:_", [Overload("conditional", [BOOL, _A, _A], _A, never)])
    yield Function("_&&_", [Overload("logical_and", [BOOL, BOOL], BOOL, never)])
    yield Function("_||_", [Overload("logical_or", [BOOL, BOOL], BOOL, never)])
    yield Function("!_", [Overload("logical_not", [BOOL], BOOL, operators.logical_not, is_guarded=False)])
    yield Function("@not_strictly_false", [Overload("not_strictly_false", [BOOL], BOOL, never)])


def _conversions() -> Iterable[Function]:
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


def _strings() -> Iterable[Function]:
    for name, id, test in (
        ("contains", "contains_string", str.__contains__),
        ("endsWith", "ends_with_string", str.endswith),
        ("startsWith", "starts_with_string", str.startswith),
    ):
        yield Function(
            name,
            [Overload(id, [STRING, STRING], BOOL, _string_function(test), is_member=True, is_guarded=False)],
        )
    yield Function(
        "matches",
        [
            Overload("matches", [STRING, STRING], BOOL, matches, is_guarded=False),
            Overload("matches_string", [STRING, STRING], BOOL, matches, is_member=True, is_guarded=False),
        ],
    )
    sized = (("bytes", BYTES), ("list", _LIST), ("map", _MAP), ("string", STRING))
    yield Function(
        "size",
        [
            Overload(
                f"{'' if member else 'size_'}{name}{'_size' if member else ''}",
                [t],
                INT,
                size,
                is_member=member,
                is_guarded=False,
            )
            for name, t in sized
            for member in (False, True)
        ],
    )


def functions() -> Iterable[Function]:
    """All standard functions."""
    yield from _logic()
    yield from _relations()
    yield from _arithmetic()
    yield from _conversions()
    yield from _strings()
    yield from _time_functions()
