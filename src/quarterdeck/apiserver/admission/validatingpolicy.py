"""ValidatingAdmissionPolicy: expressions that a write has to satisfy.

Every policy, binding and parameter is evaluated, so that all warnings are given; the first denial in
the order of names is the one reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.cel.types import BOOL, STRING

from .attributes import Attributes, Host
from .expression import (
    TEXT_OR_NULL,
    Activation,
    Compiled,
    Composition,
    ExpressionError,
    Scope,
    compile_expression,
)
from .matchconditions import ConditionError, MatchConditions
from .matching import Criteria, Match, criteria
from .policies import (
    Binding,
    ConfigurationError,
    PolicyTable,
    definition_match,
    namespace_of,
    params_of,
)
from .version import VersionCache, VersionedPair

Json = dict[str, Any]

_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE: Final = 5 * 1024


class Validation(NamedTuple):
    """One entry of `validations`."""

    expression: Compiled
    message_expression: Compiled | None
    message: str
    reason: str


class ValidatingPolicy(msgspec.Struct, frozen=True, eq=False):
    """A policy, compiled."""

    name: str
    criteria: Criteria
    param_kind: Mapping[str, Any] | None
    ignores_failure: bool
    conditions: MatchConditions
    composition: Composition
    validations: tuple[Validation, ...]
    annotations: tuple[Compiled, ...]


def validating_policy(name: str, obj: Mapping[str, Any]) -> ValidatingPolicy:
    spec = obj.get("spec") or {}
    ignores = spec.get("failurePolicy") == "Ignore"
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    composition = Composition(spec.get("variables") or [], scope)
    return ValidatingPolicy(
        name=name,
        criteria=criteria(spec.get("matchConstraints")),
        param_kind=spec.get("paramKind"),
        ignores_failure=ignores,
        conditions=MatchConditions(
            spec.get("matchConditions") or [],
            ignores_failure=ignores,
            has_params=scope.params,
            variables=composition,
        ),
        composition=composition,
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
            denials += await self._evaluate(policy, bindings, attributes, versions)
        if denials:
            raise _refusal(attributes, denials[0])

    async def _evaluate(
        self,
        policy: ValidatingPolicy,
        bindings: Sequence[Binding],
        attributes: Attributes,
        versions: VersionCache,
    ) -> list[_Denial]:
        denials: list[_Denial] = []
        try:
            match = definition_match(policy, attributes, self._host)
        except ConfigurationError as error:
            return [] if policy.ignores_failure else [_Denial(policy.name, "", str(error))]
        if match is None:
            return denials
        for bound in bindings:
            try:
                if not _binding_matches(bound, attributes, self._host):
                    continue
                params = params_of(policy, bound, attributes, self._host)
            except ConfigurationError as error:
                if not policy.ignores_failure:
                    denials.append(_Denial(policy.name, bound.name, str(error)))
                continue
            if not params:
                continue
            pair = await versions.get(match.kind)
            for param in params:
                denials += self._decide(policy, bound, attributes, match, pair, param)
        return denials

    def _decide(
        self,
        policy: ValidatingPolicy,
        bound: Binding,
        attributes: Attributes,
        match: Match,
        pair: VersionedPair,
        param: Json | None,
    ) -> list[_Denial]:
        """The denials of one evaluation; warnings are given on the way."""
        activation = Activation(
            attributes,
            match,
            pair,
            self._host,
            params=param,
            namespace=namespace_of(attributes, self._host),
            composition=policy.composition,
        )
        denials: list[_Denial] = []
        failures, broken = _outcome(policy, activation)
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


def _binding_matches(bound: Binding, attributes: Attributes, host: Host) -> bool:
    try:
        return bound.matches(attributes, host)
    except status.StatusError as error:
        raise ConfigurationError(f"failed to configure binding: {error.message}") from error


def _outcome(policy: ValidatingPolicy, activation: Activation) -> tuple[list[tuple[str, str]], list[str]]:
    """(message, reason) of every validation that failed, and the errors of audit annotations."""
    if policy.conditions:
        try:
            if not policy.conditions.hold_in(activation):
                return [], []
        except ConditionError as error:
            return [(str(error), "Invalid")], []
    failures: list[tuple[str, str]] = []
    for validation in policy.validations:
        try:
            if activation.evaluate(validation.expression) is not True:
                failures.append((_message(validation, activation), validation.reason))
        except ExpressionError as error:
            if not policy.ignores_failure:
                failures.append((str(error), "Invalid"))
    return failures, [] if policy.ignores_failure else _annotation_errors(policy, activation)


def _message(validation: Validation, activation: Activation) -> str:
    """messageExpression if it gives a single line of text, else message, else the expression."""
    if validation.message_expression is not None:
        try:
            value = activation.evaluate(validation.message_expression)
        except ExpressionError:
            value = None
        text = value.strip() if isinstance(value, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.expression.source.strip()}"


def _annotation_errors(policy: ValidatingPolicy, activation: Activation) -> list[str]:
    """There is no audit log to annotate; an annotation that cannot be computed still denies."""
    errors: list[str] = []
    for annotation in policy.annotations:
        try:
            activation.evaluate(annotation)
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
