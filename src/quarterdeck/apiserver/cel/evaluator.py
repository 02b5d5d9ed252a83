"""Evaluation: a checked tree becomes nested Python closures.

A closure takes the frame of the evaluation, a list: cost so far, cost limit, then one slot per variable. CEL
errors travel as `EvalError`; the logical operators and quantifiers absorb them as CEL defines. JSON of
schema-typed variables is walked as it is: only what an expression uses as a value is converted.

With `metered` the closures also add up the run-time cost and stop at the limit; without, they are
specialised by static types and several times faster. Both give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from quarterdeck.apiserver.cel import comprehension, fast
from quarterdeck.apiserver.cel.attribute import is_attribute, plan_attribute
from quarterdeck.apiserver.cel.checker import Checked
from quarterdeck.apiserver.cel.declaration import Function, Overload
from quarterdeck.apiserver.cel.dispatch import dispatcher
from quarterdeck.apiserver.cel.error import CelCompileError, CostLimitExceeded, EvalError
from quarterdeck.apiserver.cel.meter import call_cost
from quarterdeck.apiserver.cel.operators import (
    MISSING,
    contains,
    equal,
    index,
    index_or_missing,
    no_such_overload,
)
from quarterdeck.apiserver.cel.pattern import compile_pattern, find_all
from quarterdeck.apiserver.cel.schema import Shape
from quarterdeck.apiserver.cel.structural import structural_equal
from quarterdeck.apiserver.cel.syntax import (
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
from quarterdeck.apiserver.cel.types import BOOL, CelType
from quarterdeck.apiserver.cel.value import (
    OptionalValue,
    StructValue,
    TypeValue,
    UInt,
    Value,
    display,
)

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Value]
BuildStruct: TypeAlias = Callable[[str, dict[str, Value]], StructValue]

COST: Final = 0
LIMIT: Final = 1
FIRST_SLOT: Final = 2

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


class ProgramError(CelCompileError):
    """A constant part of an expression cannot be evaluated, so no program can be made of it."""


class Path(NamedTuple):
    """A place inside schema-typed JSON: how to get there, what is there, what getting there costs."""

    get: Closure
    shape: Shape
    cost: int


class _Variable(NamedTuple):
    slot: int
    shape: Shape | None


def plan(
    checked: Checked,
    functions: Mapping[str, Function],
    variables: Mapping[str, CelType],
    build_struct: BuildStruct,
    *,
    metered: bool,
) -> tuple[Closure, dict[str, int], int]:
    """Closure of the tree, slots of the variables it uses, and the frame size it needs."""
    planner = _Planner(checked, functions, build_struct, metered)
    slots: dict[str, int] = {}
    for name in sorted(checked.uses):
        slots[name] = planner.declare(name, variables[name].shape).slot
    return planner.plan(checked.root), slots, planner.frame_size


class _Planner:
    def __init__(
        self, checked: Checked, functions: Mapping[str, Function], build_struct: BuildStruct, metered: bool
    ) -> None:
        self._checked = checked
        self._functions = functions
        self._build_struct = build_struct
        self._metered = metered
        self._variables: dict[str, list[_Variable]] = {}
        self._constants: dict[int, Value] = {}
        self.frame_size = FIRST_SLOT

    # --- variables

    def declare(self, name: str, shape: Shape | None) -> _Variable:
        variable = _Variable(self.frame_size, shape)
        self.frame_size += 1
        self._variables.setdefault(name, []).append(variable)
        return variable

    def forget(self, name: str) -> None:
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
        return self._checked.types[expr.id]

    # --- cost

    @property
    def metered(self) -> bool:
        return self._metered

    def charge(self, run: Closure, cost: int) -> Closure:
        """Add a fixed cost to each evaluation of `run`."""
        if not self._metered or cost == 0:
            return run

        def charged(f: Frame) -> Value:
            try:
                value = run(f)
            except EvalError:
                f[COST] += cost
                raise
            f[COST] += cost
            if f[COST] > f[LIMIT]:
                raise CostLimitExceeded
            return value

        return charged

    # --- constants

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
            return _make_map(pairs)
        if isinstance(expr, Call) and expr.target is None and expr.function in _CONVERSIONS:
            value = self.constant(expr.args[0]) if len(expr.args) == 1 else MISSING
            if value is MISSING:
                return MISSING
            try:
                return dispatcher(expr.function, self._functions[expr.function].overloads)(value)
            except EvalError as problem:
                raise ProgramError(problem.message) from problem
        return MISSING

    # --- nodes

    def plan(self, expr: Expr) -> Closure:
        """Closure that yields the CEL value of `expr`."""
        value = self.constant(expr)
        if value is not MISSING:
            return lambda f: value
        if self._metered and is_attribute(expr):
            return plan_attribute(self, expr)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Select) and expr.test_only:
            return self._presence(expr)
        if isinstance(expr, (Ident, Select)):
            path = self.path(expr)
            return self._variable_or_field(expr) if path is None else self._converted(path)
        if isinstance(expr, ListExpr):
            return self._list(expr)
        if isinstance(expr, MapExpr):
            return self._map(expr)
        if isinstance(expr, StructExpr):
            return self._struct(expr)
        if isinstance(expr, Comprehension):
            return comprehension.plan(self, expr)
        raise AssertionError(f"unexpected node {type(expr).__name__}")

    def _converted(self, path: Path) -> Closure:
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

    # --- places in schema-typed JSON

    def path(self, expr: Expr) -> Path | None:
        """Where `expr` points to inside a schema-typed variable, None when it does not."""
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
        if self._metered:
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

    # --- literals

    def _list(self, expr: ListExpr) -> Closure:
        items = [self.plan(item) for item in expr.elements]
        if not expr.optional:
            return self.charge(lambda f: [item(f) for item in items], 10)
        optional = expr.optional

        def build(f: Frame) -> Value:
            result = []
            for at, item in enumerate(items):
                value = item(f)
                if at in optional:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional list element from non-optional value "
                            f"{display(value)}"
                        )
                    if not value.has_value():
                        continue
                    value = value.value
                result.append(value)
            return result

        return self.charge(build, 10)

    def _map(self, expr: MapExpr) -> Closure:
        entries = [(self.plan(e.key), self.plan(e.value), e.optional) for e in expr.entries]

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
            return _make_map(pairs)

        return self.charge(build, 30)

    def _struct(self, expr: StructExpr) -> Closure:
        fields = [(field.name, self.plan(field.value), field.optional) for field in expr.fields]
        name, make = expr.type_name, self._build_struct

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

        return self.charge(build, 40)

    # --- calls

    def _call(self, expr: Call) -> Closure:
        special = _SPECIAL.get(expr.function)
        if special is not None:
            return special(self, expr)
        overloads = self._checked.overloads[expr.id]
        if expr.function in ("or", "orValue") and len(expr.args) == 1 and expr.target is not None:
            return self._optional_or(expr)
        operands = [*([] if expr.target is None else [expr.target]), *expr.args]
        if not self._metered:
            quick = self._quick_call(expr, overloads, operands)
            if quick is not None:
                return quick
        args = [self.plan(operand) for operand in operands]
        implementation = self._implementation(expr, overloads, operands)
        if self._metered:
            if overloads[0].id == "in_list" and len(overloads) == 1 and self._is_plain_set(operands[1]):
                return fast.invoke(implementation, args)
            return _metered_call(implementation, args, expr.function, overloads)
        return fast.invoke(implementation, args)

    def _is_plain_set(self, expr: Expr) -> bool:
        """Whether membership is looked up in constants, which costs nothing."""
        items = self.constant(expr)
        return isinstance(items, list) and all(isinstance(item, (bool, int, float, str)) for item in items)

    def _implementation(
        self, expr: Call, overloads: list[Overload], operands: list[Expr]
    ) -> Callable[..., Value]:
        pattern = self._constant_pattern(expr, operands)
        if pattern is not None:
            return pattern
        if len(overloads) == 1:
            overload = overloads[0]
            if not overload.is_guarded or not any(_is_dynamic(self.type_of(o)) for o in operands):
                return overload.implementation
            return dispatcher(expr.function, overloads)
        return dispatcher(expr.function, self._functions[expr.function].overloads)

    def _constant_pattern(self, expr: Call, operands: list[Expr]) -> Callable[..., Value] | None:
        """Regular expressions known in advance are compiled once."""
        if expr.function not in ("matches", "find", "findAll") or len(operands) < 2:
            return None
        text = self.constant(operands[1])
        if type(text) is not str:
            return None
        try:
            compiled = compile_pattern(text)
        except EvalError as problem:
            raise ProgramError(problem.message) from problem
        search = compiled.search
        if expr.function == "matches":
            return lambda s, _: search(s) is not None if type(s) is str else no_such_overload()
        if expr.function == "find":
            return lambda s, _: m.group() if (m := search(s)) else ""
        return lambda s, _, limit=-1: find_all(compiled, s, limit)

    def _quick_call(self, expr: Call, overloads: list[Overload], operands: list[Expr]) -> Closure | None:
        """Specialised closures for what rules do most."""
        if expr.function in ("_==_", "_!=_"):
            return self._equality(expr)
        if len(overloads) != 1:
            return None
        id = overloads[0].id
        if id in fast.BINARY:
            left = self.plan(operands[0])
            constant = self.constant(operands[1])
            if constant is not MISSING and id in fast.BINARY_CONSTANT:
                return fast.BINARY_CONSTANT[id](left, constant)
            return fast.BINARY[id](left, self.plan(operands[1]))
        if expr.function == "size":
            path = self.path(operands[0])
            inner = self.plan(operands[0]) if path is None else path.get
            return fast.size(inner)
        if id == "logical_not":
            return fast.negation(self.plan(operands[0]))
        if expr.function == "@in":
            return self._membership(operands)
        return None

    def _membership(self, operands: list[Expr]) -> Closure | None:
        path = self.path(operands[1])
        if path is None or path.shape.element is None:
            return None
        element, get, item = path.shape.element, path.get, self.plan(operands[0])
        if path.shape.key is not None:
            return lambda f: item(f) in get(f)
        if element.convert is None:
            return lambda f: contains(get(f), item(f))
        return None

    def _equality(self, expr: Call) -> Closure:
        left, right = expr.args
        wanted = expr.function == "_==_"
        types = (self.type_of(left), self.type_of(right))
        if types[0] == types[1] and types[0].kind in ("int", "string", "bool", "double"):
            a, b = self.plan(left), self.plan(right)
            return fast.equality(a, b, self.constant(right), wanted)
        paths = (self.path(left), self.path(right))
        if paths[0] is not None and paths[1] is not None and paths[0].shape is paths[1].shape:
            first, second, shape = paths[0].get, paths[1].get, paths[0].shape
            return lambda f: structural_equal(shape, first(f), second(f)) is wanted
        a, b = self.plan(left), self.plan(right)
        if wanted:
            return lambda f: equal(a(f), b(f))

        def differs(f: Frame) -> bool:
            x, y = a(f), b(f)
            try:
                return not equal(x, y)
            except EvalError:
                return True

        return differs

    def _optional_or(self, expr: Call) -> Closure:
        assert expr.target is not None
        target, other = self.plan(expr.target), self.plan(expr.args[0])
        unwrap = expr.function == "orValue"

        def choose(f: Frame) -> Value:
            value = target(f)
            if type(value) is not OptionalValue:
                return value
            if value.has_value():
                return value.value if unwrap else value
            return other(f)

        return choose

    # --- operators with their own evaluation

    def _logic(self, expr: Call) -> Closure:
        left, right = expr.args
        run = fast.logic if self.is_bool(left) and self.is_bool(right) else fast.dynamic_logic
        return run(self.plan(left), self.plan(right), stop=expr.function == "_||_")

    def is_bool(self, expr: Expr) -> bool:
        """Whether `expr` can yield nothing but a bool."""
        if self.type_of(expr) != BOOL:
            return False
        if isinstance(expr, Call):
            return expr.function not in ("_[_]", "_?_:_", "orValue", "value", "min", "max")
        return isinstance(expr, (Literal, Comprehension)) or (isinstance(expr, Select) and expr.test_only)

    def _conditional(self, expr: Call) -> Closure:
        condition = self.plan(expr.args[0])
        yes, no = (self._branch(arg) for arg in expr.args[1:])

        def choose(f: Frame) -> Value:
            chosen = condition(f)
            if not isinstance(chosen, bool):
                no_such_overload()
            return yes(f) if chosen else no(f)

        return choose

    def _branch(self, expr: Expr) -> Closure:
        if self._metered and is_attribute(expr) and self.constant(expr) is MISSING:
            return plan_attribute(self, expr, counted=False)
        return self.plan(expr)

    def _index(self, expr: Call) -> Closure:
        path = self.path(expr)
        if path is not None:
            return self._converted(path)
        container, key = self.plan(expr.args[0]), self.plan(expr.args[1])

        def get(f: Frame) -> Value:
            value, k = container(f), key(f)
            if type(value) is OptionalValue:
                return _inside_optional(value, k)
            return index(value, k)

        return get

    def _optional_index(self, expr: Call) -> Closure:
        container, key = self.plan(expr.args[0]), self.plan(expr.args[1])

        def get(f: Frame) -> Value:
            value, k = container(f), key(f)
            if type(value) is OptionalValue:
                return _inside_optional(value, k)
            found = index_or_missing(value, k)
            return OptionalValue.NONE if found is MISSING else OptionalValue(found)

        return get

    def _optional_select(self, expr: Call) -> Closure:
        field = expr.args[1]
        assert isinstance(field, Literal)
        base = self.path(expr.args[0])
        known = None if base is None else base.shape.field(field.value)
        if base is not None and known is not None:
            get, name, convert = base.get, known[0], known[1].convert

            def select(f: Frame) -> Value:
                value = get(f).get(name)
                if value is None:
                    return OptionalValue.NONE
                return OptionalValue(value if convert is None else convert(value))

            return select
        return self._optional_index(expr)


_SPECIAL: Final[dict[str, Callable[[_Planner, Call], Closure]]] = {
    "_&&_": _Planner._logic,
    "_||_": _Planner._logic,
    "_?_:_": _Planner._conditional,
    "_[_]": _Planner._index,
    "_[?_]": _Planner._optional_index,
    "_?._": _Planner._optional_select,
}


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
        try:
            result = implementation(*values)
        except EvalError:
            f[COST] += call_cost(function, overload, values, None)
            raise
        f[COST] += call_cost(function, overload, values, result)
        if f[COST] > f[LIMIT]:
            raise CostLimitExceeded
        return result

    return call


def _select(operand: Closure, field: str) -> Closure:
    def get(f: Frame) -> Value:
        value = operand(f)
        if type(value) is dict:
            found = value.get(field, MISSING)
            if found is MISSING:
                raise EvalError(f"no such key: {field}")
            return found
        if type(value) is OptionalValue:
            return _inside_optional(value, field)
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


def _inside_optional(optional: OptionalValue, key: Value) -> OptionalValue:
    if not optional.has_value():
        return optional
    found = index_or_missing(optional.value, key)
    return OptionalValue.NONE if found is MISSING else OptionalValue(found)


def _make_map(pairs: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
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


def _is_dynamic(t: CelType) -> bool:
    return t.kind in ("dyn", "param", "error") or any(_is_dynamic(param) for param in t.params)
