"""Kinds that are served in two shapes: nothing is lost on the way there and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.builtin.cluster import event
from quarterdeck.apiserver.builtin.workload import autoscalingversion

Json = dict[str, Any]

_TEXT = st.text("abc", max_size=5)
_CORE = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Event"),
        "metadata": st.fixed_dictionaries({"name": _TEXT}),
        "involvedObject": st.fixed_dictionaries({"name": _TEXT}),
        "source": st.fixed_dictionaries({}, optional={"component": _TEXT}),
        "firstTimestamp": st.none() | st.just("2026-01-01T00:00:00Z"),
        "lastTimestamp": st.none() | st.just("2026-01-01T00:00:00Z"),
        "eventTime": st.none() | st.just("2026-01-01T00:00:00.000001Z"),
        "reportingComponent": _TEXT,
        "reportingInstance": _TEXT,
    },
    optional={
        "message": _TEXT,
        "reason": _TEXT,
        "type": _TEXT,
        "count": st.integers(1, 5),
        "series": st.fixed_dictionaries({"count": st.integers(2, 5)}),
        "related": st.fixed_dictionaries({"name": _TEXT}),
        "action": _TEXT,
    },
)


@given(_CORE)
def test_events_keep_everything_in_both_shapes(core: Json) -> None:
    there = event.to_events(core)
    assert there["apiVersion"] == "events.k8s.io/v1"
    assert there["regarding"] == core["involvedObject"]
    assert there.get("note") == core.get("message")
    assert event.to_core(there) == core


METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}},
    },
    {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60},
        },
    },
    {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1k"}},
    },
    {
        "type": "Object",
        "object": {
            "metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
            "describedObject": {"kind": "Service", "name": "s"},
            "target": {"type": "Value", "value": "10"},
        },
    },
    {
        "type": "External",
        "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "3"}},
    },
]


def autoscaler(*metrics: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "annotations": {"mine": "1"}},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": list(metrics),
            **spec,
        },
        "status": {"desiredReplicas": 2, "currentReplicas": 1, "currentMetrics": None},
    }


def test_the_cpu_target_is_a_field_of_v1() -> None:
    shaped = autoscalingversion.to_v1(autoscaler(METRICS[0]))
    assert shaped["apiVersion"] == "autoscaling/v1"
    assert shaped["spec"]["targetCPUUtilizationPercentage"] == 55
    assert shaped["metadata"]["annotations"] == {"mine": "1"}
    assert shaped["status"] == {"currentReplicas": 1, "desiredReplicas": 2}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["type"])
def test_every_metric_survives_v1(metric: Json) -> None:
    document = autoscaler(metric)
    assert autoscalingversion.to_v2(autoscalingversion.to_v1(document)) == document


def test_other_metrics_travel_in_an_annotation() -> None:
    shaped = autoscalingversion.to_v1(autoscaler(METRICS[1]))
    assert shaped["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] == (
        '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]'
    )


def test_behavior_and_conditions_survive_v1() -> None:
    behavior = {
        "scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}
    }
    document = autoscaler(METRICS[0], behavior=behavior)
    document["status"]["conditions"] = [{"type": "AbleToScale", "status": "True"}]
    assert autoscalingversion.to_v2(autoscalingversion.to_v1(document)) == document


def test_unreadable_annotations_are_ignored() -> None:
    document = autoscalingversion.to_v1(autoscaler(METRICS[0]))
    document["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "{"
    document["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"] = "[]"
    assert autoscalingversion.to_v2(document)["spec"]["metrics"] == [METRICS[0]]


def test_v1_without_a_target_means_eighty_percent() -> None:
    document = {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3}}
    [metric] = autoscalingversion.to_v2(document)["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 80
