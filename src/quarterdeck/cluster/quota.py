"""What quotas are used for: counted when a quota is new or changed, when something it counts goes, and every
five minutes.

Between two counts the API server itself adds what it admits to ``status.used``; counting repairs what it
could not know: deletions, pods that ended, writes that failed after they were charged. The count is written
under the version it began with, so that it never overwrites a charge that came meanwhile; and before it takes
anything back it waits for what was charged to be stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, Quantity, Resource, to_dict
from quarterdeck.api.k8s import PersistentVolumeClaim, Pod, ResourceQuota, Service
from quarterdeck.api.k8s.core import ResourceQuotaStatus
from quarterdeck.api.quantity import sum_quantities
from quarterdeck.api.quota import (
    SPECIAL_RESOURCES,
    Amounts,
    Evaluator,
    count_name,
    evaluator_of,
    is_ignored,
    mask,
)
from quarterdeck.client import Client, metadata_of
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.cluster.monitor import ResourceMonitor
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.cache import Cache, Delta
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, spec_changed, status_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import KindSource
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "resourcequota-controller"
RESYNC_PERIOD: Final = 300.0
"""Seconds after which a quota is counted again, whatever happened."""
_WORKERS: Final = 5
_ON_ITS_WAY: Final = 0.1
"""Seconds within which a write that was charged is stored, or has failed."""
_LONGEST_RETRY: Final = 1.0
"""Seconds; a count that met a new charge is soon taken again."""
_SETTLED: Final[tuple[type[Resource], ...]] = (Pod, Service, PersistentVolumeClaim)
"""Kinds whose updates may free something."""

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _QuotaReconciler(Reconciler[ResourceQuota]):
    def __init__(self, cache: Cache) -> None:
        self._cache: Final = cache
        self._controller: Controller[ResourceQuota] | None = None
        self._watched: list[KindSource] = []

    def attach(self, controller: Controller[ResourceQuota]) -> None:
        """The controller that runs this reconciler."""
        self._controller = controller

    def observe(self, mapping: ResourceMapping, delta: Delta) -> None:
        """Something is gone: what it used is free."""
        assert self._controller is not None
        if delta.new is None and mapping.is_namespaced:
            evaluator = evaluator_of(mapping.gvr.group, mapping.gvr.resource)
            for key in self.concerned(delta.entry.namespace, evaluator):
                self._controller.queue.add(key)

    def concerned(self, namespace: str, evaluator: Evaluator) -> list[Key]:
        """The quotas of a namespace that count what an evaluator tracks."""
        informer = self._cache.informer(ResourceQuota)
        decode = informer.decoder(ResourceQuota)
        return [
            entry.key for entry in informer.entries(namespace) if evaluator.tracked(decode(entry).status.hard)
        ]

    async def _watch_updates(self) -> None:
        """Watch whole pods, services and claims from the first quota on: most clusters have none."""
        assert self._controller is not None
        if not self._watched:
            self._watched = [KindSource(kind, _Freed(self, kind), predicates=[_UPDATED]) for kind in _SETTLED]
            for source in self._watched:
                self._controller.watch(source)
        for kind in _SETTLED:
            await self._cache.synced(kind)  # what happens after the count is seen

    async def reconcile(self, ctx: Context[ResourceQuota]) -> Result | None:
        """Bring the status of a quota up to date."""
        await self._watch_updates()
        try:
            quota = await ctx.get(ResourceQuota, ctx.key.name, ctx.key.namespace, live=True)
        except NotFound:
            return None
        hard = dict(quota.spec.hard)
        used, errors = await self._count(ctx.client, quota, ctx.now().timestamp())
        if any(amount > used.get(name, amount) for name, amount in quota.status.used.items()):
            # Less than was charged: what is charged may be on its way to the store.
            await asyncio.sleep(_ON_ITS_WAY)
            used, errors = await self._count(ctx.client, quota, ctx.now().timestamp())
        status = ResourceQuotaStatus(hard=hard, used=mask({**quota.status.used, **used}, hard))
        if status != quota.status or not quota.status.used:
            with ignore_not_found():
                await ctx.client.status.update(quota.evolve(status=status))
        if errors:
            raise errors[0]
        return Requeue(after=RESYNC_PERIOD)

    async def _count(
        self, client: Client, quota: ResourceQuota, now: float
    ) -> tuple[Amounts, list[QuarterdeckError]]:
        """What is used of each limited resource, but for those that could not be counted."""
        document = to_dict(quota)
        used: list[Amounts] = []
        errors: list[QuarterdeckError] = []
        failed: set[str] = set()
        for mapping, evaluator in await self._evaluators(client, quota.spec.hard):
            names = evaluator.tracked(quota.spec.hard)
            used.append(dict.fromkeys(names, Quantity("0")))
            try:
                objects = await _objects(client, mapping, quota.metadata.namespace)
            except QuarterdeckError as error:
                errors.append(error)
                failed.update(names)
                continue
            chosen = (each for each in objects if evaluator.is_in_scopes(document, each))
            used += (evaluator.usage(each, now) for each in chosen)
        total = sum_quantities(used)
        return {name: total[name] for name in quota.spec.hard if name in total and name not in failed}, errors

    async def _evaluators(
        self, client: Client, names: Mapping[str, Quantity]
    ) -> list[tuple[ResourceMapping, Evaluator]]:
        """The evaluators for the limited names, of resources that are served."""
        found: dict[tuple[str, str], tuple[ResourceMapping, Evaluator]] = {}
        for mapping in await client.mapper.all():
            group, resource = mapping.gvr.group, mapping.gvr.resource
            if not mapping.is_namespaced or is_ignored(group, resource) or "list" not in mapping.verbs:
                continue
            if (group, resource) not in SPECIAL_RESOURCES and count_name(group, resource) not in names:
                continue
            evaluator = evaluator_of(group, resource)
            if evaluator.tracked(names):
                found.setdefault((group, resource), (mapping, evaluator))
        return list(found.values())


class _Freed:
    """The quotas for which an update frees something; what a new object uses the server has charged."""

    def __init__(self, reconciler: _QuotaReconciler, kind: type[Resource]) -> None:
        self._reconciler: Final = reconciler
        self._evaluator: Final = evaluator_of(kind.type_info.group, kind.type_info.plural)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        old, new = event.old, event.new
        if old is None or new is None:
            return ()
        concerned = self._reconciler.concerned(new.namespace, self._evaluator)
        if not concerned:
            return ()
        now = LoopClock().time()
        return concerned if self._evaluator.frees(_decode(old.raw), _decode(new.raw), now) else ()


async def _objects(client: Client, mapping: ResourceMapping, namespace: str) -> Sequence[Mapping[str, Any]]:
    """All objects of a resource; of those that are only counted, the metadata."""
    is_special = (mapping.gvr.group, mapping.gvr.resource) in SPECIAL_RESOURCES
    kind = mapping.gvk if is_special else metadata_of(mapping.gvk)
    page = await client.list_raw(kind, namespace=namespace)
    return [_decode(item) for item in page.items]


_UPDATED: Final = Predicate("updated", create=lambda _: False, delete=lambda _: False)


def quota_controller(monitor: ResourceMonitor, cache: Cache) -> Controller[ResourceQuota]:
    """The controller, for ``manager.add``; ``monitor`` tells it what goes."""
    reconciler = _QuotaReconciler(cache)
    controller = (
        Builder(name=NAME)
        # Only what is used changes without need: the server charged for it.
        .for_(ResourceQuota, predicates=[spec_changed("hard") | status_changed("hard")])
        .rbac(Rule(groups=("*",), resources=("*",), verbs=("list",)))
        .options(max_concurrent_reconciles=_WORKERS, backoff_cap=_LONGEST_RETRY, field_manager=FIELD_MANAGER)
        .build(reconciler)
    )
    reconciler.attach(controller)
    monitor.observe(reconciler.observe)
    return controller
