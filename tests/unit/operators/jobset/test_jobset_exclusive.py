"""Exclusive placement: leaders, followers and those that were sent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time, to_dict
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.operators.jobset.logic.exclusive import (
    admission_problem,
    disrupted,
    follower_of,
    is_leader,
    is_placed_exclusively,
    leader_among,
    leader_labels,
    misplaced,
    with_leader_affinity,
    with_priority_label,
)

PREFIX = "jobset.sigs.k8s.io/"
TOPOLOGY = "example.com/rack"
INDEX = "batch.kubernetes.io/job-completion-index"


def pod(index: int = 0, *, owner: str = "job", annotations: Any = None, **spec: Any) -> Pod:
    marks = {f"{PREFIX}jobset-name": "js"}
    return Pod.from_dict(
        {
            "metadata": {
                "name": f"js-w-0-{index}-abcde",
                "namespace": "default",
                "labels": {
                    **marks,
                    f"{PREFIX}replicatedjob-name": "w",
                    f"{PREFIX}job-index": "0",
                    f"{PREFIX}job-key": "key",
                },
                "annotations": {
                    **marks,
                    "alpha.jobset.sigs.k8s.io/exclusive-topology": TOPOLOGY,
                    INDEX: str(index),
                    **(annotations or {}),
                },
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": True}
                ],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 7, **spec},
        }
    )


def test_pods_carry_their_priority() -> None:
    assert with_priority_label(pod()).metadata.labels[f"{PREFIX}priority"] == "7"
    by_selector = pod(annotations={"alpha.jobset.sigs.k8s.io/node-selector": "true"})
    assert with_priority_label(by_selector) is by_selector
    assert not is_placed_exclusively(by_selector)


def test_a_pod_is_placed_exclusively_if_its_set_asks_for_a_topology() -> None:
    assert is_placed_exclusively(pod()) is True
    annotations = dict(pod().metadata.annotations)
    for missing in (f"{PREFIX}jobset-name", "alpha.jobset.sigs.k8s.io/exclusive-topology"):
        left = {name: value for name, value in annotations.items() if name != missing}
        assert is_placed_exclusively(pod().evolve(metadata=pod().metadata.evolve(annotations=left))) is False


def test_pods_of_nobody_and_pods_without_a_priority_stay_as_they_are() -> None:
    plain = pod().evolve(metadata=pod().metadata.evolve(annotations={}))
    assert with_priority_label(plain) is plain
    without = pod(priority=None)
    assert with_priority_label(without) is without


def test_the_leader_of_a_pod_has_its_key_and_index_0() -> None:
    assert leader_labels(pod(3)) == {f"{PREFIX}job-key": "key", INDEX: "0"}
    assert is_leader(pod(0))
    assert not is_leader(pod(3))


def test_affinity_that_a_leader_has_already_is_kept() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    mine = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = {"podAffinity": {required: [mine]}, "podAntiAffinity": {required: [mine]}}
    made = to_dict(with_leader_affinity(pod(affinity=affinity)))["spec"]["affinity"]
    for side in ("podAffinity", "podAntiAffinity"):
        assert [each["topologyKey"] for each in made[side][required]] == ["zone", TOPOLOGY]


def test_a_leader_keeps_to_its_job_and_away_from_others() -> None:
    affinity = to_dict(with_leader_affinity(with_priority_label(pod())))["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    key = f"{PREFIX}job-key"
    own = {"key": key, "operator": "In", "values": ["key"]}
    assert affinity["podAffinity"][required] == [
        {"labelSelector": {"matchExpressions": [own]}, "topologyKey": TOPOLOGY, "namespaceSelector": {}}
    ]
    assert affinity["podAntiAffinity"][required][0]["labelSelector"]["matchExpressions"] == [
        {"key": key, "operator": "Exists"},
        {"key": key, "operator": "NotIn", "values": ["key"]},
        {"key": f"{PREFIX}priority", "operator": "In", "values": ["7"]},
    ]


def test_a_follower_goes_where_its_leader_is() -> None:
    node = Node.from_dict({"metadata": {"name": "n", "labels": {TOPOLOGY: "r1"}}})
    placed = follower_of(pod(1, nodeSelector={"a": "b"}), node)
    assert isinstance(placed, Pod)
    assert dict(placed.spec.node_selector) == {"a": "b", TOPOLOGY: "r1"}
    assert admission_problem(placed) == ""
    bare = Node.from_dict({"metadata": {"name": "n"}})
    assert follower_of(pod(1), bare) == f"node does not have topology label: {TOPOLOGY}"


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({}, "follower pod node selector not set"),
        (
            {"a": "b"},
            f"follower pod node selector for topology domain not found. missing selector: {TOPOLOGY}",
        ),
    ],
)
def test_a_follower_without_a_domain_has_to_wait(selector: dict[str, str], problem: str) -> None:
    assert admission_problem(pod(1, nodeSelector=selector)) == problem


def test_there_is_one_leader_of_the_same_job() -> None:
    follower, leader = pod(1), pod(0)
    assert leader_among([leader], follower) is leader
    assert leader_among([], follower) == (
        "expected 1 leader pod (js-w-0-0), but got 0. this is an expected, transient error"
    )
    ended = leader.evolve(status=leader.status.evolve(phase="Failed"))
    assert isinstance(leader_among([ended], follower), str)
    going = leader.evolve(metadata=leader.metadata.evolve(deletion_timestamp=Time.of_timestamp(0)))
    assert isinstance(leader_among([going], follower), str)
    assert leader_among([ended, going, leader], follower) is leader
    assert "but got 2" in str(leader_among([leader, leader], follower))
    orphan = leader.evolve(metadata=leader.metadata.evolve(owner_references=()))
    assert leader_among([leader], orphan) == "follower pod has no owner reference"
    assert leader_among([orphan], follower) == 'leader pod "js-w-0-0-abcde" has no owner reference'
    stranger = pod(0, owner="other")
    assert (
        leader_among([stranger], follower) == "follower pod owner UID (job) != leader pod owner UID (other)"
    )


def test_followers_elsewhere_are_found_and_marked() -> None:
    leader, there = pod(0), pod(1, nodeSelector={TOPOLOGY: "r1"})
    assert not misplaced(leader, "r1", [leader, there])
    assert misplaced(leader, "r2", [leader, there])
    marked = disrupted(there, Time.of_timestamp(0))
    (condition,) = marked.status.conditions
    assert (condition.type, condition.reason) == ("DisruptionTarget", "ExclusivePlacementViolation")
    assert disrupted(marked, Time.of_timestamp(1)) is marked
    over = marked.status.conditions[0].evolve(status="False")
    again = disrupted(there.evolve(status=there.status.evolve(conditions=[over])), Time.of_timestamp(1))
    assert [each.status for each in again.status.conditions] == ["True"]
