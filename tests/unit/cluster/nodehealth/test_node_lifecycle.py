"""A node that is not heard of loses its pods; Deployments recover."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import Deployment, Lease, Node, Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node import names as simulated
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.nodehealth.ttl import ANNOTATION
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.setkit import made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, pod

TOLERANT = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
    for key in ("not-ready", "unreachable")
]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
PATIENT = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


@pytest.fixture(autouse=True)
async def nodes(cluster: TestCluster, manager: Manager) -> None:
    Workloads(nodes=NodeSettings(count=3)).add_to(manager)
    await cluster.start(manager)
    await asyncio.sleep(1)


async def fail(client: Client, name: str = "node-0", *, failed: bool = True) -> None:
    mark = {simulated.FAILED: "true" if failed else None}
    await client.patch(await client.get(Node, name), MergePatch({"metadata": {"annotations": mark}}))


async def ready(client: Client, name: str = "node-0") -> str:
    node = await client.get(Node, name)
    return next(each.status for each in node.status.conditions if each.type == "Ready")


async def taints(client: Client, name: str = "node-0") -> set[str]:
    node = await client.get(Node, name)
    return {f"{each.key.partition('/')[2]}:{each.effect}" for each in node.spec.taints}


async def until_unknown(client: Client, name: str = "node-0") -> None:
    async def is_unknown() -> bool:
        return await ready(client, name) == "Unknown"

    await eventually(is_unknown, timeout=120)


async def test_nodes_that_renew_their_leases_stay_ready(client: Client) -> None:
    await asyncio.sleep(300)
    assert [await ready(client, f"node-{i}") for i in range(3)] == ["True"] * 3
    assert await taints(client) == set()
    node = await client.get(Node, "node-0")
    assert node.metadata.annotations[ANNOTATION] == "0"


async def test_a_silent_node_is_unknown_and_tainted(client: Client, recorder: EventLog) -> None:
    await client.create(pod("p"))
    await asyncio.sleep(5)
    await fail(client)
    await asyncio.sleep(40)
    assert await ready(client) == "True"
    await until_unknown(client)
    node = await client.get(Node, "node-0")
    assert {(each.type, each.reason, each.message) for each in node.status.conditions} == {
        (type, "NodeStatusUnknown", "Kubelet stopped posting node status.")
        for type in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    }
    await asyncio.sleep(1)
    assert await taints(client) == {"unreachable:NoSchedule", "unreachable:NoExecute"}
    found = await client.get(Pod, "p", NAMESPACE)
    assert next(each.status for each in found.status.conditions if each.type == "Ready") == "False"
    assert recorder.about("node-0") == [
        "Normal RegisteredNode Node node-0 event: Registered Node node-0 in Controller",
        "Normal NodeNotReady Node node-0 status is now: NodeNotReady",
    ]
    assert "Warning NodeNotReady Node is not ready" in recorder.about("p")


async def test_a_deployment_recovers_from_the_loss_of_a_node(client: Client) -> None:
    await client.create(made("Deployment", replicas=6, template=template(tolerations=TOLERANT)))
    await until(client, Deployment, lambda each: each.status.available_replicas == 6)
    lost = {each.metadata.uid for each in await pods(client) if each.spec.node_name == "node-0"}
    assert lost
    await fail(client)
    await until(client, Deployment, lambda each: each.status.available_replicas != 6)
    await until(client, Deployment, lambda each: each.status.available_replicas == 6)
    left = {each.metadata.uid: each for each in await pods(client) if each.metadata.uid in lost}
    assert left.keys() == lost  # nobody is there to end them
    assert all(each.metadata.is_deleting for each in left.values())
    reasons = {
        (each.type, each.reason)
        for found in left.values()
        for each in found.status.conditions
        if each.type == "DisruptionTarget"
    }
    assert reasons == {("DisruptionTarget", "DeletionByTaintManager")}
    await fail(client, failed=False)

    async def are_gone() -> bool:
        return not any(each.metadata.uid in lost for each in await pods(client))

    await eventually(are_gone, timeout=60)
    assert await ready(client) == "True"
    await asyncio.sleep(10)
    assert await taints(client) == set()


async def test_a_node_that_is_back_in_time_keeps_its_pods(client: Client) -> None:
    await client.create(pod("p", tolerations=[{**each, "tolerationSeconds": 120} for each in TOLERANT]))
    await asyncio.sleep(5)
    await fail(client)
    await until_unknown(client)
    await asyncio.sleep(30)
    await fail(client, failed=False)
    await asyncio.sleep(200)
    found = await client.get(Pod, "p", NAMESPACE)
    assert not found.metadata.is_deleting
    assert next(each.status for each in found.status.conditions if each.type == "Ready") == "True"


async def test_a_failed_node_does_not_renew_its_lease(client: Client) -> None:
    await asyncio.sleep(15)
    await fail(client)
    await asyncio.sleep(1)
    before = await client.get(Lease, "node-0", "kube-node-lease")
    await asyncio.sleep(100)
    after = await client.get(Lease, "node-0", "kube-node-lease")
    assert after.spec.renew_time == before.spec.renew_time
    assert after.spec.lease_duration_seconds == 40


async def test_a_taint_by_hand_evicts_those_that_do_not_tolerate_it(client: Client) -> None:
    await client.create(pod("meek"))
    await client.create(pod("tough", tolerations=[{"operator": "Exists"}]))
    await client.create(pod("patient", tolerations=[PATIENT]))
    await asyncio.sleep(5)
    taint = [{"key": "k", "effect": "NoExecute"}]
    await client.patch(await client.get(Node, "node-0"), MergePatch({"spec": {"taints": taint}}))
    await asyncio.sleep(30)
    left = sorted(each.metadata.name for each in (await client.list(Pod, namespace=NAMESPACE)).items)
    assert left == ["patient", "tough"]
    await asyncio.sleep(60)
    assert [each.metadata.name for each in (await client.list(Pod, namespace=NAMESPACE)).items] == ["tough"]


async def test_an_eviction_is_called_off_when_the_taint_goes(client: Client, recorder: EventLog) -> None:
    await client.create(pod("patient", tolerations=[PATIENT]))
    await asyncio.sleep(5)
    node = await client.get(Node, "node-0")
    await client.patch(node, MergePatch({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}))
    await asyncio.sleep(30)
    await client.patch(node, MergePatch({"spec": {"taints": None}}))
    await asyncio.sleep(100)
    assert not (await client.get(Pod, "patient", NAMESPACE)).metadata.is_deleting
    told = [each.note for each in recorder.events if each.reason == "TaintManagerEviction"]
    assert told == [f"Cancelling deletion of Pod {NAMESPACE}/patient"]


async def test_a_cordoned_node_is_tainted(client: Client) -> None:
    node = await client.get(Node, "node-0")
    await client.patch(node, MergePatch({"spec": {"unschedulable": True}}))
    await asyncio.sleep(1)
    assert await taints(client) == {"unschedulable:NoSchedule"}
    await client.patch(node, MergePatch({"spec": {"unschedulable": None}}))
    await asyncio.sleep(1)
    assert await taints(client) == set()


async def test_a_node_without_a_kubelet_is_unknown_after_a_minute(client: Client) -> None:
    labels = {"kubernetes.io/os": "linux"}
    await client.create(Node(metadata=ObjectMeta(name="bare", labels=labels)))
    await asyncio.sleep(70)
    node = await client.get(Node, "bare")
    assert {(each.type, each.status, each.reason) for each in node.status.conditions} == {
        (type, "Unknown", "NodeStatusNeverUpdated")
        for type in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    }
    assert node.metadata.labels["beta.kubernetes.io/os"] == "linux"


async def test_pods_of_a_node_that_is_out_of_service_go_at_once(client: Client) -> None:
    await client.create(pod("p", tolerations=[{**each, "tolerationSeconds": 10} for each in TOLERANT]))
    await asyncio.sleep(5)
    await fail(client)
    await until_unknown(client)
    await asyncio.sleep(30)
    assert (await client.get(Pod, "p", NAMESPACE)).metadata.is_deleting
    node = await client.get(Node, "node-0")
    taints = [*to_dict(node)["spec"]["taints"], {"key": OUT_OF_SERVICE, "effect": "NoExecute"}]
    await client.patch(node, MergePatch({"spec": {"taints": taints}}))
    await asyncio.sleep(2)
    assert not (await client.list(Pod, namespace=NAMESPACE)).items
