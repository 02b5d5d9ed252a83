"""Stories of Deployments, StatefulSets, Services and so on, told on any cluster whose nodes are simulated.

Each story has a namespace of its own, so that all of them can be told at the same time. What is recorded does
not depend on times, UIDs, addresses and random names.
"""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import DynamicObject
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
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from tests.integration.setkit import (
    LABELS,
    acting,
    change,
    has,
    make,
    plain,
    pods,
    record,
    template,
    until,
    until_true,
)
from tests.integration.storybook import Record, StoryBook

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
