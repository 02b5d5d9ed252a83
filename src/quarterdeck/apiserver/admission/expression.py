"""Evaluates the expressions of matchConditions and policies; `builtin.access.policyexpression` compiles them.

Composed variables (`variables.x`) are evaluated when first used, and only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.access.policyexpression import Compiled, Composition
from quarterdeck.cel.environment import Program
from quarterdeck.cel.error import CelRuntimeError, EvalError
from quarterdeck.cel.value.value import StructValue, to_python
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

from .access import Access
from .attributes import Attributes, Host
from .matching import Match
from .review import request_facts
from .version import VersionedPair

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
        self._variables = (
            LazyValues(composition.compiled, self._bindings) if composition is not None else None
        )
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
