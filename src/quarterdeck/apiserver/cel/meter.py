"""Run-time cost of function calls."""

from __future__ import annotations

from quarterdeck.apiserver.cel.declaration import Overload
from quarterdeck.apiserver.cel.value import Value


def call_cost(function: str, overload: Overload | None, args: list[Value], result: Value) -> int:
    """Cost of a call with these arguments and result."""
    return 1
