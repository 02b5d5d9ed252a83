"""Stories of Jobs, told on any cluster whose nodes are simulated, and what is left of them in the end.

Each story has a namespace of its own, so that all of them can be told at the same time. What is recorded does
not depend on times, UIDs and random names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from quarterdeck.api import DynamicObject, to_dict
from quarterdeck.api.k8s import CoreEvent, Job, Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import NotFound
from quarterdeck.testing import eventually

from .storybook import Record, StoryBook

NODE = "node-0"
PATIENCE = 90.0
_TIMES = ("lastProbeTime", "lastTransitionTime", "startTime", "completionTime")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _event_key(event: CoreEvent) -> tuple[str, ...] | None:
    if event.involved_object.kind != "Job":
        return None
    if event.reason == "SuccessfulCreate" and event.metadata.namespace == "ignored-by-policy":
        return None  # it goes on for ever: how many there are depends on when one looks
    return (event.type, event.reason, _plain(event.message))


story = StoryBook(
    "job_stories.json",
    Workloads(nodes=NodeSettings(count=1), scheduler=None),
    simulated=["simulated-kubelet", "simulated-node"],
    event_key=_event_key,
)


async def make(client: Client, namespace: str, *, pod: Any = None, acts: Any = None, **spec: Any) -> None:
    """A Job; ``acts`` says what its pods do."""
    annotations = {f"quarterdeck.dev/{key.replace('_', '-')}": str(acts[key]) for key in acts or {}}
    container = {"name": "c", "image": "x"}
    template = {"restartPolicy": "Never", "nodeName": NODE, "containers": [container], **(pod or {})}
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {**spec, "template": {"metadata": {"annotations": annotations}, "spec": template}},
    }
    await client.create(DynamicObject(document))


async def read(client: Client, namespace: str) -> Job:
    return await client.get(Job, "job", namespace)


async def change(client: Client, namespace: str, **spec: Any) -> None:
    await client.patch(await read(client, namespace), MergePatch({"spec": spec}))


async def pods(client: Client, namespace: str) -> list[Pod]:
    return list((await client.list(Pod, namespace=namespace)).items)


async def until(client: Client, namespace: str, holds: Callable[[Job], object]) -> Job:
    async def probe() -> Job | None:
        job = await read(client, namespace)
        return job if holds(job) else None

    found = await eventually(probe, timeout=PATIENCE, interval=0.2)
    assert found is not None
    return found


async def finished(client: Client, namespace: str) -> list[Record]:
    """Wait for the end, and record it."""
    ends = {"Complete", "Failed"}
    await until(client, namespace, lambda job: ends & {each.type for each in job.status.conditions})
    return [await record(client, namespace)]


def is_running(number: int) -> Callable[[Job], bool]:
    return lambda job: (job.status.ready or 0) == number


async def record(client: Client, namespace: str) -> Record:
    """What can be seen of a Job."""
    job = await read(client, namespace)
    return {
        "status": _plain(to_dict(job)["status"]),
        "has times": [bool(job.status.start_time), bool(job.status.completion_time)],
        "pods": sorted((_pod(each) for each in await pods(client, namespace)), key=str),
    }


def _pod(pod: Pod) -> Record:
    metadata = to_dict(pod.metadata)
    owner = metadata.get("ownerReferences", [{}])[0]
    return {
        "name": re.sub(r"[a-z0-9]{5}$", "?", pod.metadata.name),
        "labels": _plain(metadata.get("labels", {})),
        "annotations": _plain(metadata.get("annotations", {})),
        "finalizers": metadata.get("finalizers", []),
        "owner": {key: value for key, value in owner.items() if key != "uid"},
        "hostname": pod.spec.hostname,
        "env": [to_dict(each) for each in pod.spec.containers[0].env],
        "phase": pod.status.phase,
        "is deleted": pod.metadata.is_deleting,
    }


def _plain(value: Any) -> Any:
    """Without times and UIDs."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _TIMES}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"job(-\d+)?-[a-z0-9]{5}\b", "POD", _UID.sub("UID", value))
    return value


@story
async def one_pod(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace)
    return await finished(client, namespace)


@story
async def while_it_runs(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, completions=3, parallelism=2, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(2))
    return [await record(client, namespace)]


@story
async def indexed(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, completions=4, parallelism=2, completionMode="Indexed")
    return await finished(client, namespace)


@story
async def work_queue(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, parallelism=3)
    return await finished(client, namespace)


@story
async def no_second_chance(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, backoffLimit=0, acts={"exit_code": 1})
    return await finished(client, namespace)


@story
async def second_chance(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, backoffLimit=1, acts={"exit_code": 1})
    return await finished(client, namespace)


@story
async def restarted_in_place(client: Client, namespace: str) -> list[Record]:
    spec = {"restartPolicy": "OnFailure"}
    await make(client, namespace, backoffLimit=2, pod=spec, acts={"exit_code": 1})
    return await finished(client, namespace)


@story
async def saved_by_a_restart(client: Client, namespace: str) -> list[Record]:
    spec = {"restartPolicy": "OnFailure"}
    await make(client, namespace, pod=spec, acts={"fail_first_attempts": 1})
    return await finished(client, namespace)


@story
async def too_slow(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, activeDeadlineSeconds=3, parallelism=2, acts={"run_seconds": 3600})
    return await finished(client, namespace)


@story
async def failed_by_policy(client: Client, namespace: str) -> list[Record]:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}
    await make(client, namespace, podFailurePolicy={"rules": [rule]}, acts={"exit_code": 7})
    return await finished(client, namespace)


@story
async def ignored_by_policy(client: Client, namespace: str) -> list[Record]:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [0]}}
    acts = {"exit_code": 7}
    await make(client, namespace, backoffLimit=0, podFailurePolicy={"rules": [rule]}, acts=acts)

    async def two_have_failed() -> bool:
        found = [pod for pod in await pods(client, namespace) if not pod.metadata.finalizers]
        return len(found) == 2

    await eventually(two_have_failed, timeout=PATIENCE, interval=0.2)
    return [await record(client, namespace)]


@story
async def led_to_success(client: Client, namespace: str) -> list[Record]:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
    await make(
        client,
        namespace,
        completions=2,
        parallelism=2,
        completionMode="Indexed",
        successPolicy=policy,
        acts={"run_seconds": 3600},
    )
    await until(client, namespace, is_running(2))
    [leader] = [pod for pod in await pods(client, namespace) if pod.spec.hostname == "job-0"]
    soon = {"quarterdeck.dev/run-seconds": "0"}
    await client.patch(leader, MergePatch({"metadata": {"annotations": soon}}))
    return await finished(client, namespace)


@story
async def failed_indexes(client: Client, namespace: str) -> list[Record]:
    await make(
        client,
        namespace,
        completions=2,
        parallelism=2,
        completionMode="Indexed",
        backoffLimitPerIndex=1,
        acts={"exit_code": 1},
    )
    return await finished(client, namespace)


@story
async def too_many_failed_indexes(client: Client, namespace: str) -> list[Record]:
    await make(
        client,
        namespace,
        completions=4,
        parallelism=1,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        maxFailedIndexes=1,
        acts={"exit_code": 1},
    )
    return await finished(client, namespace)


@story
async def suspended_from_the_start(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, suspend=True)
    await until(client, namespace, lambda job: job.status.conditions)
    before = await record(client, namespace)
    await change(client, namespace, suspend=False)
    return [before, *await finished(client, namespace)]


@story
async def suspended_on_the_way(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, completions=2, parallelism=2, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(2))
    await change(client, namespace, suspend=True)

    async def all_gone() -> bool:
        return not await pods(client, namespace)

    await eventually(all_gone, timeout=PATIENCE, interval=0.2)
    await until(client, namespace, lambda job: job.status.conditions and job.status.terminating == 0)
    return [await record(client, namespace)]


@story
async def pod_deleted(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(1))
    for pod in await pods(client, namespace):
        await client.delete(pod)
    await until(client, namespace, lambda job: job.status.failed == 1 and job.status.ready == 1)
    return [await record(client, namespace)]


@story
async def replaced_when_ended(client: Client, namespace: str) -> list[Record]:
    acts = {"run_seconds": 3600, "stop_seconds": 5}
    await make(client, namespace, podReplacementPolicy="Failed", acts=acts)
    await until(client, namespace, is_running(1))
    for pod in await pods(client, namespace):
        await client.delete(pod)
    await until(client, namespace, lambda job: job.status.terminating == 1)
    between = await record(client, namespace)
    await until(client, namespace, lambda job: job.status.failed == 1 and job.status.ready == 1)
    return [between, await record(client, namespace)]


@story
async def made_smaller(client: Client, namespace: str) -> list[Record]:
    await make(
        client,
        namespace,
        completions=4,
        parallelism=4,
        completionMode="Indexed",
        acts={"run_seconds": 3600},
    )
    await until(client, namespace, is_running(4))
    await change(client, namespace, completions=2, parallelism=2)
    await until(client, namespace, lambda job: job.status.active == 2 and job.status.terminating == 0)
    return [await record(client, namespace)]


@story
async def fewer_at_once(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, completions=4, parallelism=3, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(3))
    await change(client, namespace, parallelism=1)
    await until(client, namespace, lambda job: job.status.active == 1 and job.status.terminating == 0)
    return [await record(client, namespace)]


@story
async def managed_elsewhere(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, managedBy="example.com/other")
    await asyncio.sleep(3)
    return [await record(client, namespace)]


@story
async def gone_after_its_time(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, ttlSecondsAfterFinished=1)

    async def is_gone() -> bool:
        try:
            await read(client, namespace)
        except NotFound:
            return not await pods(client, namespace)
        return False

    await eventually(is_gone, timeout=PATIENCE, interval=0.2)
    return []


@story
async def orphaned(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(1))
    await client.delete(await read(client, namespace), propagation="Orphan")

    async def is_free() -> bool:
        found = await pods(client, namespace)
        return all(not pod.metadata.finalizers and not pod.metadata.owner_references for pod in found)

    await eventually(is_free, timeout=PATIENCE, interval=0.2)
    return [{"pods": [_pod(each) for each in await pods(client, namespace)]}]


@story
async def adopted(client: Client, namespace: str) -> list[Record]:
    await make(client, namespace, acts={"run_seconds": 3600})
    await until(client, namespace, is_running(1))
    [pod] = await pods(client, namespace)
    await client.patch(pod, MergePatch({"metadata": {"ownerReferences": None}}))

    async def has_owner() -> bool:
        [found] = await pods(client, namespace)
        return bool(found.metadata.owner_references)

    await eventually(has_owner, timeout=PATIENCE, interval=0.2)
    return [await record(client, namespace)]
