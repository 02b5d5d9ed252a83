"""Whom consolidation, reclaim and preemption evict."""

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Action, Settings, action
from quarterdeck.scheduler.decision import Bind, Evict, Pipeline
from quarterdeck.scheduler.snapshot import QueueResource
from tests.unit.scheduler.schedulerscene import ALL, NOW, NS, Outcome, Scene, near, only, sub, topology

CONSOLIDATE = only(Action.CONSOLIDATION)
RECLAIM = only(Action.RECLAIM)
PREEMPT = only(Action.PREEMPT)


def nodes(*gpus: int) -> Scene:
    scene = Scene()
    for index, count in enumerate(gpus):
        scene.node(f"n{index}", count)
    return scene


class TestPreempt:
    def test_lower_priority_in_the_same_queue_gives_way(self) -> None:
        scene = nodes(2).queue("q").job("low", "q", "n0", "n0", gpu=1)
        outcome = scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low-0", "low-1"]
        assert outcome.states("a") == ["Pipelined", "Pipelined"]
        assert outcome.states("low") == ["Releasing", "Releasing"]
        assert outcome.of(Bind) == []

    @pytest.mark.parametrize(
        ("priority", "queue", "evicts"),
        [(75, "q", True), (50, "q", False), (40, "q", False), (75, "other", False)],
    )
    def test_only_strictly_lower_priority_of_the_same_queue(
        self, priority: int, queue: str, evicts: bool
    ) -> None:
        scene = nodes(1).queue("q").queue("other").job("low", queue, "n0", gpu=1)
        outcome = scene.job("a", waiting=1, gpu=1, priority=priority).run(PREEMPT)
        assert bool(outcome.evicted()) is evicts

    @pytest.mark.parametrize(
        ("fields", "evicts"),
        [
            ({"priority": 100}, False),
            ({"priority": 100, "preemptibility": "preemptible"}, True),
            ({"priority": 50, "preemptibility": "non-preemptible"}, False),
        ],
    )
    def test_what_cannot_be_preempted_stays(self, fields: dict[str, Any], evicts: bool) -> None:
        scene = nodes(1).queue("q").job("r", "q", "n0", gpu=1, **fields)
        outcome = scene.job("a", waiting=1, gpu=1, priority=125).run(PREEMPT)
        assert bool(outcome.evicted()) is evicts

    def test_the_lowest_and_youngest_goes_first(self) -> None:
        scene = nodes(4).queue("q").job("mid", "q", "n0", gpu=1, priority=50)
        scene.job("old", "q", "n0", gpu=1, priority=40).job("young", "q", "n0", gpu=1, priority=40)
        scene.job("rest", "q", "n0", gpu=1, priority=100)
        assert scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT).evicted() == ["young-0"]

    def test_only_as_many_as_needed(self) -> None:
        scene = nodes(4).queue("q")
        for index in range(4):
            scene.job(f"low{index}", "q", "n0", gpu=1)
        outcome = scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low2-0", "low3-0"]

    def test_nothing_is_evicted_unless_the_whole_gang_gets_a_place(self) -> None:
        scene = (
            nodes(3).queue("q").job("low", "q", "n0", gpu=1).job("rest", "q", "n0", "n0", gpu=1, priority=100)
        )
        assert scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT).evicted() == []

    def test_idle_room_is_used_before_victims_are(self) -> None:
        scene = nodes(4).queue("q").job("low0", "q", "n0", gpu=1).job("low1", "q", "n0", gpu=1)
        outcome = scene.job("a", waiting=3, gpu=1, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low1-0"]

    def test_victims_on_the_same_node_make_room_for_one_large_pod(self) -> None:
        scene = nodes(2, 2).queue("q")
        for index, node in enumerate(("n0", "n1", "n0", "n1")):
            scene.job(f"low{index}", "q", node, gpu=1)
        outcome = scene.job("a", waiting=1, gpu=2, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low1-0", "low3-0"]
        assert outcome["a-0"] == ("Pipelined", "n1")

    def test_a_job_does_not_evict_itself(self) -> None:
        scene = nodes(2).queue("q").group("a", least=1).pod("a", "n0", gpu=2).pod("a", gpu=1)
        assert scene.run(PREEMPT).evicted() == []

    def test_surplus_pods_go_one_by_one_the_latest_first(self) -> None:
        scene = nodes(4).queue("q").job("low", "q", "n0", "n0", "n0", "n0", gpu=1, least=1)
        assert scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT).evicted() == ["low-2", "low-3"]

    def test_a_gang_at_its_minimum_loses_everything(self) -> None:
        scene = nodes(4).queue("q").job("low", "q", "n0", "n0", "n0", "n0", gpu=1, least=3)
        outcome = scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT)
        assert len(outcome.evicted()) == 4

    def test_growth_preempts_as_well(self) -> None:
        scene = nodes(2).queue("q").job("low", "q", "n0", gpu=1)
        scene.group("a", priority=75).pod("a", "n0", gpu=1).pod("a", gpu=1)
        assert scene.run(PREEMPT).evicted() == ["low-0"]

    def test_the_whole_missing_part_of_all_subgroups_is_placed(self) -> None:
        scene = nodes(3).queue("q").job("low", "q", "n0", gpu=1)
        scene.group("a", priority=75, subgroups=(sub("l", 1), sub("w", 2)))
        for name in ("l", "w", "w"):
            scene.pod("a", gpu=1, subgroup=name)
        outcome = scene.run(PREEMPT)
        assert outcome.evicted() == ["low-0"]
        assert set(outcome.states("a")) == {"Pipelined"}

    def test_terminating_pods_are_waited_for_instead(self) -> None:
        scene = nodes(2).queue("q").job("low", "q", "n0", gpu=1)
        scene.group("gone").pod("gone", "n0", gpu=1, is_deleted=True)
        outcome = scene.job("a", waiting=1, gpu=1, priority=75).run(only(Action.ALLOCATE, Action.PREEMPT))
        assert outcome.evicted() == []
        assert outcome["a-0"] == ("Pipelined", "n0")

    def test_a_limit_holds_even_with_victims_from_the_same_queue(self) -> None:
        scene = nodes(2).queue("q", gpu=(0, 1, 1)).job("low", "q", "n0", gpu=1)
        outcome = scene.job("a", waiting=1, gpu=2, priority=75).run(PREEMPT)
        assert outcome.evicted() == []

    def test_victims_within_the_limit_make_room_in_it(self) -> None:
        scene = nodes(2).queue("q", gpu=(0, 1, 1)).job("low", "q", "n0", gpu=1)
        assert scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT).evicted() == ["low-0"]

    def test_pods_without_gpus_preempt_each_other(self) -> None:
        scene = Scene().node("n0", cpu=2).queue("q").job("low", "q", "n0", "n0")
        outcome = scene.job("a", waiting=1, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low-0", "low-1"]

    def test_a_victim_in_a_required_domain_is_chosen(self) -> None:
        scene = Scene().queue("q").node("n0", 3, labels={"rack": "r0"}).node("n1", 2, labels={"rack": "r1"})
        scene.extra = topology("rack")
        for index, node in enumerate(("n0", "n0", "n0", "n1", "n1")):
            scene.job(f"low{index}", "q", node, gpu=1)
        outcome = scene.job("a", waiting=3, gpu=1, priority=75, topology_constraint=near("rack")).run(PREEMPT)
        assert {outcome[f"a-{index}"][1] for index in range(3)} == {"n0"}
        # The oldest find room in the other rack again; the youngest are lost.
        assert [outcome[f"low{index}-0"][0] for index in range(5)] == ["Pipelined"] * 2 + ["Releasing"] * 3


class TestMoving:
    def test_a_victim_that_finds_another_place_is_moved(self) -> None:
        scene = nodes(2, 1).queue("q").job("low", "q", "n0", gpu=1)
        outcome = scene.job("a", waiting=1, gpu=2, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low-0"]
        assert outcome["low-0"] == ("Pipelined", "n1")
        assert outcome["a-0"] == ("Pipelined", "n0")

    def test_a_victim_that_finds_its_own_place_stays(self) -> None:
        scene = nodes(2).queue("q").job("low0", "q", "n0", gpu=1).job("low1", "q", "n0", gpu=1, created=9.0)
        outcome = scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT)
        assert outcome.evicted() == ["low1-0"]
        assert outcome["low0-0"] == ("Running", "n0")

    def test_decisions_come_as_evictions_and_promises(self) -> None:
        scene = nodes(2, 1).queue("q").job("low", "q", "n0", gpu=1)
        outcome = scene.job("a", waiting=1, gpu=2, priority=75).run(PREEMPT)
        kinds = [type(each) for each in outcome.decisions]
        assert kinds.count(Evict) == 1
        assert kinds.count(Pipeline) == 2

    def test_those_who_wait_with_more_right_keep_the_place_from_being_wasted(self) -> None:
        # What is reclaimed would go to the job of the starved queue in the next cycle: nobody gains.
        scene = (
            nodes(1).queue("rich", gpu=(0, -1, 1)).queue("poor", gpu=(0, -1, 1)).job("r", "rich", "n0", gpu=1)
        )
        outcome = scene.job("a", "poor", waiting=1, gpu=1).run(RECLAIM)
        assert outcome.evicted() == []


class TestConsolidation:
    def scattered(self, **fields: Any) -> Scene:
        """Two nodes with one free GPU each."""
        return (
            nodes(2, 2).queue("q").job("x", "q", "n0", gpu=1, **fields).job("y", "q", "n1", gpu=1, **fields)
        )

    def test_pods_are_moved_together(self) -> None:
        outcome = self.scattered().job("a", waiting=1, gpu=2).run(CONSOLIDATE)
        assert outcome.evicted() == ["y-0"]
        assert outcome["y-0"] == ("Pipelined", "n0")
        assert outcome["a-0"] == ("Pipelined", "n1")

    def test_pods_of_any_queue_and_priority_are_moved(self) -> None:
        scene = self.scattered(priority=75).queue("other")
        assert scene.job("a", "other", waiting=1, gpu=2, priority=40).run(CONSOLIDATE).evicted() == ["y-0"]

    def test_nobody_is_moved_for_a_job_that_cannot_be_preempted(self) -> None:
        assert self.scattered().job("a", waiting=1, gpu=2, priority=100).run(CONSOLIDATE).evicted() == []

    def test_those_that_cannot_be_preempted_are_not_moved(self) -> None:
        assert self.scattered(priority=100).job("a", waiting=1, gpu=2).run(CONSOLIDATE).evicted() == []

    def test_nobody_may_lose(self) -> None:
        scene = nodes(2, 2).queue("q").job("x", "q", "n0", gpu=1).job("y", "q", "n1", "n1", gpu=1)
        outcome = scene.job("a", waiting=1, gpu=2).run(CONSOLIDATE)
        assert outcome.evicted() == []

    def test_a_gang_larger_than_what_is_free_is_not_tried(self) -> None:
        assert self.scattered().job("a", waiting=3, gpu=1).run(CONSOLIDATE).evicted() == []

    def test_zero_turns_it_off(self) -> None:
        scene = self.scattered().job("a", waiting=1, gpu=2)
        assert scene.run(only(Action.CONSOLIDATION, max_consolidation_preemptees=0)).evicted() == []

    @pytest.mark.parametrize(("most", "moves"), [(1, False), (2, True), (-1, True)])
    def test_at_most_so_many_jobs_are_looked_at(self, most: int, moves: bool) -> None:
        scene = nodes(3, 3, 2).queue("q").job("x", "q", "n0", gpu=2)
        scene.job("y0", "q", "n1", gpu=1).job("y1", "q", "n1", gpu=1).job("z", "q", "n2", gpu=1, priority=100)
        scene.job("a", waiting=1, gpu=3)
        outcome = scene.run(only(Action.CONSOLIDATION, max_consolidation_preemptees=most))
        assert bool(outcome.evicted()) is moves

    def test_a_gang_is_moved_as_a_whole(self) -> None:
        scene = nodes(4, 4).queue("q").job("x", "q", "n0", "n0", gpu=1).job("y", "q", "n1", "n1", gpu=1)
        assert scene.job("a", waiting=1, gpu=4).run(CONSOLIDATE).evicted() == ["y-0", "y-1"]

    def test_it_runs_before_reclaim_and_preempt(self) -> None:
        outcome = self.scattered().job("a", waiting=1, gpu=2, priority=75).run(ALL)
        assert {each.action for each in outcome.of(Evict)} == {Action.CONSOLIDATION}


class TestMinRuntime:
    def scene(self, age: float, **fields: Any) -> Scene:
        """A job that started so long ago, and one that would take its place."""
        scene = nodes(2).queue("root", gpu=(-1, -1, 1)).queue("q", "root", **fields)
        scene.job("low", "q", "n0", "n0", gpu=1, last_start=NOW - age)
        return scene.job("a", waiting=1, gpu=1, priority=75)

    @pytest.mark.parametrize(("age", "evicts"), [(59, False), (60, True), (61, True)])
    def test_a_job_is_protected_until_it_ran_long_enough(self, age: float, evicts: bool) -> None:
        assert bool(self.scene(age, preempt_min_runtime=60.0).run(PREEMPT).evicted()) is evicts

    def test_a_job_without_a_start_is_not_protected(self) -> None:
        scene = nodes(1).queue("q", preempt_min_runtime=60.0).job("low", "q", "n0", gpu=1)
        assert scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT).evicted() == ["low-0"]

    def test_the_default_counts_where_no_queue_says_otherwise(self) -> None:
        assert self.scene(10).run(only(Action.PREEMPT, preempt_min_runtime=60)).evicted() == []

    def test_a_queue_overrules_its_parent_and_the_default(self) -> None:
        settings = only(Action.PREEMPT, preempt_min_runtime=60)
        assert self.scene(10, preempt_min_runtime=0.0).run(settings).evicted() != []

    def test_a_parent_is_asked_when_the_queue_says_nothing(self) -> None:
        scene = nodes(1).queue("root", preempt_min_runtime=60.0).queue("q", "root")
        scene.job("low", "q", "n0", gpu=1, last_start=NOW - 10)
        assert scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT).evicted() == []

    def test_an_elastic_job_may_lose_its_surplus(self) -> None:
        scene = nodes(3).queue("q", preempt_min_runtime=60.0)
        scene.job("low", "q", "n0", "n0", "n0", gpu=1, least=2, last_start=NOW - 10)
        assert scene.job("a", waiting=1, gpu=1, priority=75).run(PREEMPT).evicted() == ["low-2"]
        scene = nodes(3).queue("q", preempt_min_runtime=60.0)
        scene.job("low", "q", "n0", "n0", "n0", gpu=1, least=2, last_start=NOW - 10)
        assert scene.job("a", waiting=2, gpu=1, priority=75).run(PREEMPT).evicted() == []

    def test_consolidation_knows_no_protection(self) -> None:
        scene = nodes(2, 2).queue("q", preempt_min_runtime=60.0, reclaim_min_runtime=60.0)
        for index in range(2):
            scene.job(f"x{index}", "q", f"n{index}", gpu=1, last_start=NOW)
        assert scene.job("a", waiting=1, gpu=2).run(CONSOLIDATE).evicted() == ["x1-0"]

    def reclaim(self, method: str, **runtimes: float) -> list[str]:
        """A victim in ``root/left/victim``, a reclaimer in ``root/right/mine``."""
        scene = nodes(1)
        for name, parent, quota in (
            ("root", "", -1),
            ("left", "root", 0),
            ("victim", "left", 0),
            ("right", "root", 1),
            ("mine", "right", 1),
        ):
            scene.queue(name, parent, (quota, -1, 0), reclaim_min_runtime=runtimes.get(name))
        scene.job("low", "victim", "n0", gpu=1, last_start=NOW - 10).job("a", "mine", waiting=1, gpu=1)
        return scene.run(only(Action.RECLAIM, reclaim_resolve_method=method)).evicted()

    @pytest.mark.parametrize(
        ("method", "runtimes", "evicts"),
        [
            ("lca", {}, True),
            ("lca", {"left": 60.0}, False),
            ("lca", {"victim": 60.0}, True),
            ("lca", {"root": 60.0}, False),
            ("lca", {"root": 60.0, "left": 0.0}, True),
            ("lca", {"right": 60.0, "mine": 60.0}, True),
            ("queue", {"victim": 60.0}, False),
            ("queue", {"victim": 0.0, "left": 60.0}, True),
            ("queue", {"left": 60.0}, False),
        ],
    )
    def test_reclaim_asks_the_queue_where_the_two_part(
        self, method: str, runtimes: dict[str, Any], evicts: bool
    ) -> None:
        assert bool(self.reclaim(method, **runtimes)) is evicts

    def test_queues_with_different_roots_part_at_the_root(self) -> None:
        for runtime, evicted in ((60.0, []), (0.0, ["low-0"])):
            scene = nodes(1).queue("root", gpu=(0, -1, 0), reclaim_min_runtime=runtime)
            scene.queue("victim", "root", (0, -1, 0), reclaim_min_runtime=30.0).queue("mine", gpu=(1, -1, 0))
            scene.job("low", "victim", "n0", gpu=1, last_start=NOW - 10).job("a", "mine", waiting=1, gpu=1)
            assert scene.run(RECLAIM).evicted() == evicted

    def test_the_default_of_reclaim(self) -> None:
        scene = nodes(1).queue("v", gpu=(0, -1, 0)).queue("mine", gpu=(1, -1, 0))
        scene.job("low", "v", "n0", gpu=1, last_start=NOW - 10).job("a", "mine", waiting=1, gpu=1)
        assert scene.run(RECLAIM).evicted() == ["low-0"]
        assert scene.run(only(Action.RECLAIM, reclaim_min_runtime=60)).evicted() == []


class TestMessages:
    def evict(self, outcome: Outcome, count: int = 1) -> Evict:
        found = outcome.of(Evict)
        assert len(found) == count
        assert all(each.evicted_pods == count for each in found)
        assert isinstance(found[0], Evict)
        return found[0]

    def test_preemption(self) -> None:
        scene = nodes(2).queue("q").job("low", "q", "n0", "n0", gpu=1).job("a", waiting=2, gpu=1, priority=75)
        evict = self.evict(scene.run(PREEMPT), 2)
        assert evict.message == f"Pod {evict.pod} was preempted by higher priority workload {NS}/a"
        assert (evict.pod_group, evict.preemptor, evict.action) == (
            Key(NS, "low"),
            Key(NS, "a"),
            Action.PREEMPT,
        )
        assert evict.node == "n0"

    def test_consolidation(self) -> None:
        scene = nodes(2, 2).queue("q").job("x", "q", "n0", gpu=1).job("y", "q", "n1", gpu=1)
        evict = self.evict(scene.job("a", waiting=1, gpu=2).run(CONSOLIDATE))
        assert evict.message == (
            f"Pod {NS}/y-0 was preempted and rescheduled due to bin packing "
            "(resource consolidation) procedure"
        )

    def test_reclaim_tells_the_accounts_of_both_queues(self) -> None:
        scene = nodes(2).queue("v", gpu=(0, -1, 0), display_name="Victims")
        scene.queue("mine", gpu=(1, -1, 0), priority=200, cpu=QueueResource(2500, -1, 1))
        scene.job("x", "v", "n0", "n0", gpu=1, least=1).job("a", "mine", waiting=1, gpu=1)
        evict = self.evict(scene.run(RECLAIM))
        assert evict.message == (
            f"Pod {NS}/x-1 was preempted by workload {NS}/a.\n"
            "Victims uses <GPU: 2, CPU: 2 (cores), memory: 2.147 (GB)> with a quota of "
            "<GPU: 0, CPU: Unlimited (cores), memory: Unlimited (GB)>, fair-share of "
            "<GPU: 0, CPU: 2 (cores), memory: 2.147 (GB)> and queue priority of <100>.\n"
            "mine uses <GPU: 0, CPU: 0 (cores), memory: 0 (GB)> with a quota of "
            "<GPU: 1, CPU: 2.5 (cores), memory: Unlimited (GB)>, fair-share of "
            "<GPU: 1, CPU: 1 (cores), memory: 1.073 (GB)> and queue priority of <200>."
        )


class TestRepeated:
    def test_equal_jobs_are_not_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searches = self.searches(monkeypatch, Settings(actions=(Action.PREEMPT,)))
        assert searches == ["a0"]

    def test_unless_that_is_switched_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        searches = self.searches(monkeypatch, only(Action.PREEMPT))
        assert searches == ["a0", "a1", "a2", "a3"]

    def searches(self, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[str]:
        """Four jobs of growing size that find no victims."""
        seen = []

        class Search:
            def __init__(self, *_: object, job: Any, **__: Any) -> None:
                self.job = job

            def run(self) -> bool:
                seen.append(self.job.key.name)
                return False

        monkeypatch.setattr(action, "VictimSearch", Search)
        scene = nodes(1).queue("q").job("r", "q", "n0", gpu=1)
        for index in range(4):
            scene.job(f"a{index}", waiting=1 + index, gpu=1, priority=75)
        scene.run(settings)
        return seen

    def test_a_smaller_job_is_tried_after_a_larger_one_failed(self) -> None:
        scene = (
            nodes(1, 2).queue("q").job("low", "q", "n0", gpu=1).job("r", "q", "n1", "n1", gpu=1, priority=100)
        )
        scene.job("large", waiting=1, gpu=2, priority=75).job("small", waiting=1, gpu=1, priority=75)
        assert scene.run(Settings(actions=(Action.PREEMPT,))).evicted() == ["low-0"]

    def test_a_job_with_other_constraints_is_tried(self) -> None:
        scene = nodes(2).queue("q").job("low", "q", "n0", "n0", gpu=1)
        scene.extra = topology("rack")
        scene.job("a", waiting=1, gpu=1, priority=75, topology_constraint=near("rack"))
        scene.job("b", waiting=1, gpu=1, priority=75)
        assert scene.run(Settings(actions=(Action.PREEMPT,))).evicted() != []

    def test_a_queue_depth_bounds_what_an_action_tries(self) -> None:
        def scene() -> Scene:
            made = nodes(3).queue("q")
            for index in range(3):
                made.job(f"low{index}", "q", "n0", gpu=1)
            for index in range(3):
                made.job(f"a{index}", waiting=1, gpu=1, priority=75)
            return made

        assert len(scene().run(PREEMPT).evicted()) == 3
        assert len(scene().run(only(Action.PREEMPT, queue_depth=((Action.PREEMPT, 2),))).evicted()) == 2
        assert len(scene().run(only(Action.PREEMPT, queue_depth=((Action.RECLAIM, 1),))).evicted()) == 3


def test_a_pod_that_this_cycle_gave_a_node_only_waits_again() -> None:
    scene = nodes(2).queue("q", gpu=(2, -1, 0)).queue("other", gpu=(0, -1, 1)).job("r", "other", "n0", gpu=1)
    scene.job("small", "other", waiting=1, gpu=1).job("a", "q", waiting=2, gpu=1)
    assert scene.run(only(Action.ALLOCATE))["small-0"] == ("Allocated", "n0")
    outcome = scene.run(only(Action.ALLOCATE, Action.RECLAIM))
    assert outcome.states("a") == ["Pipelined", "Pipelined"]
    assert outcome.evicted() == ["r-0"]
    assert outcome["small-0"] == ("Pending", "")
    assert outcome.of(Bind) == []
