"""What is written about groups that do not run, and what their pods add up to."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time, from_dict, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai.logic.amount import resource_list
from quarterdeck.operators.kai.logic.condition import explanations, with_unschedulable
from quarterdeck.operators.kai.logic.podcondition import condition_patch
from quarterdeck.operators.kai.logic.resourcestatus import (
    GroupUse,
    group_status,
    phase_of,
    pod_use,
    queue_status,
)
from quarterdeck.operators.kai.types import PodGroup, Queue, SchedulingCondition
from quarterdeck.scheduler.decision import QueueDetails, UnschedulableReason
from quarterdeck.scheduler.resource import Resources

Json = dict[str, Any]
NOW = Time("2026-01-01T00:00:00Z")


def condition(pool: str, number: str, message: str = "no room") -> SchedulingCondition:
    return from_dict(
        {
            "type": "UnschedulableOnNodePool",
            "nodePool": pool,
            "status": "True",
            "reason": "Unschedulable",
            "message": message,
            "transitionID": number,
        },
        SchedulingCondition,
    )


def written(
    *conditions: SchedulingCondition, pool: str = "default", message: str = "no room"
) -> list[tuple[str, str, str]] | None:
    found = with_unschedulable(conditions, node_pool=pool, message=message, reasons=(), now=NOW)
    if found is None:
        return None
    return [(each.node_pool, each.transition_id, each.message) for each in found]


def test_the_first_condition() -> None:
    (found,) = with_unschedulable((), node_pool="default", message="m", reasons=(), now=NOW) or ()
    assert to_dict(found) == {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
        "message": "m",
        "transitionID": "1",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        # it is said already
        ([condition("default", "4")], None),
        ([condition("other", "3"), condition("default", "4")], None),
        # another message replaces the entry of the pool and counts on
        ([condition("default", "4", "old")], [("default", "5", "no room")]),
        (
            [condition("default", "1", "a"), condition("other", "2"), condition("default", "3", "b")],
            [("other", "2", "no room"), ("default", "4", "no room")],
        ),
        # it is not the last
        (
            [condition("default", "4"), condition("other", "5")],
            [("other", "5", "no room"), ("default", "6", "no room")],
        ),
        # a number that is none
        ([condition("other", "x")], [("other", "x", "no room"), ("default", "1", "no room")]),
    ],
)
def test_later_conditions(
    conditions: list[SchedulingCondition], found: list[tuple[str, str, str]] | None
) -> None:
    assert written(*conditions) == found


def test_reasons_with_the_numbers_of_the_queue() -> None:
    queue = QueueDetails(
        name="q",
        requested=Resources(cpu=1500, gpu=2),
        deserved=Resources(cpu=-1, memory=-1, gpu=1),
        allocated=Resources(memory=2**30),
        allocated_non_preemptible=Resources(),
        limits=Resources(cpu=-1, memory=10**9, gpu=0),
        pod_group_requested=Resources(gpu=0.5),
        pod_group_requested_non_preemptible=Resources(),
    )
    found = explanations([UnschedulableReason(reason="OverLimit", message="m", queue=queue)])
    assert to_dict(found) == [
        {
            "reason": "OverLimit",
            "message": "m",
            "details": {
                "queueDetails": {
                    "name": "q",
                    "queueRequestedResources": {"cpu": "1500m", "nvidia.com/gpu": "2"},
                    "queueDeservedResources": {"cpu": -1, "memory": -1, "nvidia.com/gpu": "1"},
                    "queueAllocatedResources": {"memory": "1Gi"},
                    "queueResourceLimits": {"cpu": -1, "memory": "1G", "nvidia.com/gpu": "0"},
                    "podGroupRequestedResources": {"nvidia.com/gpu": "500m"},
                }
            },
        }
    ]
    (bare,) = explanations([UnschedulableReason(reason="r", message="m")])
    assert to_dict(bare) == {"reason": "r", "message": "m"}


def test_amounts() -> None:
    found = resource_list(Resources(250, 3 * 2**20, 1, (("example.com/nic", 2),)))
    assert {name: str(amount) for name, amount in found.items()} == {
        "cpu": "250m",
        "memory": "3Mi",
        "nvidia.com/gpu": "1",
        "example.com/nic": "2",
    }


def with_condition(**fields: str) -> Pod:
    return Pod.from_dict({"metadata": {"name": "p"}, "status": {"conditions": [fields] if fields else []}})


def patched(pod: Pod) -> Any:
    return condition_patch(pod, "PodScheduled", is_true=False, reason="R", message="m", now=NOW)


def test_a_condition_is_set_once() -> None:
    change = {"type": "PodScheduled", "status": "False", "reason": "R", "message": "m"}
    new = {**change, "lastTransitionTime": str(NOW)}
    assert patched(with_condition()) == {"status": {"conditions": [new]}}
    was_true = with_condition(type="PodScheduled", status="True")
    assert patched(was_true) == {"status": {"conditions": [new]}}
    other_text = with_condition(type="PodScheduled", status="False", reason="R", message="old")
    assert patched(other_text) == {"status": {"conditions": [change]}}
    assert patched(with_condition(**change)) is None


def pod(phase: str, scheduled: bool = False, gpu: str = "1", **annotations: str) -> Json:
    conditions = [{"type": "PodScheduled", "status": "True" if scheduled else "False"}]
    requests = {"cpu": "500m", **({"nvidia.com/gpu": gpu} if gpu else {})}
    return {
        "metadata": {"name": "p", "annotations": {k.replace("_", "-"): v for k, v in annotations.items()}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase, "conditions": conditions},
    }


def test_pods_of_a_group_add_up() -> None:
    use = GroupUse.of(
        pod_use(each)
        for each in (
            pod("Pending"),
            pod("Pending", scheduled=True),
            pod("Running"),
            pod("Succeeded", scheduled=True),
            pod("Failed"),
            pod("Running", gpu="", gpu_fraction="0.25", gpu_fraction_num_devices="2"),
        )
    )
    assert group_status(use, is_preemptible=True) == {
        "phase": "Running",
        "running": 2,
        "succeeded": 1,
        "failed": 1,
        "pending": 2,
        "resourcesStatus": {
            "allocated": {"cpu": "1500m", "nvidia.com/gpu": "2500m"},
            "requested": {"cpu": "2", "nvidia.com/gpu": "3500m"},
        },
    }
    held = group_status(use, is_preemptible=False)["resourcesStatus"]
    assert held["allocatedNonPreemptible"] == held["allocated"]


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ({}, "Pending"),
        ({"Pending": 3}, "Pending"),
        ({"Pending": 1, "Running": 1, "Failed": 1}, "Running"),
        ({"Pending": 1, "Failed": 1}, "Pending"),
        ({"Succeeded": 4, "Failed": 1}, "Failed"),
        ({"Succeeded": 4}, "Succeeded"),
        ({"Unknown": 1}, "Pending"),
    ],
)
def test_phase_of_a_group(phases: dict[str, int], phase: str) -> None:
    assert phase_of(phases) == phase


def test_a_queue_adds_up_groups_and_children() -> None:
    amounts = {"allocated": {"cpu": "1"}, "requested": {"cpu": "2", "nvidia.com/gpu": "1"}}
    group = PodGroup.from_dict({"metadata": {"name": "g"}, "status": {"resourcesStatus": amounts}})
    child = Queue.from_dict(
        {"metadata": {"name": "b"}, "status": {**amounts, "allocatedNonPreemptible": {"cpu": "500m"}}}
    )
    other = Queue.from_dict({"metadata": {"name": "a"}})
    assert queue_status([group, group], [child, other]) == {
        "allocated": {"cpu": "3"},
        "allocatedNonPreemptible": {"cpu": "500m"},
        "requested": {"cpu": "6", "nvidia.com/gpu": "3"},
        "childQueues": ["a", "b"],
    }
    assert set(queue_status([], []).values()) == {None}
