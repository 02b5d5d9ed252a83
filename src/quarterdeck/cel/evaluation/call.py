"""Function calls and the operators that evaluate their operands in their own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from quarterdeck.cel.cost.meter import call_cost
from quarterdeck.cel.declaration import Overload
from quarterdeck.cel.error import EvalError, ProgramError
from quarterdeck.cel.evaluation import fast
from quarterdeck.cel.evaluation.attribute import inside_optional, is_attribute, plan_attribute
from quarterdeck.cel.evaluation.dispatch import dispatcher
from quarterdeck.cel.evaluation.frame import COST, LIMIT, stop
from quarterdeck.cel.syntax.tree import Call, Expr, Literal
from quarterdeck.cel.type.celtype import CelType
from quarterdeck.cel.type.structural import structural_equal
from quarterdeck.cel.value.operators import (
    MISSING,
    contains,
    equal,
    index,
    index_or_missing,
    no_such_overload,
)
from quarterdeck.cel.value.pattern import compile_pattern
from quarterdeck.cel.value.value import OptionalValue, Value

if TYPE_CHECKING:
    from quarterdeck.cel.evaluation.evaluator import Planner

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]


def plan_call(planner: Planner, expr: Call) -> Closure:
    """Closure of a call."""
    special = _SPECIAL.get(expr.function)
    if special is not None:
        return special(planner, expr)
    overloads = planner.overloads(expr)
    if expr.function in ("or", "orValue") and len(expr.args) == 1 and expr.target is not None:
        return _optional_or(planner, expr)
    operands = [*([] if expr.target is None else [expr.target]), *expr.args]
    if not planner.metered:
        quick = _quick_call(planner, expr, overloads, operands)
        if quick is not None:
            return quick
    args = [planner.plan(operand) for operand in operands]
    implementation = _implementation(planner, expr, overloads, operands)
    if planner.metered:
        if overloads[0].id == "in_list" and len(overloads) == 1 and _is_plain_set(planner, operands[1]):
            return fast.invoke(implementation, args)
        return _metered_call(implementation, args, expr.function, overloads)
    return fast.invoke(implementation, args)


def _is_plain_set(planner: Planner, expr: Expr) -> bool:
    """Whether membership is looked up in constants, which costs nothing."""
    items = planner.constant(expr)
    return isinstance(items, list) and all(isinstance(item, (bool, int, float, str)) for item in items)


def _implementation(
    planner: Planner, expr: Call, overloads: list[Overload], operands: list[Expr]
) -> Callable[..., Value]:
    pattern = _constant_pattern(planner, expr, operands)
    if pattern is not None:
        return pattern
    if len(overloads) == 1:
        overload = overloads[0]
        if not overload.is_guarded or not any(_is_dynamic(planner.type_of(o)) for o in operands):
            return overload.implementation
        return dispatcher(expr.function, overloads)
    return dispatcher(expr.function, planner.functions[expr.function].overloads)


def _constant_pattern(planner: Planner, expr: Call, operands: list[Expr]) -> Callable[..., Value] | None:
    """Regular expressions known in advance are compiled once."""
    if expr.function not in ("matches", "find", "findAll") or len(operands) < 2:
        return None
    text = planner.constant(operands[1])
    if type(text) is not str:
        return None
    try:
        compiled = compile_pattern(text)
    except EvalError as problem:
        raise ProgramError(problem.message) from problem
    if expr.function == "matches":
        occurs_in = compiled.occurs_in
        return lambda s, _: occurs_in(s) if type(s) is str else no_such_overload()
    if expr.function == "find":
        return lambda s, _: compiled.find(s)
    return lambda s, _, limit=-1: compiled.find_all(s, limit)


def _quick_call(
    planner: Planner, expr: Call, overloads: list[Overload], operands: list[Expr]
) -> Closure | None:
    """Specialised closures for what rules do most."""
    if expr.function in ("_==_", "_!=_"):
        return _equality(planner, expr)
    if len(overloads) != 1:
        return None
    id = overloads[0].id
    # Python would add bools and compare them with ints: only for operands that cannot be anything else.
    if id in fast.BINARY and all(
        planner.type_of(o) == t for o, t in zip(operands, overloads[0].args, strict=True)
    ):
        left = planner.plan(operands[0])
        constant = planner.constant(operands[1])
        if constant is not MISSING and id in fast.BINARY_CONSTANT:
            return fast.BINARY_CONSTANT[id](left, constant)
        return fast.BINARY[id](left, planner.plan(operands[1]))
    if expr.function == "size":
        # Containers need not be converted to be counted.
        path = planner.path(operands[0])
        is_container = path is not None and path.shape.element is not None
        inner = path.get if path is not None and is_container else planner.plan(operands[0])
        return fast.size(inner)
    if id == "logical_not":
        return fast.negation(planner.plan(operands[0]))
    if expr.function == "@in":
        return _membership(planner, operands)
    return None


def _membership(planner: Planner, operands: list[Expr]) -> Closure | None:
    path = planner.path(operands[1])
    if path is None or path.shape.element is None:
        return None
    if path.shape.key is None and path.shape.element.convert is not None:
        return None
    get, item = path.get, planner.plan(operands[0])
    if path.shape.key is not None:
        return lambda f: item(f) in get(f)
    return lambda f: contains(get(f), item(f))


def _equality(planner: Planner, expr: Call) -> Closure:
    left, right = expr.args
    wanted = expr.function == "_==_"
    types = (planner.type_of(left), planner.type_of(right))
    if types[0] == types[1] and types[0].kind in ("int", "string", "bool", "double"):
        a, b = planner.plan(left), planner.plan(right)
        return fast.equality(a, b, planner.constant(right), wanted)
    paths = (planner.path(left), planner.path(right))
    if paths[0] is not None and paths[1] is not None and paths[0].shape is paths[1].shape:
        first, second, shape = paths[0].get, paths[1].get, paths[0].shape
        return lambda f: structural_equal(shape, first(f), second(f)) is wanted
    a, b = planner.plan(left), planner.plan(right)
    if wanted:
        return lambda f: equal(a(f), b(f))

    def differs(f: Frame) -> bool:
        x, y = a(f), b(f)
        try:
            return not equal(x, y)
        except EvalError:
            return True

    return differs


def _optional_or(planner: Planner, expr: Call) -> Closure:
    assert expr.target is not None
    target, other = planner.plan(expr.target), planner.plan(expr.args[0])
    unwrap = expr.function == "orValue"

    def choose(f: Frame) -> Value:
        value = target(f)
        if type(value) is not OptionalValue:
            return value
        if value.has_value():
            return value.value if unwrap else value
        return other(f)

    return choose


def _is_dynamic(t: CelType) -> bool:
    return t.kind in ("dyn", "param", "error") or any(_is_dynamic(param) for param in t.params)


def _metered_call(
    implementation: Callable[..., Value], args: list[Closure], function: str, overloads: list[Overload]
) -> Closure:
    overload = overloads[0] if len(overloads) == 1 else None

    def call(f: Frame) -> Value:
        values: list[Value] = []
        problem: EvalError | None = None
        for arg in args:
            try:
                values.append(arg(f))
            except EvalError as error:
                if len(args) > 2:
                    raise
                problem = problem or error
                values.append(error)
        if problem is not None:
            f[COST] += 1
            raise problem
        # What a call costs is known before it is made, but for those that are paid by their result.
        ahead = call_cost(function, overload, values, None)
        f[COST] += ahead
        if f[COST] > f[LIMIT]:
            stop(f)
        result = implementation(*values)
        f[COST] += call_cost(function, overload, values, result) - ahead
        if f[COST] > f[LIMIT]:
            stop(f)
        return result

    return call


def _logic(planner: Planner, expr: Call) -> Closure:
    left, right = expr.args
    run = fast.logic if planner.is_bool(left) and planner.is_bool(right) else fast.dynamic_logic
    return run(planner.plan(left), planner.plan(right), stop=expr.function == "_||_")


def _conditional(planner: Planner, expr: Call) -> Closure:
    condition = planner.plan(expr.args[0])
    yes, no = (_branch(planner, arg) for arg in expr.args[1:])

    def choose(f: Frame) -> Value:
        chosen = condition(f)
        if not isinstance(chosen, bool):
            no_such_overload()
        return yes(f) if chosen else no(f)

    return choose


def _branch(planner: Planner, expr: Expr) -> Closure:
    if planner.metered and is_attribute(expr) and planner.constant(expr) is MISSING:
        return plan_attribute(planner, expr, counted=False)
    return planner.plan(expr)


def _index(planner: Planner, expr: Call) -> Closure:
    path = planner.path(expr)
    if path is not None:
        return planner.converted(path)
    container, key = planner.plan(expr.args[0]), planner.plan(expr.args[1])

    def get(f: Frame) -> Value:
        value, k = container(f), key(f)
        if type(value) is OptionalValue:
            return inside_optional(value, k)
        return index(value, k)

    return get


def _optional_index(planner: Planner, expr: Call) -> Closure:
    container, key = planner.plan(expr.args[0]), planner.plan(expr.args[1])

    def get(f: Frame) -> Value:
        value, k = container(f), key(f)
        if type(value) is OptionalValue:
            return inside_optional(value, k)
        found = index_or_missing(value, k)
        return OptionalValue.NONE if found is MISSING else OptionalValue(found)

    return get


def _optional_select(planner: Planner, expr: Call) -> Closure:
    field = expr.args[1]
    assert isinstance(field, Literal)
    base = planner.path(expr.args[0])
    known = None if base is None else base.shape.field(field.value)
    if base is not None and known is not None:
        get, name, convert = base.get, known[0], known[1].convert

        def select(f: Frame) -> Value:
            value = get(f).get(name)
            if value is None:
                return OptionalValue.NONE
            return OptionalValue(value if convert is None else convert(value))

        return select
    return _optional_index(planner, expr)


_SPECIAL: Final[dict[str, Callable[[Planner, Call], Closure]]] = {
    "_&&_": _logic,
    "_||_": _logic,
    "_?_:_": _conditional,
    "_[_]": _index,
    "_[?_]": _optional_index,
    "_?._": _optional_select,
}
