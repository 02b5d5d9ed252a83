"""Every invariant of the case language accepts what keeps it and tells what breaks it."""

from typing import Any

import pytest

from tests.harness.kai.casecluster import Observed
from tests.harness.kai.invariant import (
    INVARIANTS,
    History,
    domains_hold,
    fixed_pods_stay,
    gangs_are_whole,
    gangs_start_whole,
    limits_hold,
    nobody_waits_in_vain,
    nodes_hold,
    nothing_changes,
    quotas_hold,
    request_of,
)

WAITS = Observed("Pending")
LEAVES = Observed("Releasing", "n0")
IDLE = {"a": WAITS, "b": WAITS}


def on(node: str) -> Observed:
    return Observed("Bound", node)


def shares(quota: float, limit: float) -> dict[str, float]:
    return {"quota": quota, "limit": limit, "overQuotaWeight": 1}


def history(*seen: dict[str, Observed], state: str = "Pending", gpu: float = 1, **group: Any) -> History:
    """Two nodes of two GPUs in two racks, a group with pods ``a`` and ``b``, and what was seen of them."""
    made = History(
        {
            "nodes": [{"name": f"n{i}", "gpus": 2, "labels": {"zone": "z", "rack": f"r{i}"}} for i in (0, 1)],
            "queues": [
                {"name": "root", "gpu": shares(2, 3)},
                {"name": "q", "parentQueue": "root", "gpu": shares(3, -1)},
            ],
            "topologies": [{"name": "t", "levels": ["zone", "rack"]}],
            "podGroups": [{"name": "g", "queue": "q", "priority": 50, **group}],
            "pods": [{"name": name, "podGroup": "g", "state": state, "gpu": gpu} for name in "ab"],
        }
    )
    made.seen.extend(seen)
    return made


def test_requests_are_in_the_units_of_queues() -> None:
    assert request_of({"gpu": 2}) == (1000, 10**9, 2)
    assert request_of({"cpu": "250m", "memory": "2M", "gpuFraction": 0.5}) == (250, 2 * 10**6, 0.5)
    assert request_of({"bestEffort": True, "gpuFraction": 0.5}) == (0, 0, 0.5)


class TestNodes:
    def test_a_full_node_holds(self) -> None:
        assert list(nodes_hold(history({"a": on("n0"), "b": on("n0")}))) == []

    @pytest.mark.parametrize("other", [on("n0"), LEAVES])
    def test_pods_that_leave_take_room_too(self, other: Observed) -> None:
        (problem,) = nodes_hold(history({"a": WAITS, "b": WAITS}, {"a": on("n0"), "b": other}, gpu=1.5))
        assert problem.startswith("cycle 1: n0 holds")

    def test_slots_count(self) -> None:
        made = history({"a": on("n0"), "b": on("n0")})
        made.nodes["n0"]["pods"] = 1
        (problem,) = nodes_hold(made)
        assert "in 2 pods" in problem


class TestQueues:
    def test_the_limit_of_an_ancestor_counts(self) -> None:
        assert list(limits_hold(history({"a": on("n0"), "b": WAITS}, gpu=2))) == []
        (problem,) = limits_hold(history({"a": on("n0"), "b": on("n1")}, gpu=2))
        assert problem.startswith("cycle 0: root has")

    def test_quotas_bind_only_what_cannot_be_preempted(self) -> None:
        both = {"a": on("n0"), "b": on("n1")}
        assert list(quotas_hold(history(both, gpu=2))) == []
        assert len(list(quotas_hold(history(both, gpu=2, priority=100)))) == 2
        assert list(quotas_hold(history(both, gpu=2, priority=100, preemptibility="preemptible"))) == []

    def test_a_queue_that_does_not_exist_has_nothing(self) -> None:
        made = history({"a": WAITS, "b": WAITS}, queue="ghost")
        assert list(limits_hold(made)) == []
        assert list(made.chain("ghost")) == []


class TestEvictions:
    def test_fixed_pods_stay(self) -> None:
        seen = ({"a": on("n0"), "b": WAITS}, {"a": LEAVES, "b": WAITS})
        assert list(fixed_pods_stay(history(*seen))) == []
        assert list(fixed_pods_stay(history(*seen, priority=100))) == ["cycle 1: a was evicted"]

    def test_so_do_those_that_ran_before(self) -> None:
        (problem, _) = fixed_pods_stay(history({"a": LEAVES, "b": LEAVES}, state="Running", priority=100))
        assert problem == "cycle 0: a was evicted"


class TestGangs:
    @pytest.mark.parametrize(
        ("bound", "is_whole"), [([], True), (["a"], False), (["a", "b"], True)], ids=["none", "some", "all"]
    )
    def test_all_or_none(self, bound: list[str], is_whole: bool) -> None:
        final = {name: on("n0") if name in bound else WAITS for name in "ab"}
        assert (list(gangs_are_whole(history(final, minMember=2))) == []) is is_whole

    def test_every_leaf_counts_and_parents_do_not(self) -> None:
        groups = [{"name": "p", "minMember": 9}, {"name": "x", "parent": "p"}, {"name": "y", "minMember": 1}]
        made = history({"a": on("n0"), "b": WAITS}, subGroups=groups)
        made.pods["a"]["subGroup"], made.pods["b"]["subGroup"] = "x", "y"
        assert list(gangs_are_whole(made)) == ["g runs {'x': 1, 'y': 0} of {'x': 1, 'y': 1}"]

    def test_the_state_after_the_stable_cycles_is_final(self) -> None:
        made = history({"a": on("n0"), "b": WAITS}, minMember=2)
        made.stable.append({"a": WAITS, "b": WAITS})
        assert list(gangs_are_whole(made)) == []


class TestDomains:
    @pytest.mark.parametrize(("level", "holds"), [("zone", True), ("rack", False)])
    def test_pods_share_a_domain_of_the_required_level(self, level: str, holds: bool) -> None:
        constraint = {"topology": "t", "requiredTopologyLevel": level}
        made = history({"a": on("n0"), "b": on("n1")}, topologyConstraint=constraint)
        assert (list(domains_hold(made)) == []) is holds

    def test_a_preference_binds_nobody(self) -> None:
        constraint = {"topology": "t", "preferredTopologyLevel": "rack"}
        made = history({"a": on("n0"), "b": on("n1")}, topologyConstraint=constraint)
        assert list(domains_hold(made)) == []


class TestRest:
    def test_changes_are_told(self) -> None:
        made = history()
        made.stable += [{"a": on("n0"), "b": WAITS}, {"a": on("n0"), "b": WAITS}, {"a": on("n1"), "b": WAITS}]
        (problem,) = nothing_changes(made)
        assert problem.startswith("stable cycle 1: a was")


class TestWaiting:
    def test_a_gang_that_would_fit_must_not_wait(self) -> None:
        (problem,) = nobody_waits_in_vain(history(IDLE, minMember=2))
        assert problem.startswith("g waits although 2 pods")

    @pytest.mark.parametrize(
        "why",
        [
            {"gpu": 3},
            {"gpu": 2, "minMember": 2},  # the limit of the root
            {"gpu": 1.5, "minMember": 2, "priority": 100},  # its quota
            {"minMember": 3},  # not ready
            {"topologyConstraint": {"topology": "t", "preferredTopologyLevel": "rack"}},
        ],
        ids=["no room", "limit", "quota", "not ready", "topology"],
    )
    def test_others_may(self, why: dict[str, Any]) -> None:
        assert list(nobody_waits_in_vain(history(IDLE, **why))) == []

    def test_a_gang_that_has_begun_is_left_alone(self) -> None:
        assert list(nobody_waits_in_vain(history({"a": on("n0"), "b": WAITS}))) == []

    def test_gated_pods_do_not_count(self) -> None:
        made = history(IDLE, minMember=2)
        made.pods["b"]["gated"] = True
        assert list(nobody_waits_in_vain(made)) == []


class TestGangsStart:
    def torn(self, before: dict[str, Observed], after: dict[str, Observed]) -> list[str]:
        made = history(after, minMember=2)
        made.before.append(before)
        return list(gangs_start_whole(made))

    def test_a_gang_starts_with_its_minimum_or_not_at_all(self) -> None:
        assert self.torn(IDLE, IDLE) == []
        assert self.torn(IDLE, {"a": on("n0"), "b": on("n1")}) == []

    def test_a_gang_that_starts_below_its_minimum_is_told(self) -> None:
        (problem,) = self.torn(IDLE, {"a": on("n0"), "b": WAITS})
        assert problem == "cycle 0: g started with {'default': 1} of {'default': 2}"

    def test_a_gang_that_ran_before_may_be_below_its_minimum(self) -> None:
        assert self.torn({"a": on("n0"), "b": WAITS}, {"a": on("n0"), "b": WAITS}) == []

    def test_pods_that_leave_are_not_bound(self) -> None:
        assert self.torn(IDLE, {"a": LEAVES, "b": WAITS}) == []

    def test_every_leaf_counts(self) -> None:
        made = history({"a": on("n0"), "b": WAITS}, subGroups=[{"name": "x"}, {"name": "y"}])
        made.pods["a"]["subGroup"], made.pods["b"]["subGroup"] = "x", "y"
        made.before.append(IDLE)
        (problem,) = gangs_start_whole(made)
        assert "{'x': 1, 'y': 0} of {'x': 1, 'y': 1}" in problem


def test_every_statement_is_about_something_of_its_own() -> None:
    assert len(set(INVARIANTS.values())) == len(INVARIANTS) == 9
