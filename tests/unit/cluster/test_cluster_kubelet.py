"""Simulated nodes: Node objects, and pods on them that run without containers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, Key, to_dict
from quarterdeck.api.k8s import Container, Lease, Node, Pod
from quarterdeck.api.k8s.pod import EphemeralContainer
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.behavior import Behavior, Script
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.cluster.node.profile import NodeSettings, PlannedNode
from quarterdeck.cluster.node.registration import HOSTS, make_node
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.runtime.loop.clock import LoopClock, time_now
from quarterdeck.testing import EventLog, TestCluster

from .clusterkit import exists, gone
from .workloadkit import NAMESPACE, NODE, behaving, pod

OPEN_GATES: set[str] = set()


def is_open(pod: Pod, container: Container) -> bool:
    return container.name != "gated" or pod.metadata.name in OPEN_GATES


@pytest.fixture
def kubelet() -> Kubelet:
    OPEN_GATES.clear()
    return Kubelet(init_gate=is_open)


@pytest.fixture(autouse=True)
async def nodes(cluster: TestCluster, manager: Manager, kubelet: Kubelet) -> None:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "20", "nvidia.com/gpu": "4"}
    settings = NodeSettings(count=2, capacity=capacity, labels={"zone": "a"})
    Workloads(jobs=None, scheduler=None, kubelet=kubelet, nodes=settings).add_to(manager)
    await cluster.start(manager)
    await asyncio.sleep(1)


async def read(client: Client, name: str = "p") -> Pod:
    return await client.get(Pod, name, NAMESPACE)


def conditions(found: Pod) -> dict[str, str]:
    return {
        each.type: each.status + (f" {each.reason}" if each.reason else "")
        for each in found.status.conditions
    }


async def states(client: Client, name: str = "p") -> list[str]:
    """The state of each container, init containers first."""
    found = await read(client, name)
    told = []
    for status in (*found.status.init_container_statuses, *found.status.container_statuses):
        state = to_dict(status.state)
        [(kind, details)] = state.items()
        told.append(f"{status.name} {kind} {details.get('reason', '')}".strip())
    return told


async def test_addresses_are_of_the_range_of_the_node_until_none_is_left(client: Client) -> None:
    pod_range = {"spec": {"podCIDR": "10.9.0.0/30", "podCIDRs": ["10.9.0.0/30"]}}
    await client.patch(await client.get(Node, NODE), MergePatch(pod_range))
    for name in ("a", "b", "c"):
        await client.create(pod(name))
        await asyncio.sleep(1)
    found = [(await read(client, name)).status for name in ("a", "b", "c")]
    assert [each.pod_ip for each in found] == ["10.9.0.1", "10.9.0.2", ""]
    assert [each.phase for each in found] == ["Running", "Running", "Pending"]
    await client.delete(Pod, "a", NAMESPACE)
    await asyncio.sleep(60)
    assert (await read(client, "c")).status.pod_ip == "10.9.0.1"


async def add_again(client: Client) -> str:
    """Remove the node and add another one of its name, which has another address; that address."""
    old = await client.get(Node, NODE)
    await client.delete(old)
    await client.create(
        make_node(
            PlannedNode(name=NODE, number=99, capacity={"cpu": "8", "pods": "20"}),
            time_now(LoopClock()),
        )
    )
    await asyncio.sleep(1)
    return str(HOSTS[100])


async def test_pods_of_a_node_that_was_removed_and_added_again_follow_it_and_end(client: Client) -> None:
    await client.create(pod("p"))
    await client.create(pod("ends", annotations=behaving(run_seconds="30"), restartPolicy="Never"))
    await asyncio.sleep(1)
    before = (await read(client)).status
    address = await add_again(client)
    after = (await read(client)).status
    assert (before.host_ip, after.host_ip) == (str(HOSTS[1]), address)
    assert [each.ip for each in after.host_ips] == [address]
    assert after.pod_ip == before.pod_ip
    await asyncio.sleep(60)
    assert (await read(client, "ends")).status.phase == "Succeeded"
    await client.delete(Pod, "p", NAMESPACE)
    await asyncio.sleep(60)
    await gone(client, Pod, "p", NAMESPACE)


async def test_the_address_of_a_pod_is_free_when_another_has_its_name(client: Client) -> None:
    pod_range = {"spec": {"podCIDR": "10.9.0.0/30", "podCIDRs": ["10.9.0.0/30"]}}
    await client.patch(await client.get(Node, NODE), MergePatch(pod_range))
    for _ in range(4):
        await client.create(pod("p"))
        await asyncio.sleep(1)
        assert (await read(client)).status.phase == "Running"
        await client.delete(Pod, "p", NAMESPACE, grace_period=0)


async def test_nodes_are_ready_and_alive(client: Client) -> None:
    found = (await client.list(Node)).items
    assert [each.metadata.name for each in found] == ["node-0", "node-1"]
    node = found[0]
    assert str(node.status.allocatable["nvidia.com/gpu"]) == "4"
    assert node.metadata.labels["zone"] == "a"
    assert {each.type: each.status for each in node.status.conditions} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    before = await client.get(Lease, NODE, "kube-node-lease")
    assert before.spec.lease_duration_seconds == 40
    await asyncio.sleep(15)
    after = await client.get(Lease, NODE, "kube-node-lease")
    assert after.spec.renew_time > before.spec.renew_time  # type: ignore[operator]  # both are set


async def test_a_node_that_is_deleted_stays_away(client: Client) -> None:
    await client.delete(Node, NODE)
    await asyncio.sleep(30)
    assert not await exists(client, Node, NODE)


async def test_pods_of_a_node_that_is_gone_fail_and_go(client: Client) -> None:
    held = pod("p").to_dict()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(type(pod("p"))(held))
    await asyncio.sleep(1)
    await client.delete(Node, NODE)
    await asyncio.sleep(30)
    assert (await read(client)).status.phase == "Running"
    await asyncio.sleep(15)
    found = await read(client)
    assert found.status.phase == "Failed"
    assert found.metadata.is_deleting
    assert conditions(found)["DisruptionTarget"] == "True DeletionByPodGC"


async def test_a_pod_on_a_node_runs_for_ever(client: Client) -> None:
    await client.create(pod("p"))
    await client.create(pod("q"))
    await asyncio.sleep(3600)
    found = await read(client)
    assert found.status.phase == "Running"
    assert conditions(found) == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    [status] = found.status.container_statuses
    assert (status.ready, status.started, status.restart_count, status.image) == (True, True, 0, "x")
    assert found.status.host_ip == "10.64.0.1"
    assert found.status.pod_ip.startswith("10.128.")
    assert found.status.pod_ip != (await read(client, "q")).status.pod_ip


async def test_a_pod_that_is_not_bound_waits(client: Client) -> None:
    await client.create(pod("p", nodeName=None))
    await asyncio.sleep(10)
    assert (await read(client)).status.phase == "Pending"


async def test_pods_of_other_nodes_are_none_of_its_business(client: Client) -> None:
    await client.create(Node.from_dict({"metadata": {"name": "real"}}))
    await client.create(pod("p", nodeName="real"))
    await asyncio.sleep(10)
    assert (await read(client)).status.phase == "Pending"


async def test_annotations_say_how_long_and_how_it_ends(client: Client) -> None:
    await client.create(pod("p", restartPolicy="Never", annotations=behaving(run_seconds=5, exit_code=7)))
    await asyncio.sleep(4)
    assert (await read(client)).status.phase == "Running"
    await asyncio.sleep(2)
    found = await read(client)
    assert found.status.phase == "Failed"
    terminated = found.status.container_statuses[0].state.terminated
    assert terminated
    assert (terminated.exit_code, terminated.reason) == (7, "Error")
    assert conditions(found)["Ready"] == "False PodFailed"
    assert conditions(found)["PodReadyToStartContainers"] == "False"


async def test_a_pod_that_succeeds_is_complete(client: Client) -> None:
    await client.create(pod("p", restartPolicy="OnFailure", annotations=behaving(run_seconds=0.5)))
    await asyncio.sleep(2)
    found = await read(client)
    assert found.status.phase == "Succeeded"
    assert await states(client) == ["c terminated Completed"]
    assert conditions(found)["Ready"] == "False PodCompleted"
    assert conditions(found)["Initialized"] == "True PodCompleted"


async def test_start_and_readiness_may_take_their_time(client: Client) -> None:
    await client.create(pod("p", annotations=behaving(start_seconds=5, ready_seconds=10)))
    await asyncio.sleep(2)
    found = await read(client)
    assert (found.status.phase, await states(client)) == ("Pending", ["c waiting ContainerCreating"])
    assert found.status.start_time
    await asyncio.sleep(5)
    found = await read(client)
    assert (found.status.phase, conditions(found)["Ready"]) == ("Running", "False ContainersNotReady")
    await asyncio.sleep(10)
    assert conditions(await read(client))["Ready"] == "True"


async def test_annotations_that_make_no_sense_are_reported(client: Client, recorder: EventLog) -> None:
    await client.create(pod("p", annotations=behaving(run_seconds="soon", exit_code="bad")))
    await asyncio.sleep(5)
    assert (await read(client)).status.phase == "Running"
    [event] = [each for each in recorder.events if each.reason == "InvalidAnnotation"]
    assert event.note == "ignored: quarterdeck.dev/run-seconds=soon, quarterdeck.dev/exit-code=bad"


async def test_readiness_gates_are_waited_for(client: Client) -> None:
    await client.create(pod("p", readinessGates=[{"conditionType": "example.com/up"}]))
    await asyncio.sleep(1)
    found = await read(client)
    assert conditions(found)["ContainersReady"] == "True"
    assert conditions(found)["Ready"] == "False ReadinessGatesNotReady"
    up = {"type": "example.com/up", "status": "True"}
    others = [to_dict(each) for each in found.status.conditions]
    await client.status.patch(found, MergePatch({"status": {"conditions": [*others, up]}}))
    await asyncio.sleep(1)
    found = await read(client)
    assert conditions(found)["Ready"] == "True"
    assert conditions(found)["example.com/up"] == "True"


async def test_a_pod_that_runs_too_long_is_stopped(client: Client) -> None:
    await client.create(pod("p", activeDeadlineSeconds=5))
    await asyncio.sleep(7)
    found = await read(client)
    assert (found.status.phase, found.status.reason) == ("Failed", "DeadlineExceeded")


async def test_a_container_that_fails_is_restarted_in_place(client: Client) -> None:
    await client.create(pod("p", annotations=behaving(run_seconds=2, exit_code=1)))
    await asyncio.sleep(3)
    [status] = (await read(client)).status.container_statuses
    assert (status.restart_count, bool(status.state.running)) == (1, True)  # the first time at once
    assert status.last_state.terminated
    assert status.last_state.terminated.exit_code == 1
    await asyncio.sleep(3)
    assert await states(client) == ["c waiting CrashLoopBackOff"]
    found = await read(client)
    assert found.status.phase == "Running"
    assert conditions(found)["Ready"] == "False ContainersNotReady"
    await asyncio.sleep(9)
    assert (await read(client)).status.container_statuses[0].restart_count == 2
    await asyncio.sleep(65)
    restarts = (await read(client)).status.container_statuses[0].restart_count
    assert restarts == 4  # after waits of 20 s and 40 s


def with_inits(*inits: dict[str, Any], **behavior: object) -> Any:
    return pod(
        "p", initContainers=[{"image": "x", **each} for each in inits], annotations=behaving(**behavior)
    )


async def test_init_containers_run_one_after_the_other(client: Client) -> None:
    await client.create(with_inits({"name": "i"}, {"name": "j"}, init_seconds=5))
    await asyncio.sleep(2)
    assert await states(client) == ["i running", "j waiting PodInitializing", "c waiting PodInitializing"]
    found = await read(client)
    assert conditions(found)["Initialized"] == "False ContainersNotInitialized"
    await asyncio.sleep(5)
    assert (await states(client))[:2] == ["i terminated Completed", "j running"]
    await asyncio.sleep(5)
    assert await states(client) == ["i terminated Completed", "j terminated Completed", "c running"]
    assert (await read(client)).status.phase == "Running"


async def test_quick_init_containers_are_done_at_once(client: Client) -> None:
    await client.create(with_inits({"name": "i"}))
    await asyncio.sleep(0.5)
    assert await states(client) == ["i terminated Completed", "c running"]


async def test_sidecars_run_beside_the_others_and_end_with_them(client: Client) -> None:
    await client.create(
        pod(
            "p",
            restartPolicy="Never",
            initContainers=[{"name": "s", "image": "x", "restartPolicy": "Always"}],
            annotations=behaving(run_seconds=5),
        )
    )
    await asyncio.sleep(2)
    assert await states(client) == ["s running", "c running"]
    await asyncio.sleep(5)
    assert (await read(client)).status.phase == "Succeeded"
    assert (await states(client))[0].startswith("s terminated")


async def test_an_init_container_can_wait_for_something(client: Client) -> None:
    await client.create(with_inits({"name": "gated"}))
    await asyncio.sleep(30)
    assert await states(client) == ["gated running", "c waiting PodInitializing"]
    OPEN_GATES.add("p")
    await asyncio.sleep(2)
    assert await states(client) == ["gated terminated Completed", "c running"]


async def test_a_deleted_pod_goes_at_once_unless_it_says_otherwise(client: Client) -> None:
    await client.create(pod("p"))
    await client.create(pod("slow", annotations=behaving(stop_seconds=5)))
    await client.create(
        pod("slowest", terminationGracePeriodSeconds=3, annotations=behaving(stop_seconds=60))
    )
    await asyncio.sleep(1)
    for name in ("p", "slow", "slowest"):
        await client.delete(Pod, name, NAMESPACE)
    await asyncio.sleep(1)
    assert not await exists(client, Pod, "p", NAMESPACE)
    await asyncio.sleep(1)
    assert await exists(client, Pod, "slow", NAMESPACE)
    assert await exists(client, Pod, "slowest", NAMESPACE)
    await asyncio.sleep(2)
    assert not await exists(client, Pod, "slowest", NAMESPACE)  # its grace is over
    await gone(client, Pod, "slow", NAMESPACE)


async def test_a_deleted_pod_that_others_hold_on_to_has_ended(client: Client) -> None:
    held = pod("p").to_dict()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(type(pod("p"))(held))
    await asyncio.sleep(1)
    await client.delete(Pod, "p", NAMESPACE)
    await asyncio.sleep(5)
    found = await read(client)
    assert found.status.phase == "Failed"
    assert found.status.container_statuses[0].state.terminated
    assert found.status.container_statuses[0].state.terminated.exit_code == 143
    await client.patch(found, MergePatch({"metadata": {"finalizers": None}}))
    await gone(client, Pod, "p", NAMESPACE)


async def test_nothing_happens_on_a_node_that_is_not_ready(client: Client) -> None:
    node = await client.get(Node, NODE)
    ready = [
        to_dict(each) | ({"status": "False"} if each.type == "Ready" else {})
        for each in node.status.conditions
    ]
    node = await client.status.patch(node, MergePatch({"status": {"conditions": ready}}))
    await client.create(pod("p"))
    await asyncio.sleep(5)
    assert (await read(client)).status.phase == "Pending"
    ready = [each | ({"status": "True"} if each["type"] == "Ready" else {}) for each in ready]
    await client.status.patch(node, MergePatch({"status": {"conditions": ready}}))
    await asyncio.sleep(1)
    assert (await read(client)).status.phase == "Running"


async def test_single_pods_can_be_told_what_to_do(client: Client, kubelet: Kubelet) -> None:
    key = Key(NAMESPACE, "p")
    kubelet.override(key, Script(start_seconds=1e9))
    await client.create(pod("p"))
    await asyncio.sleep(5)
    assert await states(client) == ["c waiting ContainerCreating"]
    kubelet.override(key, Script(ready_seconds=1e9))
    await asyncio.sleep(1)
    assert conditions(await read(client))["Ready"] == "False ContainersNotReady"
    kubelet.override(key, Script())
    await asyncio.sleep(1)
    assert conditions(await read(client))["Ready"] == "True"
    kubelet.override(key, Script(run_seconds=0, exit_code=9))
    await asyncio.sleep(1)
    last = (await read(client)).status.container_statuses[0].last_state.terminated
    assert last
    assert last.exit_code == 9


async def test_behavior_can_be_changed_for_all(client: Client, kubelet: Kubelet) -> None:
    kubelet.behave(Behavior(run_seconds=3, exit_code=4))
    await client.create(pod("p", restartPolicy="Never"))
    await asyncio.sleep(4)
    assert (await read(client)).status.phase == "Failed"


async def test_a_pod_that_starts_is_told_of_in_a_kubelets_words(client: Client, recorder: EventLog) -> None:
    await client.create(pod("p"))
    await asyncio.sleep(1)
    told = [each for each in recorder.events if each.reason in ("Pulled", "Created", "Started")]
    assert [str(each) for each in told] == [
        'Normal Pulled Container image "x" already present on machine and can be accessed by the pod',
        "Normal Created Container created",
        "Normal Started Container started",
    ]
    await client.delete(await read(client))
    await asyncio.sleep(1)
    assert "Normal Killing Stopping container c" in recorder.about("p")


async def test_a_container_that_crashes_is_told_of(client: Client, recorder: EventLog) -> None:
    await client.create(pod("p", annotations=behaving(run_seconds=2, exit_code=1)))
    await asyncio.sleep(8)
    uid = (await read(client)).metadata.uid
    text = f"Warning BackOff Back-off restarting failed container c in pod p_{NAMESPACE}({uid})"
    assert text in recorder.about("p")


async def test_a_container_put_into_a_pod_gets_a_status(client: Client) -> None:
    await client.create(pod("p"))
    await asyncio.sleep(1)
    found = await read(client)
    more = found.evolve(
        spec=found.spec.evolve(ephemeral_containers=(EphemeralContainer(name="debug", image="busybox"),))
    )
    await client.subresource("ephemeralcontainers").update(more)
    await asyncio.sleep(1)
    [status] = (await read(client)).status.ephemeral_container_statuses
    assert (status.name, status.image) == ("debug", "busybox")
    assert status.state.running


def gpu_pod(name: str, gpus: int) -> DynamicObject:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return pod(name, containers=[container])


async def test_a_pod_without_room_on_its_node_is_rejected_until_there_is_some(client: Client) -> None:
    await client.create(gpu_pod("a", 3))
    await asyncio.sleep(1)
    await client.create(gpu_pod("b", 2))
    await asyncio.sleep(1)
    found = await read(client, "b")
    assert (found.status.phase, found.status.reason) == ("Failed", "OutOfnvidia.com/gpu")
    assert found.status.message == (
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, "
        "requested: 2, used: 3, capacity: 4"
    )
    assert not found.status.container_statuses
    await client.delete(Pod, "a", NAMESPACE)
    await asyncio.sleep(60)
    await client.create(gpu_pod("c", 4))
    await asyncio.sleep(1)
    assert (await read(client, "c")).status.phase == "Running"


async def test_a_pod_that_ended_leaves_its_room_to_others(client: Client) -> None:
    first = gpu_pod("a", 4).to_dict()
    first["metadata"]["annotations"] = behaving(run_seconds=5)
    first["spec"]["restartPolicy"] = "Never"
    await client.create(DynamicObject(first))
    await asyncio.sleep(10)
    assert (await read(client, "a")).status.phase == "Succeeded"
    await client.create(gpu_pod("b", 4))
    await asyncio.sleep(1)
    assert (await read(client, "b")).status.phase == "Running"


async def test_pods_that_ran_before_the_kubelet_started_keep_their_room(
    cluster: TestCluster, client: Client, manager: Manager
) -> None:
    await client.create(gpu_pod("a", 3))
    await asyncio.sleep(1)
    manager.request_stop()
    await asyncio.sleep(1)
    successor = cluster.manager()
    Workloads(jobs=None, scheduler=None, nodes=NodeSettings(count=2)).add_to(successor)
    await cluster.start(successor)
    await client.create(gpu_pod("b", 2))
    await asyncio.sleep(1)
    assert (await read(client, "b")).status.reason == "OutOfnvidia.com/gpu"
    assert (await read(client, "a")).status.phase == "Running"


async def test_a_pod_whose_host_port_is_taken_is_rejected(client: Client, recorder: EventLog) -> None:
    def listening(name: str, **port: object) -> Any:
        ports = [{"containerPort": 80, "hostPort": 80, **port}]
        return pod(name, containers=[{"name": "c", "image": "x", "ports": ports}])

    await client.create(listening("first"))
    await asyncio.sleep(1)
    await client.create(listening("second", hostIP="10.0.0.1"))
    await client.create(listening("other-protocol", protocol="UDP"))
    await asyncio.sleep(1)
    phases = {each.metadata.name: each.status.phase for each in (await client.list(Pod)).items}
    assert phases == {"first": "Running", "second": "Failed", "other-protocol": "Running"}
    text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    found = await read(client, "second")
    assert (found.status.reason, found.status.message) == ("NodePorts", f"Pod was rejected: {text}")
    assert ("Warning", "NodePorts", text) in [(each.type, each.reason, each.note) for each in recorder.events]
    await client.delete(Pod, "first", NAMESPACE)
    await asyncio.sleep(1)
    await client.create(listening("third"))
    await asyncio.sleep(1)
    assert (await read(client, "third")).status.phase == "Running"
