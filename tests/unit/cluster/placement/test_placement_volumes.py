"""The default scheduler heeds how many volumes a node can have attached."""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, run_until_idle
from tests.unit.cluster.workloadkit import NAMESPACE, pod

DRIVER = "disk.example"
SIZE: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}


def thing(version: str, kind: str, name: str, namespace: str = "", **spec: Any) -> DynamicObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return DynamicObject({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})


def volume(name: str) -> DynamicObject:
    source: dict[str, Any] = {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}
    return thing("v1", "PersistentVolume", name, capacity={"storage": "1Gi"}, **SIZE, **source)


def claim(name: str) -> DynamicObject:
    resources = {"requests": {"storage": "1Gi"}}
    return thing("v1", "PersistentVolumeClaim", name, NAMESPACE, volumeName=name, resources=resources, **SIZE)


def user(name: str, claim: str) -> DynamicObject:
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, nodeName=None, volumes=volumes)


async def places(client: Client) -> dict[str, str]:
    await asyncio.sleep(2)
    return {each.metadata.name: each.spec.node_name for each in (await client.list(Pod)).items}


async def test_limits_of_a_driver_are_heeded(cluster: TestCluster, manager: Manager, client: Client) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=2)))
    await cluster.start(manager)
    await run_until_idle(manager)
    for name, count in (("node-0", 1), ("node-1", 2)):
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
        await client.create(thing("storage.k8s.io/v1", "CSINode", name, drivers=[driver]))
    for name in ("a", "b", "c", "attached"):
        await client.create(volume(name))
    for name in ("a", "b", "c"):
        await client.create(claim(name))
    attachment: dict[str, Any] = {
        "attacher": DRIVER,
        "nodeName": "node-1",
        "source": {"persistentVolumeName": "attached"},
    }
    await client.create(thing("storage.k8s.io/v1", "VolumeAttachment", "by-somebody", **attachment))
    for name in ("a", "b", "c"):
        await client.create(user(name, name))
    found = await places(client)
    assert {found["a"], found["b"]} == {"node-0", "node-1"}
    assert found["c"] == ""
    waiting = await client.get(Pod, "c", NAMESPACE)
    [condition] = [each for each in waiting.status.conditions if each.type == "PodScheduled"]
    assert condition.message.startswith("0/2 nodes are available: 2 node(s) exceed max volume count.")
    await client.delete(Pod, "a", NAMESPACE)
    assert (await places(client))["c"] == found["a"]
