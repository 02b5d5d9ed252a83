"""The controller of Endpoints: one object for each Service with a selector, of the same name."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api.k8s import Endpoints, Pod, Service
from quarterdeck.cluster.endpoints import names
from quarterdeck.cluster.endpoints.podaddress import ServicesOfPods
from quarterdeck.cluster.endpoints.selection import SERVICE_INDEXES, is_selected
from quarterdeck.cluster.endpoints.servicepods import ServicePods
from quarterdeck.cluster.endpoints.subset import (
    MOST_ADDRESSES,
    endpoints_labels,
    new_endpoints,
    packed,
    subsets_of,
    truncated,
)
from quarterdeck.cluster.endpoints.trigger import with_trigger
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.errors import ApiError, NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import for_object
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "endpoints-controller"
_WORKERS: Final = 5


class _EndpointsReconciler(Reconciler[Service]):
    def __init__(self) -> None:
        self.pods: Final = ServicePods()

    async def deleted(self, ctx: DeleteContext) -> None:
        """The Endpoints of a Service go with it, whoever made them."""
        self.pods.forget(ctx.key)
        with ignore_not_found():
            found = await ctx.cache.get(Endpoints, ctx.key.name, ctx.key.namespace)
            if names.LEADER not in found.metadata.annotations:
                await ctx.client.delete(Endpoints, ctx.key.name, ctx.key.namespace)

    async def reconcile(self, ctx: Context[Service]) -> Result | None:
        """Bring the Endpoints of a Service up to date."""
        service = ctx.obj
        if not is_selected(service):
            return None
        pods, trigger = self.pods.read(ctx.cache, ctx.key, service)
        subsets = subsets_of(service, pods)
        try:
            known = await ctx.get(Endpoints, ctx.key.name, ctx.key.namespace)
        except NotFound:
            known = None
        if known is not None and _is_right(known, subsets, service):
            return None
        base = known if known is not None else new_endpoints(service)
        annotations = with_trigger(dict(base.metadata.annotations), trigger)
        annotations.pop(names.OVER_CAPACITY, None)
        cut = truncated(subsets)
        if cut is not None:
            annotations[names.OVER_CAPACITY] = "truncated"
        metadata = base.metadata.evolve(labels=endpoints_labels(service), annotations=annotations)
        await _write(ctx, base.evolve(metadata=metadata, subsets=cut if cut is not None else subsets))
        return None


def _is_right(known: Endpoints, subsets: list[Any], service: Service) -> bool:
    number = sum(len(each.addresses) + len(each.not_ready_addresses) for each in known.subsets)
    return (
        number <= MOST_ADDRESSES
        and names.OVER_CAPACITY not in known.metadata.annotations
        and known.metadata.labels == endpoints_labels(service)
        and (list(known.subsets) == subsets or packed(known.subsets) == subsets)
    )


async def _write(ctx: Context[Service], wanted: Endpoints) -> None:
    is_new = not wanted.metadata.resource_version
    try:
        await (ctx.create(wanted) if is_new else ctx.update(wanted))
    except ApiError as error:
        if is_new and is_terminating(error):
            return
        what = (
            f"create endpoint for service {ctx.key.namespace}/{ctx.key.name}"
            if is_new
            else f"update endpoint {ctx.key.namespace}/{ctx.key.name}"
        )
        reason = "FailedToCreateEndpoint" if is_new else "FailedToUpdateEndpoint"
        ctx.event("Warning", reason, f"Failed to {what}: {error}")
        raise


def _is_initial(event: ObjectEvent[Any]) -> bool:
    return event.is_initial


_LEFT_OVER_OR_GONE: Final = Predicate("left_over_or_gone", create=_is_initial, update=lambda _: False)


def endpoints_controller() -> Controller[Service]:
    """The controller, for ``manager.add``."""
    reconciler = _EndpointsReconciler()
    return (
        Builder(name=NAME)
        .for_(Service, delay=reconciler.pods.service_period)
        .watches(Pod, to=ServicesOfPods(), delay=reconciler.pods.batch_period)
        .indexes(Service, *SERVICE_INDEXES)
        .watches(Endpoints, to=for_object, predicates=[_LEFT_OVER_OR_GONE])
        .rbac(
            Rule(
                groups=("",),
                resources=("endpoints",),
                verbs=("create", "delete", "get", "list", "update", "watch"),
            ),
            Rule(groups=("",), resources=("endpoints/restricted",), verbs=("create",)),
        )
        .options(max_concurrent_reconciles=_WORKERS, backoff_cap=1000.0, field_manager=FIELD_MANAGER)
        .build(reconciler)
    )
