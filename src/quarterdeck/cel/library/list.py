"""List functions: Kubernetes' own (isSorted, sum, min, max, indexOf, lastIndexOf), the list extension
version 3 (slice, flatten, sort, reverse, distinct, lists.range), sets, and the helpers behind macros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from quarterdeck.cel import estimate
from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import CostLimitExceeded, EvalError
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
    list_type,
    map_type,
    type_param,
)
from quarterdeck.cel.value.operators import MISSING, add, compare, contains, equal, find
from quarterdeck.cel.value.value import MOST_ITEMS, Duration, UInt, Value, display

_COMPARABLE: Final = (
    ("int", INT),
    ("uint", UINT),
    ("double", DOUBLE),
    ("bool", BOOL),
    ("duration", DURATION),
    ("timestamp", TIMESTAMP),
    ("string", STRING),
    ("bytes", BYTES),
)
_SUMMABLE: Final = (
    ("int", INT, 0),
    ("uint", UINT, UInt(0)),
    ("double", DOUBLE, 0.0),
    ("duration", DURATION, Duration(0)),
)
_T: Final = type_param("T")
_LIST: Final = list_type(_T)
_MAX_RANGE: Final = 2_000_000


def _is_sorted(items: list[Value]) -> bool:
    return all(compare(a, b, "isSorted") <= 0 for a, b in pairwise(items))


def _sum_from(zero: Value) -> Callable[[list[Value]], Value]:
    def total(items: list[Value]) -> Value:
        result = zero
        for item in items:
            result = add(result, item)
        return result

    return total


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def pick(items: list[Value]) -> Value:
        if not items:
            raise EvalError(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if compare(best, item, name) == sign:
                best = item
        return best

    return pick


def _index_of(items: list[Value], wanted: Value) -> int:
    for at, item in enumerate(items):
        if equal(item, wanted):
            return at
    return -1


def _last_index_of(items: list[Value], wanted: Value) -> int:
    for at in range(len(items) - 1, -1, -1):
        if equal(items[at], wanted):
            return at
    return -1


def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Value], level: int = 1) -> list[Value]:
    if level < 0:
        raise EvalError("level must be non-negative")
    result: list[Value] = []
    for item in items:
        if isinstance(item, list) and level > 0:
            result.extend(_flatten(item, level - 1))
        else:
            result.append(item)
        if len(result) > MOST_ITEMS:
            raise CostLimitExceeded
    return result


def _sort_by_keys(items: list[Value], keys: list[Value]) -> list[Value]:
    if len(items) != len(keys):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    kind = type(keys[0])
    if isinstance(keys[0], (list, dict)) or keys[0] is None:
        raise EvalError("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise EvalError("list elements must have the same type")
    order: list[int] = sorted(range(len(keys)), key=_by(keys))
    return [items[at] for at in order]


def _by(keys: list[Value]) -> Callable[[int], Any]:
    return cmp_to_key(lambda a, b: compare(keys[a], keys[b], "sort"))


def _distinct(items: list[Value]) -> list[Value]:
    result: list[Value] = []
    for item in items:
        if not contains(result, item):
            result.append(item)
    return result


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise CostLimitExceeded
    return list(range(count))


def _map_insert(target: dict[Value, Value], *entry: Value) -> dict[Value, Value]:
    added = {entry[0]: entry[1]} if len(entry) == 2 else entry[0]
    result = dict(target)
    for key, value in added.items():
        if find(result, key) is not MISSING:
            raise EvalError(f"insert failed: key {display(key)} already exists")
        result[key] = value
    return result


def _set_contains(items: list[Value], part: list[Value]) -> bool:
    return all(contains(items, item) for item in part)


def _set_intersects(left: list[Value], right: list[Value]) -> bool:
    return any(contains(right, item) for item in left)


def _set_equivalent(left: list[Value], right: list[Value]) -> bool:
    return _set_contains(left, right) and _set_contains(right, left)


def _kubernetes() -> Iterable[Function]:
    yield Function(
        "isSorted",
        [
            Overload(f"list_{name}_is_sorted_bool", [list_type(t)], BOOL, _is_sorted, is_member=True)
            for name, t in _COMPARABLE
        ],
    )
    yield Function(
        "sum",
        [
            Overload(f"list_{name}_sum_{name}", [list_type(t)], t, _sum_from(zero), is_member=True)
            for name, t, zero in _SUMMABLE
        ],
    )
    for function, sign in (("min", 1), ("max", -1)):
        yield Function(
            function,
            [
                Overload(
                    f"list_{name}_{function}_{name}",
                    [list_type(t)],
                    t,
                    _extreme(function, sign),
                    is_member=True,
                )
                for name, t in _COMPARABLE
            ],
        )
    a = type_param("A")
    yield Function(
        "indexOf", [Overload("list_a_index_of_int", [list_type(a), a], INT, _index_of, is_member=True)]
    )
    yield Function(
        "lastIndexOf",
        [Overload("list_a_last_index_of_int", [list_type(a), a], INT, _last_index_of, is_member=True)],
    )


def _extension() -> Iterable[Function]:
    yield Function(
        "slice",
        [
            Overload(
                "list_slice",
                [_LIST, INT, INT],
                _LIST,
                _slice,
                is_member=True,
                static_cost=estimate.list_slice,
                runtime_cost=estimate.track_output,
            )
        ],
    )
    yield Function(
        "flatten",
        [
            Overload(
                id,
                args,
                result,
                _flatten,
                is_member=True,
                static_cost=estimate.list_flatten,
                runtime_cost=estimate.track_flatten,
            )
            for id, args, result in (
                ("list_flatten", [list_type(_LIST)], _LIST),
                ("list_flatten_int", [list_type(DYN), INT], list_type(DYN)),
            )
        ],
    )
    yield Function(
        "sort",
        [
            Overload(
                f"list_{t.name}_sort",
                [list_type(t)],
                list_type(t),
                lambda items: _sort_by_keys(items, items),
                is_member=True,
                static_cost=estimate.list_sort(t),
                runtime_cost=estimate.track_self_compare(0),
            )
            for _, t in _COMPARABLE
        ],
    )
    yield Function(
        "@sortByAssociatedKeys",
        [
            Overload(
                f"list_{t.name}_sortByAssociatedKeys",
                [_LIST, list_type(t)],
                _LIST,
                _sort_by_keys,
                is_member=True,
                static_cost=estimate.list_sort_by(t),
                runtime_cost=estimate.track_self_compare(1),
            )
            for _, t in _COMPARABLE
        ],
    )
    yield Function(
        "lists.range",
        [
            Overload(
                "lists_range",
                [INT],
                list_type(INT),
                _range,
                static_cost=estimate.lists_range,
                runtime_cost=estimate.track_output,
            )
        ],
    )
    yield Function(
        "reverse",
        [
            Overload(
                "list_reverse",
                [_LIST],
                _LIST,
                lambda items: items[::-1],
                is_member=True,
                static_cost=estimate.list_reverse,
                runtime_cost=estimate.track_output,
            )
        ],
    )
    yield Function(
        "distinct",
        [
            Overload(
                "list_distinct",
                [_LIST],
                _LIST,
                _distinct,
                is_member=True,
                static_cost=estimate.list_distinct,
                runtime_cost=estimate.track_self_compare(0),
            )
        ],
    )


def _sets() -> Iterable[Function]:
    for name, run, factor in (
        ("contains", _set_contains, 1),
        ("equivalent", _set_equivalent, 2),
        ("intersects", _set_intersects, 1),
    ):
        yield Function(
            f"sets.{name}",
            [
                Overload(
                    f"list_sets_{name}_list",
                    [_LIST, _LIST],
                    BOOL,
                    run,
                    static_cost=estimate.sets(factor),
                    runtime_cost=estimate.track_sets(factor),
                )
            ],
        )


def _comprehension_helpers() -> Iterable[Function]:
    key, value = type_param("K"), type_param("V")
    table = map_type(key, value)
    yield Function(
        "cel.@mapInsert",
        [
            Overload("@mapInsert_map_key_value", [table, key, value], table, _map_insert),
            Overload("@mapInsert_map_map", [table, table], table, _map_insert),
        ],
    )


def functions() -> Iterable[Function]:
    """All functions of the module."""
    yield from _kubernetes()
    yield from _extension()
    yield from _sets()
    yield from _comprehension_helpers()
