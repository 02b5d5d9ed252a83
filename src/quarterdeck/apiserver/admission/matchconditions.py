"""matchConditions: expressions that all have to be true for a webhook or policy to be used.

One false condition decides, whatever the others do; only then errors count, and failurePolicy says
how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.apiserver.builtin.access.policyexpression import Composition, Scope, compile_expression
from quarterdeck.cel.type.celtype import BOOL
from quarterdeck.errors import QuarterdeckError

from .attributes import Attributes, Host
from .expression import CONDITIONS_BUDGET, Activation, Budget, ExpressionError, OutOfBudget
from .matching import Match
from .version import VersionedPair


class ConditionError(QuarterdeckError):
    """Conditions could not be evaluated and failurePolicy is Fail."""


class MatchConditions:
    """The conditions of one webhook or policy, compiled."""

    def __init__(
        self,
        conditions: Sequence[Mapping[str, Any]],
        *,
        ignores_failure: bool,
        has_params: bool = False,
        variables: Composition | None = None,
    ) -> None:
        scope = Scope(params=has_params, authorizer=True)
        self._ignores_failure = ignores_failure
        self._compiled = [
            compile_expression(condition.get("expression", ""), scope, (BOOL,), variables)
            for condition in conditions
        ]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def hold(self, attributes: Attributes, match: Match, pair: VersionedPair, *, host: Host) -> bool:
        """Whether all conditions of a webhook are true; raises ConditionError."""
        return self.hold_in(Activation(attributes, match, pair, host))

    def hold_in(self, activation: Activation) -> bool:
        """Whether all conditions are true for these values; raises ConditionError."""
        errors: list[str] = []
        budget = Budget(CONDITIONS_BUDGET)
        is_false = False
        try:
            for compiled in self._compiled:
                try:
                    is_false = activation.evaluate(compiled, budget) is False or is_false
                except ExpressionError as error:
                    errors.append(str(error))
        except OutOfBudget as error:
            is_false, errors = False, [str(error)]
        if is_false:
            return False
        if not errors:
            return True
        if self._ignores_failure:
            return False
        raise ConditionError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
