"""Which pods of a set go first, and how they are counted."""

from __future__ import annotations

import json
from typing import Any

from quarterdeck.api import Time
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.cluster.replicaset.decision import count, pods_to_remove
from quarterdeck.runtime.cache.entry import EntryFactory

NOW = 1_900_000_000.0
_factory = EntryFactory(kind="Pod", api_version="v1")


def pod(
    name: str,
    *,
    node: str = "n",
    phase: str = "Running",
    ready_for: float | None = 100.0,
    restarts: int = 0,
    cost: str = "",
    labels: dict[str, str] | None = None,
) -> PodView:
    conditions: list[dict[str, Any]] = []
    if ready_for is not None:
        since = str(Time.of_timestamp(NOW - ready_for))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels or {},
            "annotations": annotations,
            "creationTimestamp": str(Time.of_timestamp(NOW - 1000)),
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    }
    return PodView(_factory.make(json.dumps(document).encode()))


def order(*pods: PodView, related: tuple[PodView, ...] = ()) -> list[str]:
    """The order in which pods go; the last one stays."""
    return [each.name for each in pods_to_remove(pods, related, len(pods) - 1, NOW)]


def test_unassigned_pods_go_before_pending_and_unready_ones() -> None:
    pods = (
        pod("ready"),
        pod("unready", ready_for=None),
        pod("pending", phase="Pending", ready_for=None),
        pod("unassigned", node="", phase="Pending", ready_for=None),
    )
    assert order(*pods) == ["unassigned", "pending", "unready"]


def test_cheap_pods_go_first_and_a_cost_that_is_no_number_is_none() -> None:
    assert order(pod("dear", cost="100"), pod("cheap", cost="-5"), pod("odd", cost="+7")) == ["cheap", "odd"]


def test_pods_on_crowded_nodes_go_first() -> None:
    lonely, crowded = pod("lonely", node="a"), pod("crowded", node="b")
    assert order(lonely, crowded, related=(lonely, crowded, pod("other", node="b"))) == ["crowded"]


def test_the_younger_power_of_two_goes_first_and_within_one_the_uid_decides() -> None:
    assert order(pod("old", ready_for=5000), pod("young", ready_for=10)) == ["young"]
    assert order(pod("b", ready_for=5000), pod("a", ready_for=5001)) == ["a"]


def test_the_more_restarted_pod_goes_first() -> None:
    assert order(pod("calm"), pod("restless", restarts=3)) == ["restless"]


def test_pods_count_as_available_after_their_time() -> None:
    pods = [pod("old", ready_for=30, labels={"a": "b"}), pod("new", ready_for=5), pod("not", ready_for=None)]
    assert count(pods, {"a": "b"}, 10, NOW) == (3, 1, 2, 1)
    assert count(pods, {}, 0, NOW) == (3, 3, 2, 2)
