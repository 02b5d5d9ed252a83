"""Expressions of matchConditions and policies: what they may name, and evaluating them.

An expression is compiled once. One that does not compile is kept with its error, because what was
stored by an earlier version must fail when it is used, not when it is read. Composed variables
(`variables.x`) are evaluated when first used, and only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from quarterdeck.cel.check.types import (
    BOOL,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    CelType,
    list_type,
    map_type,
    object_type,
)
from quarterdeck.cel.environment import Environment, Program
from quarterdeck.cel.error import CelCompileError, CelRuntimeError, EvalError, ProgramError
from quarterdeck.cel.library import mutation
from quarterdeck.cel.value.value import StructValue, to_python
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

from .access import Access
from .attributes import Attributes, Host
from .matching import Match
from .review import request_facts
from .version import VersionedPair

Json = dict[str, Any]

#: what one expression may cost
_COST_LIMIT: Final = 1_000_000
#: expressions that surely cost no more are not metered: the most they may cost is what they are charged
_CHEAP: Final = 10_000
#: values of up to this many parts or characters cost no more than their expression
_SMALL: Final = 10_000
#: what the expressions of one policy, binding and parameter may cost together, and those of matchConditions
POLICY_BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = 2_500_000
_NAMESPACE_KEYS: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)


class ExpressionError(QuarterdeckError):
    """An evaluation that failed; the text names the expression."""


class OutOfBudget(QuarterdeckError):
    """The expressions of one call cost too much together."""

    def __init__(self) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        )


class Budget:
    """What the expressions of one call may still cost."""

    def __init__(self, amount: int = POLICY_BUDGET) -> None:
        self._left = amount

    def spend(self, cost: int) -> None:
        """Raises OutOfBudget when there is not that much left."""
        if cost > self._left:
            raise OutOfBudget
        self._left -= cost


class Scope(NamedTuple):
    """Which optional names expressions of a place may use."""

    params: bool = False
    authorizer: bool = False
    patches: bool = False


class Compiled(NamedTuple):
    """The outcome of compiling: a program, or why there is none."""

    source: str
    program: Program | None
    error: str


def _struct(name: str, /, **fields: CelType) -> CelType:
    return object_type(name, fields)


def _request_type() -> CelType:
    kind = _struct("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
    resource = _struct("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
    user = _struct(
        "kubernetes.UserInfo",
        username=STRING,
        uid=STRING,
        groups=list_type(STRING),
        extra=map_type(STRING, list_type(STRING)),
    )
    return _struct(
        "kubernetes.AdmissionRequest",
        kind=kind,
        resource=resource,
        subResource=STRING,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=STRING,
        name=STRING,
        namespace=STRING,
        operation=STRING,
        userInfo=user,
        dryRun=BOOL,
        options=DYN,
    )


def _namespace_type() -> CelType:
    condition = _struct(
        "kubernetes.NamespaceCondition",
        status=STRING,
        type=STRING,
        lastTransitionTime=TIMESTAMP,
        message=STRING,
        reason=STRING,
    )
    texts = map_type(STRING, STRING)
    metadata = _struct(
        "kubernetes.NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=texts,
        annotations=texts,
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=list_type(STRING),
    )
    return _struct(
        "kubernetes.Namespace",
        metadata=metadata,
        spec=_struct("kubernetes.NamespaceSpec", finalizers=list_type(STRING)),
        status=_struct("kubernetes.NamespaceStatus", conditions=list_type(condition), phase=STRING),
    )


_REQUEST: Final = _request_type()
_NAMESPACE: Final = _namespace_type()
OBJECT: Final = object_type("Object")
JSON_PATCHES: Final = list_type(mutation.JSON_PATCH)
#: how upstream writes the types of an audit annotation
TEXT_OR_NULL: Final = (STRING, NULL)


def _declarations(scope: Scope, variables: CelType | None) -> dict[str, CelType]:
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": _NAMESPACE, "request": _REQUEST}
    if scope.params:
        declared["params"] = DYN
    if variables is not None:
        declared["variables"] = variables
    return declared


@lru_cache(maxsize=16)
def _plain_environment(scope: Scope) -> Environment:
    return _environment(scope, None)


def _environment(scope: Scope, variables: CelType | None) -> Environment:
    return Environment(
        _declarations(scope, variables),
        types=mutation.MutationTypes() if scope.patches else None,
        authorizer=scope.authorizer,
    )


def compile_expression(
    source: str, scope: Scope, returns: Sequence[CelType], variables: Composition | None = None
) -> Compiled:
    """Compile and check the result type; problems end up in `error`, in upstream's words."""
    environment = _plain_environment(scope) if variables is None else variables.environment(scope)
    try:
        program = environment.compile(source)
    except ProgramError as error:
        return Compiled(source, None, f"program instantiation failed: {error.message}")
    except CelCompileError as error:
        return Compiled(source, None, f"compilation failed: {error.message}")
    if returns and program.result_type not in returns:
        return Compiled(source, None, _wrong_type(returns, program.result_type))
    return Compiled(source, program, "")


def _wrong_type(returns: Sequence[CelType], got: CelType) -> str:
    names = ["null_type" if item == NULL else str(item) for item in returns]
    wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    shown = "null_type" if got == NULL else str(got)
    return f"must evaluate to {wanted} but got {shown}"


class Composition:
    """The `variables` of a policy, each seeing those before it."""

    def __init__(self, variables: Sequence[Mapping[str, Any]], scope: Scope) -> None:
        self.compiled: dict[str, Compiled] = {}
        self._fields: dict[str, CelType] = {}
        self._environments: dict[Scope, Environment] = {}
        for variable in variables:
            self.add(variable.get("name", ""), variable.get("expression", ""), scope)

    def add(self, name: str, source: str, scope: Scope) -> Compiled:
        """Declare one more variable; expressions compiled from now on may use it."""
        compiled = compile_expression(source, scope, (), self)
        self.compiled[name] = compiled
        self._fields[name] = _declared_type(compiled.program.result_type) if compiled.program else DYN
        self._environments = {}
        return compiled

    def environment(self, scope: Scope) -> Environment:
        found = self._environments.get(scope)
        if found is None:
            declared = object_type("kubernetes.variables", dict(self._fields))
            found = self._environments[scope] = _environment(scope, declared)
        return found

    def values(self, bindings: Mapping[str, Any]) -> LazyValues:
        """The variables for one evaluation."""
        return LazyValues(self.compiled, bindings)


def _declared_type(inferred: CelType) -> CelType:
    """Upstream carries scalar, list and map types over to later expressions, nothing else."""
    if inferred.kind in ("list", "map"):
        return CelType(inferred.kind, inferred.name, tuple(_declared_type(item) for item in inferred.params))
    if inferred.kind in ("struct", "opaque", "type", "param", "error"):
        return DYN
    return inferred


class LazyValues(Mapping[str, Any]):
    """Composed variables, evaluated when first asked for; each is paid for at once."""

    def __init__(self, compiled: Mapping[str, Compiled], bindings: Mapping[str, Any]) -> None:
        self._compiled = compiled
        self._bindings = bindings
        self._known: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self.budget = Budget(0)

    def __getitem__(self, name: str) -> Any:
        if name in self._failed:
            raise EvalError(self._failed[name])
        if name not in self._known:
            try:
                self._known[name] = self._evaluate(name, self._compiled[name])
            except EvalError as error:
                self._failed[name] = error.message
                raise
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._compiled)

    def __len__(self) -> int:
        return len(self._compiled)

    def _evaluate(self, name: str, compiled: Compiled) -> Any:
        quoted = gostyle.quote(name)
        if compiled.program is None:
            raise EvalError(f"composited variable {quoted} fails to compile: {compiled.error}")
        try:
            value, cost = _evaluate(compiled.program, self._bindings)
        except CelRuntimeError as error:
            self.budget.spend(error.cost)
            raise EvalError(f"composited variable {quoted} fails to evaluate: {error.message}") from error
        self.budget.spend(max(cost, _price_of_keeping(value)))
        return value


def _price_of_keeping(value: Any) -> int:
    """What the memory of a large value costs, however it came about."""
    if isinstance(value, (str, bytes)):
        return (len(value) - _SMALL) // 10
    return len(value) - _SMALL if isinstance(value, (list, dict)) else 0


class Activation:
    """The values that the expressions of one call see."""

    def __init__(
        self,
        attributes: Attributes,
        match: Match,
        pair: VersionedPair,
        host: Host,
        *,
        params: Json | None = None,
        namespace: Json | None = None,
        composition: Composition | None = None,
    ) -> None:
        access = Access(attributes, host)
        self._bindings: dict[str, Any] = {
            "object": pair.object,
            "oldObject": pair.old_object,
            "request": {
                **request_facts(attributes, match),
                "dryRun": attributes.dry_run,
                "options": attributes.options,
            },
            "params": params,
            "namespaceObject": _visible_namespace(namespace),
            "authorizer": access.authorizer(),
            "authorizer.requestResource": access.request_resource(),
        }
        self._variables = composition.values(self._bindings) if composition is not None else None
        if self._variables is not None:
            self._bindings["variables"] = StructValue("kubernetes.variables", self._variables)

    def evaluate(self, compiled: Compiled, budget: Budget) -> Any:
        """The value of an expression; raises ExpressionError and OutOfBudget."""
        if compiled.program is None:
            raise ExpressionError(f"compilation error: {compiled.error}")
        if self._variables is not None:
            self._variables.budget = budget
        try:
            value, cost = _evaluate(compiled.program, self._bindings)
            budget.spend(cost)
            return to_python(value)
        except CelRuntimeError as error:
            budget.spend(error.cost)
            raise ExpressionError(
                f"expression '{compiled.source}' resulted in error: {error.message}"
            ) from error


def _evaluate(program: Program, bindings: Mapping[str, Any]) -> tuple[Any, int]:
    """Value and cost of an expression."""
    most = program.estimate_cost()[1]
    if most <= _CHEAP:
        return program.evaluate_quick(bindings), most
    return program.evaluate_metered(bindings, _COST_LIMIT)


def _visible_namespace(namespace: Json | None) -> Json | None:
    if namespace is None:
        return None
    metadata = namespace.get("metadata") or {}
    return {
        "metadata": {key: metadata[key] for key in _NAMESPACE_KEYS if key in metadata},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }
