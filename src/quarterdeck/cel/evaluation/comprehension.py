"""Evaluation of comprehensions, one loop per macro.

The quantifiers absorb errors like the logical operators: `all` is False as soon as one element is,
`exists` True, whatever other elements raise. `exists_one`, `map` and `filter` fail on any error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from quarterdeck.cel.error import EvalError
from quarterdeck.cel.evaluation.frame import stop
from quarterdeck.cel.syntax.tree import Call, Comprehension, Expr, ListExpr
from quarterdeck.cel.value.operators import MISSING, find
from quarterdeck.cel.value.value import UInt, Value, display

if TYPE_CHECKING:
    from quarterdeck.cel.evaluation.evaluator import Path, Planner

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]

_GO_TYPES: Final = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
}


def plan(planner: Planner, expr: Comprehension) -> Closure:
    """Closure of a comprehension."""
    if expr.form == "bind":
        return _bind(planner, expr)
    steps = _Steps(planner, expr)
    run = _LOOPS[expr.form](planner, expr, steps)
    steps.close()
    return run


class _Steps:
    """Range and loop variables of a comprehension."""

    def __init__(self, planner: Planner, expr: Comprehension) -> None:
        self._planner = planner
        self._names = [expr.iter_var]
        path = planner.path(expr.iter_range)
        element = None if path is None else path.shape.element
        is_map = path is not None and path.shape.key is not None
        items = self._items(expr, path)
        if expr.iter_var2:
            self._names.append(expr.iter_var2)
            first = planner.declare(expr.iter_var, None).slot
            second = planner.declare(expr.iter_var2, element).slot
            self.each = _pairs(items, first, second)
        else:
            slot = planner.declare(expr.iter_var, None if is_map else element).slot
            self.each = _singles(items, slot)

    def _items(self, expr: Comprehension, path: Path | None) -> Closure:
        if path is not None and path.shape.element is not None:
            return self._planner.charge(path.get, path.cost)
        return self._planner.plan(expr.iter_range)

    def close(self) -> None:
        for name in self._names:
            self._planner.forget(name)


def _singles(items: Closure, slot: int) -> tuple[Closure, int, int]:
    def get(f: Frame) -> Value:
        values = items(f)
        if type(values) is list or isinstance(values, (list, dict)):
            return values
        raise EvalError(f"got '{_GO_TYPES.get(type(values), type(values).__name__)}', expected iterable type")

    return get, slot, -1


def _pairs(items: Closure, first: int, second: int) -> tuple[Closure, int, int]:
    def get(f: Frame) -> Value:
        values = items(f)
        if isinstance(values, dict):
            return list(values.items())
        if isinstance(values, list):
            return list(enumerate(values))
        shown = _GO_TYPES.get(type(values), type(values).__name__)
        raise EvalError(f"unsupported comprehension range type: {shown}")

    return get, first, second


def _spend(f: Frame, cost: int) -> None:
    f[0] += cost
    if f[0] > f[1]:
        stop(f)


def _bind(planner: Planner, expr: Comprehension) -> Closure:
    path = planner.path(expr.accu_init)
    value = planner.plan(expr.accu_init) if path is None else planner.charge(path.get, path.cost)
    slot = planner.declare(expr.accu_var, None if path is None else path.shape).slot
    result = planner.plan(expr.result)
    planner.forget(expr.accu_var)

    def run(f: Frame) -> Value:
        f[slot] = value(f)
        return result(f)

    return run


def _quantifier(planner: Planner, expr: Comprehension, steps: _Steps) -> Closure:
    assert isinstance(expr.step, Call)
    predicate_expr = expr.step.args[1]
    predicate = planner.plan(predicate_expr)
    stop = expr.form == "exists"
    items, slot, second = steps.each
    metered = planner.metered
    test_cost = 3 if stop else 2

    def careful(f: Frame, values: Collection[Value]) -> Value:
        problem: EvalError | None = None
        left = len(values)
        for value in values:
            left -= 1
            if second < 0:
                f[slot] = value
            else:
                f[slot], f[second] = value
            if metered:
                _spend(f, test_cost + 1)
            try:
                outcome = predicate(f)
            except EvalError as error:
                problem = problem or error
                continue
            if outcome is stop:
                if metered and left:
                    _spend(f, test_cost)
                return stop
            if not isinstance(outcome, bool):
                problem = problem or EvalError("no such overload")
        if problem is not None:
            raise problem
        return not stop

    if metered or not planner.is_bool(predicate_expr):
        return planner.charge(lambda f: careful(f, items(f)), 1)
    if second >= 0:

        def two(f: Frame) -> Value:
            values = items(f)
            try:
                for f[slot], f[second] in values:
                    if predicate(f) is stop:
                        return stop
            except EvalError:
                return careful(f, values)
            return not stop

        return two

    def one(f: Frame) -> Value:
        values = items(f)
        try:
            for f[slot] in values:
                if predicate(f) is stop:
                    return stop
        except EvalError:
            return careful(f, values)
        return not stop

    return one


def _exists_one(planner: Planner, expr: Comprehension, steps: _Steps) -> Closure:
    assert isinstance(expr.step, Call)
    predicate = planner.plan(expr.step.args[0])
    items, slot, second = steps.each
    metered = planner.metered

    def run(f: Frame) -> bool:
        count = 0
        problem: EvalError | None = None
        for value in items(f):
            if second < 0:
                f[slot] = value
            else:
                f[slot], f[second] = value
            try:
                outcome = predicate(f)
            except EvalError as error:
                problem = error
                continue
            if outcome is True:
                if metered:
                    _spend(f, 2)
                count += 1
            elif outcome is not False:
                problem = EvalError("no such overload")
        if problem is not None:
            raise problem
        return count == 1

    return planner.charge(run, 2)


def _parts(expr: Comprehension) -> tuple[Expr | None, Call]:
    """Filter (if any) and the accumulating call of a list or map comprehension."""
    step = expr.step
    assert isinstance(step, Call)
    if step.function == "_?_:_":
        inner = step.args[1]
        assert isinstance(inner, Call)
        return step.args[0], inner
    return None, step


def _collect(planner: Planner, expr: Comprehension, steps: _Steps) -> Closure:
    filter_expr, add = _parts(expr)
    element = add.args[1]
    assert isinstance(element, ListExpr)
    transform = planner.plan(element.elements[0])
    # A list of constants is built once.
    cost = 12 if planner.constant(element) is MISSING else 2
    items, slot, second = steps.each
    metered = planner.metered
    if filter_expr is None and not metered and second < 0:
        return lambda f: [transform(f) for f[slot] in items(f)]
    condition = None if filter_expr is None else planner.plan(filter_expr)

    def run(f: Frame) -> list[Value]:
        result: list[Value] = []
        problem: EvalError | None = None
        for value in items(f):
            if second < 0:
                f[slot] = value
            else:
                f[slot], f[second] = value
            if condition is not None:
                try:
                    chosen = condition(f)
                except EvalError as error:
                    problem = error
                    continue
                if chosen is not True:
                    if chosen is not False:
                        problem = EvalError("no such overload")
                    continue
            try:
                result.append(transform(f))
            except EvalError as error:
                problem = problem or error
            if metered:
                _spend(f, cost)
        if problem is not None:
            raise problem
        return result

    return planner.charge(run, 1)


def _build_map(planner: Planner, expr: Comprehension, steps: _Steps) -> Closure:
    filter_expr, insert = _parts(expr)
    condition = None if filter_expr is None else planner.plan(filter_expr)
    entries = [planner.plan(arg) for arg in insert.args[1:]]
    items, slot, second = steps.each
    metered = planner.metered
    by_key = len(entries) == 2

    def run(f: Frame) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for value in items(f):
            f[slot], f[second] = value
            if condition is not None and condition(f) is not True:
                continue
            added = {entries[0](f): entries[1](f)} if by_key else entries[0](f)
            for key, item in added.items():
                if find(result, key) is not MISSING:
                    raise EvalError(f"insert failed: key {display(key)} already exists")
                result[key] = item
            if metered:
                _spend(f, 2)
        return result

    return planner.charge(run, 1)


_LOOPS: Final[dict[str, Callable[[Planner, Comprehension, _Steps], Closure]]] = {
    "all": _quantifier,
    "exists": _quantifier,
    "exists_one": _exists_one,
    "list": _collect,
    "map": _build_map,
}
