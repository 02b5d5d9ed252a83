"""Construction of lists, maps and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from quarterdeck.cel.error import EvalError
from quarterdeck.cel.estimate import LIST_BASE, MAP_BASE, STRUCT_BASE
from quarterdeck.cel.syntax.tree import ListExpr, MapExpr, StructExpr
from quarterdeck.cel.value.value import OptionalValue, UInt, Value, display

if TYPE_CHECKING:
    from quarterdeck.cel.evaluation.evaluator import Planner

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]


def plan_list(planner: Planner, expr: ListExpr) -> Closure:
    """`[a, ?b]`."""
    items = [planner.plan(item) for item in expr.elements]
    if not expr.optional:
        return planner.charge(lambda f: [item(f) for item in items], LIST_BASE)
    optional = expr.optional

    def build(f: Frame) -> Value:
        result = []
        for at, item in enumerate(items):
            value = item(f)
            if at in optional:
                if type(value) is not OptionalValue:
                    raise EvalError(
                        f"cannot initialize optional list element from non-optional value {display(value)}"
                    )
                if not value.has_value():
                    continue
                value = value.value
            result.append(value)
        return result

    return planner.charge(build, LIST_BASE)


def plan_map(planner: Planner, expr: MapExpr) -> Closure:
    """`{k: v}`."""
    entries = [(planner.plan(e.key), planner.plan(e.value), e.optional) for e in expr.entries]

    def build(f: Frame) -> Value:
        pairs = []
        for key, value, optional in entries:
            k, v = key(f), value(f)
            if optional:
                if type(v) is not OptionalValue:
                    raise _bad_optional_entry(k, v)
                if not v.has_value():
                    continue
                v = v.value
            pairs.append((k, v))
        return make_map(pairs)

    return planner.charge(build, MAP_BASE)


def plan_struct(planner: Planner, expr: StructExpr) -> Closure:
    """`Type{field: value}`."""
    fields = [(field.name, planner.plan(field.value), field.optional) for field in expr.fields]
    name, make = expr.type_name, planner.build_struct

    def build(f: Frame) -> Value:
        values: dict[str, Value] = {}
        for field, value, optional in fields:
            v = value(f)
            if optional:
                if type(v) is not OptionalValue:
                    raise _bad_optional_entry(field, v)
                if not v.has_value():
                    continue
                v = v.value
            values[field] = v
        return make(name, values)

    return planner.charge(build, STRUCT_BASE)


def make_map(pairs: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
    """A map of entries; later ones win."""
    result: dict[Value, Value] = {}
    for key, value in pairs:
        if not isinstance(key, (str, int, UInt, float)):
            raise EvalError(f"unsupported key type: {display(key)}")
        result[key] = value
    return result


def _bad_optional_entry(key: Value, value: Value) -> EvalError:
    return EvalError(
        f"cannot initialize optional entry '{display(key)}' from non-optional value {display(value)}"
    )
