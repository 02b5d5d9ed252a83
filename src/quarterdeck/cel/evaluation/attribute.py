"""Metered evaluation of attributes: a variable or value followed by field selections and indexes.

Every step that is taken costs 1, the attribute itself 1 more, except as a branch of a conditional or
inside an index. Optional steps that find nothing cost nothing and end the walk with `optional.none()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from quarterdeck.cel.error import EvalError
from quarterdeck.cel.evaluation.frame import stop
from quarterdeck.cel.syntax.tree import Call, Expr, Ident, Literal, Select
from quarterdeck.cel.type.schema import Shape
from quarterdeck.cel.value.operators import MISSING, index, index_or_missing
from quarterdeck.cel.value.value import OptionalValue, Value, display

if TYPE_CHECKING:
    from quarterdeck.cel.evaluation.evaluator import Planner

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]
_INDEXES = ("_[_]", "_[?_]", "_?._")


class _Step(NamedTuple):
    key: Closure
    optional: bool
    # Property name when the step selects a field of a schema-typed object.
    name: str | None


def is_attribute(expr: Expr) -> bool:
    """Whether `expr` is evaluated by walking."""
    if isinstance(expr, Select):
        return not expr.test_only
    return isinstance(expr, Ident) or (isinstance(expr, Call) and expr.function in _INDEXES)


def plan_attribute(planner: Planner, expr: Expr, *, counted: bool = True) -> Closure:
    """Closure that walks to `expr` and meters the way; `counted` says whether the attribute itself costs."""
    links: list[tuple[Expr | str, bool]] = []
    node = expr
    while not planner.is_name(node) and is_attribute(node) and planner.constant(node) is MISSING:
        if isinstance(node, Select):
            links.append((node.field, False))
            node = node.operand
        else:
            assert isinstance(node, Call)
            key = node.args[1]
            field = key.value if node.function == "_?._" and isinstance(key, Literal) else key
            links.append((field, node.function != "_[_]"))
            node = node.args[0]
    base, shape, cost = _base(planner, node, counted)
    steps: list[_Step] = []
    for link, optional in reversed(links):
        step, shape = _step(planner, link, optional, shape)
        steps.append(step)
    return _walk(base, steps, shape, cost)


def _base(planner: Planner, node: Expr, counted: bool) -> tuple[Closure, Shape | None, int]:
    variable = planner.variable(node)
    cost = 1 if counted else 0
    if variable is not None:
        slot = variable.slot
        return (lambda f: f[slot]), variable.shape, cost
    if isinstance(node, Call) and node.function == "_?_:_":
        cost = 0
    return planner.plan(node), None, cost


def _step(
    planner: Planner, link: Expr | str, optional: bool, shape: Shape | None
) -> tuple[_Step, Shape | None]:
    if isinstance(link, str):
        text = link
        known = None if shape is None else shape.field(text)
        if known is not None:
            return _Step(lambda f: text, optional, known[0]), known[1]
        return _Step(lambda f: text, optional, None), None if shape is None else shape.element
    counted = not is_attribute(link)
    key = planner.plan(link) if counted else plan_attribute(planner, link, counted=False)
    return _Step(key, optional, None), None if shape is None else shape.element


def _walk(base: Closure, steps: list[_Step], shape: Shape | None, own: int) -> Closure:
    convert = None if shape is None else shape.convert

    def spend(f: Frame, cost: int) -> None:
        f[0] += cost
        if f[0] > f[1]:
            stop(f)

    def run(f: Frame) -> Value:
        value = base(f)
        cost, optional = own, False
        if steps and type(value) is OptionalValue:
            if not value.has_value():
                spend(f, cost)
                return value
            value, optional = value.value, True
        for step in steps:
            try:
                key = step.key(f)
                optional = optional or step.optional
                found = _find(value, key, step.name)
            except EvalError:
                spend(f, cost + 1)
                raise
            if found is MISSING:
                if optional:
                    spend(f, cost)
                    return OptionalValue.NONE
                spend(f, cost + 1)
                found = index(value, key) if step.name is None else _missing(key)
            value = found
            cost += 1
        spend(f, cost)
        if convert is not None and value is not None:
            value = convert(value)
        return OptionalValue(value) if optional else value

    return run


def _missing(key: Value) -> Value:
    raise EvalError(f"no such key: {display(key)}")


def _find(value: Value, key: Value, name: str | None) -> Value:
    if name is None:
        return index_or_missing(value, key)
    found = value.get(name) if isinstance(value, dict) else None
    return MISSING if found is None else found


def inside_optional(optional: OptionalValue, key: Value) -> OptionalValue:
    """Step into an optional: none when it or the step finds nothing."""
    if not optional.has_value():
        return optional
    found = index_or_missing(optional.value, key)
    return OptionalValue.NONE if found is MISSING else OptionalValue(found)
