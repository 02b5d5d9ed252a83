"""From a pod and its owners to its group: the rules that hold for every kind of workload."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from quarterdeck.api import ObjectMeta
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.grouping import (
    GroupingError,
    KindDefault,
    changed_pod_group,
    new_pod_group,
    parse_kind_defaults,
    pod_patch,
)
from quarterdeck.operators.kai.types import PodGroup

from .groupingkit import owner, plan, pod

QUEUE = names.QUEUE_LABEL
PRIORITY = names.PRIORITY_CLASS_LABEL
PREEMPTIBILITY = names.PREEMPTIBILITY_LABEL
POOL = names.NODE_POOL_LABEL
SET = owner("apps/v1", "StatefulSet")


def test_a_bare_pod_is_its_own_group() -> None:
    found = plan(pod("solo"))
    assert found.name == "pg-solo-solo-uid"
    assert (found.owner.kind, found.owner.name, found.owner.uid) == ("Pod", "solo", "solo-uid")
    assert (found.queue, found.priority_class_name, found.min_member) == ("default-queue", "train", 1)
    assert found.sub_groups == ()


def test_pods_of_an_owner_are_one_group() -> None:
    one, other = plan(pod("a"), SET), plan(pod("b"), SET)
    assert one.name == other.name == "pg-o-o-uid"
    assert one.namespace == "ns"
    assert (one.owner.api_version, one.owner.kind) == ("apps/v1", "StatefulSet")
    assert not one.owner.controller


def test_the_top_owner_counts() -> None:
    top = owner("example.com/v1", "Machine", "top")
    assert plan(pod(), SET, top).name == "pg-top-top-uid"


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "queue"),
    [
        ({}, {}, "default-queue"),
        ({QUEUE: "a"}, {QUEUE: "b"}, "a"),
        ({}, {QUEUE: "b"}, "b"),
        ({"project": "x"}, {QUEUE: "b"}, "b"),
        ({"project": "x"}, {"project": "y"}, "x"),
        ({}, {"project": "y"}, "y"),
        ({"project": "x"}, {POOL: "p1"}, "x-p1"),
        ({POOL: "p1"}, {POOL: "p2", "project": "y"}, "y-p2"),
        ({QUEUE: "a"}, {POOL: "p1"}, "a"),
        ({}, {POOL: "p1"}, "default-queue"),
    ],
)
def test_queue(of_owner: dict[str, str], of_pod: dict[str, str], queue: str) -> None:
    assert plan(pod(labels=of_pod), owner("apps/v1", "StatefulSet", labels=of_owner)).queue == queue


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "spec", "priority"),
    [
        ({PRIORITY: "build"}, {PRIORITY: "inference"}, {}, "build"),
        ({}, {PRIORITY: "inference"}, {"priorityClassName": "build"}, "inference"),
        ({}, {}, {"priorityClassName": "build"}, "build"),
        ({PRIORITY: "unknown"}, {PRIORITY: "inference"}, {}, "train"),
        ({}, {}, {"priorityClassName": "unknown"}, "train"),
    ],
)
def test_priority(
    of_owner: dict[str, str], of_pod: dict[str, str], spec: dict[str, Any], priority: str
) -> None:
    found = plan(pod(spec=spec, labels=of_pod), owner("apps/v1", "StatefulSet", labels=of_owner))
    assert found.priority_class_name == priority


def test_every_owner_may_name_a_priority_class_that_exists() -> None:
    low = owner("apps/v1", "StatefulSet", "low", labels={PRIORITY: "unknown"})
    top = owner("example.com/v1", "Machine", "top", labels={PRIORITY: "build"})
    assert plan(pod(), low, top).priority_class_name == "build"


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "preemptibility"),
    [
        ({}, {}, ""),
        ({PREEMPTIBILITY: "preemptible"}, {PREEMPTIBILITY: "non-preemptible"}, "preemptible"),
        ({}, {PREEMPTIBILITY: "non-preemptible"}, "non-preemptible"),
        ({PREEMPTIBILITY: "sometimes"}, {PREEMPTIBILITY: "non-preemptible"}, "non-preemptible"),
        ({PREEMPTIBILITY: "Preemptible"}, {}, ""),
    ],
)
def test_preemptibility(of_owner: dict[str, str], of_pod: dict[str, str], preemptibility: str) -> None:
    found = plan(pod(labels=of_pod), owner("apps/v1", "StatefulSet", labels=of_owner))
    assert found.preemptibility == preemptibility


@pytest.mark.parametrize(
    ("default", "priority", "preemptibility"),
    [
        (KindDefault("StatefulSet", "apps", "build", "Non-Preemptible"), "build", "non-preemptible"),
        (KindDefault("StatefulSet", "", "build", ""), "build", ""),
        (KindDefault("StatefulSet", "apps", "unknown", "never"), "train", ""),
        (KindDefault("Deployment", "apps", "build", "preemptible"), "train", ""),
    ],
)
def test_defaults_by_kind(default: KindDefault, priority: str, preemptibility: str) -> None:
    found = plan(pod(), SET, kind_defaults=(default,))
    assert (found.priority_class_name, found.preemptibility) == (priority, preemptibility)


def test_labels_come_before_defaults_and_the_full_kind_before_the_short() -> None:
    defaults = (KindDefault("StatefulSet", "", "inference"), KindDefault("StatefulSet", "apps", "build"))
    assert plan(pod(), SET, kind_defaults=defaults).priority_class_name == "build"
    labelled = pod(labels={PRIORITY: "train"})
    assert plan(labelled, SET, kind_defaults=defaults).priority_class_name == "train"


def test_defaults_are_read_from_json() -> None:
    text = '[{"typeName": "Deployment", "group": "apps", "priorityName": "build", "preemptibility": "x"}]'
    assert parse_kind_defaults(text) == (KindDefault("Deployment", "apps", "build", "x"),)
    for bad in ("", "{}", "[1]", '[{"group": "apps"}]'):
        with pytest.raises(ValueError, match="default priorities"):
            parse_kind_defaults(bad)


def test_metadata_is_inherited() -> None:
    given = owner(
        "apps/v1",
        "StatefulSet",
        labels={"team": "a"},
        annotations={"note": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    found = plan(pod(labels={"user": "u", "team": "other"}, annotations={"user": "v"}), given)
    assert found.labels == {"user": "u", "team": "a"}
    assert found.annotations.keys() == {"note", "user", names.TOP_OWNER_ANNOTATION}
    keys = [line.partition(":")[0] for line in found.annotations[names.TOP_OWNER_ANNOTATION].splitlines()]
    assert keys == ["name", "uid", "group", "version", "kind"], "in the order that upstream writes"
    assert yaml.safe_load(found.annotations[names.TOP_OWNER_ANNOTATION]) == {
        "name": "o",
        "uid": "o-uid",
        "group": "apps",
        "version": "v1",
        "kind": "StatefulSet",
    }


def test_topology_comes_from_the_annotations_of_the_owner() -> None:
    annotations = {
        names.TOPOLOGY_ANNOTATION: "t",
        names.TOPOLOGY_REQUIRED_ANNOTATION: "rack",
        names.TOPOLOGY_PREFERRED_ANNOTATION: "host",
    }
    found = plan(pod(), owner("apps/v1", "StatefulSet", annotations=annotations)).constraint
    assert (found.topology, found.required_topology_level, found.preferred_topology_level) == (
        "t",
        "rack",
        "host",
    )
    assert plan(pod(annotations=annotations), SET).constraint.topology == ""


def test_each_pod_of_a_deployment_is_a_group() -> None:
    replicas = owner("apps/v1", "ReplicaSet", "rs")
    deployment = owner("apps/v1", "Deployment", "d", labels={QUEUE: "q9"})
    found = plan(pod("d-1"), replicas, deployment)
    assert found.name == "pg-d-1-d-1-uid"
    assert (found.owner.kind, found.owner.name) == ("Pod", "d-1")
    assert (found.queue, found.priority_class_name, found.min_member) == ("q9", "inference", 1)
    labelled = owner("apps/v1", "Deployment", "d", labels={PRIORITY: "build"})
    assert plan(pod(), replicas, labelled).priority_class_name == "build"


def test_the_pods_of_a_job_are_a_group_that_starts_with_the_first() -> None:
    job = owner("batch/v1", "Job", "j")
    found = plan(pod("j-x"), job)
    assert found.name == "pg-j-j-uid"
    assert (found.owner.kind, found.owner.name, found.min_member) == ("Job", "j", 1)
    assert found.priority_class_name == "train"


def test_a_job_may_ask_for_more_at_once() -> None:
    job = owner("batch/v1", "Job", "j", annotations={names.MIN_MEMBER_ANNOTATION: "4"})
    assert plan(pod("j-x"), job).min_member == 4
    for text in ("0", "-1", "many"):
        job = owner("batch/v1", "Job", "j", annotations={names.MIN_MEMBER_ANNOTATION: text})
        with pytest.raises(GroupingError, match=r"invalid kai\.scheduler/batch-min-member annotation on Job"):
            plan(pod("j-x"), job)


def test_a_pod_of_a_job_keeps_the_group_of_its_own_that_an_earlier_version_made() -> None:
    job = owner("batch/v1", "Job", "j", annotations={names.MIN_MEMBER_ANNOTATION: "4"})
    old = PodGroup(metadata=ObjectMeta(namespace="ns", name="pg-j-x-j-uid"))
    kept, new = plan(pod("j-x"), job, groups=(old,)), plan(pod("j-y"), job, groups=(old,))
    assert (kept.name, kept.min_member) == ("pg-j-x-j-uid", 1)
    assert (new.name, new.min_member) == ("pg-j-j-uid", 4)


def test_spans_of_time_that_owners_or_the_pod_name() -> None:
    def found(text: str, own: str = "") -> tuple[str, str]:
        def marks(value: str) -> dict[str, str]:
            keys = (names.PREEMPTION_DELAY_ANNOTATION, names.STALENESS_GRACE_PERIOD_ANNOTATION)
            return dict.fromkeys(keys, value) if value else {}

        given = plan(pod(annotations=marks(own)), owner("apps/v1", "StatefulSet", annotations=marks(text)))
        spec = new_pod_group(given).to_dict()["spec"]
        return spec.get("preemptionDelay", ""), spec.get("stalenessGracePeriod", "")

    assert found("5m") == ("5m", "5m")
    assert found("5m", own="1m") == ("5m", "5m")
    assert found("soon", own="1m") == ("1m", "1m")
    assert found("-1s") == ("", "-1s")
    assert found("") == ("", "")


def test_the_version_of_an_owner_does_not_matter() -> None:
    assert plan(pod("x"), owner("apps/v2", "Deployment", "d")).name == "pg-x-x-uid"


def test_a_new_group() -> None:
    given = pod(labels={POOL: "p1"})
    made = new_pod_group(plan(given, owner("apps/v1", "StatefulSet", labels={"a": "b"})))
    assert made.metadata.labels == {"a": "b", POOL: "p1"}
    assert [each.name for each in made.metadata.owner_references] == ["o"]
    assert made.to_dict()["spec"] == {
        "minMember": 1,
        "queue": "default-queue",
        "priorityClassName": "train",
        "topologyConstraint": {},
    }


def test_what_others_decide_stays_when_a_group_is_updated() -> None:
    made = new_pod_group(plan(pod(), SET))
    old = made.evolve(
        metadata=made.metadata.evolve(
            labels={POOL: "p2", QUEUE: "moved", "theirs": "x"}, annotations={"theirs": "y"}
        ),
        spec=made.spec.evolve(
            queue="moved", mark_unschedulable=False, scheduling_backoff=1, min_member=7, parallelism=3
        ),
    )
    fresh = plan(
        pod(labels={POOL: "p1"}), owner("apps/v1", "StatefulSet", labels={QUEUE: "wished", "team": "a"})
    )
    new = changed_pod_group(old, fresh)
    assert new is not None
    assert new.metadata.labels == {POOL: "p2", QUEUE: "moved", "theirs": "x", "team": "a"}
    assert new.metadata.annotations["theirs"] == "y"
    assert names.TOP_OWNER_ANNOTATION in new.metadata.annotations
    assert new.to_dict()["spec"] == {
        "minMember": 1,
        "queue": "moved",
        "priorityClassName": "train",
        "markUnschedulable": False,
        "schedulingBackoff": 1,
        "topologyConstraint": {},
    }
    assert changed_pod_group(new, fresh) is None


def test_a_group_without_node_pool_gets_none_later() -> None:
    old = new_pod_group(plan(pod(), SET))
    assert changed_pod_group(old, plan(pod(labels={POOL: "p1"}), SET)) is None


def test_a_group_without_queue_label_takes_over_that_of_its_owner() -> None:
    old = new_pod_group(plan(pod(), SET))
    new = changed_pod_group(old, plan(pod(), owner("apps/v1", "StatefulSet", labels={QUEUE: "q"})))
    assert new is not None
    assert new.metadata.labels == {QUEUE: "q"}
    assert new.spec.queue == "default-queue"


def test_a_pod_is_marked_once() -> None:
    found = plan(pod(), SET)
    assert pod_patch(pod(), found) == {"metadata": {"annotations": {"pod-group-name": "pg-o-o-uid"}}}
    assert pod_patch(pod(annotations={"pod-group-name": "pg-o-o-uid"}), found) == {}
