"""The controller that mirrors Endpoints of Services without a selector to EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import Endpoints, EndpointSlice, Service
from quarterdeck.client import Client
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.mirror import MOST_MIRRORED, mirror_of, plan_mirror, should_mirror
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.errors import ApiError, ignore_not_found
from quarterdeck.runtime.cache import Cache, label
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext, for_object
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "endpointslice-mirroring-controller"
_WORKERS: Final = 5
_by_service: Final = label(names.SERVICE_NAME)


class _MirrorReconciler(Reconciler[Endpoints]):
    async def deleted(self, ctx: DeleteContext) -> None:
        """Slices go with the Endpoints they mirror."""
        await _remove(ctx.client, ctx.cache, ctx.key)

    async def reconcile(self, ctx: Context[Endpoints]) -> Result | None:
        """Bring the slices up to date, or take them away."""
        endpoints = ctx.obj
        if not _is_ours(ctx.cache, endpoints):
            await _remove(ctx.client, ctx.cache, ctx.key)
            return None
        mirror = mirror_of(endpoints)
        if mirror.invalid:
            text = f"Skipped {mirror.invalid} invalid IP addresses when mirroring to EndpointSlices"
            ctx.event("Warning", "InvalidIPAddress", text)
        if mirror.skipped > mirror.invalid:
            text = (
                f"A max of {MOST_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{mirror.skipped} addresses were skipped"
            )
            ctx.event("Warning", "TooManyAddressesToMirror", text)
        changes = plan_mirror(endpoints, mirror, _slices(ctx.cache, ctx.key))
        if not endpoints.metadata.is_deleting:
            for each in changes.create:
                try:
                    await ctx.create(each)
                except ApiError as error:
                    if is_terminating(error):
                        return None
                    raise
        for each in changes.update:
            await ctx.update(each)
        for each in changes.delete:
            with ignore_not_found():
                await ctx.delete(each)
        return None


def _is_ours(cache: Cache, endpoints: Endpoints) -> bool:
    """Whether Endpoints are of a Service that does not find its endpoints by itself."""
    metadata = endpoints.metadata
    if not should_mirror(metadata.labels, metadata.annotations):
        return False
    informer = cache.informer(Service)
    entry = informer.get(metadata.namespace, metadata.name)
    return entry is not None and not informer.decoder(Service)(entry).spec.selector


def _slices(cache: Cache, key: Key) -> list[EndpointSlice]:
    found = cache.lookup(EndpointSlice, _by_service(key.name, key.namespace))
    return [each for each in found if _is_mirror(each)]


def _is_mirror(each: EndpointSlice) -> bool:
    return each.metadata.labels.get(names.SLICE_MANAGED_BY) == names.MIRROR_MANAGER


async def _remove(client: Client, cache: Cache, key: Key) -> None:
    for each in _slices(cache, key):
        with ignore_not_found():
            await client.delete(each)


def _endpoints_of(ctx: MapContext, each: EndpointSlice) -> Iterable[Key]:
    name = each.metadata.labels.get(names.SERVICE_NAME, "")
    return (Key(each.metadata.namespace, name),) if name and _is_mirror(each) else ()


def _is_without_selector(event: ObjectEvent[Any]) -> bool:
    return not event.object.spec.selector


def _has_changed_sort(event: ObjectEvent[Any]) -> bool:
    old = event.old_object
    return old is not None and bool(old.spec.selector) != bool(event.object.spec.selector)


_CONCERNED: Final = Predicate(
    "concerned", create=_is_without_selector, update=_has_changed_sort, delete=_is_without_selector
)


def mirroring_controller() -> Controller[Endpoints]:
    """The controller, for ``manager.add``."""
    return (
        Builder(Endpoints, name=NAME)
        .watches(Service, to=for_object, predicates=[_CONCERNED])
        .watches(EndpointSlice, to=_endpoints_of)
        .indexes(EndpointSlice, _by_service)
        .rbac(
            Rule(
                groups=("discovery.k8s.io",),
                resources=("endpointslices",),
                verbs=("create", "delete", "get", "list", "update", "watch"),
            ),
            Rule(groups=("discovery.k8s.io",), resources=("endpointslices/restricted",), verbs=("create",)),
            Rule(groups=("",), resources=("endpoints/finalizers",), verbs=("update",)),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_base=1.0,
            backoff_cap=100.0,
            field_manager=FIELD_MANAGER,
        )
        .build(_MirrorReconciler())
    )
