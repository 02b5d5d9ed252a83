"""When a node was last heard of, which taints its conditions bring, and the pace of zones."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from quarterdeck.api.k8s import Toleration
from quarterdeck.cluster.nodehealth.eviction import patience
from quarterdeck.cluster.nodehealth.health import Health
from quarterdeck.cluster.nodehealth.nodeview import LeaseView, NodeView
from quarterdeck.cluster.nodehealth.taint import NOT_READY, UNREACHABLE, by_condition, swapped
from quarterdeck.cluster.nodehealth.ttl import TtlSteps
from quarterdeck.cluster.nodehealth.zone import Turn, Zones
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.runtime.cache.entry import EntryFactory

HERE = ("r", "z")
THERE = ("r", "y")


def entry(**document: Any) -> Any:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", **document.pop("metadata", {})}
    return EntryFactory().make(json.dumps({"metadata": metadata, **document}).encode())


def node(
    *conditions: tuple[str, str], heartbeat: str = "2024-01-01T00:00:00Z", taints: Any = (), **spec: Any
) -> NodeView:
    told = [{"type": type, "status": status, "lastHeartbeatTime": heartbeat} for type, status in conditions]
    created = {"creationTimestamp": "1970-01-01T00:01:40Z"}
    return NodeView(
        entry(metadata=created, spec={"taints": list(taints), **spec}, status={"conditions": told})
    )


def lease(renewed: str, duration: int = 40) -> LeaseView:
    return LeaseView(entry(spec={"renewTime": renewed, "leaseDurationSeconds": duration}))


def test_a_node_is_silent_fifty_seconds_after_its_last_news() -> None:
    seen = node(("Ready", "True"))
    health = Health.of(seen, 1000.0)
    health.note(seen, None, 1049.0)
    assert not health.is_silent(1050.0)
    assert health.is_silent(1050.1)


def test_a_lease_that_is_renewed_is_news() -> None:
    seen = node(("Ready", "True"))
    health = Health.of(seen, 1000.0)
    health.note(seen, lease("2024-01-01T00:00:00.000000Z"), 1010.0)
    health.note(seen, lease("2024-01-01T00:00:10.000000Z"), 1040.0)
    health.note(seen, lease("2024-01-01T00:00:10.000000Z"), 1080.0)
    assert not health.is_silent(1090.0)
    assert health.is_silent(1090.1)


def test_a_heartbeat_in_the_status_is_news() -> None:
    health = Health.of(node(("Ready", "True")), 1000.0)
    health.note(node(("Ready", "True"), heartbeat="2024-01-01T00:00:40Z"), None, 1040.0)
    assert not health.is_silent(1090.0)


def test_a_lease_may_give_a_node_more_time() -> None:
    seen = node(("Ready", "True"))
    health = Health.of(seen, 1000.0)
    health.note(seen, lease("2024-01-01T00:00:00.000000Z", 200), 1000.0)
    assert not health.is_silent(1199.0)
    assert health.is_silent(1201.0)


def test_a_kubelet_that_never_reported_has_a_minute_from_the_creation() -> None:
    health = Health.of(node(), 105.0)
    assert not health.is_silent(160.0)
    assert health.is_silent(160.1)


@pytest.mark.parametrize(
    ("condition", "key"),
    [
        (("Ready", "False"), "not-ready"),
        (("Ready", "Unknown"), "unreachable"),
        (("MemoryPressure", "True"), "memory-pressure"),
        (("DiskPressure", "True"), "disk-pressure"),
        (("PIDPressure", "True"), "pid-pressure"),
        (("NetworkUnavailable", "True"), "network-unavailable"),
    ],
)
def test_a_condition_brings_its_taint(condition: tuple[str, str], key: str) -> None:
    add, remove = by_condition(node(condition))
    assert [each.key for each in add] == [f"node.kubernetes.io/{key}"]
    assert remove == []


def test_a_cordoned_node_is_tainted_and_taints_of_others_stay() -> None:
    there = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "mine", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    add, remove = by_condition(node(("Ready", "True"), taints=there, unschedulable=True))
    assert [each.key for each in add] == ["node.kubernetes.io/unschedulable"]
    assert [(each.key, each.effect) for each in remove] == [("node.kubernetes.io/not-ready", "NoSchedule")]


def test_taints_are_swapped_in_place() -> None:
    there = [{"key": "a", "effect": "NoExecute"}, {"key": NOT_READY.key, "effect": "NoExecute"}]
    assert swapped(there, [UNREACHABLE], [NOT_READY], "now") == [
        {"key": "a", "effect": "NoExecute"},
        {"key": UNREACHABLE.key, "effect": "NoExecute", "timeAdded": "now"},
    ]
    assert swapped(there, [NOT_READY], [UNREACHABLE], "now") is None


def zones(*waiting: str) -> Zones:
    made = Zones()
    made.add(HERE)
    for name in waiting:
        made.wait(HERE, name)
    return made


def test_nodes_of_a_zone_are_tainted_one_every_ten_seconds() -> None:
    made = zones("a", "b")
    made.judge({HERE: [False, False, True]})
    assert made.due(100.0) == ["a"]
    assert made.due(105.0) == []
    assert made.next_due(105.0) == 5.0
    assert made.due(110.0) == ["b"]
    assert made.next_due(110.0) is None


def test_nobody_is_tainted_when_nothing_is_ready() -> None:
    made = zones("a", "b")
    assert made.judge({HERE: [False, False]}) is Turn.ALL_DOWN
    assert made.due(100.0) == []
    assert made.judge({HERE: [False, False]}) is Turn.NOTHING
    assert made.judge({HERE: [True, False]}) is Turn.BACK
    assert made.due(100.0) == ["a"]


def test_a_small_zone_that_is_mostly_down_keeps_its_pods() -> None:
    made = zones("a")
    made.judge({HERE: [False] * 3 + [True] * 2})
    assert made.due(100.0) == []
    large = zones("a", "b")
    large.judge({HERE: [False] * 40 + [True] * 20})
    assert large.due(100.0) == ["a"]
    assert large.due(190.0) == []
    assert large.due(200.0) == ["b"]


def test_a_zone_that_is_down_loses_its_pods_while_another_is_up() -> None:
    made = zones("a")
    assert made.judge({HERE: [False, False], THERE: [True]}) is Turn.NOTHING
    assert made.due(100.0) == ["a"]


TAINT = NodeTaint("k", "v", "NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0.0),
        ([Toleration(key="other", operator="Exists")], 0.0),
        ([Toleration(key="k", operator="Exists")], math.inf),
        ([Toleration(key="k", value="v", effect="NoExecute", toleration_seconds=30)], 30.0),
        ([Toleration(key="k", operator="Exists", toleration_seconds=-5)], 0.0),
    ],
)
def test_how_long_a_pod_stays_with_a_taint(tolerations: list[Toleration], seconds: float) -> None:
    assert patience([TAINT], tolerations) == seconds


def test_the_shortest_patience_counts() -> None:
    both = [
        Toleration(key="k", operator="Exists", toleration_seconds=30),
        Toleration(key="l", operator="Exists", toleration_seconds=10),
    ]
    assert patience([TAINT, NodeTaint("l", "", "NoExecute")], both) == 10.0


def test_steps_of_the_time_to_live_overlap() -> None:
    steps = TtlSteps()
    assert [steps.seconds(each) for each in (1, 100, 101, 95, 89, 5000, 1799)] == [0, 0, 15, 15, 0, 300, 60]
