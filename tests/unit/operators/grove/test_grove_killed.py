"""The operator is killed after each of its writes in turn while a gang is updated; the next one goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch, WatchEvent
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.runtime.manager.option import GracePeriodExceeded
from quarterdeck.testing import WRITES, Break, FaultPlan, TestCluster

from .grovekit import NS, Grove, clique, group, light_definitions, pcs, pod, pod_spec, running

LAST, STEP = 145, 12
"""Writes of an update, rounded up, and how many of them one test is about."""
SIZES = {"a": 2, "b": 1}
REPLICAS = 2
WHOLE = REPLICAS * (SIZES["a"] + 2 * SIZES["b"])


def workload() -> PodCliqueSet:
    made = pcs(clique("a", 2, 1), clique("b", 1, 1), groups=[group("g", ["b"], 2, 1)], replicas=REPLICAS)
    return made.evolve(metadata=ObjectMeta(name="w", namespace=NS))


class Watcher:
    """Sees every change of a pod, lets pods run that may, and remembers what must not be."""

    def __init__(self, cluster: TestCluster) -> None:
        self._client = cluster.client
        self._alive: dict[str, Pod] = {}
        self._image = ""
        self.is_up = False
        self.wrong: list[str] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Watcher]:
        """Judge after every change while the block runs, whoever is alive to make it."""

        async def follow() -> None:
            async with self._client.watch(Pod, namespace=NS, resource_version="0") as events:
                async for event in events:
                    if isinstance(event, WatchEvent):
                        self._judge(event)

        task = asyncio.create_task(follow())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    def expects(self, image: str) -> None:
        """What new pods are made of from now on."""
        self._image = image

    def _judge(self, event: WatchEvent[Pod]) -> None:
        changed = event.object
        self._alive.pop(changed.metadata.uid, None)
        if event.type != "DELETED" and not changed.metadata.is_deleting:
            self._alive[changed.metadata.uid] = changed
        pods = list(self._alive.values())
        counts = Counter(each.metadata.labels[names.PODCLIQUE] for each in pods)
        for name, count in counts.items():
            if count > SIZES[name.rpartition("-")[2]]:
                self.wrong.append(f"{count} pods in {name}")
        if len({each.spec.hostname for each in pods}) < len(pods):
            self.wrong.append("two pods of one index")
        self.is_up = self.is_up or len(pods) == WHOLE
        for replica in range(REPLICAS) if self.is_up else ():
            # one of both pods of the clique, and one of both replicas of the group, is their minimum
            if (
                not counts[f"w-{replica}-a"]
                or not counts[f"w-{replica}-g-0-b"] + counts[f"w-{replica}-g-1-b"]
            ):
                self.wrong.append(f"replica {replica} is below a minimum: {counts}")
        first, second = (_are_fresh(pods, index, self._image) for index in ("0", "1"))
        if any(second) and not all(first):
            self.wrong.append(f"replica 1 is updated before replica 0 is: {first}, {second}")

    async def look(self, image: str) -> bool:
        """Let pods run; true when all of them are of ``image`` and do."""
        pods = [
            each
            for each in (await self._client.list(Pod, namespace=NS)).items
            if not each.metadata.is_deleting
        ]
        ready = 0
        for each in pods:
            is_ready = any(one.type == "Ready" and one.status == "True" for one in each.status.conditions)
            if not is_ready and not each.spec.scheduling_gates:
                status = to_dict(pod(each.metadata.name).status)
                await self._client.status.patch(each, MergePatch({"status": status}))
            ready += is_ready
        are_fresh = all(each.spec.containers[0].image == image for each in pods)
        return ready == len(pods) == WHOLE and are_fresh


def _are_fresh(pods: Iterable[Pod], index: str, image: str) -> list[bool]:
    return [
        each.spec.containers[0].image == image
        for each in pods
        if each.metadata.labels[names.SET_INDEX] == index
    ]


async def settled(grove: Grove, plan: FaultPlan) -> bool:
    """Let the operator work until nothing is left to do; false if it is killed before."""
    task = asyncio.create_task(grove.settle())
    while not task.done() and not plan.struck:
        await asyncio.wait([task], timeout=0.01)
    if plan.struck:
        task.cancel()
        await asyncio.wait([task])
        return False
    await task
    return True


async def work(grove: Grove, watcher: Watcher, image: str, plan: FaultPlan) -> bool:
    """Let the operator work until all is done; false if it is killed before."""
    for _ in range(60):
        if not await settled(grove, plan):
            return False
        is_complete = await watcher.look(image)
        found = await grove.client.get(PodCliqueSet, "w", NS)
        progress = found.status.update_progress
        if is_complete and (not progress or progress.update_ended_at):
            return True
    raise AssertionError(f"the update to {image} does not end")


async def change(cluster: TestCluster, image: str) -> None:
    found = await cluster.client.get(PodCliqueSet, "w", NS)
    template: dict[str, Any] = to_dict(found.spec.template)
    for each in template["cliques"]:
        each["spec"]["podSpec"] = to_dict(pod_spec(image))
    await cluster.client.patch(found, MergePatch({"spec": {"template": template}}))


async def bring_up(cluster: TestCluster, watcher: Watcher) -> None:
    async with running(cluster=cluster) as grove:
        await grove.client.create(workload())
        assert await work(grove, watcher, "example.com/main:1", FaultPlan())


async def live(cluster: TestCluster, watcher: Watcher, image: str, plan: FaultPlan) -> bool:
    """One life of the operator, which begins with a change of the set; false if it is killed."""
    survived = False
    with suppress(GracePeriodExceeded):  # one that is dead does not stop in time
        async with running(cluster=cluster, link=cluster.link(name="life")) as grove:
            grove.link.plan = plan
            watcher.expects(image)
            await change(cluster, image)
            survived = await work(grove, watcher, image, plan)
    return survived


@pytest.mark.parametrize("first", range(1, LAST, STEP))
async def test_killed_at_any_write_of_an_update_nothing_is_lost_or_made_twice(first: int) -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with Watcher(cluster).watching() as watcher:
            await bring_up(cluster, watcher)
            for nth in range(first, first + STEP):
                image = f"example.com/main:{nth + 1}"
                await live(cluster, watcher, image, FaultPlan(0, Break(nth=nth, verbs=WRITES)))
                async with running(cluster=cluster) as grove:
                    assert await work(grove, watcher, image, FaultPlan())
        assert watcher.is_up
        assert watcher.wrong == []


async def test_an_update_has_no_more_writes_than_those_at_which_it_is_killed() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with Watcher(cluster).watching() as watcher:
            await bring_up(cluster, watcher)
            plan = FaultPlan(0, Break(nth=LAST, verbs=WRITES))
            assert await live(cluster, watcher, "example.com/main:2", plan)
        assert watcher.is_up
        assert watcher.wrong == []
