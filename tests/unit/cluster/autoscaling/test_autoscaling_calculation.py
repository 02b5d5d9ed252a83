"""How many pods metrics ask for."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time
from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.autoscaling.calculation import (
    Proposal,
    Tolerance,
    by_ratio,
    by_total,
    by_usage,
    by_utilization,
    requests_of,
)
from quarterdeck.cluster.autoscaling.measure import Measure
from quarterdeck.errors import ReconcileError

NOW = 1_900_000_000.0


def pod(
    name: str, *, phase: str = "Running", ready: str = "True", request: str = "1", age: float = 3600
) -> Pod:
    start = str(Time.of_timestamp(NOW - age))
    container = {"name": "c", "resources": {"requests": {"cpu": request} if request else {}}}
    document: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"containers": [container]},
        "status": {
            "phase": phase,
            "startTime": start,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": start}],
        },
    }
    return Pod.from_dict(document)


def utilization(
    pods: list[Pod], usage: dict[str, int], *, target: int = 50, current: int | None = None
) -> Proposal:
    measures = {name: Measure(value, NOW, 60.0) for name, value in usage.items()}
    return by_utilization(
        pods,
        measures,
        lambda: requests_of(pods, "cpu", ""),
        target=target,
        current=len(pods) if current is None else current,
        resource="cpu",
        tolerance=Tolerance(),
        now=NOW,
    )


def test_twice_the_target_asks_for_twice_the_pods() -> None:
    found = utilization([pod("a"), pod("b")], {"a": 1000, "b": 1000})
    assert found == Proposal(4, 1000, 100)


def test_what_is_near_the_target_changes_nothing() -> None:
    assert utilization([pod("a"), pod("b")], {"a": 540, "b": 540}).replicas == 2


def test_pods_without_metrics_count_as_idle_when_more_would_be_made() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    assert utilization(pods, {"a": 1000, "b": 1000}).replicas == 4
    assert utilization(pods, {"a": 100, "b": 100}).replicas == 3


def test_pods_that_just_started_do_not_count_as_busy() -> None:
    pods = [pod("a"), pod("b", age=10, ready="False")]
    assert utilization(pods, {"a": 1000, "b": 9000}).replicas == 2


def test_pods_that_go_or_failed_are_ignored() -> None:
    assert utilization([pod("a"), pod("b", phase="Failed")], {"a": 1000, "b": 5000}, current=1).replicas == 2


def test_without_requests_or_metrics_nothing_can_be_said() -> None:
    with pytest.raises(ReconcileError, match="missing request for cpu in container c of Pod a"):
        utilization([pod("a", request="")], {"a": 1})
    with pytest.raises(ReconcileError, match="did not receive metrics for targeted pods"):
        utilization([pod("a", phase="Pending")], {"a": 1})
    with pytest.raises(ReconcileError, match="no pods returned by selector"):
        utilization([], {})


def test_an_average_usage_is_a_target_too() -> None:
    pods = [pod("a"), pod("b")]
    measures = {"a": Measure(300, NOW), "b": Measure(500, NOW)}
    found = by_usage(pods, measures, target=100, current=2, resource="x", tolerance=Tolerance(), now=NOW)
    assert found == Proposal(8, 400)


def test_a_load_from_outside_is_shared() -> None:
    assert by_total(1000, 100, 4, Tolerance()) == Proposal(10, 250)
    assert by_total(400, 100, 4, Tolerance()).replicas == 4
    assert by_ratio([pod("a"), pod("b")], 2.5, 2, Tolerance()) == 5
    assert by_ratio([], 2.5, 0, Tolerance()) == 3
