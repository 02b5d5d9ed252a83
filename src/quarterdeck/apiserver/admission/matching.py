"""Whether a webhook or a policy is meant for a write: rules, selectors and equivalent versions.

Rules are compiled once per configuration change. `Rule.covers` leaves the version and the scope
aside and so can be answered before there is a request; `Criteria.match` is the whole question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.metadata import selector_matches

from .attributes import (
    Attributes,
    GroupVersionKind,
    GroupVersionResource,
    Host,
    labels_of,
)

_EXEMPT_GROUP: Final = "admissionregistration.k8s.io"
_EXEMPT: Final = frozenset(
    {
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)


def is_exempt(group: str, resource: str) -> bool:
    """Configurations of admission are never subject to it, or nobody could remove a broken one."""
    return group == _EXEMPT_GROUP and resource in _EXEMPT


class Selector:
    """A LabelSelector ready to be asked; none selects everything."""

    __slots__ = ("_selector",)

    def __init__(self, selector: Mapping[str, Any] | None) -> None:
        self._selector = selector or {}

    @property
    def is_empty(self) -> bool:
        return not self._selector.get("matchLabels") and not self._selector.get("matchExpressions")

    def matches(self, labels: Mapping[str, str]) -> bool:
        return selector_matches(self._selector, labels)


class MatchRule(msgspec.Struct, frozen=True):
    """A RuleWithOperations, with the resource names of a policy rule."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: frozenset[str]

    def covers(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        """Everything but version, scope and name."""
        return (
            _has(self.operations, operation)
            and _has(self.groups, group)
            and any(name in ("*", resource) and sub in ("*", subresource) for name, sub in self.resources)
        )

    def matches(self, attributes: Attributes, target: GroupVersionResource) -> bool:
        return (
            _has(self.versions, target.version)
            and self.covers(target.group, target.resource, attributes.subresource, attributes.operation)
            and self._in_scope(attributes, target)
        )

    def _in_scope(self, attributes: Attributes, target: GroupVersionResource) -> bool:
        if self.scope == "*":
            return True
        is_namespaced = bool(attributes.namespace) and target != ("", "v1", "namespaces")
        return is_namespaced if self.scope == "Namespaced" else not is_namespaced

    def allows_name(self, name: str) -> bool:
        return not self.names or name in self.names


def _has(items: frozenset[str], wanted: str) -> bool:
    return wanted in items or "*" in items


def rule(document: Mapping[str, Any]) -> MatchRule:
    resources = []
    for text in document.get("resources") or []:
        name, _, subresource = text.partition("/")
        resources.append((name, subresource))
    return MatchRule(
        operations=frozenset(document.get("operations") or ()),
        groups=frozenset(document.get("apiGroups") or ()),
        versions=frozenset(document.get("apiVersions") or ()),
        resources=tuple(resources),
        scope=document.get("scope") or "*",
        names=frozenset(document.get("resourceNames") or ()),
    )


class Match(NamedTuple):
    """The form of the resource that a webhook or policy asked for."""

    resource: GroupVersionResource
    kind: GroupVersionKind


class Criteria:
    """Rules and selectors of a webhook, a policy (matchConstraints) or a binding (matchResources)."""

    __slots__ = ("_excluded", "_is_equivalent", "_namespaces", "_objects", "_rules", "_without_rules")

    def __init__(
        self,
        *,
        rules: Sequence[MatchRule],
        excluded: Sequence[MatchRule] = (),
        namespace_selector: Mapping[str, Any] | None = None,
        object_selector: Mapping[str, Any] | None = None,
        match_policy: str = "Equivalent",
        without_rules: bool = False,
    ) -> None:
        self._rules = tuple(rules)
        self._excluded = tuple(excluded)
        self._namespaces = Selector(namespace_selector)
        self._objects = Selector(object_selector)
        self._is_equivalent = match_policy == "Equivalent"
        #: no rules at all means every resource (bindings), not none (webhooks)
        self._without_rules = without_rules

    def covers(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        """Whether a request for the resource could match, whatever its version and object."""
        if not self._rules:
            return self._without_rules
        return any(rule.covers(group, resource, subresource, operation) for rule in self._rules)

    def match(self, attributes: Attributes, host: Host, current: Json | None = None) -> Match | None:
        """How the request matches, or None. `current` is the object where mutation has changed it.

        Raises StatusError when the namespace whose labels decide does not exist.
        """
        missing: status.StatusError | None = None
        try:
            if not self._in_namespace(attributes, host):
                return None
        except status.StatusError as error:  # matters only if everything else matches
            missing = error
        if not self._has_labels(current or attributes.object, attributes.old_object):
            return None
        if self._excluded and self._find(self._excluded, attributes, host) is not None:
            return None
        if not self._rules and self._without_rules:
            found: Match | None = Match(attributes.gvr, attributes.gvk)
        else:
            found = self._find(self._rules, attributes, host)
        if found is not None and missing is not None:
            raise missing
        return found

    def _in_namespace(self, attributes: Attributes, host: Host) -> bool:
        if self._namespaces.is_empty or (not attributes.namespace and attributes.resource != "namespaces"):
            return True
        return self._namespaces.matches(_namespace_labels(attributes, host))

    def _has_labels(self, *objects: Json | None) -> bool:
        if self._objects.is_empty:
            return True
        return any(obj is not None and self._objects.matches(labels_of(obj)) for obj in objects)

    def _find(self, rules: Sequence[MatchRule], attributes: Attributes, host: Host) -> Match | None:
        requested = attributes.gvr
        for rule in rules:
            if rule.matches(attributes, requested) and rule.allows_name(attributes.name):
                return Match(requested, attributes.gvk)
        if not self._is_equivalent:
            return None
        served = host.equivalents(attributes.group, attributes.resource, attributes.subresource)
        for rule in rules:
            for other in served:
                if (
                    other.resource != requested
                    and rule.matches(attributes, other.resource)
                    and rule.allows_name(attributes.name)
                ):
                    return Match(other.resource, other.kind)
        return None


def criteria(document: Mapping[str, Any] | None, *, without_rules: bool = False) -> Criteria:
    """A MatchResources (`matchConstraints`, `matchResources`)."""
    document = document or {}
    return Criteria(
        rules=[rule(item) for item in document.get("resourceRules") or []],
        excluded=[rule(item) for item in document.get("excludeResourceRules") or []],
        namespace_selector=document.get("namespaceSelector"),
        object_selector=document.get("objectSelector"),
        match_policy=document.get("matchPolicy") or "Equivalent",
        without_rules=without_rules,
    )


def _namespace_labels(attributes: Attributes, host: Host) -> Mapping[str, str]:
    if (
        attributes.resource == "namespaces"
        and not attributes.subresource
        and attributes.operation in ("CREATE", "UPDATE")
    ):
        return labels_of(attributes.object)
    namespace = host.cluster.get("", "namespaces", "", attributes.namespace)
    if namespace is None:
        raise status.not_found("namespaces", "", attributes.namespace)
    return labels_of(namespace)
