"""Run-time cost of function calls."""

from __future__ import annotations

import math
from typing import Final

from quarterdeck.apiserver.cel.declaration import Overload
from quarterdeck.apiserver.cel.estimate import REGEX_FACTOR, STRING_FACTOR, actual_size
from quarterdeck.apiserver.cel.function_cost import run_cost
from quarterdeck.apiserver.cel.value import Value

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


def call_cost(function: str, overload: Overload | None, args: list[Value], result: Value) -> int:
    """Cost of a call with these arguments and result; `overload` when only one may have been meant."""
    id = "" if overload is None else overload.id
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
    if id in ("add_string", "add_bytes"):
        return math.ceil((actual_size(args[0]) + actual_size(args[1])) * STRING_FACTOR)
    if id == "matches_string":
        text = math.ceil((1.0 + actual_size(args[0])) * STRING_FACTOR)
        return text * math.ceil(actual_size(args[1]) * REGEX_FACTOR)
    if id == "contains_string":
        return math.ceil(actual_size(args[0]) * STRING_FACTOR) * math.ceil(
            actual_size(args[1]) * STRING_FACTOR
        )
    return 1
