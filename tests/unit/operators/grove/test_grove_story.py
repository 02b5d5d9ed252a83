"""What happens to a set over time, and what its events tell about it."""

from __future__ import annotations

import asyncio

from quarterdeck.api import Duration, ObjectMeta, to_dict
from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    UpdateStrategy,
)
from quarterdeck.testing import FaultPlan, Latency, Refuse, eventually

from .grovekit import NS, Grove, clique, group, pcs, pod, pod_spec, running, set_ready


async def create(grove: Grove, made: PodCliqueSet) -> PodCliqueSet:
    return await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))


async def lose_nodes(grove: Grove) -> None:
    """No pod has a node any more, and none will get one."""
    for found in (await grove.client.list(Pod, namespace=NS)).items:
        status = to_dict(pod(found.metadata.name, "pending").status)
        await grove.client.status.patch(found, MergePatch({"status": status}))


async def test_a_gang_that_breaks_is_terminated_once_while_room_is_short() -> None:
    async with running() as grove:
        made = pcs(
            clique("worker", 2, 2), groups=[group("g", ["worker"], 1, 1)], termination_delay=Duration("10s")
        )
        await create(grove, made)
        await grove.settle()
        await set_ready(grove)
        await grove.settle()
        await asyncio.sleep(20)
        await lose_nodes(grove)
        await grove.settle()
        for _ in range(15):
            await asyncio.sleep(10)
            await grove.settle()
        assert grove.events.reasons.count("PodCliqueSetReplicaDeleteSuccessful") == 1
        found = await grove.client.get(PodCliqueScalingGroup, "w-0-g", NS)
        marked = find_condition(found.status.conditions, names.GANG_TERMINATION)
        assert marked is not None
        assert marked.status == "True"

        await set_ready(grove)
        await grove.settle()
        found = await grove.client.get(PodCliqueScalingGroup, "w-0-g", NS)
        assert find_condition(found.status.conditions, names.GANG_TERMINATION) is None
        await asyncio.sleep(20)
        await lose_nodes(grove)  # the next episode
        await asyncio.sleep(60)
        await grove.settle()
        assert grove.events.reasons.count("PodCliqueSetReplicaDeleteSuccessful") == 2


async def test_an_update_on_delete_has_ended_when_all_cliques_have_the_template() -> None:
    async with running() as grove:
        made = pcs(
            clique("a"),
            clique("b"),
            groups=[group("g", ["b"], 2, 1)],
            strategy=UpdateStrategy(type=names.ON_DELETE),
        )
        stored = await create(grove, made)
        for _ in range(3):
            await grove.settle()
            await set_ready(grove)
        await grove.settle()
        cliques = frozenset({"podcliques.grove.io"})
        grove.link.plan = FaultPlan(0, Latency((2.0, 9.0), verbs=frozenset({"patch"}), resources=cliques))
        template = to_dict(stored.spec.template)
        for each in template["cliques"]:
            each["spec"]["podSpec"] = to_dict(pod_spec("example.com/main:2"))
        await grove.client.patch(stored, MergePatch({"spec": {"template": template}}))

        async def has_ended() -> bool:
            now = await grove.client.get(PodCliqueSet, "w", NS)
            progress = now.status.update_progress
            return bool(progress and progress.update_ended_at)

        await eventually(has_ended, timeout=60)
        for found in (await grove.client.list(PodClique, namespace=NS)).items:
            image = found.spec.pod_spec.containers[0].image
            assert image == "example.com/main:2", found.metadata.name
        await asyncio.sleep(60)
        grove.link.log.clear()
        await asyncio.sleep(600)
        assert not grove.link.writes, "old pods stay until somebody deletes them, and nobody is busy with it"


async def test_events_tell_what_was_made_and_deleted() -> None:
    async with running() as grove:
        made = await create(
            grove, pcs(clique("a"), clique("b"), groups=[group("g", ["b"], 2, 1)], replicas=2)
        )
        await grove.settle()
        told = {(each.reason, each.note) for each in grove.events.events}
        for expected in (
            ("PodCliqueCreateOrUpdateSuccessful", "PodClique default/w-1-a created or updated successfully"),
            ("PodCliqueScalingGroupCreateSuccessful", "Created PodCliqueScalingGroup default/w-1-g"),
            ("PodCliqueCreateSuccessful", "PodClique default/w-1-g-1-b created successfully"),
            ("PodGangCreateOrUpdateSuccessful", "Created/Updated PodGang default/w-1-g-0"),
        ):
            assert expected in told
        await grove.client.patch(made, MergePatch({"spec": {"replicas": 1}}))
        await grove.settle()
        told = {(each.reason, each.note) for each in grove.events.events}
        for expected in (
            ("PodCliqueDeleteSuccessful", "Deleted PodClique: w-1-a"),
            ("PodCliqueScalingGroupDeleteSuccessful", "Deleted PodCliqueScalingGroup default/w-1-g"),
            ("PodGangDeleteSuccessful", "Deleted PodGang default/w-1"),
        ):
            assert expected in told


async def test_events_tell_what_fails() -> None:
    async with running() as grove:
        plural = {
            "podcliques.grove.io": {"PodCliqueCreateFailed", "PodCliqueCreateOrUpdateFailed"},
            "podcliquescalinggroups.grove.io": {"PodCliqueScalingGroupCreateOrUpdateFailed"},
            "podgangs.scheduler.grove.io": {"PodGangCreateOrUpdateFailed"},
        }
        writes = frozenset({"create", "apply"})
        rules = [
            Refuse(403, verbs=writes, resources=frozenset({resource}), until=60.0) for resource in plural
        ]
        for rule in reversed(rules):  # the last ones made first: each waits for those before it
            grove.link.plan = FaultPlan(0, rule)
            name = next(iter(rule.resources))
            made = pcs(clique("a"), clique("b"), groups=[group("g", ["b"])])
            stored = await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
            await asyncio.sleep(30)
            assert plural[name] & set(grove.events.reasons), name
            grove.link.plan = FaultPlan()
            await grove.client.delete(stored)
            await grove.settle()
