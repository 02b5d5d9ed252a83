"""Operators on values: arithmetic, ordering, equality, membership, indexing.

All of them check their operands, so they serve dynamically typed expressions; the evaluator replaces them by
plain Python operators where static types allow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NoReturn

from quarterdeck.cel.error import CostLimitExceeded, EvalError
from quarterdeck.cel.value.value import (
    MAX_INT,
    MAX_TIME,
    MAX_UINT,
    MIN_INT,
    MIN_TIME,
    MOST_ITEMS,
    MOST_TEXT,
    NANOS,
    Duration,
    MapList,
    Opaque,
    OptionalValue,
    SetList,
    StructValue,
    Timestamp,
    UInt,
    Value,
    display,
    type_name,
)
from quarterdeck.wire.turn import look_up

MISSING: Final = object()
_STEP: Final = 2_000
"""Parts that are compared between two looks at the clock."""
_PLAIN: Final = frozenset({str, int, bool, bytes, UInt, Duration, Timestamp})
_NUMERIC: Final = frozenset({int, UInt, float})
_CONTAINERS: Final = frozenset({list, dict, OptionalValue, SetList, MapList})


def no_such_overload(detail: str = "") -> NoReturn:
    """Raise the error for operands no signature covers."""
    raise EvalError(f"no such overload: {detail}" if detail else "no such overload")


def checked_int(number: int) -> int:
    """An int64 result, or the overflow error."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvalError("integer overflow")


def checked_uint(number: int) -> UInt:
    """A uint64 result, or the overflow error."""
    if 0 <= number <= MAX_UINT:
        return UInt(number)
    raise EvalError("unsigned integer overflow")


def checked_duration(nanos: int) -> Duration:
    """A duration result, or the overflow error."""
    if MIN_INT <= nanos <= MAX_INT:
        return Duration(nanos)
    raise EvalError("integer overflow")


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """A timestamp result within years 1 to 9999, or the overflow error."""
    if MIN_TIME <= nanos // NANOS <= MAX_TIME:
        return Timestamp(nanos, offset)
    raise EvalError("timestamp overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left + right)
        if kind is float:
            return left + right
        if kind is str or kind is bytes:
            if len(left) + len(right) > MOST_TEXT:
                raise CostLimitExceeded
            return left + right
        if kind is UInt:
            return checked_uint(int(left) + int(right))
        if kind is Duration:
            return checked_duration(left.nanos + right.nanos)
    if isinstance(left, list):
        if isinstance(right, list):
            return add_lists(left, right)
        no_such_overload()
    if kind is Duration and isinstance(right, Timestamp):
        return checked_timestamp(right.nanos + left.nanos, right.offset)
    if kind is Timestamp and isinstance(right, Duration):
        return checked_timestamp(left.nanos + right.nanos, left.offset)
    if kind in (int, str, float, bytes, UInt, Duration, Timestamp):
        no_such_overload()
    no_such_overload("_+_")


def add_lists(left: list[Value], right: list[Value]) -> list[Value]:
    """Concatenation, or the merge that set and map lists define."""
    if type(left) is SetList:
        merged = SetList(left)
        merged.extend(item for item in right if not contains(merged, item))
        return merged
    if type(left) is MapList:
        return _merge_by_key(left, right)
    if len(left) + len(right) > MOST_ITEMS:
        raise CostLimitExceeded
    return [*left, *right]


def _merge_by_key(left: MapList, right: list[Value]) -> MapList:
    merged = MapList(left, left.keys)
    at = {map_key(item, left.keys): index for index, item in enumerate(left)}
    for item in right:
        index = at.get(map_key(item, left.keys))
        if index is None:
            merged.append(item)
        else:
            merged[index] = item
    return merged


def map_key(item: Value, keys: tuple[str, ...]) -> tuple[Value, ...]:
    """Identity of an element of a map list."""
    if not isinstance(item, dict):
        return (id(item),)
    return tuple(item.get(key) for key in keys)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left - right)
        if kind is float:
            return left - right
        if kind is UInt:
            return checked_uint(int(left) - int(right))
        if kind is Duration:
            return checked_duration(left.nanos - right.nanos)
        if kind is Timestamp:
            return checked_duration(left.nanos - right.nanos)
    if kind is Timestamp and isinstance(right, Duration):
        return checked_timestamp(left.nanos - right.nanos, left.offset)
    if kind in (int, float, UInt, Duration, Timestamp):
        no_such_overload()
    no_such_overload("_-_")


def multiply(left: Value, right: Value) -> Value:
    """`left * right`."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return checked_int(left * right)
        if kind is float:
            return left * right
        if kind is UInt:
            return checked_uint(int(left) * int(right))
    if kind in _NUMERIC:
        no_such_overload()
    no_such_overload("_*_")


def divide(left: Value, right: Value) -> Value:
    """`left / right`, integers towards zero."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return divide_ints(left, right)
        if kind is float:
            return divide_floats(left, right)
        if kind is UInt:
            if right == 0:
                raise EvalError("division by zero")
            return UInt(int(left) // int(right))
    if kind in _NUMERIC:
        no_such_overload()
    no_such_overload("_/_")


def divide_ints(left: int, right: int) -> int:
    """int64 division towards zero."""
    if right == 0:
        raise EvalError("division by zero")
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def divide_floats(left: float, right: float) -> float:
    """IEEE division."""
    if right != 0:
        try:
            return left / right
        except OverflowError:
            return math.copysign(math.inf, left) * math.copysign(1, right)
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Value, right: Value) -> Value:
    """`left % right` with the sign of the dividend."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return modulo_ints(left, right)
        if kind is UInt:
            if right == 0:
                raise EvalError("modulus by zero")
            return UInt(int(left) % int(right))
    if kind in (int, UInt):
        no_such_overload()
    no_such_overload("_%_")


def modulo_ints(left: int, right: int) -> int:
    """int64 remainder with the sign of the dividend."""
    if right == 0:
        raise EvalError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise EvalError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(operand: Value) -> Value:
    """`-operand`."""
    kind = type(operand)
    if kind is int:
        return checked_int(-operand)
    if kind is float:
        return -operand
    if kind is Duration:
        return checked_duration(-operand.nanos)
    no_such_overload()


def logical_not(operand: Value) -> bool:
    """`!operand`."""
    if operand is True:
        return False
    if operand is False:
        return True
    no_such_overload()


def compare(left: Value, right: Value, operator: str) -> int:
    """-1, 0 or 1; numbers of different types compare by value."""
    kind, other = type(left), type(right)
    if kind in _NUMERIC and other in _NUMERIC:
        return _compare_numbers(left, right)
    if kind is other and kind in (str, bytes, bool, Timestamp, Duration):
        if left == right:
            return 0
        return -1 if left < right else 1
    if kind in (str, bytes, bool, Timestamp, Duration, int, UInt, float):
        no_such_overload()
    no_such_overload(operator)


def _compare_numbers(left: Value, right: Value) -> int:
    if type(left) is float or type(right) is float:
        first, second = float(left), float(right)
        if math.isnan(first) or math.isnan(second):
            raise EvalError("NaN values cannot be ordered")
        left, right = first, second
    if left == right:
        return 0
    return -1 if left < right else 1


def less(left: Value, right: Value) -> bool:
    """`left < right`."""
    return compare(left, right, "_<_") < 0


def less_equal(left: Value, right: Value) -> bool:
    """`left <= right`."""
    return compare(left, right, "_<=_") <= 0


def greater(left: Value, right: Value) -> bool:
    """`left > right`."""
    return compare(left, right, "_>_") > 0


def greater_equal(left: Value, right: Value) -> bool:
    """`left >= right`."""
    return compare(left, right, "_>=_") >= 0


def equal(left: Value, right: Value) -> bool:
    """`left == right`: numbers by value, containers by content, different kinds are unequal."""
    if left is None or right is None:
        return left is right
    kind, other = type(left), type(right)
    if kind is other and kind in _PLAIN:
        return bool(left == right)
    if kind in _NUMERIC:
        if other not in _NUMERIC:
            return False
        if kind is float or other is float:
            return float(left) == float(right)
        return bool(left == right)
    return _Comparison().same(left, right)


class _Comparison:
    """One comparison of containers, which may hold the same parts many times over."""

    __slots__ = ("_left", "_stop")

    def __init__(self) -> None:
        self._left = MOST_ITEMS
        self._stop = MOST_ITEMS - _STEP

    def same(self, left: Value, right: Value) -> bool:
        if isinstance(left, list):
            return isinstance(right, list) and self._lists(left, right)
        if isinstance(left, dict):
            return isinstance(right, dict) and self._maps(left, right)
        kind, other = type(left), type(right)
        if kind is OptionalValue:
            return other is OptionalValue and self._optionals(left, right)
        if isinstance(left, Opaque):
            if kind is not other:
                no_such_overload()
            return bool(left == right)
        if isinstance(left, StructValue):
            return (
                isinstance(right, StructValue)
                and left.type_name == right.type_name
                and self._maps(dict(left.fields), dict(right.fields))
            )
        return kind is other and bool(left == right)

    def _parts(self, left: Value, right: Value) -> bool:
        if type(left) in _CONTAINERS and type(left) is type(right):
            return self.same(left, right)
        return equal(left, right)

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < self._stop:
            if self._left < 0:
                raise CostLimitExceeded
            look_up()
            self._stop = self._left - _STEP

    def _lists(self, left: list[Value], right: list[Value]) -> bool:
        """Set lists ignore order, map lists go by key."""
        if len(left) != len(right):
            return False
        self._spend(len(left))
        if type(left) is SetList:
            return all(contains(left, item) for item in right)
        if type(left) is MapList:
            by_key = {map_key(item, left.keys): item for item in left}
            for item in right:
                mine = by_key.get(map_key(item, left.keys), MISSING)
                if mine is MISSING or not self._parts(mine, item):
                    return False
            return True
        return all(map(self._parts, left, right))

    def _maps(self, left: dict[Value, Value], right: dict[Value, Value]) -> bool:
        if len(left) != len(right):
            return False
        self._spend(len(left))
        for key, value in left.items():
            other = find(right, key)
            if other is MISSING or not self._parts(value, other):
                return False
        return True

    def _optionals(self, left: OptionalValue, right: OptionalValue) -> bool:
        if left.has_value() != right.has_value():
            return False
        return not left.has_value() or self._parts(left.value, right.value)


def contains(items: list[Value], value: Value) -> bool:
    """Whether an element equals `value`."""
    if type(value) is str:
        return value in items
    problem: EvalError | None = None
    for item in items:
        try:
            if equal(item, value):
                return True
        except EvalError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return False


def find(mapping: dict[Value, Value], key: Value) -> Value:
    """Entry of a map, MISSING when there is none; number keys match by value, bools are no numbers."""
    kind = type(key)
    if kind is str:
        return mapping.get(key, MISSING)
    try:
        found = mapping.get(key, MISSING)
    except TypeError:
        return MISSING
    if found is MISSING or kind not in (bool, int, UInt, float):
        return found
    for candidate in mapping:
        if candidate == key and isinstance(candidate, bool) == (kind is bool):
            return found
    return MISSING


def is_in(value: Value, container: Value) -> bool:
    """`value in container`."""
    if isinstance(container, list):
        return contains(container, value)
    if isinstance(container, dict):
        return find(container, value) is not MISSING
    no_such_overload()


def _list_index(index: Value) -> int:
    kind = type(index)
    if kind is int or kind is UInt:
        return int(index)
    if kind is float:
        if index.is_integer():
            return int(index)
        raise EvalError(f"unsupported index value {display(index)} in list")
    raise EvalError(f"unsupported index type '{type_name(index)}' in list")


def index_or_missing(container: Value, key: Value) -> Value:
    """Element, map entry or field; MISSING when there is none."""
    if isinstance(container, dict):
        return find(container, key)
    if isinstance(container, list):
        at = _list_index(key)
        return container[at] if 0 <= at < len(container) else MISSING
    if isinstance(container, StructValue):
        return container.fields.get(key, MISSING)
    return MISSING


def index(container: Value, key: Value) -> Value:
    """`container[key]`, also for `container.key`."""
    found = index_or_missing(container, key)
    if found is MISSING:
        if isinstance(container, list):
            raise EvalError(f"index out of bounds: {display(key)}")
        if isinstance(container, StructValue) and container.type_name.partition(".")[0] == "Object":
            return None
        raise EvalError(f"no such key: {display(key)}")
    return found


BINARY: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "_<_": less,
    "_<=_": less_equal,
    "_>_": greater,
    "_>=_": greater_equal,
    "_==_": equal,
    "@in": is_in,
    "_[_]": index,
}
