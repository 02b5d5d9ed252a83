"""Updates of sets by the real controllers, in virtual time, while others scale, delete and break things."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendRegistry
from quarterdeck.operators.grove.controllers import clique_controller, set_controller
from quarterdeck.operators.grove.logic.templatehash import clique_hashes
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.testing import TestCluster
from tests.harness.grove.guard import make_shared

from .grovekit import NS, clique, group, light_definitions, pcs, pod, running

MOST = 3


def made_set() -> PodCliqueSet:
    made = pcs(
        clique("a", 3, 1),
        clique("b", 1, 1),
        clique("c", 2, 1),
        groups=[group("g", ["b", "c"], replicas=2, least=1)],
        replicas=2,
    )
    return made.evolve(metadata=ObjectMeta(name="w", namespace=NS))


class World:
    """What may happen to a set."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.random = random.Random(seed)
        self.image = 0

    async def choose(self, kind: type[Any]) -> Any:
        found = sorted(
            (await self.client.list(kind, namespace=NS)).items, key=lambda each: each.metadata.name
        )
        return self.random.choice(found) if found else None

    async def change_template(self) -> None:
        """Another image for one of the cliques; sometimes one that it had before."""
        self.image = self.random.choice([self.image + 1, max(0, self.image - 1)])
        found = await self.client.get(PodCliqueSet, "w", NS)
        cliques = to_dict(found.spec.template.cliques)
        containers = self.random.choice(cliques)["spec"]["podSpec"]["containers"]
        containers[0]["image"] = f"example.com/main:{self.image}"
        await self.client.patch(found, MergePatch({"spec": {"template": {"cliques": cliques}}}))

    async def scale(self) -> None:
        kind = self.random.choice([PodCliqueSet, PodClique, PodCliqueScalingGroup])
        found = await self.choose(kind)
        if found is not None:
            count = self.random.randint(1, MOST)
            await self.client.patch(found, MergePatch({"spec": {"replicas": count}}))

    async def delete(self) -> None:
        found = await self.choose(self.random.choice([Pod, Pod, Pod, PodClique, PodCliqueScalingGroup]))
        if found is not None:
            await self.client.delete(found, grace_period=0)

    async def fail(self) -> None:
        await self._set_state(await self.choose(Pod), "crashed")

    async def run_one(self) -> None:
        await self._set_state(await self.choose(Pod), "ready")

    async def run_all(self) -> None:
        for each in (await self.client.list(Pod, namespace=NS)).items:
            await self._set_state(each, "ready")

    async def _set_state(self, found: Pod | None, state: str) -> None:
        if found is not None and not found.spec.scheduling_gates:
            status = to_dict(pod(found.metadata.name, state).status)
            await self.client.status.patch(found, MergePatch({"status": status}))

    async def happen(self) -> None:
        """One thing, and some time, most often hardly any."""
        things: list[Callable[[], Awaitable[None]]] = [
            self.change_template,
            self.scale,
            self.scale,
            self.delete,
            self.delete,
            self.fail,
            self.run_one,
            self.run_all,
        ]
        try:
            await self.random.choice(things)()
        except QuarterdeckError:
            return  # it is gone meanwhile, or changed
        await asyncio.sleep(self.random.choice([0, 0.01, 0.05, 0.2, 1, 6]))


async def left_to_do(client: Client) -> str:
    """What keeps a set from being updated; empty if nothing does."""
    found = await client.get(PodCliqueSet, "w", NS)
    progress, hashes = found.status.update_progress, clique_hashes(found)
    if progress and not progress.update_ended_at:
        return f"under way: {progress}"
    if found.status.observed_generation != found.metadata.generation:
        return "not looked at"
    for each in (await client.list(Pod, namespace=NS)).items:
        owner = each.metadata.labels[names.PODCLIQUE].rpartition("-")[2]
        if not each.metadata.is_deleting and each.metadata.labels[names.TEMPLATE_HASH] != hashes[owner]:
            return f"{each.metadata.name} is old"
    if found.status.available_replicas != found.spec.replicas:
        return f"{found.status.available_replicas} of {found.spec.replicas} work"
    return ""


@pytest.mark.parametrize("seed", range(8))
async def test_the_update_of_a_set_ends_whatever_happens(seed: int) -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        client = cluster.client
        world = World(client, seed)
        await client.create(made_set())
        for _ in range(2):  # the operator is started anew in between
            async with running(cluster=cluster):
                for _ in range(3):
                    await asyncio.sleep(1)
                    await world.run_all()
                await world.change_template()
                for _ in range(15):
                    await world.happen()
        async with running(cluster=cluster):
            left = "everything"
            for _ in range(120):
                await asyncio.sleep(6)
                await world.run_all()
                if not (left := await left_to_do(client)):
                    break
            assert left == ""


async def test_a_scale_in_while_the_chosen_pod_is_replaced_does_not_stop_the_update() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        client, world = cluster.client, World(cluster.client, 0)
        async with running(cluster=cluster):
            await client.create(pcs(clique("a", 3, 1)).evolve(metadata=ObjectMeta(name="w", namespace=NS)))
            for _ in range(2):
                await asyncio.sleep(1)
                await world.run_all()
        await world.change_template()
        shared = await make_shared(client, {}, BackendRegistry(find=tuple))
        await cluster.reconcile_once(set_controller(shared), Key(NS, "w"))
        await cluster.reconcile_once(clique_controller(shared), Key(NS, "w-0-a"))
        assert len(await alive(client)) == 2  # the chosen one is gone, and nobody has replaced it
        scaled = await client.get(PodClique, "w-0-a", NS)
        await client.patch(scaled, MergePatch({"spec": {"replicas": 2}}))
        async with running(cluster=cluster):
            for _ in range(20):
                await asyncio.sleep(6)
                await world.run_all()
            assert await left_to_do(client) == ""
            assert len(await alive(client)) == 2


async def alive(client: Client) -> list[Pod]:
    found = (await client.list(Pod, namespace=NS)).items
    return [each for each in found if not each.metadata.is_deleting]
