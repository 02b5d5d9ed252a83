"""Admission policies: which apply to a write, with which parameters.

A policy does nothing until a binding names it. Policies are compiled when they change; a request
looks up those that cover its resource and operation, as with webhooks. What a matching policy then
does is in `validatingpolicy` and `mutatingpolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.metadata import selector_matches
from quarterdeck.errors import QuarterdeckError

from .attributes import Attributes, GroupVersionKind, GroupVersionResource, Host, labels_of
from .matching import Criteria, Match, criteria, is_exempt

_Key = tuple[str, str, str, str]
#: groups of questions about identity and access: a policy about these could lock everybody out
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


class ConfigurationError(QuarterdeckError):
    """A policy or binding that cannot be used for this request; failurePolicy decides."""


class Binding(msgspec.Struct, frozen=True, eq=False):
    """One binding of a policy, compiled."""

    name: str
    policy: str
    criteria: Criteria | None
    param_ref: Mapping[str, Any] | None
    actions: tuple[str, ...]

    def matches(self, attributes: Attributes, host: Host) -> bool:
        return self.criteria is None or self.criteria.match(attributes, host) is not None


def binding(name: str, obj: Mapping[str, Any]) -> Binding:
    spec = obj.get("spec") or {}
    match = spec.get("matchResources")
    return Binding(
        name=name,
        policy=spec.get("policyName") or "",
        criteria=criteria(match, without_rules=True) if match is not None else None,
        param_ref=spec.get("paramRef"),
        actions=tuple(spec.get("validationActions") or ()),
    )


class Policy(Protocol):
    """What the table needs to know of a compiled policy."""

    @property
    def name(self) -> str: ...

    @property
    def criteria(self) -> Criteria: ...

    @property
    def param_kind(self) -> Mapping[str, Any] | None: ...


P = TypeVar("P", bound=Policy)


class Bound(NamedTuple, Generic[P]):
    """A policy with the bindings that put it to use, in order of their names."""

    policy: P
    bindings: tuple[Binding, ...]


class PolicyTable(Generic[P]):
    """The policies of one kind, found by what they cover."""

    def __init__(self, host: Host, compile_policy: Callable[[str, Json], P]) -> None:
        self._host = host
        self._compile = compile_policy
        self._policies: dict[str, P] = {}
        self._bindings: dict[str, Binding] = {}
        self._bound: tuple[Bound[P], ...] = ()
        self._covering: dict[_Key, tuple[Bound[P], ...]] = {}

    def apply_policy(self, name: str, obj: Json | None) -> None:
        if obj is None:
            self._policies.pop(name, None)
        else:
            self._policies[name] = self._compile(name, obj)
        self._rebuild()

    def apply_binding(self, name: str, obj: Json | None) -> None:
        if obj is None:
            self._bindings.pop(name, None)
        else:
            self._bindings[name] = binding(name, obj)
        self._rebuild()

    def covering(self, group: str, resource: str, subresource: str, operation: str) -> tuple[Bound[P], ...]:
        """The bound policies that may match; part of the fast path of every write."""
        if not self._bound:
            return ()
        key = (group, resource, subresource, operation)
        found = self._covering.get(key)
        if found is None:
            found = self._covering[key] = self._find(*key)
        return found

    def _rebuild(self) -> None:
        bindings: dict[str, list[Binding]] = {}
        for name in sorted(self._bindings):
            bindings.setdefault(self._bindings[name].policy, []).append(self._bindings[name])
        self._bound = tuple(
            Bound(self._policies[name], tuple(bindings[name]))
            for name in sorted(self._policies)
            if name in bindings
        )
        self._covering = {}

    def _find(self, group: str, resource: str, subresource: str, operation: str) -> tuple[Bound[P], ...]:
        if is_exempt(group, resource) or group in _REVIEWS:
            return ()
        names = {(group, resource)}
        for served in self._host.equivalents(group, resource, subresource):
            names.add((served.resource.group, served.resource.resource))
        return tuple(
            bound
            for bound in self._bound
            if any(bound.policy.criteria.covers(g, r, subresource, operation) for g, r in names)
        )


def definition_match(policy: Policy, attributes: Attributes, host: Host) -> Match | None:
    """How a policy matches; raises ConfigurationError for what is wrong with the policy itself."""
    try:
        match = policy.criteria.match(attributes, host)
    except status.StatusError as error:
        raise ConfigurationError(f"failed to configure policy: {error.message}") from error
    if match is not None and policy.param_kind is not None and _param_resource(policy, host) is None:
        kind = _kind_of(policy.param_kind)
        shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"  # as Go prints it
        raise ConfigurationError(
            f"failed to configure policy: failed to find resource referenced by paramKind: '{shown}'"
        )
    return match


async def params_of(
    policy: Policy, bound: Binding, attributes: Attributes, host: Host
) -> Sequence[Json | None]:
    """The parameters to evaluate a policy with, one after the other; [None] when it takes none.

    Raises ConfigurationError; an empty result means that there is nothing to evaluate.
    """
    try:
        return await _params(policy, bound.param_ref, attributes, host)
    except _ParamError as error:
        raise ConfigurationError(f"failed to configure binding: {error}") from error


class _ParamError(QuarterdeckError):
    pass


def _kind_of(kind: Mapping[str, Any]) -> GroupVersionKind:
    group, _, version = (kind.get("apiVersion") or "").rpartition("/")
    return GroupVersionKind(group, version, kind.get("kind") or "")


def _param_resource(policy: Policy, host: Host) -> tuple[GroupVersionResource, bool] | None:
    assert policy.param_kind is not None
    kind = policy.param_kind
    return host.kind_of_param(kind.get("apiVersion") or "", kind.get("kind") or "")


async def _params(
    policy: Policy, reference: Mapping[str, Any] | None, attributes: Attributes, host: Host
) -> Sequence[Json | None]:
    if policy.param_kind is None or reference is None:
        return [None]
    resource = _param_resource(policy, host)
    if resource is None:
        raise _ParamError(f"paramKind kind `{_kind_of(policy.param_kind)}` not known")
    kind, is_namespaced = resource
    namespace: str = reference.get("namespace") or ""
    if is_namespaced:
        namespace = namespace or attributes.namespace
        if not namespace:
            raise _ParamError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif namespace:
        raise _ParamError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    name: str = reference.get("name") or ""
    found = await host.params(kind, namespace, name)
    if not name:
        selector = reference.get("selector")
        found = [item for item in found if selector_matches(selector, labels_of(item))]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise _ParamError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [{**policy.param_kind, **item} for item in found]


def namespace_of(attributes: Attributes, host: Host) -> Json | None:
    """`namespaceObject`: the namespace around the object, None for cluster-scoped ones and namespaces."""
    if not attributes.namespace or attributes.is_namespace:
        return None
    namespace = host.cluster.get("", "namespaces", "", attributes.namespace)
    if namespace is None:
        raise status.not_found("namespaces", "", attributes.namespace)
    return namespace
