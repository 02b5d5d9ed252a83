"""The gate before placing, and its words."""

from typing import Any

import pytest

from quarterdeck.scheduler import Action
from quarterdeck.scheduler.fiterror import amount_text
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import QueueResource
from tests.unit.scheduler.schedulerscene import ALLOCATE, Scene, only


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (2, 1, "2"),
        (0, 1, "0"),
        (0.5, 1, "0.5"),
        (1500, 1000, "1.5"),
        (100, 1, "100"),
        (1 / 3, 1, "0.333"),
        (2 / 3, 1, "0.666"),
        (-1, 1000, "Unlimited"),
        (20_000_000_000, 10**9, "20"),
    ],
)
def test_numbers_have_at_most_three_decimals(amount: float, unit: float, text: str) -> None:
    assert amount_text(amount, unit) == text


def test_over_the_limit_of_gpus() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(1, 1, 1)).job("a", waiting=2, gpu=1)
    outcome = scene.run(ALLOCATE)
    assert outcome.message("a") == (
        "OverLimit: q quota has reached the allowable limit of GPUs. Limit is 1 GPUs, currently 0 GPUs "
        "allocated and workload requested 2 GPUs."
    )


def test_over_the_limit_of_cores() -> None:
    scene = Scene().node("n").queue("q", cpu=QueueResource(0, 2500, 1)).job("r", "q", "n")
    outcome = scene.job("a", waiting=2).run(ALLOCATE)
    assert outcome.message("a") == (
        "OverLimit: q quota has reached the allowable limit of CPU cores. Limit is 2.5 cores, currently "
        "1 cores allocated and workload requested 2 cores."
    )


def test_over_the_limit_of_memory() -> None:
    scene = Scene().node("n").queue("q", memory=QueueResource(0, 10**9, 1)).group("a").pod("a", memory=2)
    assert scene.run(ALLOCATE).message("a") == (
        "OverLimit: q quota has reached the allowable limit of memory. Limit is 1 GB, currently 0 GB "
        "allocated and workload requested 2.147 GB."
    )


def test_a_limit_that_is_not_set_is_zero() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(0, 0, 0)).job("a", waiting=1, gpu=1)
    assert scene.run(ALLOCATE).unschedulable("a").reasons[0].reason == "OverLimit"


def test_resources_that_are_not_asked_for_do_not_matter() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(0, 0, 0)).job("a", waiting=1)
    assert scene.run(ALLOCATE)["a-0"] == ("Allocated", "n")


@pytest.mark.parametrize(
    ("bounds", "pod", "text"),
    [
        (
            {"gpu": (1, -1, 1)},
            {"gpu": 2},
            "Workload requested 2 GPUs, but Team Red quota is 1 GPUs, while 0 GPUs",
        ),
        (
            {"cpu": QueueResource(500, -1, 1)},
            {},
            "Workload requested 1 CPU cores, but Team Red quota is 0.5 cores, while 0 cores",
        ),
        (
            {"memory": QueueResource(10**9, -1, 1)},
            {},
            "Workload requested 1.073 GB memory, but Team Red quota is 1 GB, while 0 GB",
        ),
    ],
)
def test_what_cannot_be_preempted_stays_within_quota(
    bounds: dict[str, Any], pod: dict[str, Any], text: str
) -> None:
    scene = Scene().node("n", 8).queue("q", display_name="Team Red", **bounds)
    scene.group("a", priority=100).pod("a", **pod)
    assert scene.run(ALLOCATE).message("a") == (
        f"NonPreemptibleOverQuota: Non-preemptible workload is over quota. {text} are already allocated "
        "for non-preemptible pods. "
        "Use a preemptible workload to go over quota.."
    )


def test_preemptible_jobs_may_go_over_quota() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(1, -1, 1)).job("a", waiting=2, gpu=1)
    assert scene.run(ALLOCATE).states("a") == ["Allocated", "Allocated"]


def test_ancestors_are_asked_as_well_the_leaf_first() -> None:
    scene = Scene().node("n", 8).queue("d", gpu=(-1, 1, 1)).queue("q", "d").job("a", waiting=2, gpu=1)
    assert scene.run(ALLOCATE).message("a").startswith("OverLimit: d quota has reached")
    scene = Scene().node("n", 8).queue("d", gpu=(-1, 1, 1)).queue("q", "d", (-1, 1, 1))
    assert scene.job("a", waiting=2, gpu=1).run(ALLOCATE).message("a").startswith("OverLimit: q quota")


def test_limits_come_before_quotas_and_cpu_before_gpus() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(0, 0, 1), cpu=QueueResource(0, 0, 1))
    outcome = scene.job("a", waiting=1, gpu=1, priority=100).run(ALLOCATE)
    assert outcome.message("a").startswith("OverLimit: q quota has reached the allowable limit of CPU cores")


def test_the_numbers_behind_a_refusal_are_given() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(2, 3, 1)).job("r", "q", "n", gpu=2, priority=100)
    (reason,) = scene.job("a", waiting=2, gpu=1).run(ALLOCATE).unschedulable("a").reasons
    details = reason.queue
    assert (details.name, details.allocated.gpu, details.limits.gpu, details.deserved.gpu) == ("q", 2, 3, 2)
    assert details.requested.gpu == 4
    assert details.allocated_non_preemptible.gpu == 2
    assert details.pod_group_requested == Resources(2000, 2 << 30, 2)
    assert details.pod_group_requested_non_preemptible.gpu == 0


def test_what_the_cycle_placed_counts_for_the_next_job() -> None:
    scene = Scene().node("n", 8).queue("q", gpu=(-1, 3, 1))
    outcome = scene.job("a", waiting=2, gpu=1).job("b", waiting=2, gpu=1).run(ALLOCATE)
    assert outcome.states("a") == ["Allocated", "Allocated"]
    assert "currently 2 GPUs allocated and workload requested 2 GPUs" in outcome.message("b")


def test_the_gate_holds_for_evicting_actions() -> None:
    scene = Scene().node("n", 2).queue("q", gpu=(1, -1, 1)).job("low", "q", "n", "n", gpu=1, least=2)
    outcome = scene.job("high", waiting=2, gpu=1, priority=100).run(only(Action.PREEMPT))
    assert outcome.evicted() == []
