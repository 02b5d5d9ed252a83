"""The default scheduler gives pods the devices that they claim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, to_dict
from quarterdeck.api.k8s import Pod, ResourceClaim
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.resourceclaim.controller import FINALIZER
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, run_until_idle
from tests.unit.cluster.workloadkit import NAMESPACE, pod

CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "2"}
NO_VICTIMS = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
NOT_HELPFUL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


@pytest.fixture(autouse=True)
async def controllers(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=2, capacity=CAPACITY)))
    await cluster.start(manager)
    await run_until_idle(manager)


def requesting(count: int = 1, kind: str = "gpu.nvidia.com", **more: Any) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": kind, "count": count, **more}}
    return {"devices": {"requests": [request]}}


def resource(kind: str, name: str, spec: dict[str, Any]) -> DynamicObject:
    metadata = {"name": name, "namespace": NAMESPACE}
    return DynamicObject(
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    )


def claim(name: str, count: int = 1, kind: str = "gpu.nvidia.com", **more: Any) -> DynamicObject:
    return resource("ResourceClaim", name, requesting(count, kind, **more))


def user(name: str, **reference: str) -> DynamicObject:
    return pod(name, nodeName=None, resourceClaims=[{"name": "gpu", **reference}])


async def place(client: Client, *objects: DynamicObject) -> dict[str, str]:
    """Create objects and say where pods went."""
    for each in objects:
        await client.create(each)
    await asyncio.sleep(2)
    return {each.metadata.name: each.spec.node_name for each in (await client.list(Pod)).items}


async def status_of(client: Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = to_dict(await client.get(ResourceClaim, name, NAMESPACE)).get("status") or {}
    return found


async def refusal(client: Client, name: str) -> str:
    found = await client.get(Pod, name, NAMESPACE)
    [condition] = [each for each in found.status.conditions if each.type == "PodScheduled"]
    assert condition.status == "False"
    return condition.message


async def test_a_claim_gets_its_devices_before_the_pod_its_node(client: Client) -> None:
    found = await place(client, claim("both", 2), user("p", resourceClaimName="both"))
    assert found == {"p": "node-0"}
    status = await status_of(client, "both")
    results = status["allocation"]["devices"]["results"]
    assert [(each["request"], each["pool"], each["device"]) for each in results] == [
        ("gpu", "node-0", "gpu-0"),
        ("gpu", "node-0", "gpu-1"),
    ]
    [term] = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
    [consumer] = status["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("pods", "p")
    assert FINALIZER in (await client.get(ResourceClaim, "both", NAMESPACE)).metadata.finalizers


async def test_claims_of_templates_wait_for_devices_and_get_those_of_the_departed(client: Client) -> None:
    template = resource("ResourceClaimTemplate", "pair", {"spec": requesting(2)})
    users = [user(f"p{number}", resourceClaimTemplateName="pair") for number in range(3)]
    found = await place(client, template, *users)
    assert found == {"p0": "node-0", "p1": "node-1", "p2": ""}
    text = f"0/2 nodes are available: 2 cannot allocate all claims. {NO_VICTIMS}"
    assert await refusal(client, "p2") == text
    await client.delete(Pod, "p1", NAMESPACE)
    assert await place(client) == {"p0": "node-0", "p2": "node-1"}


async def test_pods_that_share_a_claim_come_together(client: Client) -> None:
    users = [user(f"p{number}", resourceClaimName="shared") for number in range(3)]
    found = await place(client, claim("shared"), *users)
    assert len(set(found.values())) == 1
    assert "" not in found.values()
    assert len((await status_of(client, "shared"))["reservedFor"]) == 3


async def test_what_cannot_be_met_is_told(client: Client) -> None:
    none = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].index > 7"}}]
    objects = [
        claim("odd", kind="tpu.example"),
        claim("picky", selectors=none),
        user("odd", resourceClaimName="odd"),
        user("picky", resourceClaimName="picky"),
        user("lost", resourceClaimName="nothing"),
    ]
    assert set((await place(client, *objects)).values()) == {""}
    start = "0/2 nodes are available: "
    assert await refusal(client, "odd") == (
        f"{start}request gpu: device class tpu.example does not exist. {NOT_HELPFUL}"
    )
    assert await refusal(client, "picky") == f"{start}2 cannot allocate all claims. {NO_VICTIMS}"
    assert await refusal(client, "lost") == (
        f'{start}resourceclaim.resource.k8s.io "nothing" not found. {NOT_HELPFUL}'
    )
    found = await place(client, claim("nothing"))
    assert found["lost"] == "node-0"


async def test_devices_on_a_node_that_has_no_room_are_given_up(client: Client) -> None:
    await place(client, claim("one"), user("first", resourceClaimName="one"))
    allocation = (await status_of(client, "one"))["allocation"]
    await client.delete(Pod, "first", NAMESPACE)
    await place(client)
    assert "allocation" not in await status_of(client, "one")
    # somebody gave it devices on a node that is full by now
    target = ResourceClaim(metadata=(await client.get(ResourceClaim, "one", NAMESPACE)).metadata)
    await client.patch(target, MergePatch({"metadata": {"finalizers": [FINALIZER]}}))
    await client.status.patch(target, MergePatch({"status": {"allocation": allocation}}))
    filler = pod(
        "filler",
        nodeName="node-0",
        containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "8"}}}],
    )
    wanting = pod(
        "second",
        nodeName=None,
        resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}],
        containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    )
    found = await place(client, filler, wanting)
    assert found == {"filler": "node-0", "second": "node-1"}
    results = (await status_of(client, "one"))["allocation"]["devices"]["results"]
    assert [each["pool"] for each in results] == ["node-1"]
