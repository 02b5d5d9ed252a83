"""The PoolStatus controller of ipam cases, without a cluster: what wakes it, how its queue behaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable
from inspect import isawaitable
from typing import Any, Final

from quarterdeck.api import DynamicObject, Key
from quarterdeck.client import Client, Response, Stream
from quarterdeck.operators.ipam.controllers import Office, PoolStatusReconciler, pool_status_controller
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
    """The controller with its office, attached to nothing."""

    def __init__(self) -> None:
        self.registry: Final = Registry()
        client = Client.over(NoTransport())
        self.cache: Final = Cache(client, client.mapper)
        office = Office(self.cache, IpamMetrics(self.registry), IpamSettings())
        auditor = Auditor(office, client, LoopClock())
        self.controller: Final[Controller[SubnetPool]] = pool_status_controller(
            office, PoolStatusReconciler(office, auditor)
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
    kind = str(document.get("kind"))
    if change is Change.DELETED:
        return Delta(change, entry, None, is_unknown=tombstone is not None), kind
    old = event.get("old")
    before = factory.make(DynamicObject(old).to_bytes()) if old is not None else None
    return Delta(change, before, entry), kind


def next_delay(given: Json) -> float:
    """Seconds that the limiter gives to the last failure, or to the next one after a success."""
    limiter, key = pool_status_limiter(), Key("ns", "p")
    history = given.get("sequence") or ["fail"] * (given.get("consecutiveFailures", 0) + 1)
    if history[-1] == "success":
        history = [*history, "fail"]
    delay = 0.0
    for outcome in history:
        if outcome == "success":
            limiter.forget(key)
        elif outcome == "fail":
            delay = limiter.when(key)
        else:
            raise CaseFailure(f"outcome {outcome} is not understood")
    return delay


class QueueRun:
    """The controller's queue with workers that only count."""

    def __init__(self, given: Json) -> None:
        unknown = given.keys() - {"workersPaused", "processing", "workers", "reconcileMs"}
        if unknown:
            raise CaseFailure(f"given {sorted(unknown)} is not understood")
        self._given: Final = given
        self.runs: Final[Counter[str]] = Counter()
        self.depth = 0
        self.at_once = 0
        self.at_once_per_key = 0
        self._active: Final[Counter[str]] = Counter()

    def run(self, adds: list[Any]) -> None:
        """Add the keys, let the workers work, and count."""
        asyncio.run(self._run(adds))

    async def _run(self, adds: list[Any]) -> None:
        options = PoolStatusSubject().controller.options
        queue: WorkQueue[Key] = WorkQueue(limiter=pool_status_limiter(), age_rate=options.age_rate)
        held = Key.parse(self._given["processing"]) if "processing" in self._given else None
        if held is not None:
            queue.add(held)
            await queue.get()
        chosen = self._given.get("workers", "default")
        count = options.max_concurrent_reconciles if chosen == "default" else chosen
        for each in adds:
            if isinstance(each, dict):
                queue.add(Key.parse(each["key"]), after=each.get("afterMs", 0) / 1000)
            else:
                queue.add(Key.parse(each))
        self.depth = queue.statistics().ready
        workers = [asyncio.create_task(self._work(queue)) for _ in range(count or 1)]
        if held is not None:
            await asyncio.sleep(0)
            queue.done(held)
        while (now := queue.statistics()).ready or now.processing or now.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(_PLENTY)
        queue.shut_down()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, queue: WorkQueue[Key]) -> None:
        while True:
            key = await queue.get()
            name = str(key)
            self.runs[name] += 1
            self._active[name] += 1
            self.at_once = max(self.at_once, self._active.total())
            self.at_once_per_key = max(self.at_once_per_key, self._active[name])
            await asyncio.sleep(self._given.get("reconcileMs", 0) / 1000)
            self._active[name] -= 1
            queue.done(key)
