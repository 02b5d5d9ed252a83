"""Tells the API server where the webhooks are.

The authority that signs their certificate is in a Secret that somebody else writes (Helm, or the runtime's
own certificates). Whenever it changes, the conversion stanza of the definition and the validating
configuration are brought up to date; while it is missing, another look is taken every thirty seconds.
Existing objects that are right are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind, Key, Resource
from quarterdeck.api.k8s import Secret
from quarterdeck.client import MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import TimerSource
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.webhook import (
    AdmissionWebhook,
    ServiceTarget,
    Target,
    conversion_stanza,
    webhook_configurations,
)

RETRY: Final = 30.0
"""Seconds between two looks for a Secret that is not there."""
PERIOD: Final = 600.0
"""Seconds between two looks at what is registered."""
TARGET: Final = ServiceTarget(names.WEBHOOK_SERVICE, names.MODULE_NAMESPACE)
"""The Service of the webhooks, where they run in the cluster."""
_KEY: Final = Key(names.MODULE_NAMESPACE, names.WEBHOOK_TLS_SECRET)
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class Registrar(Reconciler[Resource]):
    """Keeps both registrations right."""

    def __init__(self, webhooks: Sequence[AdmissionWebhook], target: Target = TARGET) -> None:
        """``target`` is where the API server reaches the webhooks; its bundle comes from the Secret."""
        self._webhooks: Final = webhooks
        self._target: Final = target

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Register, if the authority is known."""
        try:
            secret = await ctx.get(Secret, _KEY.name, _KEY.namespace)
        except NotFound:
            return Requeue(after=RETRY, reason="no-certificate")
        authority = secret.data.get(names.CA_KEY, b"")
        if not authority:
            return Requeue(after=RETRY, reason="no-authority")
        target = self._target.with_bundle(authority)
        await self._register_conversion(ctx, target)
        for configuration in webhook_configurations(
            names.VALIDATING_CONFIGURATION, self._webhooks, target, labels=names.CRD_LABELS
        ):
            await ctx.apply(configuration)
        return None

    async def _register_conversion(self, ctx: Context[Resource], target: Target) -> None:
        try:
            definition = await ctx.client.get(_DEFINITION, names.CRD_NAME)
        except NotFound:
            return
        if len(definition.at("spec", "versions", default=())) < 2:
            return
        wanted = conversion_stanza(target)
        if is_registered(definition, wanted):
            return
        await ctx.client.patch(definition, MergePatch({"spec": {"conversion": wanted}}))


def is_registered(definition: DynamicObject, wanted: Mapping[str, Any]) -> bool:
    """Whether a definition names our endpoint and our authority; other settings may be somebody's choice."""
    present = definition.at("spec", "conversion", "webhook", "clientConfig", default={})
    client: dict[str, Any] = wanted["webhook"]["clientConfig"]
    if present.get("caBundle") != client["caBundle"] or present.get("url") != client.get("url"):
        return False
    service, other = client.get("service") or {}, present.get("service") or {}
    return all(service.get(key) == other.get(key) for key in ("name", "namespace"))


def registration_controller(
    webhooks: Sequence[AdmissionWebhook], target: Target = TARGET
) -> Controller[Resource]:
    """The controller, for ``manager.add``; every replica may register."""
    return (
        Builder[Resource](name="nodegroup-registration")
        .watches(Secret, to=_own_secret)
        .source(TimerSource(PERIOD, [_KEY], at_start=True))
        .rbac(
            Rule(
                groups=("apiextensions.k8s.io",),
                resources=("customresourcedefinitions",),
                verbs=("get", "patch"),
            ),
            Rule(
                groups=("admissionregistration.k8s.io",),
                resources=("validatingwebhookconfigurations",),
                verbs=("create", "patch"),
            ),
        )
        .options(need_leader_election=False, field_manager=names.FIELD_MANAGER)
        .build(Registrar(webhooks, target))
    )


def _own_secret(_: MapContext, secret: Secret) -> Iterable[Key]:
    return (_KEY,) if secret.key == _KEY else ()
