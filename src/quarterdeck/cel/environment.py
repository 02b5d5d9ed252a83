"""Compiling expressions against declared variables, and the compiled program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from quarterdeck.cel.check.checker import Checked, Names, check
from quarterdeck.cel.check.validation import validate
from quarterdeck.cel.cost.static import estimate_cost
from quarterdeck.cel.declaration import Function, merge
from quarterdeck.cel.error import CelCompileError, CelRuntimeError, EvalError
from quarterdeck.cel.estimate import Sizer
from quarterdeck.cel.evaluation.evaluator import Plan, plan
from quarterdeck.cel.evaluation.frame import COST, new_frame
from quarterdeck.cel.library import (
    authorizer as authorizer_library,
)
from quarterdeck.cel.library import (
    list as list_library,
)
from quarterdeck.cel.library import (
    mutation,
    named_format,
    network,
    optional,
    quantity,
    regex,
    semver,
    standard,
    string,
    url,
)
from quarterdeck.cel.recursion import stack_room
from quarterdeck.cel.syntax.parser import parse
from quarterdeck.cel.syntax.tree import depth
from quarterdeck.cel.type.celtype import (
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
    Structs,
    is_optional,
    list_type,
    map_type,
    opaque_type,
    type_type,
)
from quarterdeck.cel.type.schema import Shape
from quarterdeck.cel.value.value import OptionalValue, StructValue, Value, to_python

_DEEP: Final = 40
_TYPES: Final = {
    t.name: type_type(t)
    for t in (
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        INT,
        NULL,
        STRING,
        TIMESTAMP,
        UINT,
        TYPE,
        list_type(DYN),
        map_type(DYN, DYN),
        opaque_type("optional_type"),
        network.IP,
        network.CIDR,
    )
}


class Program:
    """A compiled expression; reusable and safe to share between threads."""

    __slots__ = (
        "_checked",
        "_cost",
        "_deep",
        "_environment",
        "_metered",
        "_quick",
        "expression",
        "result_type",
        "uses",
    )

    def __init__(self, expression: str, checked: Checked, environment: Environment) -> None:
        self.expression = expression
        self.result_type: CelType = checked.types[checked.root.id]
        self.uses = frozenset(checked.uses)
        self._checked = checked
        self._environment = environment
        self._deep = depth(checked.root) > _DEEP
        with stack_room(self._deep):
            self._quick = environment.plan(checked, metered=False)
        self._metered: Plan | None = None
        self._cost: tuple[int, int] | None = None

    def evaluate(self, bindings: Mapping[str, Any], *, cost_limit: int | None = 10_000_000) -> Value:
        """Value of the expression as plain Python.

        `bindings` hold plain JSON for schema-typed variables. Raises CelRuntimeError when evaluation fails or
        would cost more than `cost_limit` (None: no limit).
        """
        if cost_limit is None or self.estimate_cost()[1] <= cost_limit:
            return to_python(self.evaluate_quick(bindings))
        return to_python(self.evaluate_metered(bindings, cost_limit)[0])

    def evaluate_quick(self, bindings: Mapping[str, Any]) -> Value:
        """Value without its cost: for expressions that are known to be cheap."""
        return self._run(self._quick, bindings, 0)[0]

    def evaluate_metered(self, bindings: Mapping[str, Any], cost_limit: int) -> tuple[Value, int]:
        """Value and exact cost; CostLimitExceeded as soon as the limit is passed."""
        if self._metered is None:
            with stack_room(self._deep):
                self._metered = self._environment.plan(self._checked, metered=True)
        return self._run(self._metered, bindings, cost_limit)

    def _run(self, plan: Plan, bindings: Mapping[str, Any], limit: int) -> tuple[Value, int]:
        frame = new_frame(plan.size, limit)
        for name, slot, convert in plan.slots:
            try:
                value = bindings[name]
            except KeyError:
                raise EvalError(f"no such attribute(s): {name}") from None
            if convert is not None and value.has_value():
                value = OptionalValue(convert(value.value))
            frame[slot] = value
        run = plan.run
        try:
            if self._deep:
                with stack_room(True):
                    value = run(frame)
            else:
                value = run(frame)
        except CelRuntimeError as problem:
            problem.cost = frame[COST]
            raise
        except RecursionError as problem:
            raise CelRuntimeError("expression nests too deeply to be evaluated") from problem
        return value, frame[COST]

    def estimate_cost(self) -> tuple[int, int]:
        """Least and most an evaluation can cost."""
        if self._cost is None:
            with stack_room(self._deep):
                self._cost = estimate_cost(self._checked, self._environment.sizer)
        return self._cost


class Environment:
    """Variables, types and functions that expressions may use.

    `types` are message types that literals may construct (`MutationTypes` for mutating policies); `libraries`
    are added to those Kubernetes 1.36 always has; `authorizer` declares the variable of that name.

    >>> Environment({"n": INT}).compile("n + 1 > 2").evaluate({"n": 2})
    True
    """

    def __init__(
        self,
        variables: Mapping[str, CelType],
        *,
        types: Structs | None = None,
        libraries: Iterable[Iterable[Function]] = (),
        authorizer: bool = False,
    ) -> None:
        self._variables = dict(variables)
        if authorizer:
            self._variables["authorizer"] = authorizer_library.AUTHORIZER
            self._variables["authorizer.requestResource"] = authorizer_library.RESOURCE_CHECK
        extra = [*libraries]
        if types is not None:
            extra.append(mutation.functions())
        self._functions = merge([_default_functions(), *extra]) if extra else _default_table()
        self._names = Names(self._variables, _TYPES, self._functions, types or Structs())
        self.sizer = Sizer(_shapes(self._variables))

    def compile(self, expression: str) -> Program:
        """Parse, check and plan; CelCompileError with all problems found."""
        try:
            root, source = parse(expression)
            with stack_room(depth(root) > _DEEP):
                checked, issues = check(root, self._names)
                if not issues:
                    issues = validate(checked)
            if issues:
                raise CelCompileError(source.render(issues))
            return Program(expression, checked, self)
        except RecursionError as problem:
            raise CelCompileError("ERROR: <input>:-1:0: max recursion depth exceeded") from problem

    def plan(self, checked: Checked, *, metered: bool) -> Plan:
        """Closures for a checked tree."""
        return plan(checked, self._functions, self._variables, StructValue, metered=metered)


def _shapes(variables: Mapping[str, CelType]) -> dict[str, Shape]:
    shapes = {}
    for name, t in variables.items():
        if is_optional(t):
            t = t.params[0]
        if t.shape is not None:
            shapes[name] = t.shape
    return shapes


@lru_cache(maxsize=1)
def _default_functions() -> tuple[Function, ...]:
    return tuple(
        function
        for library in (
            standard,
            url,
            regex,
            list_library,
            authorizer_library,
            optional,
            quantity,
            string,
            network,
            named_format,
            semver,
        )
        for function in library.functions()
    )


@lru_cache(maxsize=1)
def _default_table() -> Mapping[str, Function]:
    return merge([_default_functions()])
