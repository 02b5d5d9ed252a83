"""The operator is killed after each of its writes in turn while a gang is updated; the next one goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.runtime.manager.option import GracePeriodExceeded
from quarterdeck.testing import WRITES, Break, FaultPlan, TestCluster

from .grovekit import NS, Grove, clique, group, light_definitions, pcs, pod, pod_spec, running

LAST, STEP = 145, 12
"""Writes of an update, rounded up, and how many of them one test is about."""
SIZES = {"a": 2, "b": 1}
REPLICAS = 2


def workload() -> PodCliqueSet:
    made = pcs(clique("a", 2, 1), clique("b", 1, 1), groups=[group("g", ["b"], 2, 1)], replicas=REPLICAS)
    return made.evolve(metadata=ObjectMeta(name="w", namespace=NS))


class Watcher:
    """Sees all pods after every step, lets those run that may, and remembers what must not be."""

    def __init__(self, cluster: TestCluster) -> None:
        self._client = cluster.client
        self.wrong: list[str] = []

    async def look(self, image: str) -> bool:
        """One look; true when all pods are of ``image`` and run."""
        pods = [
            each
            for each in (await self._client.list(Pod, namespace=NS)).items
            if not each.metadata.is_deleting
        ]
        counts = Counter(each.metadata.labels[names.PODCLIQUE] for each in pods)
        for name, count in counts.items():
            if count > SIZES[name.rpartition("-")[2]]:
                self.wrong.append(f"{count} pods in {name}")
        if len({each.spec.hostname for each in pods}) < len(pods):
            self.wrong.append("two pods of one index")
        fresh: dict[str, list[bool]] = {}
        for each in pods:
            is_fresh = each.spec.containers[0].image == image
            fresh.setdefault(each.metadata.labels[names.SET_INDEX], []).append(is_fresh)
        if any(fresh.get("1", [])) and not all(fresh.get("0", [])):
            self.wrong.append(f"replica 1 is updated before replica 0 is: {fresh}")
        ready = 0
        for each in pods:
            is_ready = any(one.type == "Ready" and one.status == "True" for one in each.status.conditions)
            if not is_ready and not each.spec.scheduling_gates:
                status = to_dict(pod(each.metadata.name).status)
                await self._client.status.patch(each, MergePatch({"status": status}))
            ready += is_ready
        whole = REPLICAS * (SIZES["a"] + 2 * SIZES["b"])
        return ready == len(pods) == whole and all(value for values in fresh.values() for value in values)


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
            await change(cluster, image)
            survived = await work(grove, watcher, image, plan)
    return survived


@pytest.mark.parametrize("first", range(1, LAST, STEP))
async def test_killed_at_any_write_of_an_update_nothing_is_lost_or_made_twice(first: int) -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        watcher = Watcher(cluster)
        await bring_up(cluster, watcher)
        for nth in range(first, first + STEP):
            image = f"example.com/main:{nth + 1}"
            await live(cluster, watcher, image, FaultPlan(0, Break(nth=nth, verbs=WRITES)))
            async with running(cluster=cluster) as grove:
                assert await work(grove, watcher, image, FaultPlan())
        assert watcher.wrong == []


async def test_an_update_has_no_more_writes_than_those_at_which_it_is_killed() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        watcher = Watcher(cluster)
        await bring_up(cluster, watcher)
        plan = FaultPlan(0, Break(nth=LAST, verbs=WRITES))
        assert await live(cluster, watcher, "example.com/main:2", plan)
        assert watcher.wrong == []
