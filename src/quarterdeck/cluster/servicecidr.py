"""The ranges that Services get their addresses from: ready, and kept while an address of theirs is used."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind, Key, Resource, Time
from quarterdeck.api.k8s import Service
from quarterdeck.client import MergePatch
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.reconcile.statuswrite import write_status

NAME: Final = "service-cidr-controller"
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_KIND: Final = GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDR")
_GRACE: Final = 10.0
"""Seconds in which allocators learn that a range is going away."""
_READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes Service CIDR is ready",
}
_HELD: Final = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": (
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
        "ServiceCIDR"
    ),
}


def _ranges(document: DynamicObject) -> list[str]:
    return list(document.get("spec", {}).get("cidrs") or ())


def _covers(whole: str, part: str) -> bool:
    outer, inner = ip_network(whole), ip_network(part)
    return outer.version == inner.version and inner[0] in outer and inner[-1] in outer


class _Ranges(Reconciler[Resource]):
    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        try:
            found = await ctx.get(_KIND, ctx.key.name)
        except NotFound:
            return None
        if not found.metadata.is_deleting:
            if FINALIZER not in found.metadata.finalizers:
                kept = [*found.metadata.finalizers, FINALIZER]
                found = await ctx.client.patch(found, MergePatch({"metadata": {"finalizers": kept}}))
            await _set(ctx, found, _READY)
            return None
        if await _is_needed(ctx, found):
            await _set(ctx, found, _HELD)
            return None
        deleted = found.metadata.deletion_timestamp
        left = deleted.timestamp() + _GRACE - self._clock.time() if isinstance(deleted, Time) else 0.0
        if left > 0:
            return Requeue(after=left)
        kept = [each for each in found.metadata.finalizers if each != FINALIZER]
        with ignore_not_found():
            await ctx.client.patch(found, MergePatch({"metadata": {"finalizers": kept or None}}))
        return None


async def _set(ctx: Context[Resource], found: DynamicObject, wanted: dict[str, str]) -> None:
    conditions: list[dict[str, Any]] = list(found.get("status", {}).get("conditions") or ())
    known = next((each for each in conditions if each["type"] == "Ready"), None)
    if known is not None and all(known.get(key, "") == value for key, value in wanted.items()):
        return
    others = [each for each in conditions if each["type"] != "Ready"]
    changed = [*others, {**wanted, "lastTransitionTime": str(ctx.now())}]
    with ignore_not_found():
        await write_status(ctx.client, found, {"conditions": conditions}, {"conditions": changed})


async def _is_needed(ctx: Context[Resource], found: DynamicObject) -> bool:
    """Whether a Service has an address that no other range covers."""
    others = [
        each
        for other in await ctx.list(_KIND)
        if other.metadata.name != found.metadata.name and not other.metadata.is_deleting
        for each in _ranges(other)
    ]
    alone = [each for each in _ranges(found) if not any(_covers(other, each) for other in others)]
    if not alone:
        return False
    for service in await ctx.list(Service):
        for address in service.spec.cluster_ips:
            if address in ("", "None"):
                continue
            inside = any(ip_address(address) in ip_network(each) for each in alone)
            if inside and not any(ip_address(address) in ip_network(each) for each in others):
                return True
    return False


async def _all(ctx: MapContext, _: Any) -> Iterable[Key]:
    return [each.key for each in await ctx.cache.list(_KIND)]


_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def service_cidr_controller() -> Controller[Resource]:
    """The controller, for ``manager.add``."""
    return (
        Builder[Resource](name=NAME)
        .watches(_KIND, to=_all)
        .watches(Service, to=_all, predicates=[_GONE])
        .rbac(
            Rule(groups=("networking.k8s.io",), resources=("servicecidrs",), verbs=("patch",)),
            Rule(groups=("networking.k8s.io",), resources=("servicecidrs/status",), verbs=("patch",)),
        )
        .options(max_concurrent_reconciles=1, field_manager=FIELD_MANAGER)
        .build(_Ranges())
    )
