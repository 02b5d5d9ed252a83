"""Decisions while pods run: indices, deletions, gates, missed minimums, terminations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import ObjectMeta, Time
from quarterdeck.api.k8s import Pod, PodSchedulingGate, PodStatus
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.breach import (
    breach_verdict,
    group_verdict,
    scheduled_verdict,
    was_ever_healthy,
    was_ever_scheduled,
)
from quarterdeck.operators.grove.logic.gate import (
    gates_left,
    is_gang_scheduled,
    is_initialized,
    openable_pods,
)
from quarterdeck.operators.grove.logic.podchoice import PodIndexError, choose_doomed, free_indices
from quarterdeck.operators.grove.logic.podstate import PodCount, count_pods
from quarterdeck.operators.grove.logic.termination import judge_group, judge_replica
from quarterdeck.operators.grove.types import (
    GangGroup,
    NamespacedName,
    PodClique,
    PodGang,
    PodGangSpec,
    PodGangStatus,
)

from .grovekit import NS, STATES, condition, member, pclq, pcsg, pod

LATER = Time("2030-01-01T00:30:00Z")
LONG_AGO = Time("2030-01-01T00:00:00Z")


def test_new_pods_get_the_lowest_free_indices() -> None:
    pods = [pod("a", hostname="c-0"), pod("b", hostname="c-2")]
    assert free_indices("c", pods, 3) == [1, 3, 4]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_or_go_give_their_index_back(phase: str) -> None:
    ended = pod("a", hostname="c-0").evolve(status=PodStatus(phase=phase))
    going = pod("b", hostname="c-1", is_deleting=True)
    assert free_indices("c", [ended, going], 2) == [0, 1]


def test_indices_that_make_no_sense_are_an_error() -> None:
    with pytest.raises(PodIndexError, match="no index in its hostname 'other'"):
        free_indices("c", [pod("a", hostname="other")], 1)
    with pytest.raises(PodIndexError, match="index 1 of pod b is used"):
        free_indices("c", [pod("a", hostname="c-1"), pod("b", hostname="c-1")], 1)


@given(st.sets(st.integers(0, 30)), st.integers(0, 20))
def test_indices_are_new_lowest_and_in_order(used: set[int], count: int) -> None:
    found = free_indices("c", [pod(f"p{index}", hostname=f"c-{index}") for index in used], count)
    assert len(found) == count
    assert not used & set(found)
    assert found == sorted(found)
    assert used | set(found) >= set(range(max(found, default=-1) + 1))


def chosen(*pods: Pod, count: int = 1) -> list[str]:
    return [each.metadata.name for each in choose_doomed(pods, count, expected_hash="new", doomed=())]


def test_the_least_useful_pod_is_deleted_first() -> None:
    order = [
        pod("unassigned", "pending", node_name=""),
        pod("pending", "pending", node_name="n"),
        pod("not-ready", "startedNotReady"),
        pod("old-template", hash="old"),
        pod("newer", created="2030-01-01T00:10:00Z"),
        pod("older", created="2030-01-01T00:00:00Z"),
    ]
    assert chosen(*reversed(order), count=6) == [each.metadata.name for each in order]


def test_of_pods_that_are_alike_the_highest_index_goes_first() -> None:
    alike = [pod(name, hostname=f"c-{index}") for name, index in (("x", 9), ("a", 10), ("y", 0))]
    assert chosen(*alike, count=3) == ["a", "x", "y"]


def test_pods_that_go_already_are_no_candidates() -> None:
    going = pod("going", "pending", is_deleting=True)
    deleted = pod("deleted", "pending")
    kept = pod("kept")
    found = choose_doomed([going, deleted, kept], 1, expected_hash="new", doomed={"uid-deleted"})
    assert [each.metadata.name for each in found] == ["kept"]


def test_pods_are_counted_by_state() -> None:
    found = count_pods([*(pod(state, state) for state in STATES), pod("going", is_deleting=True)])
    assert found == PodCount(existing=6, scheduled=5, gated=1, ready=2, failed=1, started_not_ready=1)


def test_a_pod_whose_gates_are_gone_is_not_gated_though_its_condition_is_late() -> None:
    assert count_pods([pod("p", "gated", gates=())]).gated == 0


def gang(*groups: tuple[str, int, list[str]], initialized: str = "True") -> PodGang:
    made = tuple(
        GangGroup(
            name=name,
            min_replicas=least,
            pod_references=tuple(NamespacedName(namespace=NS, name=each) for each in pods),
        )
        for name, least, pods in groups
    )
    conditions = (condition(names.INITIALIZED, initialized),) if initialized else ()
    return PodGang(
        metadata=ObjectMeta(name="w-0", namespace=NS),
        spec=PodGangSpec(podgroups=made),
        status=PodGangStatus(conditions=conditions),
    )


def opened(pods: list[Any], with_gang: PodGang | None) -> list[str]:
    return [each.metadata.name for each in openable_pods(pods, pclq("w-0-a"), with_gang)]


def test_a_pod_is_let_through_when_its_gang_is_initialized_and_lists_it() -> None:
    pods = [pod("x", "gated"), pod("y", "gated"), pod("z", "ready"), pod("v", "gated", is_deleting=True)]
    full = gang(("w-0-a", 1, ["x", "z", "v"]), ("w-0-b", 1, ["y"]))
    assert opened(pods, full) == ["x"]
    assert opened(pods, gang(("w-0-a", 1, ["x"]), initialized="False")) == []
    assert opened(pods, gang(("w-0-a", 1, ["x"]), initialized="")) == []
    assert opened(pods, None) == []
    assert is_initialized(full)


def test_a_scaled_gang_waits_for_the_minimum_of_its_base() -> None:
    base = gang(("a", 2, []), ("b", 1, []))
    there = {"a": pclq("a", scheduled_replicas=2), "b": pclq("b", scheduled_replicas=0)}
    assert not is_gang_scheduled(base, there)
    assert is_gang_scheduled(base, {**there, "b": pclq("b", scheduled_replicas=3)})
    with pytest.raises(LookupError, match="PodClique b of base PodGang w-0"):
        is_gang_scheduled(base, {"a": there["a"]})


def test_gates_of_others_stay() -> None:
    other = PodSchedulingGate(name="example.com/hold")
    gated = pod("p", "gated", gates=(other, PodSchedulingGate(name=names.GATE)))
    assert gates_left(gated) == (other,)


def verdicts(least: int, *, is_updating: bool = False, **count: int) -> list[tuple[str, str, str]]:
    there = PodCount(**count)
    found = (scheduled_verdict(least, there), breach_verdict(least, there, is_updating=is_updating))
    return [(each.status, each.reason, each.message) for each in found]


ENOUGH = "Sufficient scheduled pods found. expected at least: 2, found:"
FEW = "Insufficient ready or starting pods. expected at least: 2, found: 1"


@pytest.mark.parametrize(
    ("count", "scheduled", "breach"),
    [
        (
            {"scheduled": 2},
            f"{ENOUGH} 2",
            (
                "False SufficientReadyPods "
                "Either sufficient ready or starting pods found. expected at least: 2, found: 2"
            ),
        ),
        (
            {"scheduled": 1},
            "Insufficient scheduled pods. expected at least: 2, found: 1",
            "True ScheduledReplicasBelowMinAvailable Scheduled replicas (1) below MinAvailable (2)",
        ),
        ({"scheduled": 2, "failed": 1}, f"{ENOUGH} 2", f"True InsufficientReadyPods {FEW}"),
        (
            {"scheduled": 3, "failed": 1, "started_not_ready": 1},
            f"{ENOUGH} 3",
            f"True InsufficientReadyPods {FEW}",
        ),
    ],
)
def test_conditions_of_a_clique(count: dict[str, Any], scheduled: str, breach: str) -> None:
    has, found = verdicts(2, **count)
    assert has[2] == scheduled
    assert " ".join(found) == breach


def test_during_an_update_nothing_is_said_about_the_minimum() -> None:
    assert verdicts(2, is_updating=True, scheduled=0)[1] == (
        "Unknown",
        "UpdateInProgress",
        "Update is in progress",
    )
    assert group_verdict(1, 0, is_updating=True).status == "Unknown"


def test_condition_of_a_group() -> None:
    missed, met = group_verdict(2, 1, is_updating=False), group_verdict(2, 2, is_updating=False)
    assert (missed.status, missed.message) == (
        "True",
        "PCSG replicas not in breach (1) below MinAvailable (2)",
    )
    assert (met.status, met.message) == ("False", "PCSG replicas not in breach (2) meets MinAvailable (2)")


def test_what_never_started_is_not_terminated() -> None:
    def with_condition(status: str, since: Time) -> PodClique:
        return pclq("a", created=LONG_AGO, conditions=[condition(names.PODCLIQUE_SCHEDULED, status, since)])

    assert was_ever_scheduled(with_condition("True", LONG_AGO))
    assert was_ever_scheduled(with_condition("False", LATER))
    assert not was_ever_scheduled(with_condition("False", Time("2030-01-01T00:00:05Z")))
    assert not was_ever_scheduled(pclq("a"))
    breached = condition(names.MIN_AVAILABLE_BREACHED, "True", LATER)
    assert was_ever_healthy(pcsg(created=LONG_AGO, conditions=[breached]))
    assert not was_ever_healthy(pcsg(created=LATER, conditions=[breached]))


def breached(name: str, since: Time, *, is_member: int | None = None) -> PodClique:
    conditions = [
        condition(names.PODCLIQUE_SCHEDULED, "False", since),
        condition(names.MIN_AVAILABLE_BREACHED, "True", since),
    ]
    if is_member is not None:
        return member("w-0-sg", is_member, name, created=LONG_AGO, conditions=conditions)
    return pclq(name, created=LONG_AGO, conditions=conditions)


def healthy(name: str = "a") -> PodClique:
    return pclq(name, created=LONG_AGO, conditions=[condition(names.MIN_AVAILABLE_BREACHED, "False")])


def judge(groups: list[Any], cliques: list[Any], *, after: float, expected: tuple[str, ...] = ("a",)) -> Any:
    by_name = {each.metadata.name: each for each in cliques}
    return judge_replica(groups, by_name, expected, delay=10.0, now=LATER.timestamp() + after)


def test_a_replica_is_terminated_when_the_delay_is_over() -> None:
    late = judge([], [breached("a", LATER)], after=10)
    assert late.is_due
    early = judge([], [breached("a", LATER)], after=4)
    assert (early.is_due, early.wait) == (False, 6.0)
    assert judge([], [healthy()], after=99).wait is None


def test_the_first_of_several_counts() -> None:
    both = [breached("a", LATER), breached("b", Time("2030-01-01T00:30:08Z"))]
    assert judge([], both, after=9, expected=("a", "b")).wait == 1.0


def test_a_replica_that_is_incomplete_is_not_judged() -> None:
    assert judge([], [breached("a", LATER)], after=99, expected=("a", "b")).wait is None


def test_a_group_counts_unless_it_is_being_terminated() -> None:
    missed = condition(names.MIN_AVAILABLE_BREACHED, "True", LATER)
    assert judge([pcsg(created=LONG_AGO, conditions=[missed])], [healthy()], after=11).is_due
    going = condition(names.GANG_TERMINATION, "True", LATER)
    assert not judge([pcsg(created=LONG_AGO, conditions=[missed, going])], [healthy()], after=11).is_due


def judge_members(breaches: dict[int, Time], *, count: int, least: int, after: float = 11.0) -> Any:
    replicas = {index: [breached("c", since, is_member=index)] for index, since in breaches.items()}
    return judge_group(replicas, count=count, least=least, delay=10.0, now=LATER.timestamp() + after)


def test_single_replicas_of_a_group_are_terminated_while_enough_are_left() -> None:
    assert judge_members({0: LATER}, count=2, least=1).expired == (0,)
    assert judge_members({0: LATER}, count=2, least=2).expired == ()
    assert judge_members({0: LATER, 1: LATER}, count=2, least=1).expired == ()


def test_replicas_whose_delay_is_not_over_are_waited_for() -> None:
    found = judge_members({0: LATER, 1: Time("2030-01-01T00:30:05Z")}, count=4, least=1)
    assert (found.expired, found.wait) == ((0,), 4.0)


def test_replicas_that_were_scaled_away_are_not_judged() -> None:
    assert judge_members({5: LATER}, count=2, least=1).expired == ()
