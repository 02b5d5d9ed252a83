"""A cluster with the kai operator, for tests: objects in a few words, cycles on demand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import Node, PersistentVolume, Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.operators.kai.assembly import metrics_of, set_up
from quarterdeck.operators.kai.controllers import SchedulingCycle
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import KINDS, BindRequest, PodGroup, Queue
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import EventLog, FaultPlan, TestCluster, run_until_idle

Json = dict[str, Any]
NS = "default"
OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


class Kai:
    """A cluster whose pods are grouped, bound and counted; scheduled when it is asked for."""

    def __init__(self, cluster: TestCluster, manager: Manager, cycle: SchedulingCycle, log: EventLog) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client
        self.manager = manager
        self.cycle = cycle
        self.log = log

    async def settle(self) -> None:
        """Wait until the controllers have nothing to do."""
        await run_until_idle(self.manager)

    async def schedule(self) -> None:
        """One cycle, and what the binder makes of it."""
        await self.settle()
        await self.cycle.run_once()
        await self.settle()

    async def pod(self, name: str, namespace: str = NS) -> Pod:
        return await self.client.get(Pod, name, namespace)

    async def group(self, name: str, namespace: str = NS) -> PodGroup:
        return await self.client.get(PodGroup, name, namespace)

    async def queue(self, name: str) -> Queue:
        return await self.client.get(Queue, name)

    async def requests(self) -> list[BindRequest]:
        return list(await self.client.list(BindRequest))

    async def create(self, *objects: Json) -> None:
        for each in objects:
            await self.client.create(DynamicObject(each))

    async def add_nodes(self, *names: str, gpus: int = 8, **labels: str) -> None:
        """Nodes that are ready."""
        for name in names:
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
            await self.client.create(
                DynamicObject({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}})
            )
            node = await self.client.get(Node, name)
            amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
            status = {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            await self.client.status.patch(node, MergePatch({"status": status}))
            if node.spec.taints:  # a new node is not ready until it says so
                await self.client.patch(node, MergePatch({"spec": {"taints": None}}))

    async def set_phase(self, name: str, phase: str, namespace: str = NS) -> None:
        """What a kubelet would say."""
        pod = await self.pod(name, namespace)
        await self.client.status.patch(pod, MergePatch({"status": {"phase": phase}}))

    async def make_available(self, *volumes: str) -> None:
        """What the volume controller says of new volumes."""
        for name in volumes:
            stored = await self.client.get(PersistentVolume, name)
            await self.client.status.patch(stored, MergePatch({"status": {"phase": "Available"}}))


@asynccontextmanager
async def kai(plan: FaultPlan | None = None, **settings: Any) -> AsyncIterator[Kai]:
    """A cluster with the operator's controllers, and nothing in it."""
    async with TestCluster(crds=KINDS) as cluster:
        log, metrics = EventLog(), RuntimeMetrics()
        manager = cluster.manager(plan=plan, recorder=log, metrics=metrics)
        cycle = set_up(manager, KaiSettings(**settings), metrics_of(manager))
        async with cluster.serving(manager):
            yield Kai(cluster, manager, cycle, log)


def queue(name: str, parent: str = "", **resources: Json) -> Json:
    shares = {"gpu": OPEN, "cpu": OPEN, "memory": OPEN, **resources}
    spec: Json = {"resources": shares, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(name: str, minimum: int = 1, queue: str = "team", namespace: str = NS, **spec: Any) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, "queue": queue, **spec},
    }


def pod(name: str, of: str = "", gpu: int = 1, namespace: str = NS, **more: Any) -> Json:
    """A pod of our scheduler, in a group or (``of`` empty) not yet."""
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    if of:
        metadata.setdefault("annotations", {})["pod-group-name"] = of
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def kind(api_version: str, name: str) -> GroupVersionKind:
    return GroupVersionKind.parse(api_version, name)


def storage_class(
    name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def claim(name: str = "data", of: str = "local", size: str = "1Gi", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NS},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


def volume(name: str, node: str, size: str = "1Gi", of: str = "local", **spec: Any) -> Json:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
            **spec,
        },
    }


def mounts(*claims: str) -> list[Json]:
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
