"""What pods demand of each other, now and once those that leave are gone and those that come are there."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import Affinity
from quarterdeck.scheduler.model.affinity import (
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    NO_AFFINITY,
    PodAffinities,
    has_pod_affinity,
)
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import NodeInfo, PodConstraints, PodInfo

HERE = NodeState(NodeInfo(name="here", allocatable=Resources(), labels={"host": "here"}), 0)
THERE = NodeState(NodeInfo(name="there", allocatable=Resources(), labels={"host": "there"}), 1)
NOWHERE = NodeState(NodeInfo(name="nowhere", allocatable=Resources()), 2)


def pod(name: str, **affinity: list[str]) -> PodInfo:
    """A pod with the label app and the terms podAffinity or podAntiAffinity to pods with such labels."""
    fields: dict[str, Any] = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "host"} for app in apps
            ]
        }
        for kind, apps in affinity.items()
    }
    constraints = PodConstraints(affinity=from_dict(fields, Affinity) if fields else None)
    return PodInfo(namespace="ns", name=name, uid=name, labels={"app": name}, constraints=constraints)


JOINS = pod("joins", podAffinity=["x"])
AVOIDS = pod("avoids", podAntiAffinity=["x"])
X = pod("x")
PROUD = pod("proud", podAntiAffinity=["x"])


def problems(who: PodInfo, node: NodeState, *others: tuple[PodInfo, NodeState, Hold]) -> tuple[str, str]:
    """What speaks against a node now, and later."""
    known = PodAffinities([who, *(other for other, _, _ in others)], {})
    for other, place, hold in others:
        known.hold(other, place, hold, 1)
    return known.problem(who, node, True), known.problem(who, node, False)


@pytest.mark.parametrize(
    ("who", "other", "hold", "now", "later"),
    [
        (JOINS, X, Hold.RUNNING, "", ""),
        (JOINS, X, Hold.LEAVING, NO_AFFINITY, NO_AFFINITY),
        (JOINS, X, Hold.COMING, NO_AFFINITY, ""),
        (AVOIDS, X, Hold.RUNNING, ANTI_AFFINITY, ANTI_AFFINITY),
        (AVOIDS, X, Hold.LEAVING, ANTI_AFFINITY, ""),
        (AVOIDS, X, Hold.COMING, ANTI_AFFINITY, ANTI_AFFINITY),
        (X, PROUD, Hold.RUNNING, EXISTING_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY),
        (X, PROUD, Hold.LEAVING, EXISTING_ANTI_AFFINITY, ""),
        (X, PROUD, Hold.COMING, EXISTING_ANTI_AFFINITY, EXISTING_ANTI_AFFINITY),
    ],
)
def test_those_who_leave_and_those_who_come(
    who: PodInfo, other: PodInfo, hold: Hold, now: str, later: str
) -> None:
    assert problems(who, HERE, (other, HERE, hold)) == (now, later)
    elsewhere = NO_AFFINITY if who is JOINS else ""
    assert problems(who, THERE, (other, HERE, hold)) == (elsewhere, elsewhere)


def test_nodes_outside_the_topology() -> None:
    assert problems(JOINS, NOWHERE, (X, HERE, Hold.RUNNING)) == (NO_AFFINITY, NO_AFFINITY)
    assert problems(AVOIDS, NOWHERE, (X, NOWHERE, Hold.RUNNING)) == ("", "")
    assert problems(X, NOWHERE, (PROUD, NOWHERE, Hold.RUNNING)) == ("", "")


def test_others_do_not_matter() -> None:
    other = pod("other")
    assert problems(JOINS, HERE, (other, HERE, Hold.RUNNING)) == (NO_AFFINITY, NO_AFFINITY)
    assert problems(AVOIDS, HERE, (other, HERE, Hold.RUNNING)) == ("", "")
    assert problems(other, HERE, (PROUD, HERE, Hold.RUNNING)) == ("", "")


def test_every_term_counts() -> None:
    both = pod("both", podAffinity=["x", "y"])
    assert problems(both, HERE, (X, HERE, Hold.RUNNING)) == (NO_AFFINITY, NO_AFFINITY)
    assert problems(both, HERE, (X, HERE, Hold.RUNNING), (pod("y"), HERE, Hold.RUNNING)) == ("", "")
    neither = pod("neither", podAntiAffinity=["x", "y"])
    assert problems(neither, HERE, (X, HERE, Hold.RUNNING)) == (ANTI_AFFINITY, ANTI_AFFINITY)


@pytest.mark.parametrize("hold", [Hold.RUNNING, Hold.LEAVING, Hold.COMING])
def test_the_first_of_its_kind_may_go_anywhere_until_another_is_there(hold: Hold) -> None:
    own = pod("own", podAffinity=["own"])
    assert problems(own, HERE) == ("", "")
    assert problems(own, THERE, (own, HERE, hold)) == (NO_AFFINITY, NO_AFFINITY)
    # one of several terms that is not its own leaves it without anybody to join
    assert problems(pod("own", podAffinity=["own", "x"]), HERE) == (NO_AFFINITY, NO_AFFINITY)


def test_who_is_gone_is_forgotten() -> None:
    known = PodAffinities([AVOIDS, PROUD], {})
    for sign in (1, -1):
        for hold in (Hold.RUNNING, Hold.LEAVING, Hold.COMING):
            known.hold(X, HERE, hold, sign)
            known.hold(PROUD, HERE, hold, sign)
        assert (known.problem(AVOIDS, HERE, True) == "") is (sign < 0)
        assert (known.problem(X, HERE, True) == "") is (sign < 0)


def test_only_required_terms_make_it_necessary_to_count() -> None:
    assert not has_pod_affinity(X)
    assert has_pod_affinity(JOINS)
    assert has_pod_affinity(AVOIDS)
    assert not PodAffinities([X], {}).is_needed
    assert PodAffinities([X, AVOIDS], {}).is_needed
