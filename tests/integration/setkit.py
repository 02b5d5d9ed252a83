"""Words of stories about workloads: what is made, changed and waited for, and what is recorded of it.

What is recorded does not depend on times, UIDs, addresses and random names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from quarterdeck.api import DynamicObject, Resource
from quarterdeck.api.k8s import (
    DaemonSet,
    Deployment,
    EndpointSlice,
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from quarterdeck.client import Client, MergePatch
from quarterdeck.testing import eventually
from tests.integration.storybook import Record

R = TypeVar("R", bound=Resource)

PATIENCE = 900.0
LABELS = {"app": "web"}
_DROPPED = frozenset(
    {
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastProbeTime",
        "startTime",
        "completionTime",
        "generation",
        "observedGeneration",
        "apiVersion",
        "kind",
        "namespace",
        "clusterIP",
        "clusterIPs",
        "nodeName",
    }
)
_TIMES = frozenset({"lastScheduleTime", "lastSuccessfulTime"})
_TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
"""Whether there is one depends on what was seen together."""
_MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "IP"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "TIME"),
    (re.compile(r"\btick-\d{8}\b"), "tick-MINUTE"),
    (re.compile(r"\b((?:web|other|tick)[a-z0-9-]*)-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), r"\1-?"),
)


def acting(**acts: object) -> dict[str, str]:
    return {f"quarterdeck.dev/{key.replace('_', '-')}": str(value) for key, value in acts.items()}


def template(image: str = "one", *, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    acts = more.pop("acts", {})
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "10m", "memory": "1Gi"}}}
    spec = {"containers": [{**container, **more.pop("container", {})}], **more}
    return {"metadata": {"labels": labels or LABELS, "annotations": acting(**acts)}, "spec": spec}


async def make(client: Client, namespace: str, kind: str, name: str = "web", **spec: Any) -> None:
    api = {"ReplicationController": "v1", "Service": "v1", "PodDisruptionBudget": "policy/v1"}
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    metadata = {"name": name, "namespace": namespace, "labels": {"team": "a"}, "annotations": {"note": "n"}}
    document = {
        "apiVersion": api.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": metadata,
        "spec": {key: value for key, value in whole.items() if value is not None},
    }
    await client.create(DynamicObject(document))


async def change(
    client: Client, namespace: str, kind: type[Resource], name: str = "web", **spec: Any
) -> None:
    await client.patch(await client.get(kind, name, namespace), MergePatch({"spec": spec}))


async def until(
    client: Client, namespace: str, kind: type[R], holds: Callable[[R], object], name: str = "web"
) -> R:
    async def probe() -> R | None:
        found = await client.get(kind, name, namespace)
        return found if holds(found) else None

    found = await eventually(probe, timeout=PATIENCE, interval=0.2)
    assert found is not None
    return found


async def until_true(probe: Callable[[], Awaitable[bool]]) -> None:
    await eventually(probe, timeout=PATIENCE, interval=0.2)


async def pods(client: Client, namespace: str) -> list[Pod]:
    return sorted((await client.list(Pod, namespace=namespace)).items, key=lambda each: each.metadata.name)


def plain(value: Any) -> Any:
    """Without what is different each time."""
    if isinstance(value, dict):
        return {
            key: "TIME" if key in _TIMES else plain(each)
            for key, each in sorted(value.items())
            if key not in _DROPPED
        }
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, str):
        for pattern, mask in _MASKS:
            value = pattern.sub(mask, value)
    return value


async def record(client: Client, namespace: str, *kinds: type[Resource]) -> Record:
    """The objects of some kinds, whole; of pods what their controller has made of them."""
    found: Record = {}
    for kind in kinds:
        page = await client.list_raw(kind, namespace=namespace)
        documents = [plain(_essence(kind, json.loads(bytes(item)))) for item in page.items]
        found[kind.type_info.kind] = sorted(documents, key=str)
    return found


def _essence(kind: type[Resource], document: Record) -> Record:
    metadata = document["metadata"]
    if _TRIGGER_TIME in metadata.get("annotations", {}):
        del metadata["annotations"][_TRIGGER_TIME]
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    if kind is Pod:
        spec = document["spec"]
        kept = ("affinity", "hostname", "subdomain", "restartPolicy", "containers")
        volumes = [each for each in spec.get("volumes", []) if "persistentVolumeClaim" in each]
        tolerations = [each for each in spec.get("tolerations", []) if each.get("tolerationSeconds") is None]
        images = [each["image"] for each in spec["containers"]]
        metadata = {
            key: metadata.get(key)
            for key in ("name", "generateName", "labels", "annotations", "ownerReferences", "finalizers")
        }
        shown = {key: spec.get(key) for key in kept if key != "containers"}
        return {
            "metadata": metadata,
            **shown,
            "images": images,
            "volumes": volumes,
            "tolerations": tolerations,
            "phase": document["status"].get("phase"),
        }
    if kind is EndpointSlice:
        document["endpoints"] = sorted(document.get("endpoints") or [], key=lambda each: str(plain(each)))
    if kind in (Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController):
        document["spec"].pop("template", None)
    if kind is Job:
        return {"metadata": metadata}
    if kind is PersistentVolumeClaim:
        return {"metadata": {**metadata, "finalizers": None}}
    return document


def has(**status: object) -> Callable[[Any], bool]:
    """Whether the status has these numbers, and is of the newest spec."""

    def holds(obj: Any) -> bool:
        if (obj.status.observed_generation or 0) < (obj.metadata.generation or 0):
            return False
        return all((getattr(obj.status, key) or 0) == value for key, value in status.items())

    return holds
