"""Standard CEL functions and operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from quarterdeck.cel.declaration import Function, Implementation, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.library import conversion
from quarterdeck.cel.type.celtype import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_type,
    map_type,
    type_param,
)
from quarterdeck.cel.value import gotime, operators
from quarterdeck.cel.value.operators import no_such_overload
from quarterdeck.cel.value.pattern import compile_pattern
from quarterdeck.cel.value.value import (
    NANOS,
    Duration,
    Timestamp,
    Value,
)

_A: Final = type_param("A")
_B: Final = type_param("B")
_LIST: Final = list_type(_A)
_MAP: Final = map_type(_A, _B)


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
    yield from conversion.functions()
    yield from _strings()
    yield from _time_functions()
