"""Gangs while their scheduler is away, and when a node fails under them: KAI, nodes and kubelets are ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quarterdeck.api import ObjectMeta, Quantity
from quarterdeck.api.k8s import Container, Node, Pod, PodSpec
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.client import MergePatch
from quarterdeck.cluster.node.names import FAILED
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.operators.kai.assembly import KaiOperator
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.testing import OperatorRun, TestCluster, eventually

from .grovekit import NS, Grove, clique, light_definitions, pcs, running

KAI = {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "enabled"}}
PATIENCE = 600.0


def gang(name: str, pods: int) -> PodCliqueSet:
    """Pods of which each fills half a node, and of which none may run without the others."""
    resources = ResourceRequirements(requests={"cpu": Quantity("2")})
    container = Container(name="main", image="example.com/main:1", resources=resources)
    made = pcs(clique("a", pods, pods, pod_spec=PodSpec(containers=(container,))))
    labels = {names.KAI_QUEUE: "default-queue"}
    return made.evolve(metadata=ObjectMeta(name=name, namespace=NS, labels=labels))


@asynccontextmanager
async def cluster_with_nodes(count: int) -> AsyncIterator[TestCluster]:
    nodes = NodeSettings(count=count, capacity={"cpu": "4", "memory": "8Gi", "pods": "10"})
    workloads = Workloads(nodes=nodes, scheduler=None)
    kinds = [*light_definitions(), *kai_definitions()]
    async with TestCluster(crds=kinds, controllers=workloads) as cluster:
        yield cluster


async def places(grove: Grove, name: str) -> list[str]:
    """Where the pods of a set are that work; empty for those that wait."""
    found = (await grove.client.list(Pod, namespace=NS, labels={names.PART_OF: name})).items
    alive = [each for each in found if not each.metadata.is_deleting]
    return sorted(each.spec.node_name if each.status.phase == "Running" else "" for each in alive)


async def test_gangs_wait_for_a_scheduler_that_is_away_and_are_placed_when_it_is_back() -> None:
    async with cluster_with_nodes(2) as cluster, running(KAI, cluster=cluster) as grove:
        async with OperatorRun(cluster, KaiOperator(), {}, name="kai", is_embedded=True).running():
            await grove.client.create(gang("before", 2))

            async def is_placed() -> bool:
                return all(await places(grove, "before")) and len(await places(grove, "before")) == 2

            await eventually(is_placed, timeout=PATIENCE, interval=5.0)
        was = await places(grove, "before")
        await grove.client.create(gang("during", 2))
        await asyncio.sleep(300)
        # the operator has done its part, once: pods exist, are let through, and nobody turns in circles
        pods = (await grove.client.list(Pod, namespace=NS, labels={names.PART_OF: "during"})).items
        assert [each.spec.scheduling_gates for each in pods] == [(), ()]
        grove.link.log.clear()
        await asyncio.sleep(600)
        assert grove.link.writes == []
        assert await places(grove, "during") == ["", ""]
        assert await places(grove, "before") == was, "what runs goes on"
        async with OperatorRun(cluster, KaiOperator(), {}, name="kai", is_embedded=True).running():

            async def is_placed_too() -> bool:
                return all(await places(grove, "during"))

            await eventually(is_placed_too, timeout=PATIENCE, interval=5.0)
            assert await places(grove, "before") == was


async def test_the_pods_of_a_node_that_fails_are_placed_elsewhere_and_the_rest_of_the_gang_stays() -> None:
    async with (
        cluster_with_nodes(3) as cluster,
        running(KAI, cluster=cluster) as grove,
        OperatorRun(cluster, KaiOperator(), {}, name="kai", is_embedded=True).running(),
    ):
        await grove.client.create(gang("w", 4))

        async def is_placed() -> bool:
            found = await places(grove, "w")
            return len(found) == 4 and all(found)

        await eventually(is_placed, timeout=PATIENCE, interval=5.0)
        pods = (await grove.client.list(Pod, namespace=NS)).items
        failed = pods[0].spec.node_name
        stayed = {each.metadata.uid for each in pods if each.spec.node_name != failed}
        assert 0 < len(stayed) < 4
        node = await grove.client.get(Node, failed)
        await grove.client.patch(node, MergePatch({"metadata": {"annotations": {FAILED: "true"}}}))
        await asyncio.sleep(60)  # not heard of for so long, it is taken for failed
        assert len(await places(grove, "w")) == 4

        async def is_placed_elsewhere() -> bool:
            return await is_placed() and failed not in await places(grove, "w")

        await eventually(is_placed_elsewhere, timeout=PATIENCE, interval=5.0)
        now = {each.metadata.uid for each in await grove.client.list(Pod, namespace=NS)}
        assert stayed <= now, "pods on the other nodes were not touched"
        assert grove.events.reasons.count("PodCliqueSetReplicaDeleteSuccessful") == 0
