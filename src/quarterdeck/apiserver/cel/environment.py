"""Compiling expressions against declared variables, and the compiled program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quarterdeck.apiserver.cel.checker import Checked, Names, Structs, check
from quarterdeck.apiserver.cel.declaration import Function, merge
from quarterdeck.apiserver.cel.error import CelCompileError, CelRuntimeError, CostLimitExceeded, EvalError
from quarterdeck.apiserver.cel.evaluator import Closure, plan
from quarterdeck.apiserver.cel.library import standard
from quarterdeck.apiserver.cel.parser import parse
from quarterdeck.apiserver.cel.recursion import stack_room
from quarterdeck.apiserver.cel.syntax import depth
from quarterdeck.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    CelType,
    list_type,
    map_type,
    optional_type,
    type_type,
)
from quarterdeck.apiserver.cel.value import StructValue, Value, to_python

PER_CALL_LIMIT: Final = 1_000_000
_DEEP: Final = 40


class Program:
    """A compiled expression; reusable and safe to share between threads."""

    def __init__(self, expression: str, checked: Checked, environment: Environment) -> None:
        self.expression = expression
        self.result_type: CelType = checked.types[checked.root.id]
        self.uses = frozenset(checked.uses)
        self._checked = checked
        self._environment = environment
        self._deep = depth(checked.root) > _DEEP
        with stack_room(self._deep):
            self._quick = environment.plan(checked, metered=False)
        self._metered: tuple[Closure, dict[str, int], int] | None = None
        self._cost: tuple[int, int] | None = None

    def evaluate(self, bindings: Mapping[str, Any], *, cost_limit: int | None = 10_000_000) -> Value:
        """Value of the expression as plain Python; CelRuntimeError when it fails or costs more than the limit."""
        run, slots, size = self._quick
        return to_python(self._run(run, slots, size, bindings, 0))

    def _run(
        self, run: Closure, slots: Mapping[str, int], size: int, bindings: Mapping[str, Any], limit: int
    ) -> Value:
        frame: list[Any] = [None] * size
        frame[0] = 0
        frame[1] = limit
        for name, slot in slots.items():
            try:
                frame[slot] = bindings[name]
            except KeyError:
                raise EvalError(f"no such attribute(s): {name}") from None
        if self._deep:
            with stack_room(True):
                return run(frame)
        return run(frame)

    def estimate_cost(self) -> tuple[int, int]:
        return (0, 0)


class Environment:
    """Variables, types and functions that expressions may use."""

    def __init__(
        self,
        variables: Mapping[str, CelType],
        *,
        libraries: Iterable[Iterable[Function]] | None = None,
    ) -> None:
        self._variables = dict(variables)
        self._functions = merge([standard.functions()])
        self._names = Names(self._variables, _TYPE_NAMES, self._functions, Structs())

    def compile(self, expression: str) -> Program:
        """Parse, check and plan; CelCompileError with all problems."""
        root, source = parse(expression)
        with stack_room(depth(root) > _DEEP):
            checked, issues = check(root, self._names)
        if issues:
            raise CelCompileError(source.render(issues))
        return Program(expression, checked, self)

    def plan(self, checked: Checked, *, metered: bool) -> tuple[Closure, dict[str, int], int]:
        return plan(checked, self._functions, self._variables, StructValue, metered=metered)


_TYPE_NAMES: Final = {
    t.name: type_type(t)
    for t in (BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT, list_type(DYN), map_type(DYN, DYN), TYPE, optional_type(DYN), DYN)
}
__all__ = ["CelCompileError", "CelRuntimeError", "CostLimitExceeded", "Environment", "Program"]
