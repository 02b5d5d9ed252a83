"""Claims for volumes and devices while the line of their controllers is bad: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, Pod, ResourceClaim
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.volume.names import SIMULATED_PROVISIONER
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing import FaultPlan, TestCluster, eventually

from .workloadkit import NAMESPACE, pod

COUNT = 6


def claim(name: str, kind: str) -> DynamicObject:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": kind,
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return DynamicObject(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )


def volume(name: str) -> DynamicObject:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "static",
    }
    return DynamicObject(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_claim_gets_one_volume_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)
    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    await client.create(DynamicObject({**fast, "provisioner": SIMULATED_PROVISIONER}))
    for number in range(COUNT):
        await client.create(volume(f"static-{number}"))
        await client.create(claim(f"static-{number}", "static"))
        await client.create(claim(f"fast-{number}", "fast"))

    async def all_are_bound() -> bool:
        found = (await client.list(PersistentVolumeClaim, namespace=NAMESPACE)).items
        return len(found) == 2 * COUNT and all(each.status.phase == "Bound" for each in found)

    await eventually(all_are_bound, timeout=900)
    claims = (await client.list(PersistentVolumeClaim, namespace=NAMESPACE)).items
    volumes = (await client.list(PersistentVolume)).items
    assert len(volumes) == 2 * COUNT
    bound = {each.metadata.name: each.spec.claim_ref.uid for each in volumes if each.spec.claim_ref}
    assert bound == {each.spec.volume_name: each.metadata.uid for each in claims}


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_pod_gets_one_claim_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    add_controllers(manager, root_ca=b"", workloads=Workloads(scheduler=None))
    await cluster.start(manager)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    await client.create(DynamicObject(template))
    entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
    for number in range(COUNT):
        await client.create(pod(f"p{number}", nodeName="", resourceClaims=[entry]))

    async def all_have_one() -> bool:
        found = (await client.list(Pod, namespace=NAMESPACE)).items
        return all(each.status.resource_claim_statuses for each in found)

    await eventually(all_have_one, timeout=900)
    claims = {each.metadata.name for each in (await client.list(ResourceClaim, namespace=NAMESPACE)).items}
    pods = (await client.list(Pod, namespace=NAMESPACE)).items
    named = {status.resource_claim_name for each in pods for status in each.status.resource_claim_statuses}
    assert named <= claims
    assert len(named) == COUNT
