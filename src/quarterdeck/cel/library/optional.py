"""Optional values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import (
    BOOL,
    DYN,
    INT,
    STRING,
    list_type,
    map_type,
    optional_type,
    type_param,
)
from quarterdeck.cel.value.value import Duration, OptionalValue, StructValue, Value, display

_K: Final = type_param("K")
_V: Final = type_param("V")


def is_zero(value: Value) -> bool:
    """Whether a value is the empty one of its type."""
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, StructValue):
        return not value.fields
    if isinstance(value, OptionalValue):
        return not value.has_value() or is_zero(value.value)
    return value is None or (isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value)


def _of_non_zero(value: Value) -> OptionalValue:
    return OptionalValue.NONE if is_zero(value) else OptionalValue(value)


def _first(items: list[Value]) -> OptionalValue:
    return OptionalValue(items[0]) if items else OptionalValue.NONE


def _last(items: list[Value]) -> OptionalValue:
    return OptionalValue(items[-1]) if items else OptionalValue.NONE


def _unwrap(items: list[Value]) -> list[Value]:
    result = []
    for item in items:
        if not isinstance(item, OptionalValue):
            raise EvalError(f"value {display(item)} is not optional")
        if item.has_value():
            result.append(item.value)
    return result


def _never(*_: Value) -> Value:
    raise AssertionError("evaluated by the evaluator itself")


def functions() -> Iterable[Function]:
    """All functions of the library."""
    optional = optional_type(_V)
    values, table = list_type(_V), map_type(_K, _V)
    yield Function("optional.of", [Overload("optional_of", [_V], optional, OptionalValue)])
    yield Function(
        "optional.ofNonZeroValue", [Overload("optional_ofNonZeroValue", [_V], optional, _of_non_zero)]
    )
    yield Function("optional.none", [Overload("optional_none", [], optional, lambda: OptionalValue.NONE)])
    yield Function("value", [Overload("optional_value", [optional], _V, lambda o: o.value, is_member=True)])
    yield Function(
        "hasValue", [Overload("optional_hasValue", [optional], BOOL, OptionalValue.has_value, is_member=True)]
    )
    yield Function(
        "or", [Overload("optional_or_optional", [optional, optional], optional, _never, is_member=True)]
    )
    yield Function(
        "orValue", [Overload("optional_orValue_value", [optional, _V], _V, _never, is_member=True)]
    )
    yield Function("_?._", [Overload("select_optional_field", [DYN, STRING], optional, _never)])
    yield Function(
        "_[?_]",
        [
            Overload("list_optindex_optional_int", [values, INT], optional, _never),
            Overload("optional_list_optindex_optional_int", [optional_type(values), INT], optional, _never),
            Overload("map_optindex_optional_value", [table, _K], optional, _never),
            Overload("optional_map_optindex_optional_value", [optional_type(table), _K], optional, _never),
        ],
    )
    yield Function(
        "_[_]",
        [
            Overload("optional_list_index_int", [optional_type(values), INT], optional, _never),
            Overload("optional_map_index_value", [optional_type(table), _K], optional, _never),
        ],
    )
    yield Function("last", [Overload("list_last", [values], optional, _last, is_member=True)])
    yield Function("first", [Overload("list_first", [values], optional, _first, is_member=True)])
    yield Function("optional.unwrap", [Overload("optional_unwrap", [list_type(optional)], values, _unwrap)])
    yield Function(
        "unwrapOpt", [Overload("optional_unwrapOpt", [list_type(optional)], values, _unwrap, is_member=True)]
    )
