"""Deployments, StatefulSets and so on while the line to the server is bad: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    StatefulSet,
)
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.choice import ControllerChoice
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.testing import FaultPlan, TestCluster, eventually

from .setkit import made, pods, template, until
from .workloadkit import NAMESPACE, pod_spec

SEEDS = [1, 2, 3]


NODES = ("default-scheduler", "simulated-kubelet", "simulated-node")


async def start(cluster: TestCluster, seed: int) -> Client:
    """Nodes and a scheduler that work well, and everything else in a storm."""
    workloads = Workloads(nodes=NodeSettings(count=3))
    calm, storm = cluster.manager(), cluster.manager(plan=FaultPlan.storm(seed))
    registration = add_controllers(calm, root_ca=b"", workloads=workloads, choice=ControllerChoice(NODES))
    assert registration is not None
    add_controllers(storm, root_ca=b"", workloads=workloads, choice=ControllerChoice(NODES, others=True))
    await cluster.start(calm)
    await eventually(lambda: registration.is_complete, timeout=60)
    await cluster.start(storm)
    return cluster.client


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_rollout_ends_with_exactly_the_pods_it_should_have(cluster: TestCluster, seed: int) -> None:
    client = await start(cluster, seed)
    await client.create(made("Deployment", replicas=6))
    await until(client, Deployment, lambda each: each.status.available_replicas == 6, timeout=900)
    deployment = await client.get(Deployment, "web", NAMESPACE)
    await client.patch(deployment, MergePatch({"spec": {"template": template("two"), "replicas": 8}}))

    def is_done(each: Deployment) -> bool:
        status = each.status
        counts = (status.updated_replicas, status.replicas, status.available_replicas)
        return counts == (8, 8, 8) and not status.terminating_replicas

    await until(client, Deployment, is_done, timeout=1800)
    found = await pods(client)
    assert Counter(each.spec.containers[0].image for each in found) == {"two": 8}
    sizes = [each.spec.replicas for each in (await client.list(ReplicaSet, namespace=NAMESPACE)).items]
    assert sorted(each or 0 for each in sizes) == [0, 8]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_stateful_set_has_every_number_once(cluster: TestCluster, seed: int) -> None:
    client = await start(cluster, seed)
    await client.create(made("StatefulSet", replicas=4, serviceName="web"))
    await until(client, StatefulSet, lambda each: each.status.available_replicas == 4, timeout=1800)
    stateful_set = await client.get(StatefulSet, "web", NAMESPACE)
    await client.patch(stateful_set, MergePatch({"spec": {"template": template("two")}}))

    def is_done(each: StatefulSet) -> bool:
        status = each.status
        is_new = status.observed_generation == each.metadata.generation
        return is_new and status.current_revision == status.update_revision and status.available_replicas == 4

    await until(client, StatefulSet, is_done, timeout=3600)
    found = await pods(client)
    assert [each.metadata.name for each in found] == [f"web-{number}" for number in range(4)]
    assert {each.spec.containers[0].image for each in found} == {"two"}
    assert len((await client.list(ControllerRevision, namespace=NAMESPACE)).items) == 2


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_node_has_one_daemon(cluster: TestCluster, seed: int) -> None:
    client = await start(cluster, seed)
    await client.create(made("DaemonSet"))

    def is_done(each: DaemonSet) -> bool:
        return each.status.desired_number_scheduled == each.status.number_available == 3

    await until(client, DaemonSet, is_done, timeout=1800)
    await asyncio.sleep(30)
    found = [each for each in await pods(client) if not each.metadata.is_deleting]
    assert sorted(each.spec.node_name for each in found) == ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_start_of_a_cron_job_makes_two_jobs(cluster: TestCluster, seed: int) -> None:
    client = await start(cluster, seed)
    job = {"template": {"spec": pod_spec()}}
    document = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": NAMESPACE},
        "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": job}},
    }
    await client.create(DynamicObject(document))
    await asyncio.sleep(10 * 60)
    await until(client, CronJob, lambda each: each.status.last_schedule_time, name="tick")
    found = (await client.list(Job, namespace=NAMESPACE)).items
    scheduled = [
        each.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] for each in found
    ]
    assert len(scheduled) == len(set(scheduled))
    assert len(scheduled) >= 8
