"""What validating and mutating policies have in common: their head, and the calls a request makes of them.

A call is one policy with one binding and one parameter. What is done with it is in `validatingpolicy` and
`mutatingpolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.access.policyexpression import Composition, Scope

from .attributes import Attributes, Host
from .expression import Activation
from .matchconditions import MatchConditions
from .matching import Criteria, Match, criteria
from .policies import Binding, ConfigurationError, P, definition_match, params_of
from .version import VersionedPair

#: told what is wrong with a policy, or with one of its bindings
Failed = Callable[[Binding | None, str], None]


class PolicyHead(msgspec.Struct, frozen=True, eq=False):
    """A policy without what it is for, compiled."""

    name: str
    criteria: Criteria
    param_kind: Mapping[str, Any] | None
    ignores_failure: bool
    scope: Scope
    composition: Composition
    conditions: MatchConditions


def policy_head(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `PolicyHead`."""
    ignores = spec.get("failurePolicy") == "Ignore"
    scope = Scope(params=spec.get("paramKind") is not None, authorizer=True)
    composition = Composition(spec.get("variables") or [], scope)
    conditions = MatchConditions(
        spec.get("matchConditions") or [],
        ignores_failure=ignores,
        has_params=scope.params,
        variables=composition,
    )
    return {
        "name": name,
        "criteria": criteria(spec.get("matchConstraints")),
        "param_kind": spec.get("paramKind"),
        "ignores_failure": ignores,
        "scope": scope,
        "composition": composition,
        "conditions": conditions,
    }


class Call(NamedTuple, Generic[P]):
    """One policy with one binding and one parameter, ready to run."""

    policy: P
    binding: Binding
    match: Match
    param: Json | None


async def calls_of(
    policy: P, bindings: Sequence[Binding], attributes: Attributes, host: Host, failed: Failed
) -> list[Call[P]]:
    """The calls of a policy for a request; none where something is wrong with it."""
    try:
        match = definition_match(policy, attributes, host)
    except ConfigurationError as error:
        failed(None, str(error))
        return []
    if match is None:
        return []
    calls: list[Call[P]] = []
    for bound in bindings:
        try:
            if bound.matches(attributes, host):
                params = await params_of(policy, bound, attributes, host)
                calls += [Call(policy, bound, match, param) for param in params]
        except ConfigurationError as error:
            failed(bound, str(error))
        except status.StatusError as error:
            failed(bound, f"failed to configure binding: {error.message}")
    return calls


def activation_of(
    call: Call[Any], attributes: Attributes, pair: VersionedPair, host: Host, namespace: Json | None
) -> Activation:
    """What the expressions of a call see; the policy is one with a `PolicyHead`."""
    return Activation(
        attributes,
        call.match,
        pair,
        host,
        params=call.param,
        namespace=namespace,
        composition=call.policy.composition,
    )
