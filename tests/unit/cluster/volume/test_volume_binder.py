"""Claims and volumes find each other, and lose each other, as with kube-controller-manager."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, Quantity
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim, StatefulSet, StorageClass
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.volume.names import SIMULATED_PROVISIONER
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, run_until_idle
from tests.unit.cluster.clusterkit import exists
from tests.unit.cluster.setkit import made, template, until
from tests.unit.cluster.workloadkit import NAMESPACE


@pytest.fixture(autouse=True)
async def controllers(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)
    await run_until_idle(manager)


def claim(
    name: str = "c", size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any
) -> Any:
    whole = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    metadata = {"name": name, "namespace": NAMESPACE}
    return DynamicObject(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": whole}
    )


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Any:
    whole = {"capacity": {"storage": size}, "accessModes": list(modes), "hostPath": {"path": "/x"}, **spec}
    return DynamicObject(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": whole}
    )


def storage_class(name: str = "fast", *, default: bool = False, **more: Any) -> DynamicObject:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return DynamicObject(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": SIMULATED_PROVISIONER,
            "allowVolumeExpansion": True,
            **more,
        }
    )


async def read(client: Client, name: str = "c") -> PersistentVolumeClaim:
    return await client.get(PersistentVolumeClaim, name, NAMESPACE)


async def phase(client: Client, name: str) -> str:
    return (await client.get(PersistentVolume, name)).status.phase


async def test_the_smallest_volume_that_suits_is_bound(client: Client, manager: Manager) -> None:
    for name, size, modes in (
        ("large", "10Gi", ("ReadWriteOnce",)),
        ("fitting", "5Gi", ("ReadWriteOnce",)),
        ("small", "1Gi", ("ReadWriteOnce",)),
        ("shared", "4Gi", ("ReadWriteOnce", "ReadWriteMany")),
    ):
        await client.create(volume(name, size, modes))
    await run_until_idle(manager)
    assert await phase(client, "large") == "Available"
    await client.create(claim(size="4Gi", storageClassName=""))
    await run_until_idle(manager)
    found = await read(client)
    assert (found.spec.volume_name, found.status.phase) == ("fitting", "Bound")
    assert found.status.capacity["storage"] == Quantity("5Gi")
    assert found.metadata.annotations == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    bound = await client.get(PersistentVolume, "fitting")
    assert bound.status.phase == "Bound"
    assert bound.spec.claim_ref
    assert bound.spec.claim_ref.uid == found.metadata.uid
    assert bound.metadata.annotations["pv.kubernetes.io/bound-by-controller"] == "yes"


async def test_a_claim_waits_until_a_volume_comes(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(claim(storageClassName=""))
    await run_until_idle(manager)
    assert (await read(client)).status.phase == "Pending"
    text = "no persistent volumes available for this claim and no storage class is set"
    assert f"Normal FailedBinding {text}" in recorder.about("c")
    await client.create(volume("late"))
    await run_until_idle(manager)
    assert (await read(client)).spec.volume_name == "late"


async def test_a_claim_that_names_an_unsuitable_volume_is_told(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(volume("small", "1Gi"))
    await client.create(claim(size="2Gi", storageClassName="", volumeName="small"))
    await run_until_idle(manager)
    text = 'Cannot bind to requested volume "small": requested PV is too small'
    assert f"Warning VolumeMismatch {text}" in recorder.about("c")
    assert (await read(client)).status.phase == "Pending"


async def test_a_volume_that_is_kept_is_released_and_bound_to_nobody_else(
    client: Client, manager: Manager
) -> None:
    await client.create(volume("kept", persistentVolumeReclaimPolicy="Retain"))
    await client.create(claim(storageClassName=""))
    await run_until_idle(manager)
    await client.delete(PersistentVolumeClaim, "c", NAMESPACE)
    await run_until_idle(manager)
    assert await phase(client, "kept") == "Released"
    await client.create(claim("other", storageClassName=""))
    await run_until_idle(manager)
    assert (await read(client, "other")).status.phase == "Pending"


async def test_a_claim_whose_volume_is_gone_is_lost(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(volume("v"))
    await client.create(claim(storageClassName=""))
    await run_until_idle(manager)
    held = await client.get(PersistentVolume, "v")
    await client.delete(held)
    await client.patch(held, MergePatch({"metadata": {"finalizers": None}}))
    await run_until_idle(manager)
    assert (await read(client)).status.phase == "Lost"
    text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert f"Warning ClaimLost {text}" in recorder.about("c")


async def test_a_class_of_the_simulated_provisioner_makes_volumes_and_deletes_them(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(storage_class())
    await client.create(claim(storageClassName="fast"))
    await run_until_idle(manager)
    found = await read(client)
    name = f"pvc-{found.metadata.uid}"
    assert (found.status.phase, found.spec.volume_name) == ("Bound", name)
    assert found.metadata.annotations["volume.kubernetes.io/storage-provisioner"] == SIMULATED_PROVISIONER
    told = [each.partition(" ")[2].partition(" ")[0] for each in recorder.about("c")]
    assert set(told) >= {"ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"}
    await client.delete(found)
    await run_until_idle(manager)
    assert not await exists(client, PersistentVolume, name)


async def test_a_claim_without_a_class_gets_the_default_one_even_later(
    client: Client, manager: Manager
) -> None:
    await client.create(claim())
    await run_until_idle(manager)
    assert (await read(client)).status.phase == "Pending"
    await client.create(storage_class(default=True))
    await run_until_idle(manager)
    found = await read(client)
    assert (found.spec.storage_class_name, found.status.phase) == ("fast", "Bound")


async def test_a_class_that_waits_for_a_consumer_waits_for_a_node(
    client: Client, manager: Manager, recorder: EventLog
) -> None:
    await client.create(storage_class(volumeBindingMode="WaitForFirstConsumer"))
    await client.create(claim(storageClassName="fast"))
    await run_until_idle(manager)
    assert (await read(client)).status.phase == "Pending"
    text = "waiting for first consumer to be created before binding"
    assert f"Normal WaitForFirstConsumer {text}" in recorder.about("c")
    mark = {"volume.kubernetes.io/selected-node": "node-0"}
    await client.patch(await read(client), MergePatch({"metadata": {"annotations": mark}}))
    await run_until_idle(manager)
    assert (await read(client)).status.phase == "Bound"


async def test_a_claim_grows(client: Client, manager: Manager, recorder: EventLog) -> None:
    await client.create(storage_class())
    await client.create(claim(storageClassName="fast"))
    await run_until_idle(manager)
    more = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    await client.patch(await read(client), MergePatch(more))
    await run_until_idle(manager)
    found = await read(client)
    assert found.status.capacity["storage"] == Quantity("5Gi")
    bound = await client.get(PersistentVolume, found.spec.volume_name)
    assert bound.spec.capacity["storage"] == Quantity("5Gi")
    assert "Normal ExternalExpanding waiting for an external controller to expand this PVC" in recorder.about(
        "c"
    )


async def test_pods_bring_their_own_claims(client: Client, manager: Manager) -> None:
    await client.create(storage_class(default=True))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    own = {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "c", "image": "x"}],
            "volumes": [{"name": "scratch", "ephemeral": own}],
            "nodeName": "node-0",
        },
    }
    made_pod = await client.create(DynamicObject(pod))
    await run_until_idle(manager)
    found = await read(client, "p-scratch")
    assert found.status.phase == "Bound"
    assert found.metadata.labels == {"a": "b"}
    [owner] = found.metadata.owner_references
    assert (owner.uid, owner.controller) == (made_pod.metadata.uid, True)


async def test_a_stateful_set_with_claims_becomes_ready(client: Client) -> None:
    await client.create(storage_class(default=True))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    await client.create(
        made("StatefulSet", replicas=2, serviceName="web", volumeClaimTemplates=claims, template=template())
    )
    await until(client, StatefulSet, lambda each: each.status.ready_replicas == 2)
    await asyncio.sleep(1)
    found = [await read(client, f"data-web-{i}") for i in range(2)]
    assert [each.status.phase for each in found] == ["Bound", "Bound"]
    assert len((await client.list(PersistentVolume)).items) == 2


async def test_no_default_class_is_made_unless_asked_for(client: Client) -> None:
    assert not (await client.list(StorageClass)).items
