"""What a cycle sees of the cluster, how often it looks, and how often it repeats itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quarterdeck import scheduler as core
from quarterdeck.api import Key
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import MergePatch
from quarterdeck.operators.kai.controllers import SchedulingEvents, SnapshotTaker, Ticker
from quarterdeck.operators.kai.controllers import cycle as cycle_module
from quarterdeck.operators.kai.controllers.ownwrites import OwnWrites
from quarterdeck.operators.kai.controllers.schedulingevent import PERIOD
from quarterdeck.operators.kai.controllers.writelimit import INTERVAL, WriteLimit
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import Registry
from quarterdeck.scheduler import CycleResult, Settings, Snapshot
from quarterdeck.testing import EventLog

from .kaikit import NS, Kai, group, kai, pod, queue

POOL = "kai.scheduler/node-pool"


@asynccontextmanager
async def looking(**settings: Any) -> AsyncIterator[tuple[Kai, SnapshotTaker]]:
    async with kai(**settings) as found:
        await found.settle()
        yield found, SnapshotTaker(found.manager.cache, KaiSettings(**settings), LoopClock())


def names_of(items: tuple[Any, ...]) -> list[str]:
    return sorted(each.name for each in items)


async def test_a_snapshot_has_everything() -> None:
    async with looking() as (found, taker):
        await found.add_nodes("n1", rack="a")
        topology = {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "t"},
            "spec": {"levels": [{"nodeLabel": "rack"}]},
        }
        await found.create(
            queue("team"),
            group("g"),
            pod("g-0", "g"),
            pod("alien", schedulerName="other"),
            topology,
        )
        await found.settle()
        seen = taker.take()
        assert names_of(seen.nodes) == ["n1"]
        assert names_of(seen.pods) == ["alien", "g-0"]
        assert names_of(seen.pod_groups) == ["g"]
        assert names_of(seen.queues) == ["team"]
        assert names_of(seen.topologies) == ["t"]
        assert {each.name for each in seen.priority_classes} >= {"system-node-critical"}
        assert NS in seen.namespaces
        assert seen.now == pytest.approx(LoopClock().time())


async def test_what_did_not_change_is_not_read_again() -> None:
    async with looking() as (found, taker):
        await found.add_nodes("n1")
        await found.create(queue("team"), group("g"), pod("g-0", "g"), pod("g-1", "g"))
        await found.settle()
        first = {each.name: each for each in taker.take().pods}
        await found.client.patch(await found.pod("g-0"), MergePatch({"metadata": {"labels": {"a": "b"}}}))
        await found.settle()
        second = {each.name: each for each in taker.take().pods}
        assert second["g-1"] is first["g-1"]
        assert second["g-0"].labels["a"] == "b"


async def test_what_the_scheduler_does_not_look_at_is_no_change() -> None:
    async with looking() as (found, taker):
        await found.add_nodes("n1")
        await found.create(queue("team"), group("g"), pod("g-0", "g"))
        await found.settle()
        version = taker.version()
        beat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:07Z"}]
        node = await found.client.get(Node, "n1")
        await found.client.status.patch(node, MergePatch({"status": {"conditions": beat}}))
        told = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        await found.client.status.patch(await found.pod("g-0"), MergePatch({"status": {"conditions": told}}))
        await found.settle()
        assert taker.version() == version
        await found.client.patch(node, MergePatch({"spec": {"unschedulable": True}}))
        await found.settle()
        assert taker.version() != version
        assert [each.is_unschedulable for each in taker.take().nodes] == [True]
        await found.client.delete(Node, "n1")
        await found.settle()
        assert taker.take().nodes == ()


@pytest.mark.parametrize(
    ("pool", "seen"), [("", ["a", "d", "none"]), ("a", ["a"]), ("default", ["d", "none"]), ("b", [])]
)
async def test_a_scheduler_of_one_node_pool_sees_that(pool: str, seen: list[str]) -> None:
    async with looking(node_pool=pool) as (found, taker):
        await found.add_nodes("none")
        await found.add_nodes("a", gpus=8, **{POOL: "a"})
        await found.add_nodes("d", gpus=8, **{POOL: "default"})
        for name, label in (("none", None), ("a", "a"), ("d", "default")):
            made = group(name)
            if label is not None:
                made["metadata"]["labels"] = {POOL: label}
            await found.create(made)
        await found.settle()
        taken = taker.take()
        assert names_of(taken.nodes) == seen
        assert names_of(taken.pod_groups) == seen


async def test_volumes_are_looked_at_every_time() -> None:
    async with looking() as (found, taker):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        await found.create(pod("p", "g", volumes=volumes))
        await found.settle()
        (seen,) = taker.take().pods
        assert seen.constraints.problems == ('VolumeBinding: persistentvolumeclaim "data" not found',)
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": NS},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "disk",
            },
        }
        zone = {"key": "zone", "operator": "In", "values": ["a"]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            },
        }
        await found.create(claim, volume)
        await found.settle()
        (seen,) = taker.take().pods
        assert seen.constraints.problems == ()
        assert len(seen.constraints.volume_nodes) == 1


async def test_requests_of_earlier_pods_are_told_apart() -> None:
    async with looking() as (found, taker):
        await found.create(pod("p", "g", gpu=0), pod("q", "g", gpu=0))
        current = await found.pod("p")
        for name, uid in (("p", "another"), ("q", (await found.pod("q")).metadata.uid)):
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
            await found.create(
                {
                    "apiVersion": "scheduling.run.ai/v1alpha2",
                    "kind": "BindRequest",
                    "metadata": {"name": name, "namespace": NS, "ownerReferences": [owner]},
                    "spec": {"podName": name, "selectedNode": "n"},
                }
            )
        await found.settle()
        assert [each.pod for each in taker.take().bind_requests] == ["q"]
        assert taker.left_over_requests() == [Key(NS, "p")]
        assert current.metadata.uid != "another"


async def test_waiting_ends_when_the_cache_has_caught_up() -> None:
    async with kai() as found:
        await found.settle()
        writes = OwnWrites(found.manager.cache)
        assert await writes.wait_seen()
        await found.create(pod("p", "g"))
        stored = await found.pod("p")
        writes.wrote(stored)
        assert await writes.wait_seen()
        assert found.manager.cache.informer(Pod).get(NS, "p") is not None
        await found.client.delete(stored, grace_period=0)
        writes.deleted(stored)
        assert await writes.wait_seen()
        entry = found.manager.cache.informer(Pod).get(NS, "p")
        assert entry is None or entry.is_deleting


async def test_waiting_ends_when_it_takes_too_long() -> None:
    async with kai() as found:
        await found.create(pod("p", "g"))
        await found.settle()
        writes = OwnWrites(found.manager.cache)
        stored = await found.pod("p")
        writes.deleted(stored)  # nobody did
        assert not await writes.wait_seen()
        assert await writes.wait_seen()


class Cycle:
    """Stands for a scheduling cycle: counts, and fails when told to."""

    def __init__(self, *errors: Exception | None, seconds: float = 0.0) -> None:
        self.errors = list(errors)
        self.seconds = seconds
        self.started: list[float] = []

    async def run_once(self) -> None:
        self.started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


async def ticked(cycle: Cycle, period: float, seconds: float) -> Registry:
    registry = Registry()
    ticker = Ticker(cycle.run_once, period, clock=LoopClock(), metrics=KaiMetrics(registry))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await ticker.run()
    return registry


async def test_cycles_begin_every_period_however_long_they_take() -> None:
    cycle = Cycle(seconds=0.4)
    await ticked(cycle, 1.0, 5.5)
    gaps = [after - before for before, after in zip(cycle.started, cycle.started[1:], strict=False)]
    assert gaps == pytest.approx([1.0] * 5)
    slow = Cycle(seconds=1.5)
    await ticked(slow, 1.0, 5.0)
    assert len(slow.started) == 4


async def test_a_cycle_that_fails_does_not_end_the_others() -> None:
    cycle = Cycle(ValueError("a bug"), None, ExceptionGroup("several", [KeyError("x")]))
    registry = await ticked(cycle, 1.0, 4.5)
    assert len(cycle.started) == 5
    assert registry.value("quarterdeck_kai_cycles_total", "error") == 2
    assert registry.value("quarterdeck_kai_cycles_total", "success") == 3


async def test_the_same_is_said_again_only_after_a_while() -> None:
    log = EventLog()
    events = SchedulingEvents(log, LoopClock())
    one, other = (Pod.from_dict({"metadata": {"name": name, "uid": name}}) for name in "ab")
    for _ in range(3):
        events.repeat(one, "Normal", "R", "same")
    events.repeat(other, "Normal", "R", "same")
    events.repeat(one, "Normal", "Q", "same")
    events.repeat(one, "Normal", "R", "new")
    assert [str(each) for each in log.events] == [
        "Normal R same",
        "Normal R same",
        "Normal Q same",
        "Normal R new",
    ]
    await asyncio.sleep(PERIOD + 1)
    events.repeat(one, "Normal", "R", "new")
    assert len(log.events) == 5


async def test_one_object_is_written_a_few_times_a_second() -> None:
    pace = WriteLimit(LoopClock())
    key = Key(NS, "g")
    assert pace.remaining(key) == 0
    pace.wrote(key)
    assert pace.remaining(key) == pytest.approx(INTERVAL)
    assert pace.remaining(Key(NS, "h")) == 0
    await asyncio.sleep(INTERVAL)
    assert pace.remaining(key) == 0


async def test_a_cycle_of_a_big_cluster_leaves_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def schedule(snapshot: Snapshot, settings: Settings) -> CycleResult:
        threads.append(threading.current_thread())
        return core.schedule(snapshot, settings)

    monkeypatch.setattr(cycle_module, "schedule", schedule)
    async with kai() as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), group("g", 2), pod("g-0", "g"), pod("g-1", "g"))
        await found.schedule()
        monkeypatch.setattr(cycle_module, "BIG", 1)
        await found.schedule()
    assert [each is threading.main_thread() for each in threads] == [True, False]
