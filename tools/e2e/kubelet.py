"""One Node that is always ready. Pods are bound to it, are running at once, and go when they are deleted.

No container is started. Some specs only ask that a pod gets to run; on both servers it gets that from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.client import Client, Config, MergePatch, metadata_of
from quarterdeck.errors import ApiError, QuarterdeckError

NODE: Final = "node-0"
_HEARTBEAT: Final = 10.0
"""Seconds; kube-controller-manager gives a node up after 50 without one."""
_PERIOD: Final = 0.2
"""Seconds between two looks at the pods."""
_START_TIMEOUT: Final = 30.0
_NODE: Final = GroupVersionKind("", "v1", "Node")
_POD: Final = GroupVersionKind("", "v1", "Pod")


@contextlib.contextmanager
def running(kubeconfig: Path) -> Iterator[None]:
    """The node is ready inside of the block."""
    ready, stopping = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_run(kubeconfig, ready, stopping)), name="kubelet", daemon=True
    )
    thread.start()
    if not ready.wait(_START_TIMEOUT):
        raise TimeoutError("the node did not become ready")
    try:
        yield
    finally:
        stopping.set()
        thread.join()


async def _run(kubeconfig: Path, ready: threading.Event, stopping: threading.Event) -> None:
    async with Client.connect(Config.load(kubeconfig=str(kubeconfig))) as client:
        await client.create(DynamicObject(_node()))
        await client.patch(await client.get(_NODE, NODE), MergePatch({"spec": {"taints": None}}))
        beaten = 0.0
        while not stopping.is_set():
            try:
                if time.monotonic() - beaten > _HEARTBEAT:
                    await client.status.patch(await client.get(_NODE, NODE), MergePatch(_ready()))
                    beaten = time.monotonic()
                    ready.set()
                for pod in (await client.list(_POD)).items:
                    with contextlib.suppress(ApiError):  # the spec was faster
                        await _advance(client, pod)
            except QuarterdeckError as error:
                print(f"kubelet: {error}", flush=True)
            await asyncio.sleep(_PERIOD)


async def _advance(client: Client, pod: DynamicObject) -> None:
    """Take a pod one step further."""
    meta = pod.metadata
    if meta.is_deleting:
        if pod.at("spec", "nodeName", default=""):
            await client.delete(metadata_of(_POD), meta.name, meta.namespace, grace_period=0, uid=meta.uid)
    elif not pod.at("spec", "nodeName", default=""):
        if not pod.at("spec", "schedulingGates", default=()):
            await client.subresource("binding").create(pod, DynamicObject(_binding(pod)))
    elif pod.at("status", "phase", default="") == "Pending":
        await client.status.patch(pod, MergePatch({"status": _running(pod)}))


def _binding(pod: DynamicObject) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }


def _running(pod: DynamicObject) -> dict[str, Any]:
    now = _now()
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": now} for each in conditions],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod.at("spec", "containers")
        ],
    }


def _node() -> dict[str, Any]:
    labels = {"hostname": NODE, "os": "linux", "arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE,
            "labels": {f"kubernetes.io/{name}": value for name, value in labels.items()},
        },
    }


def _ready() -> dict[str, Any]:
    now = _now()
    resources = {"cpu": "32", "memory": "256Gi", "pods": "1000"}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "nothing runs here",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [condition],
        }
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
