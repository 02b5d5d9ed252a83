"""Gangs that run below their minimum."""

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Action
from quarterdeck.scheduler.decision import ClearStale, Evict, MarkStale, StaleJob
from tests.unit.scheduler.schedulerscene import NOW, NS, Scene, gpu_node, only, sub

STALE = only(Action.STALE_GANG_EVICTION)
A = Key(NS, "a")


def gang(since: float | None = None, running: int = 1, least: int = 2, **more: Any) -> Scene:
    scene = gpu_node(8).group("a", least=least, stale_since=since, **more)
    for _ in range(running):
        scene.pod("a", "n0", gpu=1)
    return scene


def test_staleness_is_noted_first() -> None:
    outcome = gang().run(STALE)
    assert outcome.of(MarkStale) == [MarkStale(A, NOW)]
    assert outcome.of(Evict) == []
    assert outcome.of(StaleJob) == [StaleJob(A, "Job is stale. 1 pods are active, minMember is 2")]


@pytest.mark.parametrize(("age", "evicts"), [(0, False), (59.9, False), (60, True), (1000, True)])
def test_the_gang_goes_when_the_grace_period_is_over(age: float, evicts: bool) -> None:
    outcome = gang(NOW - age).run(STALE)
    assert outcome.evicted() == (["a-0"] if evicts else [])
    assert outcome.states("a") == ["Releasing" if evicts else "Running"]
    assert outcome.of(MarkStale) == []
    assert outcome.of(ClearStale) == []


def test_without_grace_it_goes_at_once() -> None:
    outcome = gang().run(only(Action.STALE_GANG_EVICTION, staleness_grace_period=0))
    assert outcome.evicted() == ["a-0"]
    assert outcome.of(MarkStale) == [MarkStale(A, NOW)]


def test_a_negative_grace_period_never_ends() -> None:
    outcome = gang(0.0).run(only(Action.STALE_GANG_EVICTION, staleness_grace_period=-1))
    assert outcome.evicted() == []
    assert gang().run(only(Action.STALE_GANG_EVICTION, staleness_grace_period=-1)).of(MarkStale) != []


def test_all_active_pods_go() -> None:
    outcome = gang(0.0, running=3, least=4).run(STALE)
    assert outcome.evicted() == ["a-0", "a-1", "a-2"]
    assert {each.evicted_pods for each in outcome.of(Evict)} == {3}
    assert {each.preemptor for each in outcome.of(Evict)} == {None}
    assert {each.action for each in outcome.of(Evict)} == {Action.STALE_GANG_EVICTION}


def test_priority_and_preemptibility_do_not_protect() -> None:
    scene = gang(0.0, priority=125)
    assert scene.run(STALE).evicted() == ["a-0"]


def test_what_each_pod_is_told() -> None:
    (evict,) = gang(0.0).run(STALE).of(Evict)
    assert evict.message == (
        "Workload doesn't meet the minimum required number of pods (2), evicting remaining pod: team/a-0"
    )


def test_what_pods_of_subgroups_are_told() -> None:
    scene = gpu_node(8).group("a", stale_since=0.0, subgroups=(sub("l", 1), sub("w", 3)))
    scene.pod("a", "n0", gpu=1, subgroup="l").pod("a", "n0", gpu=1, subgroup="w")
    outcome = scene.run(STALE)
    assert [each.message for each in outcome.of(Evict)] == [
        f"Workload doesn't meet the minimum required number of pods ({least}) in sub-group {name}, "
        f"evicting remaining pod: team/{pod}"
        for pod, name, least in (("a-0", "l", 1), ("a-1", "w", 3))
    ]
    (event,) = outcome.of(StaleJob)
    assert event.message == (
        "Job is stale. 2 pods are active, minMember is 4, subGroup w minMember is 3 and 1 pods are active"
    )


def test_what_is_said_about_the_gang() -> None:
    assert gang(0.0).run(STALE).of(StaleJob) == [
        StaleJob(A, "Job is stale. 1 pods are active, minMember is 2")
    ]


@pytest.mark.parametrize(
    "pods",
    [
        [{"node": "n0"}, {"node": "n0"}],
        [{"node": "n0"}, {"node": "n0", "phase": "Succeeded"}],
        [{}, {}],
        [{"node": "n0"}, {"node": "n0", "is_deleted": True}],
    ],
    ids=["whole", "one has succeeded", "none is active", "one terminates"],
)
def test_gangs_that_are_not_stale_lose_the_note(pods: list[dict[str, Any]]) -> None:
    scene = gpu_node(8).group("a", least=2, stale_since=0.0)
    for fields in pods:
        scene.pod("a", gpu=1, **fields)
    outcome = scene.run(STALE)
    assert outcome.of(ClearStale) == [ClearStale(A)]
    assert outcome.evicted() == []


def test_a_gang_that_was_never_stale_has_no_note_to_lose() -> None:
    assert gang(running=2).run(STALE).decisions == ()


def test_a_gang_is_not_stale_when_the_cycle_completes_it() -> None:
    scene = gang(0.0).pod("a", gpu=1)
    outcome = scene.run(only(Action.ALLOCATE, Action.STALE_GANG_EVICTION))
    assert outcome.states("a") == ["Running", "Allocated"]
    assert outcome.of(ClearStale) == [ClearStale(A)]


def test_one_subgroup_below_its_minimum_makes_the_whole_gang_stale() -> None:
    scene = gpu_node(8).group("a", stale_since=0.0, subgroups=(sub("l", 1), sub("w", 2)))
    scene.pod("a", "n0", subgroup="w").pod("a", "n0", subgroup="w").pod("a", "n0", subgroup="w")
    assert scene.run(STALE).evicted() == ["a-0", "a-1", "a-2"]
