"""The objects that tell the API server about our webhooks, made from the webhooks themselves.

``webhook_configurations`` gives the two configuration objects of some handlers, ``conversion_stanza`` the
part of a CRD that concerns conversion. Write them as YAML, or let a ``WebhookInstaller`` keep them applied::

    target = ServiceTarget("qd-webhook", "qd-system", ca_bundle=pem)
    for configuration in webhook_configurations("quarterdeck", server.webhooks, target):
        await client.apply(configuration, field_manager="quarterdeck", force=True)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from quarterdeck.api import UNSET, GroupVersionKind, LabelSelector, Maybe, ObjectMeta
from quarterdeck.api.crd import WebhookConversion
from quarterdeck.api.k8s.admissionregistration import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import ConfigError, NotFound
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.webhook.conversion import Converter
from quarterdeck.runtime.webhook.handler import AdmissionWebhook
from quarterdeck.runtime.webhook.path import CONVERT_PATH
from quarterdeck.runtime.webhook.registration import WebhookSettings

_log: Final = get_logger(__name__)
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""A label that every namespace has."""
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
Configuration: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration


class ServiceTarget(msgspec.Struct, frozen=True):
    """Webhooks reached through a Service."""

    service: str
    namespace: str
    port: int = 443
    """Port of the Service, not of the pods."""
    ca_bundle: bytes = b""
    """PEM certificates that sign ours."""

    def client_config(self, path: str) -> WebhookClientConfig:
        """Where a path is found."""
        reference = ServiceReference(namespace=self.namespace, name=self.service, path=path, port=self.port)
        return WebhookClientConfig(service=reference, ca_bundle=self.ca_bundle or UNSET)

    def conversion(self) -> WebhookConversion:
        """The conversion stanza of a CRD."""
        return WebhookConversion(
            service=self.service,
            namespace=self.namespace,
            path=CONVERT_PATH,
            port=self.port,
            ca_bundle=self.ca_bundle,
        )

    def with_bundle(self, ca_bundle: bytes) -> "ServiceTarget":
        """The same with another bundle."""
        return msgspec.structs.replace(self, ca_bundle=ca_bundle)


class UrlTarget(msgspec.Struct, frozen=True):
    """Webhooks reached at a fixed address: outside of the cluster, or in tests."""

    url: str
    """``https://host:port``, without a path."""
    ca_bundle: bytes = b""

    def client_config(self, path: str) -> WebhookClientConfig:
        """Where a path is found."""
        return WebhookClientConfig(url=f"{self.url.rstrip('/')}{path}", ca_bundle=self.ca_bundle or UNSET)

    def conversion(self) -> WebhookConversion:
        """The conversion stanza of a CRD."""
        return WebhookConversion(url=f"{self.url.rstrip('/')}{CONVERT_PATH}", ca_bundle=self.ca_bundle)

    def with_bundle(self, ca_bundle: bytes) -> "UrlTarget":
        """The same with another bundle."""
        return msgspec.structs.replace(self, ca_bundle=ca_bundle)


Target: TypeAlias = ServiceTarget | UrlTarget


def webhook_configurations(
    name: str,
    webhooks: Iterable[AdmissionWebhook],
    target: Target,
    *,
    labels: Mapping[str, str] | None = None,
    namespaces: Sequence[str] = (),
) -> list[Configuration]:
    """The mutating configuration, then the validating one, each only if it has webhooks.

    With ``namespaces``, they are called for objects of these only, and for those without a namespace.
    Raises ``ConfigError`` for a webhook without name or rules: nobody could register it.
    """
    hooks = tuple(webhooks)
    for hook in hooks:
        if not hook.settings.name or not hook.settings.rules:
            raise ConfigError(f"the webhook at {hook.path} has no name or rules to register it with")
    metadata = ObjectMeta(name=name, labels=dict(labels or {}))
    made: list[Configuration] = []
    mutating = [_mutating(hook, target, namespaces) for hook in hooks if hook.is_mutating]
    if mutating:
        made.append(MutatingWebhookConfiguration(metadata=metadata, webhooks=tuple(mutating)))
    validating = [_validating(hook, target, namespaces) for hook in hooks if not hook.is_mutating]
    if validating:
        made.append(ValidatingWebhookConfiguration(metadata=metadata, webhooks=tuple(validating)))
    return made


def conversion_stanza(target: Target) -> dict[str, object]:
    """``spec.conversion`` of a CRD whose versions we convert."""
    return target.conversion().to_dict()


class WebhookInstaller:
    """Keeps our configurations and conversion stanzas in the cluster; the ``publish`` of ``SelfSigned``.

    Configurations are applied as ``field_manager`` by force: they are ours. Of a CRD only the conversion
    stanza is written, and only if the CRD exists: its schema belongs to whoever installs it.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        target: Target,
        *,
        webhooks: Sequence[AdmissionWebhook] = (),
        conversions: Sequence[Converter] = (),
        definitions: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        field_manager: str = "quarterdeck-webhooks",
    ) -> None:
        """``definitions`` names the CRDs of ``conversions`` that are not classes (``widgets.example.io``).

        ``namespaces`` are those that the webhooks are called for; empty means all.
        """
        self._client: Final = client
        self._name: Final = name
        self._target: Final = target
        self._webhooks: Final = tuple(webhooks)
        self._definitions: Final = (
            *(each.definition for each in conversions if each.definition),
            *definitions,
        )
        self._namespaces: Final = tuple(namespaces)
        self._manager: Final = field_manager

    async def __call__(self, ca_bundle: bytes) -> bool:
        """Write what differs; returns whether everything is in place. Raises ``ApiError``."""
        target = self._target.with_bundle(ca_bundle)
        for configuration in self._configurations(target):
            await self._apply(configuration)
        return all([await self._convert(name, target) for name in self._definitions])

    async def rivals(self) -> list[str]:
        """Which configurations of other installations are called for namespaces of ours. Raises ``ApiError``.

        Theirs are named as ours are, but for the installation at the end (``Program``).
        """
        base = self._name.rsplit(".", 2)[0] if self._namespaces else self._name
        found: list[str] = []
        for own in self._configurations(self._target):
            for other in await self._client.list(type(own)):
                name = other.metadata.name
                if name == self._name or (name != base and not name.startswith(f"{base}.")):
                    continue
                shared = _shared_namespaces(self._namespaces, other)
                if shared and _subjects(own) & _subjects(other):
                    found.append(f"{own.kind} {name}: {shared}")
        return found

    async def withdraw(self) -> None:
        """Delete the configurations, as far as they still point at us. Raises ``ApiError``."""
        for configuration in self._configurations(self._target):
            try:
                found = await self._client.get(type(configuration), self._name)
                if _covers(_addresses(found), _addresses(configuration)):
                    await self._client.delete(found)
                    _log.info("removed webhook configuration", kind=configuration.kind, name=self._name)
            except NotFound:
                continue

    def _configurations(self, target: Target) -> list[Configuration]:
        return webhook_configurations(self._name, self._webhooks, target, namespaces=self._namespaces)

    async def _apply(self, configuration: Configuration) -> None:
        try:
            found = await self._client.get(type(configuration), configuration.metadata.name)
        except NotFound:
            found = None
        if found is not None and _covers(found.to_dict(), configuration.to_dict()):
            return
        await self._client.apply(configuration, field_manager=self._manager, force=True)
        _log.info("applied webhook configuration", kind=configuration.kind, name=self._name)

    async def _convert(self, name: str, target: Target) -> bool:
        wanted = conversion_stanza(target)
        try:
            found = await self._client.get(_DEFINITION, name)
        except NotFound:
            return False
        if _covers(found.at("spec", "conversion"), wanted):
            return True
        patch = MergePatch({"spec": {"conversion": wanted}})
        await self._client.patch(found, patch, field_manager=self._manager)
        _log.info("wrote conversion stanza", name=name)
        return True


def _subjects(configuration: Configuration) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What the webhooks of a configuration are about: groups and resources."""
    rules = [rule for hook in configuration.webhooks for rule in hook.rules]
    return {(tuple(rule.api_groups), tuple(rule.resources)) for rule in rules}


def _shared_namespaces(ours: Sequence[str], theirs: Configuration) -> str:
    """Namespaces, in words, for which the webhooks of another installation are called; empty if none is."""
    named = [
        each.values
        for hook in theirs.webhooks
        if hook.namespace_selector
        for each in hook.namespace_selector.match_expressions
        if (each.key, each.operator) == (_NAMESPACE_NAME, "In")
    ]
    if not named:
        return ", ".join(ours) or "all namespaces"
    listed = sorted({name for values in named for name in values})
    return ", ".join(name for name in listed if not ours or name in ours)


def _addresses(configuration: Configuration) -> list[object]:
    """Where the webhooks of a configuration are, without the bundle."""
    found = [each["clientConfig"] for each in configuration.to_dict()["webhooks"]]
    return [{key: value for key, value in each.items() if key != "caBundle"} for each in found]


def _covers(found: object, wanted: object) -> bool:
    """Whether everything wanted is there; the server's defaults may be there too."""
    if isinstance(wanted, dict):
        if not isinstance(found, Mapping):
            return False
        return all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != len(wanted):
            return False
        return all(_covers(have, want) for have, want in zip(found, wanted, strict=True))
    return found == wanted


def _mutating(hook: AdmissionWebhook, target: Target, namespaces: Sequence[str]) -> MutatingWebhook:
    settings = hook.settings
    return MutatingWebhook(
        name=settings.name,
        client_config=target.client_config(hook.path),
        rules=_rules(settings),
        failure_policy=settings.failure_policy,
        match_policy=settings.match_policy,
        namespace_selector=_within(settings.namespace_selector, namespaces),
        object_selector=_maybe(settings.object_selector),
        side_effects=settings.side_effects,
        timeout_seconds=settings.timeout,
        admission_review_versions=settings.review_versions,
        reinvocation_policy=settings.reinvocation,
        match_conditions=_conditions(settings),
    )


def _validating(hook: AdmissionWebhook, target: Target, namespaces: Sequence[str]) -> ValidatingWebhook:
    settings = hook.settings
    return ValidatingWebhook(
        name=settings.name,
        client_config=target.client_config(hook.path),
        rules=_rules(settings),
        failure_policy=settings.failure_policy,
        match_policy=settings.match_policy,
        namespace_selector=_within(settings.namespace_selector, namespaces),
        object_selector=_maybe(settings.object_selector),
        side_effects=settings.side_effects,
        timeout_seconds=settings.timeout,
        admission_review_versions=settings.review_versions,
        match_conditions=_conditions(settings),
    )


def _rules(settings: WebhookSettings) -> tuple[RuleWithOperations, ...]:
    return tuple(
        RuleWithOperations(
            operations=rule.operations,
            api_groups=rule.groups,
            api_versions=rule.versions,
            resources=rule.resources,
            scope=rule.scope,
        )
        for rule in settings.rules
    )


def _conditions(settings: WebhookSettings) -> tuple[MatchCondition, ...]:
    return tuple(
        MatchCondition(name=name, expression=expression)
        for name, expression in settings.match_conditions.items()
    )


def _within(selector: LabelSelector | None, namespaces: Sequence[str]) -> Maybe[LabelSelector]:
    """What the webhook itself selects, of these namespaces only if there are any."""
    if not namespaces:
        return _maybe(selector)
    base = selector if selector is not None else LabelSelector()
    named = LabelSelectorRequirement(key=_NAMESPACE_NAME, operator="In", values=tuple(namespaces))
    return base.evolve(match_expressions=(*base.match_expressions, named))


def _maybe(selector: LabelSelector | None) -> Maybe[LabelSelector]:
    return UNSET if selector is None else selector
