"""``quarterdeck check`` gives no false alarm: a healthy cluster, and every kind of edit that is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import ConfigMap, Node, Secret
from quarterdeck.cli.check.command import find_broken
from quarterdeck.client import Client, MergePatch
from quarterdeck.operators.ipam.logic.invariant import INVARIANTS as OF_IPAM
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool, SubnetPoolClaim
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.operators.nodegroup.logic.invariant import INVARIANTS as OF_NODEGROUP
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.trainer.logic.invariant import INVARIANTS as OF_TRAINER
from quarterdeck.operators.trainer.types import TrainingRuntime, TrainJob
from quarterdeck.testing import OperatorRun, TestCluster

from . import ipamkit
from .trainercases import TORCH
from .trainercluster import SPACE, Operator, mpi_runtime, runtime, train_job, trainer_cluster

pytestmark = pytest.mark.virtual_time
Edit = Callable[[Client], Awaitable[object]]


def patch(kind: Any, name: str, **change: Any) -> Edit:
    """Edit an object that is there."""

    async def edit(client: Client) -> object:
        return await client.patch(await client.get(kind, name, SPACE), MergePatch(change))

    return edit


def delete(kind: Any, name: str, **options: Any) -> Edit:
    async def edit(client: Client) -> object:
        return await client.delete(kind, name, SPACE, **options)

    return edit


def held(kind: Any, name: str) -> Edit:
    """Delete an object that somebody else's finalizer keeps."""

    async def edit(client: Client) -> None:
        await patch(kind, name, metadata={"finalizers": ["example.io/keep"]})(client)
        await client.delete(kind, name, SPACE)

    return edit


def each(*edits: Edit) -> Edit:
    async def edit(client: Client) -> None:
        for one in edits:
            await one(client)

    return edit


TRAINER: dict[str, Edit] = {
    "suspended": patch(TrainJob, "test-job", spec={"suspend": True}),
    "suspended, more nodes, resumed": each(
        patch(TrainJob, "test-job", spec={"suspend": True}),
        patch(TrainJob, "test-job", spec={"trainer": {"numNodes": 3}}),
        patch(TrainJob, "test-job", spec={"suspend": False}),
    ),
    "another framework in the runtime": patch(
        TrainingRuntime, "test-runtime", spec={"mlPolicy": {"torch": None, "jax": {}}}
    ),
    "no policy in the runtime": patch(TrainingRuntime, "test-runtime", spec={"mlPolicy": None}),
    "more nodes in the runtime": patch(TrainingRuntime, "test-runtime", spec={"mlPolicy": {"numNodes": 7}}),
    "another image in the runtime": patch(
        TrainingRuntime, "test-runtime", metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}
    ),
    "runtime deleted": delete(TrainingRuntime, "test-runtime"),
    "runtime replaced": each(
        delete(TrainingRuntime, "test-runtime"), lambda client: client.create(runtime(policy={"numNodes": 4}))
    ),
    "labels of the job": patch(TrainJob, "test-job", metadata={"labels": {"team": "a"}}),
    "labels of the jobset": patch(JobSet, "test-job", metadata={"labels": {"team": "a"}}),
    "jobset deleted": delete(JobSet, "test-job"),
    "snapshot deleted after the runtime was edited": each(
        patch(TrainingRuntime, "test-runtime", spec={"mlPolicy": {"torch": None, "jax": {}}}),
        delete(ConfigMap, "test-job-runtime-snapshot"),
    ),
    "job deleted": delete(TrainJob, "test-job"),
    "job deleted and held": held(TrainJob, "test-job"),
    "job deleted in the foreground": delete(TrainJob, "test-job", propagation="Foreground"),
}


@pytest.mark.parametrize("kind", TRAINER)
async def test_the_trainer_after(kind: str) -> None:
    async with trainer_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        await client.create(runtime(policy=TORCH))
        async with operator.running():
            await client.create(train_job())
            await operator.settle()
            assert await find_broken(client, OF_TRAINER, settle=1.0) == []
            await TRAINER[kind](client)
            await operator.settle()
            assert await find_broken(client, OF_TRAINER, settle=1.0) == []


@pytest.mark.parametrize("suspends", [True, False])
async def test_the_trainer_after_the_keys_of_an_mpi_job_are_deleted(suspends: bool) -> None:
    async with trainer_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        await client.create(mpi_runtime())
        async with operator.running():
            await client.create(train_job(suspend=suspends))
            await operator.settle()
            await delete(Secret, "test-job-mpi-ssh-auth")(client)
            await operator.settle()
            assert await find_broken(client, OF_TRAINER, settle=1.0) == []


async def whole(client: Client) -> None:
    bound = await client.get(SubnetPoolClaim, "finance", SPACE)
    await client.create(ipamkit.claim("whole", 20, of=bound.status.bound_pool_name))


IPAM: dict[str, Edit] = {
    "the pool grows": patch(SubnetPool, "p", spec={"cidr": "10.0.0.0/12"}),
    "the pool has limits": patch(SubnetPool, "p", spec={"minBlockSize": 26, "maxBlockSize": 28}),
    "another strategy": patch(SubnetPool, "p", spec={"strategy": "Buddy"}),
    "labels of the pool": patch(SubnetPool, "p", metadata={"labels": {"team": "a"}}),
    "a claim for another size": patch(SubnetClaim, "a", spec={"blockSize": 20}),
    "a claim on another pool": patch(SubnetClaim, "a", spec={"poolRef": "q"}),
    "a claim of another cluster": patch(SubnetClaim, "a", spec={"clusterID": "z"}),
    "a claim for a certain block": patch(
        SubnetClaim, "a", spec={"blockSize": None, "requestedCIDR": "10.0.77.0/24"}
    ),
    "a second claim of a cluster, for another block": lambda client: client.create(
        ipamkit.claim("again", "10.0.99.0/24", cluster="a")
    ),
    "a claim deleted": delete(SubnetClaim, "a"),
    "a claim deleted and held": held(SubnetClaim, "a"),
    "a claim deleted in the foreground": delete(SubnetClaim, "a", propagation="Foreground"),
    "a subnet deleted": delete(Subnet, "p-10-0-250-0-24"),
    "a subnet deleted and held": held(Subnet, "p-10-0-250-0-24"),
    "a subnet by hand": lambda client: client.create(ipamkit.subnet("hand", "10.0.200.0/24")),
    "a child pool by hand": lambda client: client.create(ipamkit.pool("kid", "10.0.128.0/20", parent="p")),
    "the child pool is given as a whole": lambda client: whole(client),
    "a pool claim deleted": delete(SubnetPoolClaim, "finance"),
    "a used pool deleted": delete(SubnetPool, "p"),
    "an unused pool deleted": delete(SubnetPool, "q"),
}


@pytest.mark.parametrize("kind", IPAM)
async def test_ipam_after(kind: str) -> None:
    async with ipamkit.ipam_cluster() as cluster:
        operator, client = ipamkit.Operator(cluster), cluster.client
        async with operator.running():
            await client.create(ipamkit.pool())
            await client.create(ipamkit.pool("q", "10.64.0.0/16"))
            for made in (
                ipamkit.claim("a"),
                ipamkit.claim("b", "10.0.250.0/24"),
                ipamkit.pool_claim("finance"),
            ):
                await client.create(made)
            await operator.settle()
            assert await find_broken(client, OF_IPAM, settle=1.0) == []
            await IPAM[kind](client)
            await operator.settle()
            assert await find_broken(client, OF_IPAM, settle=1.0) == []


GROUP: Any = {
    "apiVersion": "deckhouse.io/v1",
    "kind": "NodeGroup",
    "metadata": {"name": "gpu"},
    "spec": {
        "nodeType": "CloudEphemeral",
        "cloudInstances": {
            "minPerZone": 2,
            "maxPerZone": 3,
            "zones": ["a", "b"],
            "classReference": {"kind": "AWSInstanceClass", "name": "w"},
        },
    },
}


def group(**instances: Any) -> Edit:
    async def edit(client: Client) -> object:
        found = await client.get(NodeGroup, "gpu")
        return await client.patch(found, MergePatch({"spec": {"cloudInstances": instances}}))

    return edit


def node(change: Any, name: str = "gpu-a-0") -> Edit:
    async def edit(client: Client) -> object:
        return await client.patch(await client.get(Node, name), MergePatch({"metadata": change}))

    return edit


async def take_a_name(client: Client) -> None:
    await client.delete(Node, "gpu-b-1")
    await client.create(Node.from_dict({"metadata": {"name": "gpu-b-1"}}))


NODES: dict[str, Edit] = {
    "more nodes": group(minPerZone=3),
    "fewer nodes": group(minPerZone=0, maxPerZone=1),
    "another zone": group(zones=["b", "c"]),
    "no zones": group(zones=None),
    "a node deleted": lambda client: client.delete(Node, "gpu-a-1"),
    "a label taken off": node({"labels": {"node.deckhouse.io/group": None}}),
    "a node in another zone": node({"labels": {"topology.kubernetes.io/zone": "b"}}),
    "a node deleted and held": each(
        node({"finalizers": ["example.io/keep"]}), lambda client: client.delete(Node, "gpu-a-0")
    ),
    "a node of somebody else": take_a_name,
    "the group deleted": lambda client: client.delete(NodeGroup, "gpu"),
    "the group deleted in the foreground": lambda client: client.delete(
        NodeGroup, "gpu", propagation="Foreground"
    ),
}


@asynccontextmanager
async def nodes() -> AsyncIterator[tuple[Client, OperatorRun]]:
    async with TestCluster(crds=[NodeGroup], controllers=True) as cluster:
        operator = OperatorRun(cluster, NodeGroupOperator(), name="nodegroup", is_embedded=True)
        async with operator.running():
            await cluster.client.create(DynamicObject(GROUP))
            await operator.settle()
            assert len((await cluster.client.list(Node)).items) == 4
            assert await find_broken(cluster.client, OF_NODEGROUP, settle=1.0) == []
            yield cluster.client, operator


@pytest.mark.parametrize("kind", NODES)
async def test_nodegroups_after(kind: str) -> None:
    async with nodes() as (client, operator):
        await NODES[kind](client)
        await operator.settle()
        assert await find_broken(client, OF_NODEGROUP, settle=1.0) == []


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (
            lambda client: client.delete(Node, "gpu-a-1"),
            ["nodes-counted: NodeGroup gpu", "within-range: NodeGroup gpu"],
        ),
        (group(zones=["b"]), ["within-range: NodeGroup gpu", "within-range: NodeGroup gpu"]),
        (
            node({"labels": {"node.deckhouse.io/group": "other"}}),
            ["nodes-counted: NodeGroup gpu", "own-nodes: Node gpu-a-0"],
        ),
        (
            lambda client: client.delete(NodeGroup, "gpu", propagation="Orphan"),
            [f"own-nodes: Node gpu-{name}" for name in ("a-0", "a-1", "b-0", "b-1")],
        ),
    ],
)
async def test_nodegroups_that_nobody_looks_after_are_found(edit: Edit, expected: list[str]) -> None:
    async with TestCluster(crds=[NodeGroup]) as cluster:
        operator = OperatorRun(cluster, NodeGroupOperator(), name="nodegroup", is_embedded=True)
        async with operator.running():
            await cluster.client.create(DynamicObject(GROUP))
            await operator.settle()
        await edit(cluster.client)
        if expected[0].startswith("own-nodes"):  # nobody orphans, nobody collects
            found = await cluster.client.get(NodeGroup, "gpu")
            await cluster.client.patch(found, MergePatch({"metadata": {"finalizers": None}}))
        broken = await find_broken(cluster.client, OF_NODEGROUP, settle=0.0)
        assert [f"{each.invariant.partition('/')[2]}: {each.object}" for each in broken] == expected
