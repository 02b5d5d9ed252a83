"""Bad days: refused and lost requests, watches that end, restarts; what comes out is the same."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Pod, Service
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
)
from quarterdeck.testing import WRITES, FaultPlan, LoseAnswer, TestCluster, eventually

from .grovekit import NS, Grove, light_definitions, running, set_ready, workload


async def create(grove: Grove, **fields: object) -> PodCliqueSet:
    made = workload((1, 1, 1), 1, **fields)  # type: ignore[arg-type]
    return await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))


async def check_children(grove: Grove, *, groups: int = 2) -> None:
    """The pods of the set, each once, and all in their gangs."""
    client = grove.client
    pods = (await client.list(Pod, namespace=NS)).items
    counts = Counter(pod.metadata.labels[names.PODCLIQUE] for pod in pods)
    expected = {"w-0-pc-a": 2}
    for index in range(groups):
        expected |= {f"w-0-sg-x-{index}-pc-b": 1, f"w-0-sg-x-{index}-pc-c": 3}
    assert dict(counts) == expected
    hosts = [pod.spec.hostname for pod in pods]
    assert len(set(hosts)) == len(hosts), hosts
    assert {each.metadata.name for each in (await client.list(PodClique, namespace=NS)).items} == set(
        expected
    )
    gangs = {each.metadata.name: each for each in (await client.list(PodGang, namespace=NS)).items}
    assert set(gangs) == {"w-0", *(f"w-0-sg-x-{index}" for index in range(groups - 1))}
    references = {
        reference.name
        for gang in gangs.values()
        for each in gang.spec.podgroups
        for reference in each.pod_references
    }
    assert references == {pod.metadata.name for pod in pods}
    assert all(
        condition.status == "True"
        for gang in gangs.values()
        for condition in gang.status.conditions
        if condition.type == names.INITIALIZED
    )
    assert len((await client.list(Service, namespace=NS, labels={names.PART_OF: "w"})).items) == 1


@pytest.mark.parametrize("seed", range(4))
async def test_a_storm_leaves_what_a_quiet_day_leaves(seed: int) -> None:
    async with TestCluster(crds=light_definitions(), controllers=True, seed=seed) as cluster:
        link = cluster.link(name="grove")
        async with running(cluster=cluster, link=link) as grove:
            link.plan = FaultPlan.storm(seed)
            await create(grove)

            async def is_complete() -> bool:
                pods = (await grove.client.list(Pod, namespace=NS)).items
                gangs = (await grove.client.list(PodGang, namespace=NS)).items
                known = sum(len(each.pod_references) for gang in gangs for each in gang.spec.podgroups)
                return len(pods) == known == 10

            await eventually(is_complete, timeout=600)
            await grove.client.subresource("scale").patch(
                await grove.client.get(PodCliqueScalingGroup, "w-0-sg-x", NS),
                MergePatch({"spec": {"replicas": 3}}),
            )
            await asyncio.sleep(120)
            link.plan = FaultPlan()
            await grove.settle()
            await check_children(grove, groups=3)
            await grove.client.delete(PodCliqueSet, "w", NS)
            link.plan = FaultPlan.storm(seed + 100)
            await asyncio.sleep(120)
            link.plan = FaultPlan()
            await grove.settle()
            for kind in (PodCliqueSet, PodCliqueScalingGroup, PodClique, PodGang, Pod):
                assert not (await grove.client.list(kind, namespace=NS)).items, kind


@pytest.mark.parametrize("seed", range(6))
async def test_pods_whose_creation_was_not_answered_are_not_made_twice(seed: int) -> None:
    plan = FaultPlan(seed, LoseAnswer(rate=0.5, verbs=WRITES, resources=frozenset({"pods"})))
    async with TestCluster(crds=light_definitions(), controllers=True, seed=seed) as cluster:
        link = cluster.link(plan, name="grove")
        async with running(cluster=cluster, link=link) as grove:
            await create(grove)
            await asyncio.sleep(300)
            link.plan = FaultPlan()
            await grove.settle()
            await check_children(grove)


async def versions(cluster: TestCluster) -> dict[str, str]:
    kinds = (PodCliqueSet, PodCliqueScalingGroup, PodClique, PodGang, Pod, Service)
    return {
        f"{kind.__name__}/{each.metadata.name}": each.metadata.resource_version
        for kind in kinds
        for each in (await cluster.client.list(kind, namespace=NS)).items
    }


async def test_a_restart_changes_nothing() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running(cluster=cluster) as grove:
            await create(grove)
            await grove.settle()
            await set_ready(grove)
            await grove.settle()
            await check_children(grove)
        before = await versions(cluster)
        async with running(cluster=cluster) as grove:
            await grove.settle()
            await asyncio.sleep(700)
        assert await versions(cluster) == before


async def test_children_that_somebody_deletes_or_changes_are_put_right() -> None:
    async with running() as grove:
        await create(grove)
        await grove.settle()
        await set_ready(grove)
        client = grove.client
        await client.delete(PodGang, "w-0", NS)
        await client.delete(Service, "w-0", NS)
        clique = await client.get(PodClique, "w-0-pc-a", NS)
        await client.patch(clique, MergePatch({"metadata": {"labels": {names.PODGANG: "other"}}}))
        for pod in (await client.list(Pod, namespace=NS)).items[:3]:
            await client.delete(pod)
        await grove.settle()
        await asyncio.sleep(30)
        await grove.settle()
        await check_children(grove)
        clique = await client.get(PodClique, "w-0-pc-a", NS)
        assert clique.metadata.labels[names.PODGANG] == "w-0"
