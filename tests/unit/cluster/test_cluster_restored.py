"""What controllers remember of objects ends where a server that went back to a backup tells otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import Binding, ConfigMap, Node, ObjectReference, Pod, Secret
from quarterdeck.apiserver import Durability, ServerOptions
from quarterdeck.client import MergePatch
from quarterdeck.cluster.job.backoff import JobSettings
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing import FaultPlan, Latency, SilenceWatch, TestCluster

from .clusterkit import exists, make_map
from .workloadkit import NAMESPACE, NODE, behaving, job, pod, read_job

GPUS = {"limits": {"nvidia.com/gpu": "4"}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "4"}
    jobs = JobSettings(batch_period=5.0)
    workloads = Workloads(jobs=jobs, scheduler=None, nodes=NodeSettings(count=2, capacity=capacity))
    server = ServerOptions(data_dir=tmp_path / "data", durability=Durability.NORMAL)
    async with TestCluster(controllers=workloads, server=server) as made:
        await asyncio.sleep(1)
        yield made


def large(name: str, node: str = NODE, **spec: Any) -> DynamicObject:
    """A pod that takes a whole node."""
    containers = [{"name": "c", "image": "x", "resources": GPUS}]
    return pod(name, containers=containers, nodeName=node, **spec)


async def bind(cluster: TestCluster, name: str, node: str = NODE) -> None:
    await cluster.client.subresource("binding").create(
        await cluster.client.get(Pod, name, NAMESPACE),
        Binding(metadata=ObjectMeta(name=name), target=ObjectReference(kind="Node", name=node)),
    )
    await asyncio.sleep(1)


async def status(cluster: TestCluster, name: str) -> tuple[str, str]:
    found = await cluster.client.get(Pod, name, NAMESPACE)
    return found.status.phase, found.status.reason


async def test_a_pod_that_was_never_bound_leaves_its_room_to_others(
    cluster: TestCluster, tmp_path: Path
) -> None:
    await cluster.client.create(large("late", node=""))
    cluster.backup(tmp_path / "backup")
    await bind(cluster, "late")
    assert await status(cluster, "late") == ("Running", "")
    await cluster.restore(tmp_path / "backup")
    await asyncio.sleep(1)
    assert await status(cluster, "late") == ("Pending", "")
    await cluster.client.create(large("other"))
    await asyncio.sleep(1)
    assert await status(cluster, "other") == ("Running", "")
    await bind(cluster, "late")
    assert (await status(cluster, "late"))[1] == "OutOfnvidia.com/gpu"


async def test_a_pod_that_comes_to_another_node_holds_no_room_on_the_first(
    cluster: TestCluster, tmp_path: Path
) -> None:
    await cluster.client.create(large("mover", node=""))
    cluster.backup(tmp_path / "backup")
    await bind(cluster, "mover")
    await cluster.restore(tmp_path / "backup")
    await bind(cluster, "mover", "node-1")
    await cluster.client.create(large("other"))
    await asyncio.sleep(1)
    assert [await status(cluster, name) for name in ("mover", "other")] == [("Running", "")] * 2
    await cluster.client.create(large("third", node="node-1"))
    await asyncio.sleep(1)
    assert (await status(cluster, "third"))[1] == "OutOfnvidia.com/gpu"


async def test_a_pod_that_runs_again_has_its_room_and_its_age(cluster: TestCluster, tmp_path: Path) -> None:
    first = large("first", restartPolicy="Never").to_dict()
    first["metadata"]["annotations"] = behaving(run_seconds=100)
    await cluster.client.create(DynamicObject(first))
    await asyncio.sleep(10)
    cluster.backup(tmp_path / "backup")
    await cluster.client.status.patch(
        await cluster.client.get(Pod, "first", NAMESPACE), MergePatch({"status": {"phase": "Failed"}})
    )
    await asyncio.sleep(1)
    await cluster.client.create(large("second"))
    await asyncio.sleep(1)
    assert await status(cluster, "second") == ("Running", "")
    await cluster.restore(tmp_path / "backup")
    await asyncio.sleep(1)
    await cluster.client.create(large("third"))
    await asyncio.sleep(1)
    assert (await status(cluster, "third"))[1] == "OutOfnvidia.com/gpu"
    await asyncio.sleep(80)
    assert await status(cluster, "first") == ("Running", "")
    await asyncio.sleep(10)
    assert await status(cluster, "first") == ("Succeeded", "")


async def test_no_two_pods_have_an_address(cluster: TestCluster, tmp_path: Path) -> None:
    pod_range = {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}}
    await cluster.client.patch(await cluster.client.get(Node, NODE), MergePatch(pod_range))
    await cluster.client.create(pod("old"))
    await cluster.client.create(pod("young", nodeName=""))
    await asyncio.sleep(1)
    cluster.backup(tmp_path / "backup")
    await cluster.client.delete(Pod, "old", NAMESPACE)
    await asyncio.sleep(60)
    await bind(cluster, "young")  # it gets the address of the one that is gone
    await cluster.restore(tmp_path / "backup")
    await bind(cluster, "young")
    found = [(await cluster.client.get(Pod, name, NAMESPACE)).status.pod_ip for name in ("old", "young")]
    assert found == ["10.9.0.1", "10.9.0.2"]


async def test_a_pod_whose_end_was_counted_in_vain_is_counted_again(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """That its finalizer had gone was told to nobody when the server went back."""
    silence = SilenceWatch((24.0, 24.0), resources=frozenset({"pods"}), times=1)
    link = next(each for each in cluster.links if each.name == "cluster")
    link.plan = FaultPlan(1, silence)
    link.end_watches(reset=True)
    await cluster.client.create(job(annotations=behaving(run_seconds=20)))
    await asyncio.sleep(24.5)
    cluster.backup(tmp_path / "backup")
    await asyncio.sleep(4)
    assert (await read_job(cluster.client)).status.succeeded == 1
    await cluster.restore(tmp_path / "backup")
    assert (await read_job(cluster.client)).status.active == 1
    await asyncio.sleep(30)
    assert link.plan.struck["SilenceWatch"] == 1
    assert (await read_job(cluster.client)).status.succeeded == 1


async def test_a_dependent_whose_owner_is_back_is_not_collected(cluster: TestCluster, tmp_path: Path) -> None:
    """The dependent is seen again long before its owner is."""
    owner = await cluster.client.create(Secret(metadata=ObjectMeta(name="owner", namespace=NAMESPACE)))
    await make_map(cluster.client, "dependent", NAMESPACE, owner)
    cluster.backup(tmp_path / "backup")
    await cluster.client.delete(owner)
    await asyncio.sleep(1)
    assert not await exists(cluster.client, ConfigMap, "dependent", NAMESPACE)
    link = next(each for each in cluster.links if each.name == "cluster")
    slow = frozenset({"list", "watch"})
    link.plan = FaultPlan(1, Latency((30.0, 30.0), verbs=slow, resources=frozenset({"secrets"})))
    await cluster.restore(tmp_path / "backup")
    await asyncio.sleep(60)
    assert link.plan.struck["Latency"]
    assert await exists(cluster.client, ConfigMap, "dependent", NAMESPACE)
