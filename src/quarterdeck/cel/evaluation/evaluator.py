"""Evaluation: a checked tree becomes nested Python closures.

A closure takes the frame of the evaluation, a list: what it costs (see `frame`), then one slot per variable.
CEL errors travel as `EvalError`; the logical operators and quantifiers absorb them as CEL defines. JSON of
schema-typed variables is walked as it is: only what an expression uses as a value is converted.

With `metered` the closures also add up the run-time cost and stop at the limit; without, they are
specialised by static types and several times faster. Both give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from quarterdeck.cel.check.checker import Checked
from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError, ProgramError
from quarterdeck.cel.evaluation import comprehension, fast
from quarterdeck.cel.evaluation.attribute import inside_optional, is_attribute, plan_attribute
from quarterdeck.cel.evaluation.call import plan_call
from quarterdeck.cel.evaluation.construct import make_map, plan_list, plan_map, plan_struct
from quarterdeck.cel.evaluation.dispatch import dispatcher
from quarterdeck.cel.evaluation.frame import COST, FIRST_SLOT, LIMIT, stop
from quarterdeck.cel.syntax.tree import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from quarterdeck.cel.type.celtype import BOOL, CelType, is_optional
from quarterdeck.cel.type.schema import Convert, Shape
from quarterdeck.cel.value.operators import MISSING, index, index_or_missing
from quarterdeck.cel.value.value import OptionalValue, StructValue, TypeValue, Value

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]
BuildStruct: TypeAlias = Callable[[str, dict[str, Value]], StructValue]

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


class Path(NamedTuple):
    """A place inside schema-typed JSON: how to get there, what is there, what getting there costs."""

    get: Closure
    shape: Shape
    cost: int


class _Variable(NamedTuple):
    slot: int
    shape: Shape | None


class Plan(NamedTuple):
    """A program's closure, where its variables go, and the frame it needs.

    The conversions are for optional variables, which hold JSON of a schema.
    """

    run: Closure
    slots: tuple[tuple[str, int, Convert | None], ...]
    size: int


def plan(
    checked: Checked,
    functions: Mapping[str, Function],
    variables: Mapping[str, CelType],
    build_struct: BuildStruct,
    *,
    metered: bool,
) -> Plan:
    """Closures for a checked tree."""
    planner = Planner(checked, functions, build_struct, metered)
    slots = []
    for name in sorted(checked.uses):
        t = variables[name]
        slots.append((name, planner.declare(name, t.shape).slot, _optional_convert(t)))
    return Plan(planner.plan(checked.root), tuple(slots), planner.frame_size)


def _optional_convert(t: CelType) -> Convert | None:
    """How the JSON in an optional variable becomes a value.

    As upstream, only scalars are converted: in objects and lists texts with a format stay texts.
    """
    shape = t.params[0].shape if is_optional(t) else None
    if shape is None or shape.fields is not None or shape.element is not None:
        return None
    return shape.convert


class Planner:
    """Turns nodes into closures; what it hands out is used by the modules that plan calls and loops."""

    def __init__(
        self, checked: Checked, functions: Mapping[str, Function], build_struct: BuildStruct, metered: bool
    ) -> None:
        self._checked = checked
        self.functions = functions
        self.build_struct = build_struct
        self.metered = metered
        self._variables: dict[str, list[_Variable]] = {}
        self._constants: dict[int, Value] = {}
        self._paths: dict[int, Path | None] = {}
        self.frame_size = FIRST_SLOT

    def declare(self, name: str, shape: Shape | None) -> _Variable:
        """Give a variable a slot of the frame."""
        variable = _Variable(self.frame_size, shape)
        self.frame_size += 1
        self._variables.setdefault(name, []).append(variable)
        return variable

    def forget(self, name: str) -> None:
        """End the scope of the variable declared last under this name."""
        self._variables[name].pop()

    def _resolve(self, name: str) -> _Variable | None:
        known = self._variables.get(name)
        return known[-1] if known else None

    def is_name(self, expr: Expr) -> bool:
        """Whether a node stands for a declared name, qualified or not."""
        return expr.id in self._checked.idents

    def variable(self, expr: Expr) -> _Variable | None:
        """The variable a node stands for."""
        name = self._checked.idents.get(expr.id)
        return None if name is None else self._resolve(name)

    def type_of(self, expr: Expr) -> CelType:
        """Static type of a node."""
        return self._checked.types[expr.id]

    def overloads(self, expr: Expr) -> list[Overload]:
        """Overloads a call may mean."""
        return self._checked.overloads[expr.id]

    def is_bool(self, expr: Expr) -> bool:
        """Whether `expr` can yield nothing but a bool."""
        if self.type_of(expr) != BOOL:
            return False
        if isinstance(expr, Call):
            return expr.function not in ("_[_]", "_?_:_", "orValue", "value", "min", "max")
        return isinstance(expr, (Literal, Comprehension)) or (isinstance(expr, Select) and expr.test_only)

    def charge(self, run: Closure, cost: int) -> Closure:
        """Add a fixed cost to each evaluation of `run`."""
        if not self.metered or cost == 0:
            return run

        def charged(f: Frame) -> Value:
            try:
                value = run(f)
            except EvalError:
                f[COST] += cost
                raise
            f[COST] += cost
            if f[COST] > f[LIMIT]:
                stop(f)
            return value

        return charged

    def constant(self, expr: Expr) -> Value:
        """Value of a constant expression, MISSING when it is none."""
        if expr.id not in self._constants:
            self._constants[expr.id] = self._fold(expr)
        return self._constants[expr.id]

    def _fold(self, expr: Expr) -> Value:
        if isinstance(expr, Literal):
            return expr.value
        if isinstance(expr, (Ident, Select)):
            name = self._checked.idents.get(expr.id)
            if name is not None and self._resolve(name) is None:
                t = self.type_of(expr)
                return TypeValue(t.params[0].name if t.params else "type")
            return MISSING
        if isinstance(expr, ListExpr) and not expr.optional:
            items = [self.constant(item) for item in expr.elements]
            return MISSING if any(item is MISSING for item in items) else items
        if isinstance(expr, MapExpr) and not any(entry.optional for entry in expr.entries):
            pairs = [(self.constant(e.key), self.constant(e.value)) for e in expr.entries]
            if any(k is MISSING or v is MISSING for k, v in pairs):
                return MISSING
            return make_map(pairs)
        if isinstance(expr, Call) and expr.target is None and expr.function in _CONVERSIONS:
            value = self.constant(expr.args[0]) if len(expr.args) == 1 else MISSING
            if value is MISSING:
                return MISSING
            try:
                return dispatcher(expr.function, self.functions[expr.function].overloads)(value)
            except EvalError as problem:
                raise ProgramError(problem.message) from problem
        return MISSING

    def plan(self, expr: Expr) -> Closure:
        """Closure that yields the CEL value of `expr`."""
        value = self.constant(expr)
        if value is not MISSING:
            return lambda f: value
        if self.metered and is_attribute(expr):
            return plan_attribute(self, expr)
        if isinstance(expr, Call):
            return plan_call(self, expr)
        if isinstance(expr, Select) and expr.test_only:
            return self._presence(expr)
        if isinstance(expr, (Ident, Select)):
            path = self.path(expr)
            return self._variable_or_field(expr) if path is None else self.converted(path)
        if isinstance(expr, ListExpr):
            return plan_list(self, expr)
        if isinstance(expr, MapExpr):
            return plan_map(self, expr)
        if isinstance(expr, StructExpr):
            return plan_struct(self, expr)
        if isinstance(expr, Comprehension):
            return comprehension.plan(self, expr)
        raise AssertionError(f"unexpected node {type(expr).__name__}")

    def converted(self, path: Path) -> Closure:
        """The CEL value at a place."""
        get, convert = path.get, path.shape.convert
        if convert is None:
            return self.charge(get, path.cost)

        def converted(f: Frame) -> Value:
            value = get(f)
            return None if value is None else convert(value)

        return self.charge(converted, path.cost)

    def _variable_or_field(self, expr: Ident | Select) -> Closure:
        variable = self.variable(expr)
        if variable is not None:
            slot = variable.slot
            return lambda f: f[slot]
        assert isinstance(expr, Select)
        return _select(self.plan(expr.operand), expr.field)

    def path(self, expr: Expr) -> Path | None:
        """Where `expr` points to inside a schema-typed variable, None when it does not."""
        # Remembered, as operands are looked at repeatedly and indexes nest.
        if expr.id not in self._paths:
            self._paths[expr.id] = self._path(expr)
        return self._paths[expr.id]

    def _path(self, expr: Expr) -> Path | None:
        name = self._checked.idents.get(expr.id)
        if name is not None:
            variable = self._resolve(name)
            if variable is None or variable.shape is None:
                return None
            slot = variable.slot
            return Path(lambda f: f[slot], variable.shape, 1)
        if isinstance(expr, Select) and not expr.test_only:
            return self._field_path(expr)
        if isinstance(expr, Call) and expr.function == "_[_]" and self.constant(expr.args[0]) is MISSING:
            return self._index_path(expr)
        return None

    def _field_path(self, expr: Select) -> Path | None:
        fields: list[str] = []
        node: Expr = expr
        while isinstance(node, Select) and not node.test_only and node.id not in self._checked.idents:
            fields.append(node.field)
            node = node.operand
        base = self.path(node)
        if base is None:
            return None
        shape = base.shape
        keys: list[tuple[str, str, bool]] = []
        for field in reversed(fields):
            known = shape.field(field)
            if known is not None:
                keys.append((known[0], field, True))
                shape = known[1]
            elif shape.element is not None and shape.key is not None:
                keys.append((field, field, False))
                shape = shape.element
            else:
                return None
        return Path(fast.fields(base.get, keys), shape, base.cost + len(keys))

    def _index_path(self, expr: Call) -> Path | None:
        base = self.path(expr.args[0])
        if base is None or base.shape.element is None:
            return None
        get, key = base.get, self.plan(expr.args[1])
        return Path(lambda f: index(get(f), key(f)), base.shape.element, base.cost + 1)

    def _presence(self, expr: Select) -> Closure:
        field = expr.field
        if self.metered:
            return self._metered_presence(expr)
        base = self.path(expr.operand)
        if base is None:
            return _has(self.plan(expr.operand), field)
        get = base.get
        known = base.shape.field(field)
        if known is not None:
            name = known[0]
            return lambda f: get(f).get(name) is not None
        return lambda f: field in get(f)

    def _metered_presence(self, expr: Select) -> Closure:
        base = self.path(expr.operand)
        field = expr.field
        if base is None:
            return _has(plan_attribute(self, expr.operand), field)
        get = base.get
        known = base.shape.field(field)
        if known is not None:
            name = known[0]
            return self.charge(lambda f: get(f).get(name) is not None, base.cost)
        return self.charge(lambda f: field in get(f), base.cost)


def _select(operand: Closure, field: str) -> Closure:
    def get(f: Frame) -> Value:
        value = operand(f)
        if type(value) is dict:
            found = value.get(field, MISSING)
            if found is MISSING:
                raise EvalError(f"no such key: {field}")
            return found
        if type(value) is OptionalValue:
            return inside_optional(value, field)
        return index(value, field)

    return get


def _has(operand: Closure, field: str) -> Closure:
    def test(f: Frame) -> bool:
        value = operand(f)
        if type(value) is OptionalValue:
            if not value.has_value():
                return False
            value = value.value
        return not isinstance(value, list) and index_or_missing(value, field) is not MISSING

    return test
