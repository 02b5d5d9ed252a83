"""DaemonSets: a pod on every node that fits, and how they are replaced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quarterdeck.api.k8s import ControllerRevision, DaemonSet, Node
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.setkit import made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, behaving


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=3)))
    await cluster.start(manager)

    async def nodes_are_there() -> bool:
        return len((await cluster.client.list(Node)).items) == 3

    await eventually(nodes_are_there)


def daemon(**spec: Any) -> Any:
    return made("DaemonSet", **spec)


def is_settled(each: DaemonSet) -> bool:
    status = each.status
    return (
        status.observed_generation == each.metadata.generation
        and (status.updated_number_scheduled or 0) == status.desired_number_scheduled
        and (status.number_available or 0) == status.desired_number_scheduled
        and status.number_misscheduled == 0
    )


async def settled(client: Client, number: int = 3) -> DaemonSet:
    return await until(
        client, DaemonSet, lambda each: is_settled(each) and each.status.desired_number_scheduled == number
    )


async def change(client: Client, **spec: object) -> None:
    await client.patch(await client.get(DaemonSet, "web", NAMESPACE), MergePatch({"spec": spec}))


async def images(client: Client) -> list[str]:
    return [each.spec.containers[0].image for each in await pods(client)]


async def test_every_node_gets_a_pod(client: Client) -> None:
    await client.create(daemon())
    await settled(client)
    found = await pods(client)
    assert sorted(each.spec.node_name for each in found) == ["node-0", "node-1", "node-2"]
    [revision] = (await client.list(ControllerRevision, namespace=NAMESPACE)).items
    labels = found[0].metadata.labels
    assert revision.metadata.name == f"web-{labels['controller-revision-hash']}"
    assert labels["pod-template-generation"] == "1"
    keys = [each.key for each in found[0].spec.tolerations]
    assert keys[:6] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unschedulable",
    ]


async def test_only_nodes_that_are_selected_get_a_pod_and_lose_it_again(client: Client) -> None:
    await client.create(daemon(template=template(nodeSelector={"disk": "fast"})))
    await settled(client, 0)
    node = await client.get(Node, "node-1")
    await client.patch(node, MergePatch({"metadata": {"labels": {"disk": "fast"}}}))
    await settled(client, 1)
    assert [each.spec.node_name for each in await pods(client)] == ["node-1"]
    await client.patch(node, MergePatch({"metadata": {"labels": {"disk": "slow"}}}))
    await settled(client, 0)
    assert not await pods(client)


async def test_a_taint_keeps_new_pods_away_and_drives_old_ones_out(client: Client) -> None:
    node = await client.get(Node, "node-2")
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await client.patch(node, MergePatch({"spec": {"taints": [taint]}}))
    await client.create(daemon())
    await settled(client, 2)
    node = await client.get(Node, "node-0")
    await client.patch(node, MergePatch({"spec": {"taints": [{**taint, "effect": "NoExecute"}]}}))
    await settled(client, 1)
    assert [each.spec.node_name for each in await pods(client)] == ["node-1"]


async def test_an_update_replaces_one_pod_at_a_time(client: Client) -> None:
    await client.create(daemon(template=template(annotations=behaving(ready_seconds=5))))
    await settled(client)
    await change(client, template=template("two", annotations=behaving(ready_seconds=5)))
    least = 3

    async def is_done() -> bool:
        nonlocal least
        found = await client.get(DaemonSet, "web", NAMESPACE)
        least = min(least, found.status.number_available or 0)
        return is_settled(found) and set(await images(client)) == {"two"}

    await eventually(is_done, timeout=300, interval=0.5)
    assert least == 2


async def test_with_surge_the_new_pod_comes_before_the_old_one_goes(client: Client) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await client.create(daemon(updateStrategy=strategy))
    await settled(client)
    await change(client, template=template("two"))
    done = await settled(client)
    assert set(await images(client)) == {"two"}
    assert done.status.number_ready == 3


async def test_on_delete_waits_for_the_user(client: Client) -> None:
    await client.create(daemon(updateStrategy={"type": "OnDelete"}))
    await settled(client)
    await change(client, template=template("two"))
    await until(client, DaemonSet, lambda each: not each.status.updated_number_scheduled)
    assert set(await images(client)) == {"one"}
    await client.delete((await pods(client))[0])
    await until(client, DaemonSet, lambda each: each.status.updated_number_scheduled == 1)
    assert sorted(await images(client)) == ["one", "one", "two"]


async def test_a_failed_pod_is_replaced_and_each_time_later(client: Client, recorder: EventLog) -> None:
    crash = template(annotations=behaving(run_seconds=1, exit_code=1), restartPolicy="Always")
    await client.create(daemon(template=crash))
    await until(client, DaemonSet, lambda each: each.status.desired_number_scheduled == 3)
    [first, *_] = await pods(client)
    await client.status.patch(first, MergePatch({"status": {"phase": "Failed"}}))

    async def is_replaced() -> bool:
        return first.metadata.uid not in {each.metadata.uid for each in await pods(client)}

    await eventually(is_replaced, timeout=60)
    told = [each.note for each in recorder.events if each.reason == "FailedDaemonPod"]
    where = f"{NAMESPACE}/{first.metadata.name} on node {first.spec.node_name}"
    assert told == [f"Found failed daemon pod {where}, will try to kill it"]


async def test_going_back_makes_the_old_revision_the_newest(client: Client) -> None:
    await client.create(daemon())
    await settled(client)
    for image in ("two", "one"):
        await change(client, template=template(image))
        await until(
            client, DaemonSet, lambda each: each.status.observed_generation == each.metadata.generation
        )
        await settled(client)
    found = (await client.list(ControllerRevision, namespace=NAMESPACE)).items
    assert sorted(each.revision or 0 for each in found) == [2, 3]


async def test_a_revision_keeps_the_template_with_its_keys_in_order(client: Client) -> None:
    """Clients compare its bytes with what Go makes of the template."""
    await client.create(daemon())
    await settled(client)
    page = await client.list_raw(ControllerRevision, namespace=NAMESPACE)
    [document] = [json.loads(bytes(each), object_pairs_hook=ordered) for each in page.items]
    data = dict(document)["data"]
    assert data == in_order(data)


def ordered(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return pairs


def in_order(value: Any) -> Any:
    """Objects, which are lists of pairs here, by their keys."""
    if isinstance(value, list) and value and all(isinstance(each, tuple) for each in value):
        return sorted((key, in_order(each)) for key, each in value)
    return [in_order(each) for each in value] if isinstance(value, list) else value
