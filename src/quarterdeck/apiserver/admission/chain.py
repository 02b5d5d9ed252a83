"""The admission chain: everything that may change or refuse a write before it is stored.

    mutating:   built-in checks, MutatingAdmissionPolicy, MutatingAdmissionWebhook
    validating: built-in checks, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook, ResourceQuota

Configurations of admission themselves are exempt; only their expressions are compiled.

When a policy or webhook changed the object, the mutating part runs once more, for the built-in
checks and for those calls that asked for it. Configurations reach the chain through `apply_change`.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply import managed
from quarterdeck.apiserver.builtin.check import always as builtin
from quarterdeck.apiserver.webhookclient import WebhookClient

from .attributes import Attributes, Host, metadata_text
from .matching import is_exempt
from .mutatingpolicy import MutatingPolicies
from .quota import QuotaAdmission, Quotas
from .validatingpolicy import ValidatingPolicies
from .webhooks import Webhooks

Json = dict[str, Any]

_BROKEN_OWNERSHIP: Final = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
    "mutating admission controller; please fix your requests"
)
_NAMESPACE_CHANGED: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


class AdmissionChain:
    """Admission of one server."""

    def __init__(self, host: Host, client: WebhookClient, quotas: Quotas | None = None) -> None:
        """Without `quotas` nothing is limited."""
        self._webhooks = Webhooks(host, client)
        self._mutating_policies = MutatingPolicies(host)
        self._validating_policies = ValidatingPolicies(host)
        self._quota = QuotaAdmission(quotas) if quotas is not None else None
        self._needed: dict[tuple[str, str, str, str], bool] = {}

    def apply_change(self, resource: str, name: str, obj: Json | None) -> None:
        """A configuration of admission was stored, or is gone (None)."""
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
            case _:
                return
        self._needed = {}

    def apply_quota(self, namespace: str, name: str, obj: Json | None) -> None:
        """A quota was stored, or is gone (None)."""
        if self._quota is not None and self._quota.apply_change(namespace, name, obj):
            self._needed = {}

    def needs_admission(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        """Whether a write has to pass the chain at all; one lookup unless configurations changed."""
        key = (group, resource, subresource, operation)
        needed = self._needed.get(key)
        if needed is None:
            needed = self._needed[key] = self._is_covered(*key)
        return needed

    def _is_covered(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        key = (group, resource, subresource, operation)
        if is_exempt(group, resource):
            return False
        return bool(
            builtin.covers(*key)
            or self._webhooks.mutating.covering(*key)
            or self._webhooks.validating.covering(*key)
            or self._mutating_policies.table.covering(*key)
            or self._validating_policies.table.covering(*key)
            or (self._quota is not None and self._quota.covers(*key))
        )

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
        if attributes.object is not None:
            builtin.mutate(*_facts(attributes), attributes.object, attributes.old_object, attributes.context)
        await self._mutating_policies.mutate(attributes)
        await self._webhooks.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Run the validating part; raises StatusError when the write is refused."""
        if not attributes.name:
            attributes.name = metadata_text(attributes.object, "name")
        builtin.validate(*_facts(attributes), attributes.object, attributes.old_object, attributes.context)
        await self._validating_policies.validate(attributes)
        await self._webhooks.validate(attributes)
        if self._quota is not None:
            await self._quota.validate(attributes)


def _facts(attributes: Attributes) -> tuple[str, str, str, str]:
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
