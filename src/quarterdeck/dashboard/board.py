"""The board: follows a cluster by watches, and tells subscribers which rows of the page changed.

Every object is digested once per change; the sections it belongs to are put together again a moment later,
and only rows that differ are told. Kinds that are not installed, or that the user may not read, leave their
sections empty and say so in ``sources``: everything else works without them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from quarterdeck.api import Resource
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import Event, Node, Pod
from quarterdeck.client import Client
from quarterdeck.errors import QuarterdeckError, SchemaError
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.operators.kai.types import PodGroup, Queue, Topology
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.cache import Cache, Change, Delta, HealthState, Informer
from quarterdeck.runtime.log import get_logger

from . import digest, section
from .planner import Plan, Planner

_log: Final = get_logger(__name__)
_GATHER: Final = 0.05
"""Seconds in which changes are gathered before sections are put together."""
_REST: Final = 4.0
"""Putting sections together takes at most one part in so many of the time."""
_PLAN_PERIOD: Final = 2.0
"""Seconds between two plans, which cost a cycle of the scheduler each."""
_LOOK: Final = 1.0
"""Seconds between two looks at how the watches are doing."""


class Source(msgspec.Struct, frozen=True):
    """A kind that the page shows something of."""

    name: str
    kind: type[Resource]
    digest: Callable[[Json], Json]
    sections: tuple[str, ...]


SOURCES: Final = (
    Source("nodes", Node, digest.node, ("nodes",)),
    Source("pods", Pod, digest.pod, ("nodes", "gangs", "trainings")),
    Source("events", Event, digest.event, ("events",)),
    Source("podgroups", PodGroup, digest.pod_group, ("gangs",)),
    Source("queues", Queue, digest.queue, ("queues",)),
    Source("topologies", Topology, digest.topology, ("nodes",)),
    Source("trainjobs", TrainJob, digest.train_job, ("trainings",)),
    Source("podcliquesets", PodCliqueSet, digest.clique_set, ("inference",)),
    Source("podcliques", PodClique, digest.clique, ("inference",)),
    Source("scalinggroups", PodCliqueScalingGroup, digest.scaling_group, ("inference",)),
    Source("pools", SubnetPool, digest.pool, ("addresses",)),
    Source("subnets", Subnet, digest.subnet, ("addresses",)),
    Source("nodegroups", NodeGroup, digest.node_group, ("nodegroups",)),
)
_PLANNED: Final = frozenset({"nodes", "pods", "podgroups", "queues", "topologies"})


class Changes(msgspec.Struct, frozen=True, rename="camel"):
    """Rows of one section that are new or differ, and the keys of those that are gone."""

    section: str
    rows: Mapping[str, Any]
    gone: tuple[str, ...] = ()
    is_whole: bool = False
    """These are all rows of the section: what a subscriber had of it before is void."""


Subscriber = Callable[[Changes], None]


class _Handler:
    """Digests the objects of one kind."""

    def __init__(self, source: Source, digests: dict[str, Json], changed: Callable[[Source], None]) -> None:
        self._source: Final = source
        self._digests: Final = digests
        self._changed: Final = changed

    def handle(self, delta: Delta) -> None:
        entry = delta.entry
        key = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        if delta.change is Change.DELETED:
            self._digests.pop(key, None)
        else:
            self._digests[key] = self._source.digest(msgspec.json.decode(entry.raw))
        self._changed(self._source)


class Board:
    """The state of the page. ``run`` it beside whoever subscribes."""

    def __init__(self, client: Client, *, planner: Planner | None = None, title: str = "") -> None:
        """``title`` says which cluster this is."""
        self.client: Final = client
        self.title: Final = title
        self._planner: Final = planner
        self._cache: Final = Cache(client, client.mapper, scheme=client.scheme)
        self._digests: Final[dict[str, dict[str, Json]]] = {source.name: {} for source in SOURCES}
        self._informers: Final[dict[str, Informer]] = {}
        self._sections: Final[dict[str, section.Section]] = {}
        self._subscribers: Final[list[Subscriber]] = []
        self._dirty: Final[set[str]] = set()
        self._wake: Final = asyncio.Event()
        self._replan: Final = asyncio.Event()
        self._fair_shares: Mapping[str, float] = {}
        for source in SOURCES:
            informer = self._informers[source.name] = self._cache.informer(source.kind, optional=True)
            informer.add_handler(_Handler(source, self._digests[source.name], self._changed))
        for kind in planner.kinds() if planner is not None else ():
            self._cache.informer(kind, optional=True)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run(), name="board cache")
            group.create_task(self._put_together(), name="board sections")
            group.create_task(self._watch_sources(), name="board sources")
            if self._planner is not None:
                group.create_task(self._keep_planning(self._planner), name="board plan")

    async def settled(self) -> None:
        """Wait until every kind has been read, or cannot be, and all of it is in the sections."""
        while not self._is_settled:  # noqa: ASYNC110  nobody signals that a kind cannot be read
            await asyncio.sleep(_GATHER)

    @property
    def _is_settled(self) -> bool:
        return not self._dirty and all(
            each.health.is_blocked or (each.has_synced and each.statistics().queued == 0)
            for each in self._informers.values()
        )

    @property
    def sections(self) -> Mapping[str, section.Section]:
        """All rows, by section; do not change them."""
        return self._sections

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell all rows now and every change from now on; returns what ends it."""
        self._subscribers.append(subscriber)
        for name, rows in self._sections.items():
            subscriber(Changes(name, rows, is_whole=True))
        return partial(self._subscribers.remove, subscriber)

    async def explain(self, namespace: str, name: str) -> Json:
        """Why a gang waits and what would start it; raises ``SchemaError`` if nobody can tell."""
        if self._planner is None:
            raise SchemaError("no scheduler can be asked about this cluster")
        plan = await self._planner.plan(self._cache)
        return await asyncio.to_thread(plan.explain, namespace, name)

    def _changed(self, source: Source) -> None:
        self._dirty.update(source.sections)
        self._wake.set()
        if source.name in _PLANNED:
            self._replan.set()

    async def _put_together(self) -> None:
        made: Mapping[str, Callable[[section.Digests], section.Section]] = {
            "nodes": section.nodes,
            "gangs": section.gangs,
            "queues": lambda digests: section.queues(digests, self._fair_shares),
            "trainings": section.trainings,
            "inference": section.inference,
            "addresses": section.addresses,
            "nodegroups": section.node_groups,
            "events": section.events,
        }
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER)
            self._wake.clear()
            started = time.perf_counter()
            for name in sorted(self._dirty):
                self._dirty.discard(name)
                self._tell(name, made[name](self._digests))
                await asyncio.sleep(0)
            await asyncio.sleep((time.perf_counter() - started) * _REST)

    def _tell(self, name: str, rows: section.Section) -> None:
        known = self._sections.get(name)
        self._sections[name] = rows
        if known is None:
            changes = Changes(name, rows, is_whole=True)
        else:
            changes = Changes(
                name,
                {key: row for key, row in rows.items() if known.get(key) != row},
                tuple(key for key in known if key not in rows),
            )
            if not changes.rows and not changes.gone:
                return
        for subscriber in tuple(self._subscribers):
            subscriber(changes)

    async def _watch_sources(self) -> None:
        while True:
            self._tell("sources", {name: _source_row(each) for name, each in self._informers.items()})
            await asyncio.sleep(_LOOK)

    async def _keep_planning(self, planner: Planner) -> None:
        while True:
            await self._replan.wait()
            self._replan.clear()
            started = time.perf_counter()
            try:
                plan: Plan = await planner.plan(self._cache)
                shares = await asyncio.to_thread(plan.fair_shares)
            except QuarterdeckError as error:
                _log.debug("no plan", error=str(error))
                shares = {}
            if shares != self._fair_shares:
                self._fair_shares = shares
                self._dirty.add("queues")
                self._wake.set()
            await asyncio.sleep(max(_PLAN_PERIOD, (time.perf_counter() - started) * _REST))


def _source_row(informer: Informer) -> Json:
    health = informer.health
    if health.state is HealthState.KIND_MISSING:
        return {"state": "absent", "message": ""}
    if health.is_good or informer.has_synced:
        message = "" if health.is_good else str(health)
        return {"state": "stale" if message else "ready", "message": message}
    if health.state is HealthState.STARTING:
        return {"state": "loading", "message": ""}
    return {"state": "refused" if health.is_blocked else "retrying", "message": str(health)}
