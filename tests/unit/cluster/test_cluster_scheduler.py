"""The default scheduler: which node a pod gets, and what is said when there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import Client, JsonPatch, MergePatch
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.placement.controller import SchedulerSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster

from .workloadkit import NAMESPACE, behaving, pod

NO_VICTIMS = "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
NOT_HELPFUL = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "2"}


@pytest.fixture
def settings() -> SchedulerSettings:
    return SchedulerSettings()


@pytest.fixture
async def nodes(cluster: TestCluster, manager: Manager, settings: SchedulerSettings) -> None:
    Workloads(scheduler=settings, nodes=NodeSettings(count=3, capacity=CAPACITY)).add_to(manager)
    await cluster.start(manager)
    await asyncio.sleep(1)


def waiting(name: str, requests: dict[str, str] | None = None, **spec: Any) -> DynamicObject:
    """A pod without a node."""
    container = {"name": "c", "image": "x", "resources": {"requests": requests or {}}}
    if requests and "nvidia.com/gpu" in requests:
        container["resources"] = {
            "requests": requests,
            "limits": {"nvidia.com/gpu": requests["nvidia.com/gpu"]},
        }
    annotations = spec.pop("annotations", None)
    return pod(name, nodeName=None, containers=[container], annotations=annotations, **spec)


async def place(client: Client, *pods: DynamicObject, settle: float = 1.0) -> dict[str, str]:
    """Create pods and say where they went."""
    for each in pods:
        await client.create(each)
    await asyncio.sleep(settle)
    return await places(client)


async def places(client: Client) -> dict[str, str]:
    return {each.metadata.name: each.spec.node_name for each in (await client.list(Pod)).items}


async def refusal(client: Client, name: str) -> str:
    found = await client.get(Pod, name, NAMESPACE)
    [condition] = [each for each in found.status.conditions if each.type == "PodScheduled"]
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    return condition.message


@pytest.mark.usefixtures("nodes")
async def test_pods_are_spread_by_what_is_left(client: Client, recorder: EventLog) -> None:
    small = {"cpu": "1", "memory": "1Gi"}
    found = await place(client, *(waiting(f"p{number}", small) for number in range(6)))
    assert sorted(found.values()) == ["node-0", "node-0", "node-1", "node-1", "node-2", "node-2"]
    assert found["p0"] == "node-0"
    told = [each.note for each in recorder.events if each.reason == "Scheduled"]
    assert "Successfully assigned default/p0 to node-0" in told
    assert len(told) == 6
    bound = await client.get(Pod, "p0", NAMESPACE)
    assert bound.status.phase == "Running"
    assert any(each.type == "PodScheduled" and each.status == "True" for each in bound.status.conditions)


@pytest.mark.usefixtures("nodes")
async def test_a_pod_that_is_too_big_waits_and_is_told_why(client: Client, recorder: EventLog) -> None:
    await place(client, waiting("big", {"cpu": "5", "nvidia.com/gpu": "3"}))
    text = f"0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient nvidia.com/gpu. {NO_VICTIMS}"
    assert await refusal(client, "big") == text
    told = [(each.type, each.reason, each.note) for each in recorder.events]
    assert told == [("Warning", "FailedScheduling", text)]


@pytest.mark.usefixtures("nodes")
async def test_a_pod_gets_the_place_of_one_that_ended(client: Client) -> None:
    brief = behaving(run_seconds=10)
    whole = {"cpu": "4"}
    first = [waiting(f"p{n}", whole, restartPolicy="Never", annotations=brief) for n in range(3)]
    await place(client, *first)
    assert (await place(client, waiting("late", whole)))["late"] == ""
    await asyncio.sleep(10)
    assert (await places(client))["late"] != ""


@pytest.mark.usefixtures("nodes")
async def test_a_pod_gets_the_place_of_one_that_is_deleted(client: Client) -> None:
    whole = {"nvidia.com/gpu": "2"}
    await place(client, *(waiting(f"p{number}", whole) for number in range(4)))
    assert (await places(client))["p3"] == ""
    await client.delete(Pod, "p1", NAMESPACE)
    await asyncio.sleep(1)
    assert (await places(client))["p3"] == "node-1"


@pytest.mark.usefixtures("nodes")
async def test_pod_slots_are_counted(client: Client) -> None:
    found = await place(client, *(waiting(f"p{number:02}") for number in range(31)))
    assert sorted(found.values()).count("") == 1
    assert await refusal(client, "p30") == f"0/3 nodes are available: 3 Too many pods. {NO_VICTIMS}"


@pytest.mark.usefixtures("nodes")
async def test_gated_pods_and_those_of_other_schedulers_are_left_alone(client: Client) -> None:
    gated = waiting("gated", schedulingGates=[{"name": "example.com/wait"}])
    found = await place(client, gated, waiting("other", schedulerName="kai-scheduler"))
    assert found == {"gated": "", "other": ""}
    await client.patch(
        await client.get(Pod, "gated", NAMESPACE),
        JsonPatch([{"op": "remove", "path": "/spec/schedulingGates/0"}]),
    )
    await asyncio.sleep(1)
    assert (await places(client))["gated"] != ""


@pytest.mark.usefixtures("nodes")
async def test_cordoned_nodes_get_no_pods(client: Client) -> None:
    for number in (0, 2):
        node = await client.get(Node, f"node-{number}")
        await client.patch(node, MergePatch({"spec": {"unschedulable": True}}))
    found = await place(client, waiting("a"), waiting("b"))
    assert set(found.values()) == {"node-1"}
    await client.patch(await client.get(Node, "node-1"), MergePatch({"spec": {"unschedulable": True}}))
    await place(client, waiting("c"))
    text = await refusal(client, "c")
    assert text.startswith("0/3 nodes are available: ")
    await client.patch(await client.get(Node, "node-0"), MergePatch({"spec": {"unschedulable": None}}))
    await asyncio.sleep(1)
    assert (await places(client))["c"] == "node-0"


@pytest.mark.usefixtures("nodes")
async def test_taints_repel_pods_that_do_not_tolerate_them(client: Client) -> None:
    for number in (0, 1):
        node = await client.get(Node, f"node-{number}")
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await client.patch(node, MergePatch({"spec": {"taints": [taint]}}))
    tolerating = [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    found = await place(
        client,
        waiting("plain"),
        waiting("first", {"cpu": "3"}, tolerations=tolerating),
        waiting("second", {"cpu": "3"}, tolerations=tolerating),
    )
    assert found["plain"] == "node-2"
    assert {found["first"], found["second"]} == {"node-0", "node-1"}


@pytest.mark.usefixtures("nodes")
async def test_selectors_and_affinity_choose_nodes(client: Client) -> None:
    await client.patch(
        await client.get(Node, "node-2"), MergePatch({"metadata": {"labels": {"disk": "ssd"}}})
    )
    term = {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    found = await place(
        client,
        waiting("ssd", nodeSelector={"disk": "ssd"}),
        waiting("none", nodeSelector={"disk": "tape"}),
        waiting("not", affinity={"nodeAffinity": required}),
    )
    assert found["ssd"] == "node-2"
    assert found["not"] in ("node-0", "node-1")
    assert await refusal(client, "none") == (
        f"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}"
    )


@pytest.mark.usefixtures("nodes")
async def test_pods_can_keep_apart(client: Client) -> None:
    apart = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    found = await place(client, *(waiting(f"p{number}", affinity=affinity) for number in range(4)))
    assert sorted(found.values()) == ["", "node-0", "node-1", "node-2"]


@pytest.mark.usefixtures("nodes")
async def test_a_host_port_is_given_once_per_node(client: Client) -> None:
    port = {"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}
    made = [pod(f"p{number}", nodeName=None, containers=[port]) for number in range(4)]
    found = await place(client, *made)
    assert sorted(found.values()) == ["", "node-0", "node-1", "node-2"]
    assert "didn't have free ports" in await refusal(client, "p3")


@pytest.mark.usefixtures("nodes")
async def test_the_most_important_pods_come_first(client: Client) -> None:
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    await client.create(DynamicObject(important))
    whole = {"nvidia.com/gpu": "2"}
    made = [waiting(f"low{number}", whole) for number in range(3)]
    found = await place(client, *made, waiting("high", whole, priorityClassName="high"), settle=1)
    assert found["high"] != ""
    assert sorted(found.values()).count("") == 1


async def test_without_nodes_pods_wait(cluster: TestCluster, manager: Manager, client: Client) -> None:
    Workloads().add_to(manager)
    await cluster.start(manager)
    await place(client, waiting("p"))
    assert await refusal(client, "p") == "no nodes available to schedule pods"


async def test_nodes_may_be_told_to_take_anything(
    cluster: TestCluster, manager: Manager, client: Client
) -> None:
    scheduler = SchedulerSettings(names=(), checks_nodes=False)
    Workloads(scheduler=scheduler, nodes=NodeSettings(count=1)).add_to(manager)
    await cluster.start(manager)
    found = await place(
        client,
        waiting("picky", nodeSelector={"no": "such"}),
        waiting("big", {"cpu": "1000"}),
        waiting("other", schedulerName="kai-scheduler"),
    )
    assert set(found.values()) == {"node-0"}


@pytest.mark.usefixtures("nodes")
async def test_a_more_important_pod_makes_others_go(client: Client, recorder: EventLog) -> None:
    await client.create(
        DynamicObject.from_dict(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            }
        )
    )
    whole = {"cpu": "4"}
    await place(client, *(waiting(f"p{number}", whole) for number in range(3)))
    found = await place(client, waiting("vip", whole, priorityClassName="high"), settle=40)
    assert found["vip"] != ""
    assert len(found) == 3
    told = [(each.reason, each.note) for each in recorder.events if each.reason == "Preempted"]
    vip = await client.get(Pod, "vip", NAMESPACE)
    assert told == [("Preempted", f"Preempted by pod {vip.metadata.uid} on node {vip.spec.node_name}")]


@pytest.mark.usefixtures("nodes")
async def test_a_pod_that_may_not_preempt_waits(client: Client) -> None:
    await client.create(
        DynamicObject.from_dict(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "polite"},
                "value": 1000,
                "preemptionPolicy": "Never",
            }
        )
    )
    whole = {"cpu": "4"}
    await place(client, *(waiting(f"p{number}", whole) for number in range(3)))
    await place(client, waiting("vip", whole, priorityClassName="polite"))
    assert await refusal(client, "vip") == (
        "0/3 nodes are available: 3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.usefixtures("nodes")
async def test_a_pod_waits_for_its_claim(client: Client) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    await place(client, waiting("p", volumes=[volume]))
    assert await refusal(client, "p") == (
        f'0/3 nodes are available: persistentvolumeclaim "data" not found. {NOT_HELPFUL}'
    )
