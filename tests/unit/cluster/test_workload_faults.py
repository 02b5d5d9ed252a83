"""Jobs and JobSets while the line of their controllers to the server is bad: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.client import Client
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.behavior import Behavior
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.operators.jobset.controllers import jobset_controller
from quarterdeck.operators.jobset.logic.defaults import with_defaults
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.testing import DelayEvents, FaultPlan, TestCluster, eventually

from .clusterkit import gone
from .workloadkit import NAMESPACE, behaving, job, pod, pods_of, read_job

pytestmark = pytest.mark.cluster(crds=[JobSet])


def unplaced() -> dict[str, Any]:
    """A pod that the scheduler has to find a node for."""
    return {"nodeName": None}


async def made_since(client: Client, version: str) -> int:
    """How many pods were made after a version, those included that are gone again."""
    made = 0
    async with client.watch(Pod, namespace=NAMESPACE, resource_version=version, timeout_seconds=1) as events:
        async for event in events:
            made += event.type == "ADDED"
    return made


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_index_succeeds_once_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=3)))
    await cluster.start(manager)
    before = (await client.list(Pod, namespace=NAMESPACE)).metadata.resource_version
    await client.create(job(completions=12, parallelism=4, completionMode="Indexed", pod=unplaced()))

    async def is_complete() -> Job | None:
        found = await read_job(client)
        return found if any(each.type == "Complete" for each in found.status.conditions) else None

    done = await eventually(is_complete, timeout=900)
    assert done is not None
    assert (done.status.succeeded, done.status.completed_indexes) == (12, "0-11")
    # A pod whose making was answered too late may be a second one of its index. It is deleted, and counts.
    assert 12 + value_or(done.status.failed, 0) <= await made_since(client, before)
    succeeded = [pod for pod in await pods_of(client) if pod.status.phase == "Succeeded"]
    assert len({pod.spec.hostname for pod in succeeded}) == 12

    async def all_are_free() -> bool:
        return all(not pod.metadata.finalizers for pod in await pods_of(client))

    await eventually(all_are_free, timeout=900)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_failed_pods_are_counted_once_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    workloads = Workloads(nodes=NodeSettings(count=1), kubelet=Kubelet(Behavior(exit_code=1)))
    add_controllers(manager, root_ca=b"", workloads=workloads)
    await cluster.start(manager)
    before = (await client.list(Pod, namespace=NAMESPACE)).metadata.resource_version
    await client.create(job(backoffLimit=2))

    async def has_failed() -> Job | None:
        found = await read_job(client)
        return found if any(each.type == "Failed" for each in found.status.conditions) else None

    done = await eventually(has_failed, timeout=900)
    assert done is not None
    # A pod whose making was answered too late may be one too many. It counts if it failed by itself or was
    # deleted when the Job gave up, and not if it ended when nobody counted any more.
    assert 3 <= value_or(done.status.failed, 0) <= await made_since(client, before)


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_jobset_restarts_and_completes_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    kubelet = Kubelet(Behavior(fail_first_attempts=1))
    workloads = Workloads(nodes=NodeSettings(count=3), kubelet=kubelet)
    add_controllers(manager, root_ca=b"", workloads=workloads)
    manager.add(jobset_controller())
    await cluster.start(manager)
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    part = {"name": "w", "replicas": 3, "template": {"spec": {"backoffLimit": 0, "template": template}}}
    document = {
        "metadata": {"name": "js", "namespace": NAMESPACE},
        "spec": {"replicatedJobs": [part], "failurePolicy": {"maxRestarts": 3}},
    }
    await client.create(with_defaults(JobSet.from_dict(document)))

    async def is_done() -> JobSet | None:
        found = await client.get(JobSet, "js", NAMESPACE)
        return found if found.status.terminal_state else None

    done = await eventually(is_done, timeout=900)
    assert done is not None
    assert (done.status.terminal_state, done.status.restarts) == ("Completed", 1)
    assert len((await client.list(Job, namespace=NAMESPACE)).items) == 3


async def in_phase(client: Client, phase: str) -> Pod | None:
    found = await client.get(Pod, "p", NAMESPACE)
    return found if found.status.phase == phase else None


async def test_a_pod_that_is_deleted_as_it_ends_goes(cluster: TestCluster) -> None:
    client = cluster.client
    late = DelayEvents((2.0, 2.0), resources=frozenset({"pods"}))
    manager = cluster.manager(plan=FaultPlan(1, late))
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)
    await asyncio.sleep(5)
    await client.create(pod("p", restartPolicy="Never", annotations=behaving(run_seconds=5)))
    await eventually(lambda: in_phase(client, "Running"))
    # The kubelet hears of it only after it has written that the pod has ended.
    await asyncio.sleep(4.5)
    await client.delete(Pod, "p", NAMESPACE)
    ended = await eventually(lambda: in_phase(client, "Succeeded"))
    assert ended is not None
    assert ended.metadata.is_deleting
    await gone(client, Pod, "p", NAMESPACE)
