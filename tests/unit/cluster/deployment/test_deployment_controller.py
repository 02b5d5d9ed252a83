"""Deployments: rollouts, scaling, pauses, rollbacks and history, on simulated nodes and virtual time."""

from __future__ import annotations

import pytest

from quarterdeck.api import ObjectMeta, Quantity
from quarterdeck.api.k8s import Deployment, ReplicaSet, ResourceQuota
from quarterdeck.api.k8s.core import ResourceQuotaSpec
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.podset.templatehash import template_hash
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.setkit import made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, behaving, verdicts

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=3)))
    await cluster.start(manager)


def is_rolled_out(deployment: Deployment) -> bool:
    status, wanted = deployment.status, deployment.spec.replicas
    return (
        status.observed_generation == deployment.metadata.generation
        and (status.updated_replicas or 0) == wanted
        and (status.replicas or 0) == wanted
        and (status.available_replicas or 0) == wanted
    )


async def rolled_out(client: Client) -> Deployment:
    return await until(client, Deployment, is_rolled_out)


async def change(client: Client, **spec: object) -> None:
    deployment = await client.get(Deployment, "web", NAMESPACE)
    await client.patch(deployment, MergePatch({"spec": spec}))


async def sets(client: Client) -> dict[str, int]:
    """Sizes of the ReplicaSets by revision."""
    found = await client.list(ReplicaSet, namespace=NAMESPACE)
    return {each.metadata.annotations[REVISION]: each.spec.replicas or 0 for each in found.items}


def told(recorder: EventLog) -> list[str]:
    return [each.note for each in recorder.events if each.regarding.kind == "Deployment"]


async def test_a_deployment_makes_a_replicaset_and_becomes_available(
    client: Client, recorder: EventLog
) -> None:
    await client.create(made("Deployment", replicas=3))
    done = await rolled_out(client)
    assert verdicts(done) == [
        ("Available", "True", "MinimumReplicasAvailable"),
        ("Progressing", "True", "NewReplicaSetAvailable"),
    ]
    assert done.metadata.annotations[REVISION] == "1"
    [only] = (await client.list(ReplicaSet, namespace=NAMESPACE)).items
    digest = only.metadata.labels["pod-template-hash"]
    assert only.metadata.name == f"web-{digest}"
    assert {pod.metadata.labels["pod-template-hash"] for pod in await pods(client)} == {digest}
    assert told(recorder) == [f"Scaled up replica set web-{digest} from 0 to 3"]


async def test_a_new_template_replaces_pods_some_at_a_time(client: Client, recorder: EventLog) -> None:
    await client.create(made("Deployment", replicas=4))
    await rolled_out(client)
    await change(client, template=template("two"))
    done = await rolled_out(client)
    assert await sets(client) == {"1": 0, "2": 4}
    assert done.metadata.annotations[REVISION] == "2"
    assert {pod.spec.containers[0].image for pod in await pods(client)} == {"two"}
    sizes = [note.split(" from ")[1] for note in told(recorder)]
    assert sizes[:4] == ["0 to 4", "0 to 1", "4 to 3", "1 to 2"]


async def test_an_undo_brings_the_old_replicaset_back_under_a_new_revision(client: Client) -> None:
    await client.create(made("Deployment", replicas=2))
    await rolled_out(client)
    await change(client, template=template("two"))
    await rolled_out(client)
    await change(client, template=template("one"))
    await rolled_out(client)
    assert await sets(client) == {"2": 0, "3": 2}
    found = await client.list(ReplicaSet, namespace=NAMESPACE)
    [newest] = [each for each in found.items if each.spec.replicas]
    assert newest.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"


async def test_a_deployment_is_scaled_without_a_rollout(client: Client, recorder: EventLog) -> None:
    await client.create(made("Deployment", replicas=2))
    await rolled_out(client)
    await change(client, replicas=5)
    await rolled_out(client)
    assert await sets(client) == {"1": 5}
    await change(client, replicas=1)
    done = await rolled_out(client)
    assert await sets(client) == {"1": 1}
    sizes = [note.split(" from ")[1] for note in told(recorder)]
    assert sizes == ["0 to 2", "2 to 5", "5 to 1"]
    annotations = (await client.list(ReplicaSet, namespace=NAMESPACE)).items[0].metadata.annotations
    assert annotations["deployment.kubernetes.io/desired-replicas"] == "1"
    assert annotations["deployment.kubernetes.io/max-replicas"] == "2"
    assert done.metadata.annotations[REVISION] == "1"


async def test_scaling_in_the_middle_of_a_rollout_keeps_the_shares(client: Client) -> None:
    await client.create(made("Deployment", replicas=10))
    await rolled_out(client)
    never = behaving(ready_seconds="never")
    await change(client, template=template("two", annotations=never))
    await until(client, Deployment, lambda each: (each.status.updated_replicas or 0) == 5)
    assert await sets(client) == {"1": 8, "2": 5}
    await change(client, replicas=30)
    await until(client, Deployment, lambda each: (each.status.replicas or 0) == 38)
    assert await sets(client) == {"1": 23, "2": 15}


async def test_recreate_waits_for_the_last_old_pod(client: Client) -> None:
    slow = behaving(stop_seconds=20)
    strategy = {"type": "Recreate"}
    await client.create(
        made("Deployment", replicas=2, strategy=strategy, template=template(annotations=slow))
    )
    await rolled_out(client)
    await change(client, template=template("two"))
    await until(client, Deployment, lambda each: each.status.terminating_replicas == 2)
    assert await sets(client) == {"1": 0}
    await rolled_out(client)
    assert await sets(client) == {"1": 0, "2": 2}


async def test_a_paused_deployment_rolls_nothing_out_but_can_be_scaled(client: Client) -> None:
    await client.create(made("Deployment", replicas=2))
    await rolled_out(client)
    await change(client, paused=True)
    paused = await until(client, Deployment, lambda each: len(each.status.conditions) == 2)
    await change(client, template=template("two"), replicas=3)
    paused = await until(client, Deployment, lambda each: (each.status.available_replicas or 0) == 3)
    assert ("Progressing", "Unknown", "DeploymentPaused") in verdicts(paused)
    assert await sets(client) == {"1": 3}
    await change(client, paused=False)
    await until(client, Deployment, lambda each: each.metadata.annotations[REVISION] == "2")
    await rolled_out(client)
    assert await sets(client) == {"1": 0, "2": 3}


async def test_a_rollout_that_does_not_move_times_out(client: Client) -> None:
    never = behaving(ready_seconds="never")
    spec = template(annotations=never)
    await client.create(made("Deployment", replicas=1, template=spec, progressDeadlineSeconds=30))
    late = await until(
        client,
        Deployment,
        lambda each: ("Progressing", "False", "ProgressDeadlineExceeded") in verdicts(each),
    )
    assert late.status.conditions[-1].message.endswith(" has timed out progressing.")


async def test_old_replicasets_beyond_the_history_limit_go(client: Client) -> None:
    await client.create(made("Deployment", replicas=1, revisionHistoryLimit=1))
    for image in ("two", "three", "four"):
        await rolled_out(client)
        await change(client, template=template(image))
    await rolled_out(client)
    await until(client, Deployment, lambda each: each.metadata.annotations[REVISION] == "4")
    found = await until_sets(client, 2)
    assert set(found) == {"3", "4"}


async def until_sets(client: Client, number: int) -> dict[str, int]:
    async def probe() -> dict[str, int] | None:
        found = await sets(client)
        return found if len(found) == number else None

    found = await eventually(probe, timeout=60)
    assert found is not None
    return found


async def test_a_collision_of_hashes_leads_to_another_name(client: Client) -> None:
    await client.create(made("Deployment", name="probe", replicas=0))
    probe = await until(client, Deployment, lambda each: each.status.conditions, name="probe")
    digest = template_hash(probe.spec.template)
    other = {"matchLabels": {"app": "other"}}
    foreign = {**template("other"), "metadata": {"labels": {"app": "other"}}}
    await client.create(
        made("ReplicaSet", name=f"web-{digest}", replicas=0, selector=other, template=foreign)
    )
    await client.create(made("Deployment", replicas=1))
    done = await rolled_out(client)
    assert done.status.collision_count == 1
    assert [pod.metadata.name.startswith(f"web-{digest}-") for pod in await pods(client)] == [False]


async def test_a_quota_that_stops_pods_shows_as_a_failure(client: Client) -> None:
    await client.create(
        ResourceQuota(
            metadata=ObjectMeta(name="few", namespace=NAMESPACE),
            spec=ResourceQuotaSpec(hard={"pods": Quantity("1")}),
        )
    )
    await client.create(made("Deployment", replicas=2))
    failed = await until(
        client, Deployment, lambda each: ("ReplicaFailure", "True", "FailedCreate") in verdicts(each)
    )
    [message] = [each.message for each in failed.status.conditions if each.type == "ReplicaFailure"]
    assert "exceeded quota: few" in message
