"""The PoolStatus controller of ipam cases, without a cluster: what wakes it, how its queue behaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from inspect import isawaitable
from typing import Any, Final

from quarterdeck.api import DynamicObject, Key
from quarterdeck.client import Client, Response, Stream
from quarterdeck.operators.ipam.controllers import PoolStatusReconciler, SharedState, pool_status_controller
from quarterdeck.operators.ipam.controllers.audit import Auditor
from quarterdeck.operators.ipam.controllers.poolstatus import pool_status_limiter
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import KINDS as IPAM_KINDS
from quarterdeck.operators.ipam.types import SubnetPool
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import EntryFactory
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.source import KindSource
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import Registry
from quarterdeck.runtime.queue.workqueue import WorkQueue
from quarterdeck.testing import run
from tests.harness.case import CaseFailure

from .operator import Sample, parse_samples

Json = dict[str, Any]

_CHANGES: Final = {
    "ADDED": Change.ADDED,
    "MODIFIED": Change.UPDATED,
    "DELETED": Change.DELETED,
    "GENERIC": Change.GENERIC,
}
_CLASSES: Final = {kind.type_info.kind: kind for kind in IPAM_KINDS}
_PLENTY: Final = 0.2


class NoTransport:
    """Nothing is ever sent."""

    async def request(self, method: str, path: str, **_: Any) -> Response:
        raise AssertionError(f"{method} {path}")

    async def stream(self, method: str, path: str, **_: Any) -> Stream:
        raise AssertionError(f"{method} {path}")

    async def aclose(self) -> None:
        return None


class PoolStatusSubject:
    """The controller with its shared, attached to nothing."""

    def __init__(self, settings: IpamSettings | None = None) -> None:
        self.registry: Final = Registry()
        client = Client.over(NoTransport())
        self.cache: Final = Cache(client, client.mapper)
        shared = SharedState(self.cache, IpamMetrics(self.registry), settings or IpamSettings())
        auditor = Auditor(shared, client, LoopClock())
        self.controller: Final[Controller[SubnetPool]] = pool_status_controller(
            shared, PoolStatusReconciler(shared, auditor)
        )

    def samples(self) -> list[Sample]:
        """The metrics now."""
        return parse_samples(self.registry.expose().decode())

    def feed(self, event: Json) -> set[Key]:
        """The keys that an event puts on the queue: of every source whose predicates let it pass."""
        delta, kind = _delta(event)
        found: set[Key] = set()
        for source in self.controller.sources:
            if not isinstance(source, KindSource) or not isinstance(source.kind, type):
                continue
            if source.kind.type_info.kind != kind:
                continue
            decode = _CLASSES[kind].from_bytes
            seen: ObjectEvent[Any] = ObjectEvent(delta, lambda entry, decode=decode: decode(entry.raw))  # type: ignore[misc]
            if all(predicate(seen) for predicate in source.predicates):
                found |= set(_keys(source.mapper.keys(seen, MapContext(self.cache))))
        return found


def _keys(found: Iterable[Key] | Awaitable[Iterable[Key]]) -> Iterable[Key]:
    if isawaitable(found):
        raise CaseFailure("a mapper of the PoolStatus controller waits for something")
    return found


def _delta(event: Json) -> tuple[Delta, str]:
    change, factory = _CHANGES[event["type"]], EntryFactory()
    tombstone = event.get("tombstone")
    document = tombstone.get("object") if tombstone is not None else event["object"]
    if not isinstance(document, dict):
        return Delta(change, None, None), ""
    entry = factory.make(DynamicObject(document).to_bytes())
    if tombstone is not None and tombstone.get("key", str(entry.key)) != str(entry.key):
        raise CaseFailure(f"tombstone.key: {tombstone['key']} is not the key of its object")
    kind = str(document.get("kind"))
    if change is Change.DELETED:
        return Delta(change, entry, None, is_unknown=tombstone is not None), kind
    old = event.get("old")
    before = factory.make(DynamicObject(old).to_bytes()) if old is not None else None
    return Delta(change, before, entry), kind


class _StandingClock(LoopClock):
    """Everything happens at the same instant."""

    def monotonic(self) -> float:
        return 0.0


def next_delay(given: Json) -> float:
    """Seconds that the limiter gives to the last failure of a key, or to the next one after a success."""
    limiter, meant = pool_status_limiter(_StandingClock()), given.get("key", "p")
    history = given.get("sequence") or ["fail"] * (given.get("consecutiveFailures", 0) + 1)
    delay: float | None = None
    for each in history:
        outcome, _, name = each.partition(":")
        key = Key("ns", name or meant)
        if outcome == "success":
            limiter.forget(key)
        elif outcome != "fail":
            raise CaseFailure(f"given.sequence: {each} is not understood")
        if key.name == meant:
            delay = None if outcome == "success" else limiter.when(key)
        elif outcome == "fail":
            limiter.when(key)
    return delay if delay is not None else limiter.when(Key("ns", meant))


def delays_at_once(count: int) -> list[float]:
    """Seconds that the limiter gives to so many keys that fail for the first time at the same instant."""
    limiter = pool_status_limiter(_StandingClock())
    return [limiter.when(Key("ns", f"p{number}")) for number in range(count)]


class QueueRun:
    """The controller's queue with workers that only count, on virtual time."""

    def __init__(self, given: Json) -> None:
        self._given: Final = given
        self.depth = 0
        """Keys that were ready before the workers began."""
        self.starts: Final[list[tuple[float, str]]] = []
        """When which key was taken, in seconds after the last add."""
        self.at_once = 0
        self.at_once_per_key: Final[Counter[str]] = Counter()
        self._active: Final[Counter[str]] = Counter()

    @property
    def runs(self) -> Counter[str]:
        """How often each key was taken."""
        return Counter(name for _, name in self.starts)

    def runs_within(self, seconds: float) -> Counter[str]:
        """How often each key was taken until so many seconds after the last add."""
        return Counter(name for at, name in self.starts if at <= seconds)

    def run(self, adds: list[Any], spacing: float = 0.0) -> None:
        """Add the keys (with ``spacing`` seconds between them, while the workers work), and count."""
        run(self._run(adds, spacing))

    async def _run(self, adds: list[Any], spacing: float) -> None:
        options = PoolStatusSubject().controller.options
        queue: WorkQueue[Key] = WorkQueue(limiter=pool_status_limiter(), age_rate=options.age_rate)
        held = Key.parse(self._given["processing"]) if "processing" in self._given else None
        if held is not None:
            queue.add(held)
            await queue.get()
        for name, delay in (self._given.get("delayed") or {}).items():
            queue.add(Key.parse(name), after=delay / 1000)
        chosen = self._given.get("workers", "default")
        count: int = (options.max_concurrent_reconciles if chosen == "default" else chosen) or 1
        workers: list[asyncio.Task[None]] = []
        for number, each in enumerate(adds):
            if spacing and not workers:
                workers = self._workers(queue, count)
            if number:
                await asyncio.sleep(spacing)
            added = each if isinstance(each, dict) else {"key": each}
            queue.add(Key.parse(added["key"]), after=added.get("afterMs", 0) / 1000)
        last_add = asyncio.get_running_loop().time()
        self.depth = queue.statistics().ready
        workers = workers or self._workers(queue, count)
        if held is not None:
            await asyncio.sleep(0)
            queue.done(held)
        while (now := queue.statistics()).ready or now.processing or now.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(_PLENTY)
        queue.shut_down()
        await asyncio.gather(*workers, return_exceptions=True)
        self.starts[:] = [(at - last_add, name) for at, name in self.starts]

    def _workers(self, queue: WorkQueue[Key], count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._work(queue)) for _ in range(count)]

    async def _work(self, queue: WorkQueue[Key]) -> None:
        while True:
            key = await queue.get()
            name = str(key)
            self.starts.append((asyncio.get_running_loop().time(), name))
            self._active[name] += 1
            self.at_once = max(self.at_once, self._active.total())
            self.at_once_per_key[name] = max(self.at_once_per_key[name], self._active[name])
            await asyncio.sleep(self._given.get("reconcileMs", 0) / 1000)
            self._active[name] -= 1
            queue.done(key)
