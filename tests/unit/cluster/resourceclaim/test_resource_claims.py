"""Claims for devices: made from templates, reserved, released; devices of simulated nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.resourceclaim.controller import FINALIZER, POD_CLAIM, generated_base
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, run_until_idle
from tests.unit.cluster.clusterkit import exists
from tests.unit.cluster.workloadkit import NAMESPACE, behaving, pod


@pytest.fixture(autouse=True)
async def controllers(cluster: TestCluster, manager: Manager) -> None:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "4"}
    workloads = Workloads(nodes=NodeSettings(count=2, capacity=capacity), scheduler=None)
    add_controllers(manager, root_ca=b"", workloads=workloads)
    await cluster.start(manager)
    await run_until_idle(manager)


def template(name: str = "one-gpu") -> DynamicObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}}
    metadata = {"name": name, "namespace": NAMESPACE}
    return DynamicObject(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": metadata,
            "spec": spec,
        }
    )


def wanting(name: str = "p", **more: Any) -> DynamicObject:
    entry = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    return pod(name, resourceClaims=[entry], **more)


async def claim_of(client: Client, name: str = "p") -> ResourceClaim:
    found = await client.get(Pod, name, NAMESPACE)
    [status] = found.status.resource_claim_statuses
    assert isinstance(status.resource_claim_name, str)
    return await client.get(ResourceClaim, status.resource_claim_name, NAMESPACE)


async def allocate(client: Client, claim: ResourceClaim, user: Pod) -> None:
    """What a scheduler writes."""
    metadata = {"finalizers": [FINALIZER]}
    held = await client.patch(claim, MergePatch({"metadata": metadata}))
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    reserved = {"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}
    await client.status.patch(held, MergePatch({"status": status}))


async def test_simulated_nodes_publish_their_gpus(client: Client) -> None:
    slices = (await client.list(ResourceSlice)).items
    assert sorted(each.metadata.name for each in slices) == [
        "node-0-gpu.nvidia.com",
        "node-1-gpu.nvidia.com",
    ]
    assert [each.name for each in slices[0].spec.devices] == [f"gpu-{i}" for i in range(4)]
    assert slices[0].spec.pool.name == slices[0].spec.node_name
    made = await client.get(DeviceClass, "gpu.nvidia.com")
    [selector] = made.spec.selectors
    assert selector.cel
    assert selector.cel.expression == "device.driver == 'gpu.nvidia.com'"


async def test_devices_are_those_of_the_node_that_has_the_name_now(client: Client, manager: Manager) -> None:
    """Slices go with their node, and with whoever deletes them; the node publishes them again."""
    name = "node-0-gpu.nvidia.com"
    old = await client.get(Node, "node-0")
    await client.delete(old)
    fresh = old.evolve(metadata=ObjectMeta(name="node-0", labels=old.metadata.labels))
    new = await client.create(fresh)
    await run_until_idle(manager)
    [owner] = (await client.get(ResourceSlice, name)).metadata.owner_references
    assert owner.uid == new.metadata.uid
    await client.delete(ResourceSlice, name)
    await run_until_idle(manager)
    assert len((await client.get(ResourceSlice, name)).spec.devices) == 4


async def test_a_claim_is_made_from_the_template(client: Client, manager: Manager) -> None:
    await client.create(template())
    made = await client.create(wanting(nodeName=""))
    await run_until_idle(manager)
    claim = await claim_of(client)
    assert claim.metadata.name.startswith("p-gpu-")
    assert claim.metadata.annotations == {POD_CLAIM: "gpu"}
    assert claim.metadata.labels == {"a": "b"}
    [owner] = claim.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", made.metadata.uid, True)
    assert len((await client.list(ResourceClaim, namespace=NAMESPACE)).items) == 1


async def test_a_pod_without_its_template_is_told_and_gets_its_claim_later(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(wanting(nodeName=""))
    await run_until_idle(manager, horizon=0)
    text = (
        'PodResourceClaim gpu: resource claim template "one-gpu": '
        'resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
    )
    assert f"Warning FailedResourceClaimCreation {text}" in recorder.about("p")
    await client.create(template())
    await run_until_idle(manager)
    assert (await claim_of(client)).metadata.name.startswith("p-gpu-")


async def test_a_claim_that_somebody_deletes_is_made_anew(client: Client, manager: Manager) -> None:
    await client.create(template())
    await client.create(wanting(nodeName=""))
    await run_until_idle(manager)
    first = await claim_of(client)
    await client.delete(first)
    await run_until_idle(manager)
    assert (await claim_of(client)).metadata.uid != first.metadata.uid


async def test_an_allocated_claim_is_reserved_for_a_pod_that_is_bound_by_hand(
    client: Client, manager: Manager
) -> None:
    await client.create(template())
    await client.create(wanting())
    await run_until_idle(manager)
    claim = await claim_of(client)
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-0", "device": "gpu-0"}
    await client.status.patch(
        claim, MergePatch({"status": {"allocation": {"devices": {"results": [result]}}}})
    )
    await run_until_idle(manager)
    [user] = (await claim_of(client)).status.reserved_for
    assert (user.resource, user.name) == ("pods", "p")


async def test_a_claim_of_a_pod_that_has_ended_goes(client: Client, manager: Manager) -> None:
    await client.create(template())
    await client.create(wanting(annotations=behaving(run_seconds=5, exit_code=0), restartPolicy="Never"))
    await run_until_idle(manager)
    claim = await claim_of(client)
    await allocate(client, claim, await client.get(Pod, "p", NAMESPACE))
    await asyncio.sleep(20)
    assert (await client.get(Pod, "p", NAMESPACE)).status.phase == "Succeeded"
    assert not await exists(client, ResourceClaim, claim.metadata.name, NAMESPACE)


async def test_a_claim_of_its_own_is_free_again_when_its_user_is_gone(
    client: Client, manager: Manager
) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    own = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "own", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [request]}},
    }
    await client.create(DynamicObject(own))
    await client.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "own"}]))
    await run_until_idle(manager)
    user = await client.get(Pod, "p", NAMESPACE)
    await allocate(client, await client.get(ResourceClaim, "own", NAMESPACE), user)
    await run_until_idle(manager)
    await client.delete(user)
    await asyncio.sleep(40)
    freed = await client.get(ResourceClaim, "own", NAMESPACE)
    assert not freed.status.allocation
    assert not freed.status.reserved_for
    assert FINALIZER not in freed.metadata.finalizers


async def test_long_names_are_cut_alike() -> None:
    assert generated_base("pod", "gpu") == "pod-gpu-"
    assert generated_base("p" * 60, "g" * 30) == "p" * 37 + "-" + "g" * 18
