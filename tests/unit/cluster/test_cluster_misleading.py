"""Pods whose labels, annotations and arguments read like a status: none of these words means anything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import Client
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.placement.controller import SchedulerSettings
from quarterdeck.cluster.podgc import QUARANTINE, pod_gc_controller
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import NotFound
from quarterdeck.runtime import Manager
from quarterdeck.runtime.cache.entry import EntryFactory
from quarterdeck.runtime.cache.transform import strip_last_applied, strip_managed_fields
from quarterdeck.testing import TestCluster

from .workloadkit import NAMESPACE

MISLEADING = {
    "labels": {"phase": "Succeeded", "nodeName": "node-9"},
    "annotations": {"phase": "Failed", "nodeName": "node-9", "note": "batch.kubernetes.io/job-tracking"},
}


@pytest.fixture
async def one_node(cluster: TestCluster, manager: Manager) -> None:
    nodes = NodeSettings(count=1, capacity={"cpu": "32", "memory": "64Gi", "pods": "110"})
    Workloads(scheduler=SchedulerSettings(), nodes=nodes).add_to(manager)
    await cluster.start(manager)
    await asyncio.sleep(1)


def wide(name: str, node: str = "") -> DynamicObject:
    """A pod of 30 CPUs."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "30"}}}
    return DynamicObject(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, **MISLEADING},
            "spec": {"containers": [container]} | ({"nodeName": node} if node else {}),
        }
    )


@pytest.mark.usefixtures("one_node")
async def test_a_pod_labelled_like_one_that_has_ended_is_placed_runs_and_holds_its_place(
    client: Client,
) -> None:
    await client.create(wide("first"))
    await asyncio.sleep(1)
    first = await client.get(Pod, "first", NAMESPACE)
    assert (first.spec.node_name, first.status.phase) == ("node-0", "Running")
    await client.create(wide("second"))
    await asyncio.sleep(1)
    second = await client.get(Pod, "second", NAMESPACE)
    assert second.spec.node_name == "", "30 of 32 CPUs are taken"
    await client.delete(Pod, "first", NAMESPACE)
    await asyncio.sleep(40)
    second = await client.get(Pod, "second", NAMESPACE)
    assert (second.spec.node_name, second.status.phase) == ("node-0", "Running")


async def test_a_pod_labelled_like_a_bound_one_is_collected_once_its_node_is_gone(
    cluster: TestCluster, manager: Manager, client: Client
) -> None:
    manager.add(pod_gc_controller())
    await cluster.start(manager)
    await client.create(wide("unbound"))
    await client.create(DynamicObject({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
    await client.create(wide("bound", "n"))
    await asyncio.sleep(1)
    await client.delete(Node, "n")
    await asyncio.sleep(QUARANTINE + 5)
    with pytest.raises(NotFound):
        await client.get(Pod, "bound", NAMESPACE)
    assert (await client.get(Pod, "unbound", NAMESPACE)).spec.node_name == ""


def stripped(document: dict[str, Any]) -> dict[str, Any]:
    factory = EntryFactory(transforms=[strip_managed_fields, strip_last_applied])
    found: dict[str, Any] = json.loads(factory.make(json.dumps(document, separators=(",", ":")).encode()).raw)
    return found


def test_only_the_objects_own_managed_fields_and_last_applied_text_are_left_out() -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    same = {"managedFields": [{"manager": "m"}], "annotations": {key: "{}", "other": "x"}}
    document = {"data": same, "metadata": {"name": "a", **same}, "spec": {"template": {"metadata": same}}}
    kept = {**document, "metadata": {"name": "a", "annotations": {"other": "x"}}}
    assert stripped(document) == kept
