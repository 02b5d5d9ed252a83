"""What the operator's look at a big cluster costs, without a cluster: a cache that holds objects as bytes.

    python -m benchmarks scheduler --only look

Measured are the first look, one when nothing happened, one after heartbeats of nodes, and one after pods
changed. The objects and the reading of them are the operator's own; only the watch is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec

from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import AnyKind
from quarterdeck.operators.kai.controllers.snapshot import SnapshotTaker
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.loop.clock import LoopClock

__all__ = ["bench_look"]

CHANGES: Final = 100
LIMIT: Final = 0.1
"""Seconds, when nothing changed that matters."""

Observer = Callable[[Entry | None, Entry | None], None]


class _Still:
    """The informer of a kind whose objects change when they are told to."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Entry] = {}
        self._observers: list[Observer] = []
        self._factory: Final = EntryFactory()

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    def entries(self, namespace: str = "") -> Iterator[Entry]:
        yield from self.objects.values()

    def get(self, namespace: str, name: str) -> Entry | None:
        return self.objects.get((namespace, name))

    def decoder(self, kind: AnyKind) -> Callable[[Entry], Any]:
        return lambda entry: None

    def put(self, document: dict[str, Any]) -> None:
        """An object appears or changes."""
        new = self._factory.make(msgspec.json.encode(document))
        place = (new.namespace, new.name)
        old = self.objects.get(place)
        self.objects[place] = new
        for observer in self._observers:
            observer(old, new)


class _StillCache:
    def __init__(self) -> None:
        self.informers: dict[AnyKind, _Still] = {}

    def informer(self, kind: AnyKind, *, optional: bool | None = None) -> _Still:
        return self.informers.setdefault(kind, _Still())


def _node(index: int, beat: int = 0) -> dict[str, Any]:
    name = f"node-{index:05}"
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2030-01-01T00:00:{beat % 60:02}Z"}
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "resourceVersion": str(beat + 1)},
        "spec": {},
        "status": {"allocatable": amounts, "conditions": [ready]},
    }


def _pod(index: int, nodes: int, phase: str = "Running", version: int = 1) -> dict[str, Any]:
    name = f"pod-{index:06}"
    amounts = {"cpu": "100m", "memory": "1Mi"}
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": "bench",
            "name": name,
            "uid": name,
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "annotations": {"pod-group-name": f"gang-{index // 32:05}"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeName": f"node-{index % nodes:05}",
            "containers": [{"name": "main", "image": "x", "resources": {"requests": amounts}}],
        },
        "status": {"phase": phase},
    }


def _timed(what: str, work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    seconds = time.process_time() - started
    print(f"  {what:44} {seconds * 1e3:9.1f} ms")
    return seconds


def bench_look(nodes: int, pods: int) -> bool:
    """Looks at a cluster that is big, at rest, and then not."""
    print(f"\nlook: the operator looks at {nodes:,} nodes and {pods:,} pods (CPU)")
    cache = _StillCache()
    taker = SnapshotTaker(cast("Cache", cache), KaiSettings(), LoopClock())
    for index in range(nodes):
        cache.informer(Node).put(_node(index))
    for index in range(pods):
        cache.informer(Pod).put(_pod(index, nodes))
    _timed("the first", taker.take)
    version = taker.version()
    still = _timed("nothing happened", taker.version)
    for index in range(CHANGES):
        cache.informer(Node).put(_node(index, beat=1))
    beats = _timed(f"{CHANGES} heartbeats of nodes", taker.version)
    is_quiet = taker.version() == version
    for index in range(CHANGES):
        cache.informer(Pod).put(_pod(index, nodes, "Succeeded", 2))
    _timed(f"{CHANGES} pods changed, with the new snapshot", taker.take)
    is_noticed = taker.version() != version
    return is_quiet and is_noticed and max(still, beats) <= LIMIT
