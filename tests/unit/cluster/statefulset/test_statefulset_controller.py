"""StatefulSets: order, revisions, partitions, claims and their retention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api.k8s import ControllerRevision, PersistentVolumeClaim, StatefulSet
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
    add_controllers(
        manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=3), storage_class="standard")
    )
    await cluster.start(manager)


def stateful(**spec: Any) -> Any:
    return made("StatefulSet", **{"serviceName": "web", **spec})


def claim(name: str = "data") -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def is_settled(each: StatefulSet) -> bool:
    status, wanted = each.status, each.spec.replicas
    return (
        status.observed_generation == each.metadata.generation
        and (status.replicas or 0) == wanted
        and (status.available_replicas or 0) == wanted
        and (status.updated_replicas or 0) == wanted
        and status.current_revision == status.update_revision
    )


async def settled(client: Client) -> StatefulSet:
    return await until(client, StatefulSet, is_settled)


async def change(client: Client, **spec: object) -> None:
    await client.patch(await client.get(StatefulSet, "web", NAMESPACE), MergePatch({"spec": spec}))


async def images(client: Client) -> list[str]:
    return [each.spec.containers[0].image for each in await pods(client)]


def told(recorder: EventLog) -> list[str]:
    return [each.note for each in recorder.events if each.regarding.kind == "StatefulSet"]


async def test_pods_are_made_in_order_with_names_of_their_own(client: Client, recorder: EventLog) -> None:
    await client.create(stateful(replicas=3, template=template(annotations=behaving(ready_seconds=5))))
    await asyncio.sleep(3)
    assert [each.metadata.name for each in await pods(client)] == ["web-0"]
    done = await settled(client)
    found = await pods(client)
    assert [each.metadata.name for each in found] == ["web-0", "web-1", "web-2"]
    assert [(each.spec.hostname, each.spec.subdomain) for each in found][1] == ("web-1", "web")
    labels = found[2].metadata.labels
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-2"
    assert labels["apps.kubernetes.io/pod-index"] == "2"
    assert labels["controller-revision-hash"] == done.status.update_revision
    assert told(recorder) == [f"Create Pod web-{each} in StatefulSet web successful" for each in range(3)]


async def test_parallel_pods_are_made_at_once(client: Client) -> None:
    late = template(annotations=behaving(ready_seconds="never"))
    await client.create(stateful(replicas=4, podManagementPolicy="Parallel", template=late))
    await until(client, StatefulSet, lambda each: each.status.replicas == 4)


async def test_numbers_may_begin_elsewhere(client: Client) -> None:
    await client.create(stateful(replicas=2, ordinals={"start": 5}))
    await settled(client)
    assert [each.metadata.name for each in await pods(client)] == ["web-5", "web-6"]


async def test_scaling_down_removes_the_highest_numbers_first(client: Client, recorder: EventLog) -> None:
    await client.create(stateful(replicas=3))
    await settled(client)
    await change(client, replicas=1)
    await settled(client)
    assert [each.metadata.name for each in await pods(client)] == ["web-0"]
    removed = [note for note in told(recorder) if note.startswith("Delete")]
    assert removed == [f"Delete Pod web-{each} in StatefulSet web successful" for each in (2, 1)]


async def test_an_update_goes_from_the_highest_number_down_to_the_partition(client: Client) -> None:
    await client.create(stateful(replicas=3))
    first = await settled(client)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await change(client, template=template("two"), updateStrategy=strategy)
    half = await until(
        client,
        StatefulSet,
        lambda each: each.status.updated_replicas == 2 and each.status.available_replicas == 3,
    )
    assert await images(client) == ["one", "two", "two"]
    assert half.status.current_revision == first.status.current_revision
    assert half.status.update_revision != half.status.current_revision
    await change(client, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    await settled(client)
    assert await images(client) == ["two", "two", "two"]


async def test_on_delete_waits_for_the_user(client: Client) -> None:
    await client.create(stateful(replicas=2, updateStrategy={"type": "OnDelete"}))
    await until(client, StatefulSet, lambda each: each.status.available_replicas == 2)
    await change(client, template=template("two"))
    await until(client, StatefulSet, lambda each: each.status.update_revision != each.status.current_revision)
    assert await images(client) == ["one", "one"]
    await client.delete((await pods(client))[1])

    async def is_new() -> bool:
        return await images(client) == ["one", "two"]

    await eventually(is_new, timeout=60)


async def test_going_back_reuses_the_revision_and_the_history_is_limited(client: Client) -> None:
    await client.create(stateful(replicas=1, revisionHistoryLimit=1))
    first = await settled(client)
    for image in ("two", "three", "one"):
        await change(client, template=template(image))
        await until(
            client, StatefulSet, lambda each: each.status.observed_generation == each.metadata.generation
        )
        last = await settled(client)
    found = (await client.list(ControllerRevision, namespace=NAMESPACE)).items
    assert last.status.update_revision == first.status.update_revision
    numbers = {each.metadata.name: each.revision for each in found}
    assert numbers[last.status.update_revision] == 4
    assert len(found) == 2


async def test_claims_are_made_and_stay(client: Client) -> None:
    await client.create(stateful(replicas=2, volumeClaimTemplates=[claim()]))
    await until(client, StatefulSet, lambda each: each.status.replicas)
    await eventually_claims(client, ["data-web-0", "data-web-1"])
    found = await client.get(PersistentVolumeClaim, "data-web-0", NAMESPACE)
    assert dict(found.metadata.labels) == {"app": "web"}
    assert not found.metadata.owner_references
    [volume] = [each for each in (await pods(client))[0].spec.volumes if each.name == "data"]
    assert volume.persistent_volume_claim
    assert volume.persistent_volume_claim.claim_name == "data-web-0"


async def eventually_claims(client: Client, names: list[str]) -> None:
    async def probe() -> bool:
        found = (await client.list(PersistentVolumeClaim, namespace=NAMESPACE)).items
        return sorted(each.metadata.name for each in found) == names

    await eventually(probe, timeout=120)


async def test_claims_go_with_pods_that_are_not_needed_and_with_the_set(client: Client) -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    await client.create(
        stateful(
            replicas=2,
            volumeClaimTemplates=[claim()],
            persistentVolumeClaimRetentionPolicy=policy,
            podManagementPolicy="Parallel",
        )
    )
    await eventually_claims(client, ["data-web-0", "data-web-1"])
    await change(client, replicas=1)
    await eventually_claims(client, ["data-web-0"])
    await client.delete(StatefulSet, "web", NAMESPACE)
    await eventually_claims(client, [])


async def test_a_pod_counts_as_available_after_its_time(client: Client) -> None:
    await client.create(stateful(replicas=2, minReadySeconds=10))
    ready = await until(client, StatefulSet, lambda each: each.status.ready_replicas == 1)
    assert ready.status.available_replicas == 0
    await settled(client)


async def test_a_failed_pod_is_replaced(client: Client) -> None:
    await client.create(stateful(replicas=1))
    await settled(client)
    [pod] = await pods(client)
    await client.status.patch(pod, MergePatch({"status": {"phase": "Failed"}}))

    async def is_new() -> bool:
        found = await pods(client)
        return len(found) == 1 and found[0].metadata.uid != pod.metadata.uid

    await eventually(is_new, timeout=60)
