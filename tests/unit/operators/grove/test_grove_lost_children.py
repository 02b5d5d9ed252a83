"""Whatever child of a set is lost, it comes back, and its pods are let go to the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, Resource
from quarterdeck.api.k8s import (
    HorizontalPodAutoscaler,
    Pod,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
)
from quarterdeck.api.k8s.resource import (
    DeviceClaim,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplateSpec,
)
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    ClaimTemplate,
    CliqueSharing,
    GroupSharing,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
    SetSharing,
)
from quarterdeck.operators.grove.types.podclique import AutoScaling

from .grovekit import NS, Grove, clique, group, pcs, running, set_ready

CLAIM = ClaimTemplate(
    name="t", template_spec=ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=DeviceClaim()))
)


def workload() -> PodCliqueSet:
    """A clique of its own, and a group whose minimum is below its replicas."""
    shared: dict[str, Any] = {"name": "t", "scope": names.ALL_REPLICAS}
    made = pcs(
        clique("router", 1, 1, auto_scaling_config=AutoScaling(min_replicas=1, max_replicas=3)),
        clique("worker", 2, 1, resource_sharing=(CliqueSharing(**shared),)),
        groups=[
            group("g", ["worker"], replicas=2, least=1, resource_sharing=(GroupSharing(**shared),)),
        ],
        resource_claim_templates=(CLAIM,),
        resource_sharing=(SetSharing(**shared),),
        clique_startup_type="CliqueStartupTypeInOrder",
    )
    return made.evolve(metadata=ObjectMeta(name=made.metadata.name, namespace=NS))


async def gated(grove: Grove) -> list[str]:
    found = await grove.client.list(Pod, namespace=NS)
    return [each.metadata.name for each in found if each.spec.scheduling_gates]


async def alive(grove: Grove, kind: type[Resource]) -> list[Any]:
    found = await grove.client.list(kind, namespace=NS)
    return [each for each in found if not each.metadata.is_deleting]


async def bring_up(grove: Grove) -> None:
    await grove.client.create(workload())
    for _ in range(3):  # a gang's pods run before those of the groups beyond its minimum are let go
        await grove.settle()
        await set_ready(grove)
    await grove.settle()
    assert await gated(grove) == []


@pytest.mark.parametrize("clique_name", ["w-0-router", "w-0-g-0-worker", "w-0-g-1-worker"])
async def test_a_lost_pod_comes_back_without_its_gate(clique_name: str) -> None:
    async with running() as grove:
        await bring_up(grove)
        pods = await alive(grove, Pod)
        lost = next(each for each in pods if each.metadata.labels[names.PODCLIQUE] == clique_name)
        await grove.client.delete(lost, grace_period=0)
        await grove.settle()
        after = await alive(grove, Pod)
        assert len(after) == len(pods)
        assert lost.metadata.uid not in {each.metadata.uid for each in after}
        assert await gated(grove) == []


async def test_pods_of_a_clique_that_was_scaled_are_let_go() -> None:
    async with running() as grove:
        await bring_up(grove)
        scaled = await grove.client.get(PodClique, "w-0-g-1-worker", NS)
        await grove.client.patch(scaled, MergePatch({"spec": {"replicas": 3}}))
        await grove.settle()
        assert await gated(grove) == []


KINDS = [
    ResourceClaim,
    Secret,
    PodClique,
    PodCliqueScalingGroup,
    PodGang,
    Pod,
    Service,
    ServiceAccount,
    Role,
    RoleBinding,
    HorizontalPodAutoscaler,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_every_lost_child_comes_back(kind: type[Resource]) -> None:
    async with running() as grove:
        await bring_up(grove)
        before = {each.metadata.name for each in await alive(grove, kind) if each.metadata.owner_references}
        assert before
        for name in before:
            lost = await grove.client.get(kind, name, NS)
            await grove.client.delete(lost, grace_period=0)
            for _ in range(3):
                await grove.settle()
                await set_ready(grove)
            await grove.settle()
            after = await alive(grove, kind)
            assert lost.metadata.uid not in {each.metadata.uid for each in after}
            if kind is Pod:
                assert len(after) == len(before)
            else:
                assert {each.metadata.name for each in after if each.metadata.owner_references} == before
            assert await gated(grove) == []
