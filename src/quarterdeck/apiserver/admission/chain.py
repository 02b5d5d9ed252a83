"""The admission chain: everything that may change or refuse a write before it is stored.

    mutating:   plugins, MutatingAdmissionPolicy, MutatingAdmissionWebhook
    validating: plugins, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook, ResourceQuota

Configurations of admission themselves are exempt; only their expressions are compiled.

When a policy or webhook changed the object, the mutating part runs once more, for the plugins
and for those calls that asked for it. Configurations reach the chain through `apply_change`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply import managed
from quarterdeck.apiserver.auth.user import UserInfo, node_identity
from quarterdeck.apiserver.webhookclient import WebhookClient

from .attributes import Attributes, Host, metadata_text
from .matching import is_exempt
from .mutatingpolicy import MutatingPolicies
from .plugin import FOR_TESTS, Plugin, plugins
from .plugin.base import Key
from .plugin.catalog import (
    MUTATING_POLICY,
    MUTATING_WEBHOOK,
    RESOURCE_QUOTA,
    VALIDATING_POLICY,
    VALIDATING_WEBHOOK,
)
from .plugin.podsecurity import PodSecurityConfiguration
from .quota import QuotaAdmission, Quotas
from .validatingpolicy import ValidatingPolicies
from .webhooks import Webhooks

_BROKEN_OWNERSHIP: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
    "mutating admission controller; please fix your requests"
)
_NAMESPACE_CHANGED: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


#: whose configurations a resource holds
_PLUGIN_OF: Final = {
    "mutatingwebhookconfigurations": MUTATING_WEBHOOK,
    "validatingwebhookconfigurations": VALIDATING_WEBHOOK,
    "mutatingadmissionpolicies": MUTATING_POLICY,
    "mutatingadmissionpolicybindings": MUTATING_POLICY,
    "validatingadmissionpolicies": VALIDATING_POLICY,
    "validatingadmissionpolicybindings": VALIDATING_POLICY,
}


class _Plan(NamedTuple):
    """Who looks at one kind of write."""

    is_needed: bool
    mutating: tuple[Plugin, ...]
    validating: tuple[Plugin, ...]


class AdmissionChain:
    """Admission of one server."""

    def __init__(
        self,
        host: Host,
        client: WebhookClient,
        quotas: Quotas | None = None,
        enabled: Collection[str] = FOR_TESTS,
        pod_security: PodSecurityConfiguration | None = None,
    ) -> None:
        """`enabled` names the plugins that run. Without `quotas` nothing is limited."""
        self._plugins = plugins(enabled, host.authorize, pod_security)
        self._webhooks = Webhooks(host, client)
        self._mutating_policies = MutatingPolicies(host)
        self._validating_policies = ValidatingPolicies(host)
        self._quota = QuotaAdmission(quotas) if quotas is not None and RESOURCE_QUOTA in enabled else None
        self._enabled = frozenset(enabled)
        self._plans: dict[tuple[str, str, str, str, bool], _Plan] = {}

    def apply_change(self, resource: str, name: str, obj: Json | None) -> None:
        """A configuration of admission was stored, or is gone (None)."""
        if _PLUGIN_OF.get(resource) not in self._enabled:
            return
        match resource:
            case "mutatingwebhookconfigurations":
                self._webhooks.mutating.apply_change(name, obj)
            case "validatingwebhookconfigurations":
                self._webhooks.validating.apply_change(name, obj)
            case "mutatingadmissionpolicies":
                self._mutating_policies.table.apply_policy(name, obj)
            case "mutatingadmissionpolicybindings":
                self._mutating_policies.table.apply_binding(name, obj)
            case "validatingadmissionpolicies":
                self._validating_policies.table.apply_policy(name, obj)
            case "validatingadmissionpolicybindings":
                self._validating_policies.table.apply_binding(name, obj)
        self._plans = {}

    def apply_quota(self, namespace: str, name: str, obj: Json | None) -> None:
        """A quota was stored, or is gone (None)."""
        if self._quota is not None and self._quota.apply_change(namespace, name, obj):
            self._plans = {}

    def needs_admission(
        self, group: str, resource: str, subresource: str, operation: str, user: UserInfo
    ) -> bool:
        """Whether a write has to pass the chain at all; one lookup unless configurations changed."""
        return self._plan((group, resource, subresource, operation), user).is_needed

    def _plan(self, key: Key, user: UserInfo) -> _Plan:
        is_node = node_identity(user) is not None
        plan = self._plans.get((*key, is_node))
        if plan is None:
            plan = self._plans[(*key, is_node)] = self._make_plan(key, is_node)
        return plan

    def _make_plan(self, key: Key, is_node: bool) -> _Plan:
        group, resource, _, _ = key
        if is_exempt(group, resource):
            return _Plan(False, (), ())
        asked = [plugin for plugin in self._plugins if is_node or not plugin.only_nodes]
        mutating = tuple(plugin for plugin in asked if key in plugin.mutates)
        validating = tuple(plugin for plugin in asked if key in plugin.validates)
        is_needed = bool(
            mutating
            or validating
            or self._webhooks.mutating.covering(*key)
            or self._webhooks.validating.covering(*key)
            or self._mutating_policies.table.covering(*key)
            or self._validating_policies.table.covering(*key)
            or (self._quota is not None and self._quota.covers(*key))
        )
        return _Plan(is_needed, mutating, validating)

    async def mutate(self, attributes: Attributes) -> bool:
        """Run the mutating part on `attributes.object`; True when a policy or webhook changed it.

        Raises StatusError when the write is refused.
        """
        _set_namespace(attributes)
        ownership = _managed_fields(attributes)
        await self._mutate_once(attributes)
        if not attributes.needs_reinvocation:
            return False
        attributes.is_reinvocation = True
        await self._mutate_once(attributes)
        _check_namespace(attributes)
        _restore_ownership(attributes, ownership)
        return True

    async def _mutate_once(self, attributes: Attributes) -> None:
        for plugin in self._plan(_facts(attributes), attributes.user).mutating:
            await plugin.prepare(attributes)
            plugin.mutate(attributes)
        await self._mutating_policies.mutate(attributes)
        await self._webhooks.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Run the validating part; raises StatusError when the write is refused."""
        if not attributes.name:
            attributes.name = metadata_text(attributes.object, "name")
        for plugin in self._plan(_facts(attributes), attributes.user).validating:
            plugin.validate(attributes)
        await self._validating_policies.validate(attributes)
        await self._webhooks.validate(attributes)
        if self._quota is not None:
            await self._quota.validate(attributes)


def _facts(attributes: Attributes) -> Key:
    return attributes.group, attributes.resource, attributes.subresource, attributes.operation


def _set_namespace(attributes: Attributes) -> None:
    """Who looks at the object finds its namespace in it, also where the client left it out."""
    if attributes.namespaced and attributes.object is not None:
        metadata = attributes.object.get("metadata")
        if isinstance(metadata, dict) and not metadata.get("namespace"):
            metadata["namespace"] = attributes.namespace


def _check_namespace(attributes: Attributes) -> None:
    found = metadata_text(attributes.object, "namespace")
    if attributes.namespaced and found and found != attributes.namespace:
        raise status.bad_request(_NAMESPACE_CHANGED)


def _managed_fields(attributes: Attributes) -> Any:
    metadata = (attributes.object or {}).get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def _restore_ownership(attributes: Attributes, before: Any) -> None:
    """Field ownership that a webhook broke is put back, with a warning."""
    after = _managed_fields(attributes)
    if after == before or not after or attributes.object is None:
        return
    try:
        managed.decode(after)
    except (ValueError, TypeError, AttributeError) as error:
        attributes.warn(f"{_BROKEN_OWNERSHIP}: {error}")
        metadata = {**attributes.object["metadata"], "managedFields": before}
        if before is None:
            del metadata["managedFields"]
        attributes.object = {**attributes.object, "metadata": metadata}
