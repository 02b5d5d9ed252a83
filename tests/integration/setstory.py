"""Stories of Deployments, StatefulSets, Services and so on, told on any cluster whose nodes are simulated.

Each story has a namespace of its own, so that all of them can be told at the same time. What is recorded does
not depend on times, UIDs, addresses and random names.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from quarterdeck.api import DynamicObject, Resource
from quarterdeck.api.k8s import (
    ControllerRevision,
    CoreEvent,
    CronJob,
    DaemonSet,
    Deployment,
    Endpoints,
    EndpointSlice,
    Job,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceQuota,
    StatefulSet,
)
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.registration import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing import eventually

from .storybook import Record, StoryBook

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
_TELLING = frozenset(
    {
        "ReplicaSet",
        "ReplicationController",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "CronJob",
        "PodDisruptionBudget",
        "Service",
        "Endpoints",
    }
)


def _event_key(event: CoreEvent) -> tuple[str, ...] | None:
    kind = event.involved_object.kind
    return (kind, event.type, event.reason, plain(event.message)) if kind in _TELLING else None


story = StoryBook(
    "workload_stories.json",
    Workloads(nodes=NodeSettings(count=1)),
    simulated=["default-scheduler", "simulated-kubelet", "simulated-node"],
    event_key=_event_key,
    uncounted={"FailedCreate"},  # how often this is told depends on how often it was tried
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


@story
async def replicas_kept(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "ReplicaSet", replicas=3)
    await until(client, namespace, ReplicaSet, has(available_replicas=3))
    first = await record(client, namespace, ReplicaSet, Pod)
    doomed = (await pods(client, namespace))[0]
    await client.delete(doomed)

    async def is_replaced() -> bool:
        there = {each.metadata.uid for each in await pods(client, namespace)}
        return doomed.metadata.uid not in there and await _all_running(client, namespace, 3)

    await until_true(is_replaced)
    await change(client, namespace, ReplicaSet, replicas=1)
    await until(client, namespace, ReplicaSet, has(replicas=1, terminating_replicas=0))
    return [first, await record(client, namespace, ReplicaSet, Pod)]


async def _all_running(client: Client, namespace: str, number: int) -> bool:
    found = await pods(client, namespace)
    ready = [each for each in found if ("Ready", "True") in _conditions(each)]
    return len(found) == len(ready) == number


def _conditions(obj: Any) -> list[tuple[str, str]]:
    return [(each.type, each.status) for each in obj.status.conditions]


@story
async def replicas_adopted_and_released(client: Client, namespace: str) -> list[Record]:
    orphan = {"apiVersion": "v1", "kind": "Pod", **template()}
    orphan["metadata"] = {**orphan["metadata"], "name": "orphan", "namespace": namespace}
    await client.create(DynamicObject(orphan))
    await make(client, namespace, "ReplicaSet", replicas=2)
    await until(client, namespace, ReplicaSet, has(available_replicas=2))
    first = await record(client, namespace, ReplicaSet, Pod)
    found = await client.get(Pod, "orphan", namespace)
    await client.patch(found, MergePatch({"metadata": {"labels": {"app": "free"}}}))
    await until_true(lambda: _all_running(client, namespace, 3))
    await until(client, namespace, ReplicaSet, has(available_replicas=2))
    return [first, await record(client, namespace, ReplicaSet, Pod)]


@story
async def replicas_refused(client: Client, namespace: str) -> list[Record]:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": namespace}}
    await client.create(DynamicObject({**quota, "spec": {"hard": {"pods": "1"}}}))

    async def is_counted() -> bool:
        return bool((await client.get(ResourceQuota, "few", namespace)).status.used)

    await until_true(is_counted)
    await make(client, namespace, "ReplicaSet", replicas=1)
    await until(client, namespace, ReplicaSet, has(available_replicas=1))
    await make(
        client,
        namespace,
        "ReplicaSet",
        "other",
        replicas=1,
        template=template(labels={"app": "other"}),
        selector={"matchLabels": {"app": "other"}},
    )
    found = await until(client, namespace, ReplicaSet, lambda each: each.status.conditions, "other")
    message = plain(found.status.conditions[0].message)
    await client.delete(found)
    return [{"reason": found.status.conditions[0].reason, "message": message}]


@story
async def replication_controller(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "ReplicationController", replicas=2, selector=LABELS)
    await until(client, namespace, ReplicationController, has(available_replicas=2))
    first = await record(client, namespace, ReplicationController, Pod)
    await change(client, namespace, ReplicationController, replicas=1, minReadySeconds=2)
    await until_true(lambda: _all_running(client, namespace, 1))
    await until(client, namespace, ReplicationController, has(available_replicas=1, replicas=1))
    return [first, await record(client, namespace, ReplicationController, Pod)]


def is_rolled_out(each: Deployment) -> bool:
    wanted = each.spec.replicas
    is_done = any(
        one.type == "Progressing" and one.reason == "NewReplicaSetAvailable" for one in each.status.conditions
    )
    return is_done and has(
        updated_replicas=wanted, replicas=wanted, available_replicas=wanted, terminating_replicas=0
    )(each)


async def rolled_out(client: Client, namespace: str) -> Record:
    await until(client, namespace, Deployment, is_rolled_out)
    await asyncio.sleep(1)
    return await record(client, namespace, Deployment, ReplicaSet, Pod)


@story
async def deployment_rolled_out_and_back(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=1)
    records = [await rolled_out(client, namespace)]
    for image in ("two", "one"):
        await change(client, namespace, Deployment, template=template(image))
        records.append(await rolled_out(client, namespace))
    return records


@story
async def deployment_scaled(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=2)
    await rolled_out(client, namespace)
    await change(client, namespace, Deployment, replicas=4)
    await until(client, namespace, Deployment, has(available_replicas=4))
    larger = await rolled_out(client, namespace)
    await change(client, namespace, Deployment, replicas=0)
    await until(client, namespace, Deployment, has(replicas=0, terminating_replicas=0))
    return [larger, await record(client, namespace, Deployment, ReplicaSet, Pod)]


@story
async def deployment_scaled_on_the_way(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=10)
    await rolled_out(client, namespace)
    await change(client, namespace, Deployment, template=template("two", acts={"ready_seconds": "never"}))
    await until(client, namespace, Deployment, has(updated_replicas=5, replicas=13, terminating_replicas=0))
    await change(client, namespace, Deployment, replicas=20)
    await until(client, namespace, Deployment, has(replicas=25, terminating_replicas=0))
    await until_true(lambda: _ready(client, namespace, 15))
    await until(client, namespace, Deployment, has(ready_replicas=15))
    return [await record(client, namespace, Deployment, ReplicaSet)]


async def _ready(client: Client, namespace: str, number: int) -> bool:
    found = [each for each in await pods(client, namespace) if ("Ready", "True") in _conditions(each)]
    return len(found) == number


@story
async def deployment_recreated(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=2, strategy={"type": "Recreate"})
    first = await rolled_out(client, namespace)
    await change(client, namespace, Deployment, template=template("two"))
    await until(
        client,
        namespace,
        Deployment,
        lambda each: each.metadata.annotations["deployment.kubernetes.io/revision"] == "2",
    )
    return [first, await rolled_out(client, namespace)]


@story
async def deployment_paused(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=1)
    await rolled_out(client, namespace)
    await change(client, namespace, Deployment, paused=True)
    await until(client, namespace, Deployment, lambda each: ("Progressing", "Unknown") in _conditions(each))
    await change(client, namespace, Deployment, template=template("two"), replicas=2)
    await until(client, namespace, Deployment, has(available_replicas=2))
    paused = await record(client, namespace, Deployment, ReplicaSet)
    await change(client, namespace, Deployment, paused=False)
    return [paused, await rolled_out(client, namespace)]


@story
async def deployment_stuck(client: Client, namespace: str) -> list[Record]:
    late = template(acts={"ready_seconds": "never"})
    await make(client, namespace, "Deployment", replicas=1, template=late, progressDeadlineSeconds=20)
    await until(client, namespace, Deployment, has(replicas=1))
    await until(client, namespace, Deployment, lambda each: ("Progressing", "False") in _conditions(each))
    return [await record(client, namespace, Deployment, ReplicaSet)]


@story
async def deployment_history(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=1, revisionHistoryLimit=1)
    await rolled_out(client, namespace)
    for image in ("two", "three"):
        await change(client, namespace, Deployment, template=template(image))
        await rolled_out(client, namespace)

    async def is_short() -> bool:
        return len((await client.list(ReplicaSet, namespace=namespace)).items) == 2

    await until_true(is_short)
    return [await record(client, namespace, Deployment, ReplicaSet)]


def is_updated(each: StatefulSet) -> bool:
    wanted = each.spec.replicas
    return each.status.current_revision == each.status.update_revision and has(
        replicas=wanted, available_replicas=wanted, updated_replicas=wanted
    )(each)


@story
async def stateful_in_order(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "StatefulSet", replicas=3, serviceName="web", ordinals={"start": 1})
    await until(client, namespace, StatefulSet, is_updated)
    first = await record(client, namespace, StatefulSet, Pod, ControllerRevision)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await change(client, namespace, StatefulSet, template=template("two"), updateStrategy=strategy)
    await until(client, namespace, StatefulSet, has(updated_replicas=1, available_replicas=3))
    await asyncio.sleep(1)
    half = await record(client, namespace, StatefulSet, Pod, ControllerRevision)
    await change(client, namespace, StatefulSet, template=template("one"), replicas=1)
    await until(client, namespace, StatefulSet, is_updated)
    return [first, half, await record(client, namespace, StatefulSet, Pod, ControllerRevision)]


@story
async def stateful_with_claims(client: Client, namespace: str) -> list[Record]:
    claim = {
        "metadata": {"name": "data", "labels": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await make(
        client,
        namespace,
        "StatefulSet",
        replicas=2,
        serviceName="web",
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete", "whenDeleted": "Retain"},
        template=template(nodeName="node-0"),
    )
    await until(client, namespace, StatefulSet, has(available_replicas=2))
    first = await record(client, namespace, StatefulSet, Pod, PersistentVolumeClaim)
    await change(client, namespace, StatefulSet, replicas=1)

    async def one_claim_is_left() -> bool:
        return len((await client.list(PersistentVolumeClaim, namespace=namespace)).items) == 1

    await until_true(one_claim_is_left)
    await until(client, namespace, StatefulSet, has(replicas=1))
    return [first, await record(client, namespace, StatefulSet, Pod, PersistentVolumeClaim)]


def is_everywhere(each: DaemonSet) -> bool:
    wanted = each.status.desired_number_scheduled
    return bool(wanted) and has(updated_number_scheduled=wanted, number_available=wanted)(each)


@story
async def daemon_on_every_node(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "DaemonSet")
    await until(client, namespace, DaemonSet, is_everywhere)
    first = await record(client, namespace, DaemonSet, Pod, ControllerRevision)
    for image in ("two", "one"):
        await change(client, namespace, DaemonSet, template=template(image))
        await until(client, namespace, DaemonSet, is_everywhere)
    return [first, await record(client, namespace, DaemonSet, Pod, ControllerRevision)]


@story
async def daemon_with_surge(client: Client, namespace: str) -> list[Record]:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await make(client, namespace, "DaemonSet", updateStrategy=strategy)
    await until(client, namespace, DaemonSet, is_everywhere)
    await change(client, namespace, DaemonSet, template=template("two"))

    async def is_done() -> bool:
        return [each.spec.containers[0].image for each in await pods(client, namespace)] == ["two"]

    await until_true(is_done)
    await until(client, namespace, DaemonSet, is_everywhere)
    return [await record(client, namespace, DaemonSet, Pod)]


@story
async def daemon_nowhere(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "DaemonSet", template=template(nodeSelector={"no": "where"}))
    await until(client, namespace, DaemonSet, lambda each: each.status.observed_generation)
    return [await record(client, namespace, DaemonSet, Pod, ControllerRevision)]


def cron(namespace: str, **spec: Any) -> DynamicObject:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one"}], **spec.pop("pod", {})}
    acts = acting(**spec.pop("acts", {}))
    job = {"template": {"metadata": {"annotations": acts}, "spec": pod}}
    whole = {"schedule": "* * * * *", "jobTemplate": {"metadata": {"labels": LABELS}, "spec": job}, **spec}
    metadata = {"name": "tick", "namespace": namespace}
    return DynamicObject({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": whole})


@story
async def cron_started(client: Client, namespace: str) -> list[Record]:
    await client.create(cron(namespace, timeZone="Asia/Kolkata"))
    await until(client, namespace, CronJob, lambda each: each.status.last_successful_time, "tick")
    found = await until(client, namespace, CronJob, lambda each: not each.status.active, "tick")
    await client.patch(found, MergePatch({"spec": {"suspend": True}}))
    [job] = (await client.list(Job, namespace=namespace)).items
    zone = job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"][-6:]
    marked = {
        "zone": zone,
        "labels": dict(job.metadata.labels),
        "owner": job.metadata.owner_references[0].name,
    }
    return [marked, await record(client, namespace, CronJob)]


@story
async def cron_replaced(client: Client, namespace: str) -> list[Record]:
    await client.create(cron(namespace, concurrencyPolicy="Replace", acts={"run_seconds": 3600}))
    first = await until(client, namespace, CronJob, lambda each: each.status.active, "tick")
    uid = first.status.active[0].uid
    found = await until(
        client,
        namespace,
        CronJob,
        lambda each: each.status.active and each.status.active[0].uid != uid,
        "tick",
    )
    await client.patch(found, MergePatch({"spec": {"suspend": True}}))
    return [await record(client, namespace, CronJob, Job)]


@story
async def budget_by_number(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Deployment", replicas=3)
    await rolled_out(client, namespace)
    await make(client, namespace, "PodDisruptionBudget", minAvailable=2, template=None)
    await until(client, namespace, PodDisruptionBudget, has(disruptions_allowed=1))
    return [await record(client, namespace, PodDisruptionBudget)]


@story
async def budget_by_percentage(client: Client, namespace: str) -> list[Record]:
    await make(
        client, namespace, "StatefulSet", replicas=2, serviceName="web", podManagementPolicy="Parallel"
    )
    await until(client, namespace, StatefulSet, has(available_replicas=2))
    await make(client, namespace, "PodDisruptionBudget", maxUnavailable="50%", template=None)
    await until(client, namespace, PodDisruptionBudget, has(disruptions_allowed=1))
    return [await record(client, namespace, PodDisruptionBudget)]


@story
async def budget_that_cannot_count(client: Client, namespace: str) -> list[Record]:
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {"template": template(acts={"run_seconds": 3600}, restartPolicy="Never")},
    }
    await client.create(DynamicObject(document))
    await until(client, namespace, Job, lambda each: each.status.ready == 1, "job")
    await make(client, namespace, "PodDisruptionBudget", maxUnavailable=1, template=None)
    await until(client, namespace, PodDisruptionBudget, lambda each: each.status.conditions)
    return [await record(client, namespace, PodDisruptionBudget)]


async def ready_addresses(client: Client, namespace: str) -> tuple[int, int]:
    """Ready endpoints in Endpoints and in EndpointSlices."""
    old = (await client.list(Endpoints, namespace=namespace)).items
    new = (await client.list(EndpointSlice, namespace=namespace)).items
    return (
        sum(len(each.addresses) for one in old for each in one.subsets),
        sum(1 for one in new for each in one.endpoints if each.conditions.ready),
    )


@story
async def service_with_ports(client: Client, namespace: str) -> list[Record]:
    ports = [
        {"name": "http", "port": 80, "targetPort": "web"},
        {"name": "admin", "port": 81, "targetPort": 9001, "appProtocol": "http"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]
    await make(client, namespace, "Service", selector=LABELS, ports=ports, template=None)

    async def is_empty() -> bool:
        return len((await client.list(Endpoints, namespace=namespace)).items) == 1 and bool(
            (await client.list(EndpointSlice, namespace=namespace)).items
        )

    await until_true(is_empty)
    empty = await record(client, namespace, Endpoints, EndpointSlice)
    container = {"ports": [{"name": "web", "containerPort": 8080}]}
    await make(client, namespace, "Deployment", replicas=2, template=template(container=container))

    async def both_are_there() -> bool:
        return await ready_addresses(client, namespace) == (2, 2)

    await until_true(both_are_there)
    full = await record(client, namespace, Endpoints, EndpointSlice)
    await change(client, namespace, Deployment, replicas=0)

    async def none_is_there() -> bool:
        gone = not await pods(client, namespace)
        slices = (await client.list(EndpointSlice, namespace=namespace)).items
        return (
            gone
            and not any(each.endpoints for each in slices)
            and await ready_addresses(client, namespace) == (0, 0)
        )

    await until_true(none_is_there)
    return [empty, full, await record(client, namespace, Endpoints, EndpointSlice)]


@story
async def service_without_address(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, "Service", selector=LABELS, clusterIP="None", template=None)
    await make(client, namespace, "StatefulSet", replicas=1, serviceName="web")

    async def it_is_there() -> bool:
        return await ready_addresses(client, namespace) == (1, 1)

    await until_true(it_is_there)
    return [await record(client, namespace, Endpoints, EndpointSlice)]


@story
async def service_that_takes_all(client: Client, namespace: str) -> list[Record]:
    await make(
        client,
        namespace,
        "Service",
        selector=LABELS,
        ports=[{"port": 80}],
        publishNotReadyAddresses=True,
        trafficDistribution="PreferSameNode",
        template=None,
    )
    late = template(acts={"ready_seconds": "never"})
    await make(client, namespace, "ReplicaSet", replicas=1, template=late)

    async def it_is_there() -> bool:
        return await ready_addresses(client, namespace) == (1, 1)

    await until_true(it_is_there)
    return [await record(client, namespace, Endpoints, EndpointSlice)]
