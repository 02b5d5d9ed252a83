"""Autoscalers with and without metrics, on virtual time; the metrics are objects of a custom resource."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import Deployment, HorizontalPodAutoscaler
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager
from quarterdeck.testing import EventLog, TestCluster, eventually
from tests.unit.cluster.setkit import made, pods, template, until
from tests.unit.cluster.workloadkit import NAMESPACE, verdicts

METRICS = GroupVersionKind("metrics.k8s.io", "v1beta1", "PodMetrics")


@pytest.fixture(autouse=True)
async def cluster_at_work(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", workloads=Workloads(nodes=NodeSettings(count=1)))
    await cluster.start(manager)


def scaler(target: str = "Deployment", **spec: Any) -> DynamicObject:
    reference = {"apiVersion": "apps/v1", "kind": target, "name": "web"}
    utilization = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    whole = {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": [metric], **spec}
    return DynamicObject(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": whole,
        }
    )


def busy_template() -> dict[str, Any]:
    spec = template()
    spec["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return spec


async def serve_metrics(client: Client) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = {"api-approved.kubernetes.io": "unapproved, a test"}
    await client.create(
        DynamicObject(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "pods.metrics.k8s.io", "annotations": approved},
                "spec": {
                    "group": "metrics.k8s.io",
                    "scope": "Namespaced",
                    "names": names,
                    "versions": [version],
                },
            }
        )
    )

    async def is_served() -> bool:
        await client.mapper.refresh()
        return any(each.gvk == METRICS for each in await client.mapper.all())

    await eventually(is_served, timeout=60)


async def use(client: Client, cpu: str) -> None:
    """Let every pod use so much."""
    for pod in await pods(client):
        usage = DynamicObject(
            {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": {
                    "name": pod.metadata.name,
                    "namespace": NAMESPACE,
                    "labels": dict(pod.metadata.labels),
                },
                "timestamp": "2040-01-01T00:00:00Z",
                "window": "10s",
                "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "10Mi"}}],
            }
        )
        await client.apply(usage, field_manager="test", force=True)


def events(recorder: EventLog) -> list[tuple[str, str]]:
    found = [each for each in recorder.events if each.regarding.kind == "HorizontalPodAutoscaler"]
    return [(each.reason, each.note) for each in found]


async def test_without_metrics_it_says_why_and_leaves_the_target_alone(
    client: Client, recorder: EventLog
) -> None:
    await client.create(made("Deployment", replicas=2))
    await client.create(scaler())
    found = await until(client, HorizontalPodAutoscaler, lambda each: len(each.status.conditions) == 2)
    assert verdicts(found) == [
        ("AbleToScale", "True", "SucceededGetScale"),
        ("ScalingActive", "False", "FailedGetResourceMetric"),
    ]
    text = (
        "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: "
        "the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
    assert found.status.conditions[1].message.endswith(text)
    assert [reason for reason, _ in events(recorder)][:2] == [
        "FailedGetResourceMetric",
        "FailedComputeMetricsReplicas",
    ]
    assert (await client.get(Deployment, "web", NAMESPACE)).spec.replicas == 2


async def test_the_range_holds_even_without_metrics(client: Client, recorder: EventLog) -> None:
    await client.create(made("Deployment", replicas=1))
    await client.create(scaler(minReplicas=3))
    await until(client, Deployment, lambda each: each.spec.replicas == 3)
    told = "New size: 3; reason: Current number of replicas below Spec.MinReplicas"
    assert ("SuccessfulRescale", told) in events(recorder)


async def test_a_target_that_is_not_there_is_told(client: Client) -> None:
    await client.create(scaler())
    found = await until(client, HorizontalPodAutoscaler, lambda each: each.status.conditions)
    assert verdicts(found) == [("AbleToScale", "False", "FailedGetScale")]


async def test_the_target_follows_the_load_and_comes_down_later(client: Client, recorder: EventLog) -> None:
    await serve_metrics(client)
    await client.create(made("Deployment", replicas=2, template=busy_template()))
    await until(client, Deployment, lambda each: each.status.available_replicas == 2)
    await use(client, "100m")
    await client.create(scaler())
    await until(client, Deployment, lambda each: each.spec.replicas == 4, timeout=120)
    await until(client, Deployment, lambda each: each.status.available_replicas == 4)
    await use(client, "50m")
    steady = await until(
        client,
        HorizontalPodAutoscaler,
        lambda each: each.status.current_replicas == 4 and each.status.current_metrics,
    )
    assert steady.status.last_scale_time
    await use(client, "10m")
    await until(client, Deployment, lambda each: each.spec.replicas == 1, timeout=1200)
    told = [note for reason, note in events(recorder) if reason == "SuccessfulRescale"]
    assert told == [
        "New size: 4; reason: cpu resource utilization (percentage of request) above target",
        "New size: 1; reason: All metrics below target",
    ]


async def test_zero_replicas_turn_it_off(client: Client) -> None:
    await client.create(made("Deployment", replicas=1))
    await client.create(scaler())
    deployment = await client.get(Deployment, "web", NAMESPACE)
    await client.patch(deployment, MergePatch({"spec": {"replicas": 0}}))
    found = await until(
        client,
        HorizontalPodAutoscaler,
        lambda each: ("ScalingActive", "False", "ScalingDisabled") in verdicts(each),
    )
    assert found.status.desired_replicas == 0
