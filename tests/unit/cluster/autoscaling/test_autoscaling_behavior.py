"""How fast the number of pods may change."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import from_dict
from quarterdeck.api.k8s.autoscaling import HorizontalPodAutoscalerBehavior
from quarterdeck.cluster.autoscaling.behavior import ScaleMemory


def behavior(**rules: Any) -> HorizontalPodAutoscalerBehavior:
    return from_dict(rules, HorizontalPodAutoscalerBehavior)


def rules(*policies: tuple[str, int, int], window: int = 0, select: str = "Max") -> dict[str, Any]:
    return {
        "stabilizationWindowSeconds": window,
        "selectPolicy": select,
        "policies": [
            {"type": kind, "value": value, "periodSeconds": period} for kind, value, period in policies
        ],
    }


def test_without_behavior_it_doubles_at_most_and_waits_before_it_goes_down() -> None:
    memory = ScaleMemory(4, 0.0)
    found = memory.limit(None, 4, 100, 1, 50, 1.0)
    assert (found.replicas, found.limit.word) == (8, "ScaleUpLimit")
    found = memory.limit(None, 8, 2, 1, 50, 60.0)
    assert (found.replicas, found.stability.word) == (16, "ScaleDownStabilized")
    found = memory.limit(None, 8, 2, 1, 50, 1000.0)
    assert (found.replicas, found.stability.word) == (2, "ReadyForNewScale")


def test_the_range_limits() -> None:
    memory = ScaleMemory(3, 0.0)
    assert memory.limit(None, 3, 6, 1, 5, 1.0).limit.word == "TooManyReplicas"
    assert ScaleMemory(3, -1000.0).limit(None, 3, 0, 2, 5, 1.0).limit.word == "TooFewReplicas"


def test_policies_limit_the_change_within_their_period() -> None:
    fast = behavior(
        scaleUp=rules(("Pods", 4, 60), ("Percent", 100, 60)), scaleDown=rules(("Percent", 100, 15))
    )
    memory = ScaleMemory(2, 0.0)
    found = memory.limit(fast, 2, 20, 1, 50, 1.0)
    assert (found.replicas, found.limit.word) == (6, "ScaleUpLimit")
    memory.scaled(fast, 2, 6, 1.0)
    assert memory.limit(fast, 6, 20, 1, 50, 30.0).replicas == 6
    assert memory.limit(fast, 6, 20, 1, 50, 62.0).replicas == 12


def test_the_smallest_change_can_be_chosen_and_a_direction_disabled() -> None:
    slow = behavior(
        scaleUp=rules(("Pods", 4, 60), ("Percent", 100, 60), select="Min"),
        scaleDown=rules(select="Disabled"),
    )
    memory = ScaleMemory(2, -1000.0)
    assert memory.limit(slow, 2, 20, 1, 50, 1.0).replicas == 4
    found = ScaleMemory(9, -1000.0).limit(slow, 9, 1, 1, 50, 1.0)
    assert (found.replicas, found.limit.word) == (9, "ScaleDownLimit")


def test_a_window_keeps_the_highest_recent_recommendation() -> None:
    calm = behavior(scaleUp=rules(("Percent", 900, 15)), scaleDown=rules(("Percent", 100, 15), window=120))
    memory = ScaleMemory(5, 0.0)
    memory.limit(calm, 5, 9, 1, 50, 10.0)
    found = memory.limit(calm, 9, 3, 1, 50, 60.0)
    assert (found.replicas, found.stability.word) == (9, "ScaleDownStabilized")
    assert memory.limit(calm, 9, 3, 1, 50, 140.0).replicas == 3
