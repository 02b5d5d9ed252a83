"""The controller of EndpointSlices: a hundred endpoints in each, as many as a Service needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from quarterdeck.api import Key, Time
from quarterdeck.api.k8s import Endpoint, EndpointSlice, Node, Pod, Service
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.plan import (
    Ports,
    SliceChanges,
    address_types,
    endpoint_of,
    plan_slices,
    ports_of,
)
from quarterdeck.cluster.endpoints.podaddress import PodAddress, ServicesOfPods
from quarterdeck.cluster.endpoints.selection import SERVICE_INDEXES, is_selected
from quarterdeck.cluster.endpoints.servicepods import ServicePods
from quarterdeck.cluster.endpoints.trigger import with_trigger
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.errors import ApiError, QuarterdeckError, ReconcileError, ignore_not_found
from quarterdeck.runtime.cache import label
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "endpointslice-controller"
_WORKERS: Final = 5
_FIRST_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 1000.0
_SLICE_DELAY: Final = 1.0
"""Seconds before a slice that somebody else has changed is looked at."""
_by_service: Final = label(names.SERVICE_NAME)


class _SliceReconciler(Reconciler[Service]):
    def __init__(self) -> None:
        self.pods: Final = ServicePods()

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a Service; its slices go by garbage collection."""
        self.pods.forget(ctx.key)

    async def reconcile(self, ctx: Context[Service]) -> Result | None:
        """Bring the slices of a Service up to date."""
        service = ctx.obj
        if not is_selected(service):
            return None
        pods, trigger = self.pods.read(ctx.cache, ctx.key, service)
        found = ctx.index(EndpointSlice, _by_service(service.metadata.name, ctx.key.namespace))
        slices = [each for each in found if _is_ours(each) and not each.metadata.is_deleting]
        try:
            await _sync(ctx, pods, slices, trigger)
        except QuarterdeckError as error:
            what = f"Error updating Endpoint Slices for Service {ctx.key.namespace}/{ctx.key.name}: {error}"
            ctx.event("Warning", "FailedToUpdateEndpointSlices", what)
            raise
        return None


def _is_ours(each: EndpointSlice) -> bool:
    return each.metadata.labels.get(names.SLICE_MANAGED_BY) == names.SLICE_MANAGER


async def _sync(
    ctx: Context[Service], pods: Sequence[PodAddress], slices: Sequence[EndpointSlice], trigger: Time | None
) -> None:
    service = ctx.obj
    types = address_types(service)
    lost: list[str] = []
    for kind in types:
        endpoints, missing = _endpoints(ctx, pods, kind)
        lost += missing
        existing = [each for each in slices if each.address_type == kind]
        await _write(ctx, plan_slices(service, kind, existing, endpoints), trigger)
    others = [each for each in slices if each.address_type not in types]
    await _write(ctx, SliceChanges(delete=others), trigger)
    if lost:
        raise ReconcileError(lost[0])


def _endpoints(
    ctx: Context[Service], pods: Sequence[PodAddress], kind: str
) -> tuple[dict[Ports, list[Endpoint]], list[str]]:
    """Endpoints of one family by their ports, and what is wrong with those that had to be left out."""
    service, nodes = ctx.obj, ctx.cache.informer(Node)
    found: dict[Ports, list[Endpoint]] = {}
    lost: list[str] = []
    for pod in pods:
        if not pod.has_address:
            continue
        group = found.setdefault(ports_of(service, pod), [])
        node = nodes.get("", pod.node_name)
        if node is None and service.spec.publish_not_ready_addresses is not True:
            who = f"{ctx.key.namespace}/{ctx.key.name}"
            lost.append(f"skipping Pod {pod.name} for Service {who}: Node {pod.node_name} Not Found")
            continue
        zone = node.labels.get(names.ZONE, "") if node is not None else ""
        endpoint = endpoint_of(pod, service, kind, zone)
        if endpoint is not None:
            group.append(endpoint)
    return found, lost


async def _write(ctx: Context[Service], changes: SliceChanges, trigger: Time | None) -> None:
    if not ctx.obj.metadata.is_deleting:
        for each in changes.create:
            try:
                await ctx.create(_told(each, trigger))
            except ApiError as error:
                if is_terminating(error):
                    return
                raise
    for each in changes.update:
        await ctx.update(_told(each, trigger))
    for each in changes.delete:
        with ignore_not_found():
            await ctx.delete(each)


def _told(each: EndpointSlice, trigger: Time | None) -> EndpointSlice:
    annotations = with_trigger(dict(each.metadata.annotations), trigger)
    return each.evolve(metadata=each.metadata.evolve(annotations=annotations))


def _service_of(ctx: MapContext, each: EndpointSlice) -> Iterable[Key]:
    name = each.metadata.labels.get(names.SERVICE_NAME, "")
    return (Key(each.metadata.namespace, name),) if name and _is_ours(each) else ()


def _is_news(event: ObjectEvent[Any]) -> bool:
    return not event.is_initial


_NEWS: Final = Predicate("news", create=_is_news)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def endpointslice_controller() -> Controller[Service]:
    """The controller, for ``manager.add``."""
    reconciler = _SliceReconciler()
    return (
        Builder(name=NAME)
        .for_(Service, delay=reconciler.pods.service_period)
        .watches(Pod, to=ServicesOfPods(), delay=reconciler.pods.batch_period)
        .indexes(Service, *SERVICE_INDEXES)
        .watches(EndpointSlice, to=_service_of, predicates=[_NEWS], delay=lambda _: _SLICE_DELAY)
        .watches(Node, predicates=[_NEVER])
        .indexes(EndpointSlice, _by_service)
        .rbac(
            Rule(
                groups=("discovery.k8s.io",),
                resources=("endpointslices",),
                verbs=("create", "delete", "get", "list", "update", "watch"),
            ),
            Rule(groups=("discovery.k8s.io",), resources=("endpointslices/restricted",), verbs=("create",)),
            Rule(groups=("",), resources=("services/finalizers",), verbs=("update",)),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_base=_FIRST_RETRY,
            backoff_cap=_LONGEST_RETRY,
            field_manager=FIELD_MANAGER,
        )
        .build(reconciler)
    )
