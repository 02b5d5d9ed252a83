"""Run-time cost of function calls."""

from __future__ import annotations

import math
from typing import Final

from quarterdeck.cel.cost.function_cost import run_cost
from quarterdeck.cel.declaration import Overload
from quarterdeck.cel.estimate import REGEX_FACTOR, STRING_FACTOR, actual_size
from quarterdeck.cel.value.value import Value

_TENTH: Final = frozenset(
    {
        "starts_with_string",
        "ends_with_string",
        "string_to_bytes",
        "bytes_to_string",
        "strings_quote",
        "string_format",
    }
)
_COMPARING: Final = frozenset(
    [
        f"{stem}_{t}"
        for stem in ("less", "greater", "less_equals", "greater_equals")
        for t in ("string", "bytes")
    ]
    + ["equals", "not_equals"]
)


_FREE_LENGTH: Final = 10_000
"""Lists of up to this length are put together for nothing, as upstream does it; longer ones are copied here,
and their memory has a price."""


def call_cost(function: str, overload: Overload | None, args: list[Value], result: Value) -> int:
    """Cost of a call with these arguments and result; `overload` when only one may have been meant."""
    id = "" if overload is None else overload.id
    if function == "_+_":
        return _sum_cost(id, *args)
    if overload is not None and overload.runtime_cost is not None:
        return overload.runtime_cost(args, result)
    cost = run_cost(function, id, args, result)
    if cost is not None:
        return cost
    if id in _TENTH:
        return math.ceil(actual_size(args[0]) * STRING_FACTOR)
    if id == "in_list":
        return actual_size(args[1])
    if id in _COMPARING:
        return math.ceil(min(actual_size(args[0]), actual_size(args[1])) * STRING_FACTOR)
    if id == "matches_string":
        text = math.ceil((1.0 + actual_size(args[0])) * STRING_FACTOR)
        return text * math.ceil(actual_size(args[1]) * REGEX_FACTOR)
    if id == "contains_string":
        return math.ceil(actual_size(args[0]) * STRING_FACTOR) * math.ceil(
            actual_size(args[1]) * STRING_FACTOR
        )
    return 1


def _sum_cost(id: str, left: Value, right: Value) -> int:
    """Cost of `left + right`, paid by the length of the result."""
    if isinstance(left, list) and isinstance(right, list):
        return 1 + max(len(left) + len(right) - _FREE_LENGTH, 0)
    if id in ("add_string", "add_bytes"):
        return math.ceil((actual_size(left) + actual_size(right)) * STRING_FACTOR)
    if type(left) is type(right) and isinstance(left, (str, bytes)):  # of unknown type: upstream charges 1
        return 1 + math.ceil(max(len(left) + len(right) - _FREE_LENGTH, 0) * STRING_FACTOR)
    return 1
