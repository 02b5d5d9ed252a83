"""ValidatingAdmissionPolicy: expressions that a write has to satisfy.

Every policy, binding and parameter is evaluated, so that all warnings are given; the first denial in
the order of names is the one reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.access.policyexpression import (
    TEXT_OR_NULL,
    Compiled,
    Composition,
    Scope,
    compile_expression,
)
from quarterdeck.cel.type.celtype import BOOL, STRING
from quarterdeck.wire.turn import in_turns

from .attributes import Attributes, Host
from .expression import Activation, Budget, ExpressionError, OutOfBudget
from .matchconditions import ConditionError
from .policies import Binding, PolicyTable, namespace_of
from .policycall import Call, Failed, PolicyHead, activation_of, calls_of, policy_head
from .version import VersionCache, VersionedPair

_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE: Final = 5 * 1024


class Validation(NamedTuple):
    """One entry of `validations`."""

    expression: Compiled
    message_expression: Compiled | None
    message: str
    reason: str


class ValidatingPolicy(PolicyHead, frozen=True, eq=False):
    """A policy, compiled."""

    validations: tuple[Validation, ...]
    annotations: tuple[Compiled, ...]


def validating_policy(name: str, obj: Mapping[str, Any]) -> ValidatingPolicy:
    spec = obj.get("spec") or {}
    head = policy_head(name, spec)
    scope, composition = head["scope"], head["composition"]
    return ValidatingPolicy(
        **head,
        validations=tuple(_validation(item, scope, composition) for item in spec.get("validations") or []),
        annotations=tuple(
            compile_expression(item.get("valueExpression") or "", scope, TEXT_OR_NULL, composition)
            for item in spec.get("auditAnnotations") or []
        ),
    )


def _validation(item: Mapping[str, Any], scope: Scope, composition: Composition) -> Validation:
    text = item.get("messageExpression") or ""
    narrow = scope._replace(authorizer=False)
    return Validation(
        expression=compile_expression(item.get("expression") or "", scope, (BOOL,), composition),
        message_expression=compile_expression(text, narrow, (STRING,), composition) if text else None,
        message=(item.get("message") or "").strip(),
        reason=item.get("reason") or "Invalid",
    )


class _Denial(NamedTuple):
    policy: str
    binding: str
    message: str
    reason: str = "Invalid"

    def text(self) -> str:
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{bound} denied request: {self.message}"


class ValidatingPolicies:
    """All validating policies of a server."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.table: PolicyTable[ValidatingPolicy] = PolicyTable(host, validating_policy)

    async def validate(self, attributes: Attributes) -> None:
        """Evaluate what matches; raises StatusError when a policy denies the write."""
        bound = self.table.covering(
            attributes.group, attributes.resource, attributes.subresource, attributes.operation
        )
        if not bound:
            return
        denials: list[_Denial] = []
        versions = VersionCache(attributes, self._host)
        for policy, bindings in bound:
            failed = _recorder(policy, denials)
            for call in await calls_of(policy, bindings, attributes, self._host, failed):
                pair = await versions.get(call.match.kind)
                namespace = namespace_of(attributes, self._host)
                outcome = partial(_outcome, call, attributes, pair, self._host, namespace)
                denials += self._decide(call, attributes, *await in_turns(outcome))
        if denials:
            raise _refusal(attributes, denials[0])

    def _decide(
        self,
        call: Call[ValidatingPolicy],
        attributes: Attributes,
        failures: list[tuple[str, str]],
        broken: list[str],
    ) -> list[_Denial]:
        """The denials that follow from one evaluation; warnings are given on the way."""
        policy, bound = call.policy, call.binding
        denials: list[_Denial] = []
        for message, reason in failures:
            if "Deny" in bound.actions:
                denials.append(_Denial(policy.name, bound.name, message, reason))
            if "Warn" in bound.actions:
                attributes.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' "
                    f"with binding '{bound.name}': {message}"
                )
        denials += [_Denial(policy.name, bound.name, text) for text in broken]
        return denials


def _recorder(policy: ValidatingPolicy, denials: list[_Denial]) -> Failed:
    def failed(bound: Binding | None, why: str) -> None:
        if not policy.ignores_failure:
            denials.append(_Denial(policy.name, bound.name if bound else "", why))

    return failed


def _outcome(
    call: Call[ValidatingPolicy],
    attributes: Attributes,
    pair: VersionedPair,
    host: Host,
    namespace: Json | None,
) -> tuple[list[tuple[str, str]], list[str]]:
    """(message, reason) of every validation that failed, and the errors of audit annotations."""
    policy = call.policy
    activation = activation_of(call, attributes, pair, host, namespace)
    if policy.conditions:
        try:
            if not policy.conditions.hold_in(activation):
                return [], []
        except ConditionError as error:
            return [(str(error), "Invalid")], []
    try:
        failures = _failures(policy, activation, Budget())
        # annotations have a budget of their own
        errors = _annotation_errors(policy, activation, Budget())
    except OutOfBudget as error:
        return [] if policy.ignores_failure else [(str(error), "Invalid")], []
    return failures, [] if policy.ignores_failure else errors


def _failures(policy: ValidatingPolicy, activation: Activation, budget: Budget) -> list[tuple[str, str]]:
    """(message, reason) of every validation that failed; raises OutOfBudget."""
    results: list[bool | ExpressionError] = []
    for validation in policy.validations:
        try:
            results.append(activation.evaluate(validation.expression, budget) is True)
        except ExpressionError as error:
            results.append(error)
    failures: list[tuple[str, str]] = []
    out_of_budget = ""
    for validation, result in zip(policy.validations, results, strict=True):
        message = ""
        try:  # even those of validations that hold cost something
            message = _message(validation, activation, budget) if not out_of_budget else ""
        except OutOfBudget as error:
            out_of_budget = f"failed messageExpression: {error}"
        if isinstance(result, ExpressionError) or out_of_budget:
            if not policy.ignores_failure:
                failures.append(
                    (str(result) if isinstance(result, ExpressionError) else out_of_budget, "Invalid")
                )
        elif not result:
            failures.append((message, validation.reason))
    return failures


def _message(validation: Validation, activation: Activation, budget: Budget) -> str:
    """messageExpression if it gives a single line of text, else message, else the expression."""
    if validation.message_expression is not None:
        try:
            value = activation.evaluate(validation.message_expression, budget)
        except ExpressionError:
            value = None
        text = value.strip() if isinstance(value, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.expression.source.strip()}"


def _annotation_errors(policy: ValidatingPolicy, activation: Activation, budget: Budget) -> list[str]:
    """There is no audit log to annotate; an annotation that cannot be computed still denies."""
    errors: list[str] = []
    for annotation in policy.annotations:
        try:
            activation.evaluate(annotation, budget)
        except ExpressionError as error:
            errors.append(str(error))
    return errors


def _refusal(attributes: Attributes, denial: _Denial) -> status.StatusError:
    text = denial.text()
    forbidden = attributes.forbidden(text)
    details = {**(forbidden.details or {}), "causes": [{"message": text}]}
    return status.StatusError(
        _CODES.get(denial.reason, 422), forbidden.message, reason=denial.reason, details=details
    )
