"""Nodes that join a cluster which was started without any."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import Client
from quarterdeck.cluster.controllers import ClusterControllers
from quarterdeck.cluster.node.profile import PlannedNode
from quarterdeck.cluster.node.registration import make_node
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.runtime.loop.clock import LoopClock, time_now
from quarterdeck.testing import TestCluster

from .workloadkit import NAMESPACE, pod


@pytest.fixture
async def controllers(cluster: TestCluster, manager: Manager) -> ClusterControllers:
    made = ClusterControllers(cluster.client, root_ca=b"", workloads=Workloads(), waits_for_nodes=True)
    manager.add(made)
    await cluster.start(manager)
    await asyncio.sleep(5)
    return made


async def test_pods_run_when_a_node_has_joined(client: Client, controllers: ClusterControllers) -> None:
    await client.create(pod("p", nodeName=""))
    await client.create(Node(metadata=ObjectMeta(name="of-nobody")))
    await asyncio.sleep(5)
    before = await client.get(Pod, "p", NAMESPACE)
    assert (before.status.phase, before.status.conditions) == ("Pending", ())
    planned = PlannedNode(name="node-0", number=0, capacity={"cpu": "8", "pods": "20"})
    await client.create(make_node(planned, time_now(LoopClock())))
    await asyncio.sleep(30)
    after = await client.get(Pod, "p", NAMESPACE)
    assert (after.status.phase, after.spec.node_name) == ("Running", "node-0")
    assert controllers.is_serving
