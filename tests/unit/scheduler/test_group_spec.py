"""What a pod group says about itself: delays, grace periods, subgroups that nobody waits for."""

from typing import Any

from quarterdeck.scheduler import Action
from quarterdeck.scheduler.decision import ClearUnschedulable, Evict, SetLastEviction
from quarterdeck.scheduler.snapshot import SchedulingConditionInfo

from .schedulerscene import ALL, NOW, Scene, only, sub


def full_node(**waiting: Any) -> Scene:
    """A node that a job of low priority fills, and one of high priority that waits."""
    scene = Scene().node("n0", 1).queue("q").job("low", "q", "n0", gpu=1)
    return scene.job("high", waiting=1, gpu=1, priority=75, **waiting)


class TestPreemptionDelay:
    def test_nobody_is_evicted_before_it_is_over(self) -> None:
        outcome = full_node(created=NOW - 60, preemption_delay=61.0).run()
        assert outcome.of(Evict) == []
        assert outcome.message("high").endswith(
            "Workload is within its preemption delay window (1m1s) and may not trigger evictions "
            "before 1970-01-01T02:46:41Z."
        )
        assert len(full_node(created=NOW - 60, preemption_delay=60.0).run().of(Evict)) == 1

    def test_it_counts_anew_when_the_group_itself_was_evicted(self) -> None:
        scene = full_node(created=NOW - 60, preemption_delay=60.0, last_eviction=NOW - 5)
        assert scene.run().of(Evict) == []

    def test_free_room_is_taken_at_once(self) -> None:
        scene = Scene().node("n0", 1).queue("q").job("a", waiting=1, gpu=1, preemption_delay=600.0)
        assert scene.run()["a-0"][0] == "Allocated"

    def test_an_eviction_is_written_down_once_for_each_group(self) -> None:
        scene = Scene().node("n0", 2).queue("q").job("low", "q", "n0", "n0", gpu=1)
        outcome = scene.job("high", waiting=2, gpu=1, priority=75).run()
        assert len(outcome.of(Evict)) == 2
        assert [(each.pod_group.name, each.time) for each in outcome.of(SetLastEviction)] == [("low", NOW)]


class TestStalenessGracePeriod:
    def test_that_of_the_group_counts_before_that_of_the_settings(self) -> None:
        def evicted(own: float | None, grace: float) -> int:
            scene = (
                Scene()
                .node("n0", 1)
                .queue("q")
                .group("a", least=2, stale_since=NOW - 30, staleness_grace_period=own)
            )
            scene.pod("a", "n0", gpu=1)
            settings = only(Action.STALE_GANG_EVICTION, staleness_grace_period=grace)
            return len(scene.run(settings).of(Evict))

        assert evicted(None, 30) == evicted(30.0, 600) == evicted(0.0, -1) == 1
        assert evicted(None, 31) == evicted(31.0, 0) == evicted(-1.0, 0) == 0


class TestSubgroupThatNobodyWaitsFor:
    def scene(self, gpus: int) -> Scene:
        parts = (sub("main", 1), sub("more", is_optional=True))
        scene = Scene().node("n0", gpus).queue("q").group("a", subgroups=parts)
        return scene.pod("a", gpu=1, subgroup="more").pod("a", gpu=1, subgroup="main")

    def test_it_starts_last_and_only_if_there_is_room(self) -> None:
        outcome = self.scene(1).run()
        assert (outcome["a-1"][0], outcome["a-0"][0]) == ("Allocated", "Pending")
        outcome = self.scene(2).run()
        assert outcome.states("a") == ["Allocated", "Allocated"]

    def test_it_is_not_missed(self) -> None:
        scene = Scene().node("n0", 1).queue("q")
        scene.group("a", subgroups=(sub("main", 1), sub("more", is_optional=True)))
        outcome = scene.pod("a", gpu=1, subgroup="main").run(ALL)
        assert outcome["a-0"][0] == "Allocated"


class TestConditionThatNoLongerHolds:
    OLD = (SchedulingConditionInfo(type="UnschedulableOnNodePool", node_pool="default"),)

    def test_it_is_cleared_when_all_pods_are_bound(self) -> None:
        scene = Scene().node("n0", 2).queue("q").job("a", "q", "n0", gpu=1, scheduling_conditions=self.OLD)
        scene.job("new", "q", "n0", gpu=1)
        assert [each.pod_group.name for each in scene.run().of(ClearUnschedulable)] == ["a"]

    def test_it_is_kept_while_a_pod_waits_or_is_about_to_be_bound(self) -> None:
        for gpus in (0, 1):
            scene = Scene().node("n0", gpus).queue("q")
            scene.job("a", waiting=1, gpu=1, scheduling_conditions=self.OLD)
            assert scene.run().of(ClearUnschedulable) == []


class TestPodThatTerminatesForTooLong:
    def state(self, age: float, **more: Any) -> str:
        scene = Scene().node("n0", 1).queue("q").group("old")
        scene.pod("old", "n0", gpu=1, is_deleted=True, deleted=NOW - age, **more)
        return scene.job("a", waiting=1, gpu=1).run()["a-0"][0]

    def test_nobody_is_promised_its_room(self) -> None:
        assert self.state(120) == "Pipelined"
        assert self.state(121) == "Pending"

    def test_one_that_never_ran_is_waited_for(self) -> None:
        assert self.state(500, phase="Pending") == "Pipelined"
