"""PodDisruptionBudgets: what they allow, and what evictions make of it."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import Deployment, Eviction, Pod, PodDisruptionBudget
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import TooManyRequests
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster
from tests.unit.cluster.setkit import LABELS, made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, behaving, job, pod, verdicts


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)


def budget(selector: dict[str, str] | None = None, **spec: Any) -> DynamicObject:
    return DynamicObject(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"selector": {"matchLabels": selector or LABELS}, **spec},
        }
    )


async def counted(client: Client, *wanted: int) -> PodDisruptionBudget:
    """Wait for (allowed, healthy, desired, expected)."""

    def is_so(each: PodDisruptionBudget) -> bool:
        status = each.status
        found = (
            status.disruptions_allowed,
            status.current_healthy,
            status.desired_healthy,
            status.expected_pods,
        )
        return found == wanted

    return await until(client, PodDisruptionBudget, is_so)


async def test_a_number_of_available_pods_leaves_the_rest(client: Client) -> None:
    await client.create(budget(minAvailable=2))
    await client.create(made("Deployment", replicas=3))
    found = await counted(client, 1, 3, 2, 3)
    assert verdicts(found) == [("DisruptionAllowed", "True", "SufficientPods")]


async def test_percentages_are_of_what_the_owners_want(client: Client) -> None:
    await client.create(made("Deployment", replicas=4))
    await until(client, Deployment, lambda each: each.status.available_replicas == 4)
    await client.create(budget(maxUnavailable="25%"))
    await counted(client, 1, 4, 3, 4)
    await client.patch(await client.get(Deployment, "web", NAMESPACE), MergePatch({"spec": {"replicas": 8}}))
    await counted(client, 2, 8, 6, 8)


async def test_without_pods_nothing_is_allowed(client: Client, recorder: EventLog) -> None:
    await client.create(budget(maxUnavailable=1))
    found = await until(client, PodDisruptionBudget, lambda each: each.status.conditions)
    assert verdicts(found) == [("DisruptionAllowed", "False", "InsufficientPods")]
    assert await counted(client, 0, 0, 0, 0)
    told = [each.note for each in recorder.events if each.regarding.kind == "PodDisruptionBudget"]
    assert told[0] == "No matching pods found"


async def test_an_eviction_uses_the_budget_up_until_the_pod_is_replaced(client: Client) -> None:
    slow = template(annotations=behaving(stop_seconds=20, ready_seconds=5))
    await client.create(made("Deployment", replicas=2, template=slow))
    await client.create(budget(minAvailable=1))
    await counted(client, 1, 2, 1, 2)
    first, second = await pods(client)
    await client.subresource("eviction").create(first, Eviction(metadata=first.metadata))
    with pytest.raises(TooManyRequests):
        await client.subresource("eviction").create(second, Eviction(metadata=second.metadata))
    await counted(client, 1, 2, 1, 2)


async def test_pods_of_owners_without_a_scale_are_an_error(client: Client, recorder: EventLog) -> None:
    await client.create(budget({"batch.kubernetes.io/job-name": "job"}, maxUnavailable=1))
    await client.create(job(annotations=behaving(run_seconds=3600)))
    found = await until(
        client,
        PodDisruptionBudget,
        lambda each: ("DisruptionAllowed", "False", "SyncFailed") in verdicts(each),
    )
    message = "jobs.batch does not implement the scale subresource"
    assert found.status.conditions[0].message == message
    assert any(message in each.note for each in recorder.events)


async def test_pods_of_nobody_are_told_of(client: Client, recorder: EventLog) -> None:
    lonely = pod("lonely").to_dict()
    lonely["metadata"]["labels"] = LABELS
    await client.create(DynamicObject(lonely))
    await client.create(budget(maxUnavailable=1))
    await until(client, PodDisruptionBudget, lambda each: each.status.observed_generation)
    [told] = {each.note for each in recorder.events if each.reason == "UnmanagedPods"}
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:" in told


async def test_an_announced_disruption_that_does_not_come_is_taken_back(client: Client) -> None:
    await client.create(pod("doomed"))
    found = await until(client, Pod, lambda each: each.status.phase == "Running", name="doomed")
    time = str(found.status.start_time)
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": time, "reason": "Test"}
    conditions = [*found.to_dict()["status"]["conditions"], condition]
    await client.status.patch(found, MergePatch({"status": {"conditions": conditions}}))
    await until(client, Pod, lambda each: ("DisruptionTarget", "False", "") in verdicts(each), name="doomed")
