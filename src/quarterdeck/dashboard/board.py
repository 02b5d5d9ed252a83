"""The board: follows a cluster by watches, and tells subscribers which rows of the page changed.

Every object is digested once per change; the sections it belongs to are put together again a moment later,
and only rows that differ are told. Kinds that are not installed, or that the user may not read, leave their
sections empty and say so in ``sources``: everything else works without them.

Two sections are about the whole: ``problems`` (see ``quarterdeck.health``), the worst first, and ``health``,
one row with their number and whether the API server answers. A server that is gone breaks no watch where the
network swallows packets, so the board asks it every few seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from quarterdeck.api import Resource
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import Event, Node, Pod
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import QuarterdeckError, SchemaError
from quarterdeck.health import KINDS, Assessment, Observer, Problem, Seen, Sight, assess, see
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.operators.kai.types import PodGroup, Queue, Topology
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.cache import Cache, Change, Delta, HealthState, Informer
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import LoopClock

from . import digest, section
from .history import PERIOD, History
from .inspection import inspection, kind_named
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
_ASK: Final = 4.0
"""Seconds between two questions whether the server is there, and for its answer."""
_SUBJECTS: Final = 200
"""Objects of one problem that the page is told; their number is always told."""


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
    """Keeps of the objects of one kind what somebody makes of each."""

    def __init__(
        self, make: Callable[[Json], Any], kept: dict[str, Any], changed: Callable[[], None]
    ) -> None:
        self._make: Final = make
        self._kept: Final = kept
        self._changed: Final = changed

    def handle(self, delta: Delta) -> None:
        entry = delta.entry
        key = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        if delta.change is Change.DELETED:
            self._kept.pop(key, None)
        else:
            self._kept[key] = self._make(msgspec.json.decode(entry.raw))
        self._changed()


class Board:
    """The state of the page. ``run`` it beside whoever subscribes."""

    def __init__(
        self,
        client: Client,
        *,
        planner: Planner | None = None,
        title: str = "",
        clock: Clock | None = None,
    ) -> None:
        """``title`` says which cluster this is."""
        self.client: Final = client
        self.title: Final = title
        self._planner: Final = planner
        self._clock: Final = clock if clock is not None else LoopClock()
        self._cache: Final = Cache(client, client.mapper, scheme=client.scheme, clock=self._clock)
        self._digests: Final[dict[str, dict[str, Json]]] = {source.name: {} for source in SOURCES}
        self._informers: Final[dict[str, Informer]] = {}
        self._seen: Final[dict[str, dict[str, Seen]]] = {each.name: {} for each in KINDS}
        self._seeing: Final[dict[str, Informer]] = {}
        self._unreachable_since = ""
        self.history: Final = History()
        self._assessment = Assessment(unknown=tuple(self._seen))
        self._sections: Final[dict[str, section.Section]] = {}
        self._subscribers: Final[list[Subscriber]] = []
        self._dirty: Final[set[str]] = set()
        self._wake: Final = asyncio.Event()
        self._replan: Final = asyncio.Event()
        self._fair_shares: Mapping[str, float] = {}
        for source in SOURCES:
            informer = self._informers[source.name] = self._cache.informer(source.kind, optional=True)
            changed = partial(self._changed, source)
            informer.add_handler(_Handler(source.digest, self._digests[source.name], changed))
        for kind in KINDS:
            informer = self._seeing[kind.name] = self._cache.informer(kind.kind, optional=True)
            informer.add_handler(_Handler(partial(see, kind), self._seen[kind.name], self._trouble))
        for planned in planner.kinds() if planner is not None else ():
            self._cache.informer(planned, optional=True)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run(), name="board cache")
            group.create_task(self._put_together(), name="board sections")
            group.create_task(self._watch_sources(), name="board sources")
            group.create_task(self._keep_asking(), name="board server")
            group.create_task(self._remember(), name="board history")
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
            for each in (*self._informers.values(), *self._seeing.values())
        )

    @property
    def assessment(self) -> Assessment:
        """What is wrong now."""
        return self._assessment

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

    async def inspect(self, kind: str, api_version: str, namespace: str, name: str) -> Json:
        """One object in full, with its events and what it owns; raises what the server raises."""
        gvk = kind_named(kind, api_version)
        if gvk is None:
            raise SchemaError(f"kind {kind} is not known: say its apiVersion, too")
        obj = (await self.client.get(gvk, name, namespace)).to_dict()
        uid = str(obj["metadata"]["uid"])
        return inspection(obj, self._digests["events"].values(), self._children(uid))

    def _children(self, uid: str) -> Iterator[Json]:
        for each in KINDS:
            gvk = each.kind.type_info.gvk
            for entry in self._seeing[each.name].entries():
                if any(owner.uid == uid for owner in entry.owner_references):
                    status = msgspec.json.decode(entry.raw).get("status") or {}
                    yield {
                        "kind": gvk.kind,
                        "apiVersion": gvk.api_version,
                        "namespace": entry.namespace,
                        "name": entry.name,
                        "state": str(status.get("phase") or ""),
                    }

    def _changed(self, source: Source) -> None:
        self._dirty.update(source.sections)
        self._wake.set()
        if source.name in _PLANNED:
            self._replan.set()

    def _trouble(self) -> None:
        self._dirty.add("problems")
        self._wake.set()

    def _assess(self) -> section.Section:
        sights = {name: self._sight(each) for name, each in self._seeing.items()}
        unseen = ("absent", "refused", "unauthorized", "loading")
        world = {name: kept for name, kept in self._seen.items() if sights[name].state not in unseen}
        observer = Observer(
            sights=sights, unreachable_since=self._unreachable_since, server=self.title or "of this cluster"
        )
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        self._assessment = found = assess(world, observer, now)
        row = {
            "summary": found.summary,
            "critical": found.count("critical"),
            "warning": found.count("warning"),
            "notice": found.count("notice"),
            "unknown": list(found.unknown),
            "unreachableSince": self._unreachable_since,
        }
        self._tell("health", {"health": row})
        return {each.key: _problem_row(each, place) for place, each in enumerate(found.problems)}

    def _sight(self, informer: Informer) -> Sight:
        health = informer.health
        since = self._wall_time(health.since)
        if health.state is HealthState.KIND_MISSING:
            return Sight(state="absent")
        if health.state is HealthState.UNAUTHORIZED:
            return Sight(state="unauthorized", message=health.message, since=since)
        if health.state is HealthState.FORBIDDEN:
            return Sight(state="refused", message=str(health), since=since)
        if not informer.has_synced:
            return Sight(state="loading")
        return Sight() if health.is_good else Sight(state="stale", message=str(health), since=since)

    def _wall_time(self, moment: float) -> str:
        return _text(self._clock.time() - (self._clock.monotonic() - moment))

    async def _keep_asking(self) -> None:
        """Find out whether the server answers, also where no connection breaks."""
        answered = self._clock.time()
        while True:
            try:
                await self.client.rest.transport.request("GET", "/version", timeout=_ASK)
                answered, since = self._clock.time(), ""
            except QuarterdeckError as error:
                _log.debug("no answer", error=str(error))
                since = _text(answered)
            self._unreachable_since = since
            self._trouble()  # time passes: what takes a moment becomes a problem
            await self._clock.sleep(_ASK)

    async def _remember(self) -> None:
        await self.settled()
        while True:
            if not self._unreachable_since:  # what is not seen is not history
                self.history.take(_text(self._clock.time()), self._sections, self._digests)
            await self._clock.sleep(PERIOD)

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
            "problems": lambda _: self._assess(),
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


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _problem_row(problem: Problem, place: int) -> Json:
    return {
        "place": place,
        "situation": problem.situation,
        "severity": problem.severity,
        "head": problem.head,
        "reason": problem.reason,
        "since": problem.since,
        "remedy": problem.remedy,
        "count": len(problem.subjects),
        "subjects": msgspec.to_builtins(problem.subjects[:_SUBJECTS]),
    }


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
