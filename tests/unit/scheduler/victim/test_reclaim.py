"""When a queue may take resources back from others."""

from typing import Any

import pytest

from quarterdeck.scheduler import Action, Settings
from quarterdeck.scheduler.model.queue import QueueState, build_queues
from quarterdeck.scheduler.snapshot import QueueInfo, QueueResource
from quarterdeck.scheduler.victim.reclaim import parting
from tests.unit.scheduler.schedulerscene import Scene, only, sub

RECLAIM = only(Action.RECLAIM)


def contest(
    mine: tuple[float, float, float],
    theirs: tuple[float, float, float],
    *,
    total: int = 4,
    runs: int = 4,
    wants: int = 1,
    **more: Any,
) -> Scene:
    """Queue ``theirs`` runs single pods on all GPUs; queue ``mine`` wants some."""
    scene = Scene().node("n0", total).queue("theirs", gpu=theirs).queue("mine", gpu=mine)
    for index in range(runs):
        scene.job(f"r{index}", "theirs", "n0", gpu=1)
    return scene.job("a", "mine", waiting=wants, gpu=1, **more)


class TestWho:
    def test_within_its_quota_a_queue_takes_back(self) -> None:
        assert contest((2, -1, 0), (2, -1, 0), wants=2).run(RECLAIM).evicted() == ["r2-0", "r3-0"]

    def test_beyond_its_fair_share_it_does_not(self) -> None:
        assert contest((2, -1, 0), (2, -1, 0), wants=3).run(RECLAIM).evicted() == []

    def test_over_quota_shares_are_taken_back_as_well(self) -> None:
        assert contest((0, -1, 1), (0, -1, 1), wants=2).run(RECLAIM).evicted() == ["r2-0", "r3-0"]

    def test_from_a_queue_within_its_quota_nothing_is_taken(self) -> None:
        assert contest((2, -1, 0), (4, -1, 0), wants=2).run(RECLAIM).evicted() == []

    def test_jobs_of_the_own_queue_are_no_victims(self) -> None:
        scene = (
            Scene()
            .node("n0", 2)
            .queue("mine", gpu=(2, -1, 0))
            .job("r", "mine", "n0", "n0", gpu=1, priority=40)
        )
        assert scene.job("a", "mine", waiting=1, gpu=1, priority=125).run(RECLAIM).evicted() == []

    def test_priority_does_not_matter_between_queues(self) -> None:
        scene = contest((2, -1, 0), (2, -1, 0), priority=40)
        assert scene.run(RECLAIM).evicted() == ["r3-0"]

    def test_non_preemptible_jobs_are_no_victims(self) -> None:
        scene = Scene().node("n0", 1).queue("theirs", gpu=(1, -1, 0)).queue("mine", gpu=(1, -1, 0))
        scene.job("r", "theirs", "n0", gpu=1, priority=100).job("a", "mine", waiting=1, gpu=1)
        assert scene.run(RECLAIM).evicted() == []

    @pytest.mark.parametrize(("quota", "evicts"), [(1, True), (0, False)])
    def test_a_job_that_cannot_be_preempted_stays_within_quota(self, quota: int, evicts: bool) -> None:
        outcome = contest((quota, -1, 1), (0, -1, 1), priority=100).run(RECLAIM)
        assert bool(outcome.evicted()) is evicts

    def test_all_resources_must_be_within_the_fair_share(self) -> None:
        scene = Scene().node("n0", 2).queue("theirs", gpu=(0, -1, 0))
        scene.queue("mine", gpu=(2, -1, 0), cpu=QueueResource(0, -1, 0))
        scene.job("r", "theirs", "n0", gpu=2).job("a", "mine", waiting=1, gpu=1)
        assert scene.run(RECLAIM).evicted() == []

    def test_what_the_queue_has_counts(self) -> None:
        scene = Scene().node("n0", 4).queue("theirs", gpu=(2, -1, 0)).queue("mine", gpu=(2, -1, 0))
        for index in range(3):
            scene.job(f"r{index}", "theirs", "n0", gpu=1)
        scene.job("has", "mine", "n0", gpu=1).job("a", "mine", waiting=2, gpu=1)
        assert scene.run(RECLAIM).evicted() == []
        scene.groups.pop()
        scene.pods = [pod for pod in scene.pods if pod.pod_group != "a"]
        assert scene.job("a", "mine", waiting=1, gpu=1).run(RECLAIM).evicted() == ["r2-0"]


class TestBlocks:
    def test_surplus_counts_pod_by_pod(self) -> None:
        # Only one pod is above the share; the second must not go.
        scene = Scene().node("n0", 4).queue("theirs", gpu=(3, -1, 0)).queue("mine", gpu=(1, -1, 0))
        scene.job("r", "theirs", "n0", "n0", "n0", "n0", gpu=1, least=1).job("a", "mine", waiting=1, gpu=1)
        assert scene.run(RECLAIM).evicted() == ["r-3"]

    def test_a_gang_goes_as_one_block_even_if_it_is_partly_within_the_share(self) -> None:
        scene = Scene().node("n0", 4).queue("theirs", gpu=(3, -1, 0)).queue("mine", gpu=(1, -1, 0))
        scene.job("r", "theirs", *["n0"] * 4, gpu=1).job("a", "mine", waiting=1, gpu=1)
        assert len(scene.run(RECLAIM).evicted()) == 4

    def test_a_queue_is_not_pushed_below_its_share_by_further_blocks(self) -> None:
        # r1 is above the share; when it is gone r0 is within it.
        scene = contest((2, -1, 0), (1, -1, 0), total=2, runs=2, wants=2)
        assert scene.run(RECLAIM).evicted() == []

    def test_several_queues_lose_together(self) -> None:
        scene = Scene().node("n0", 4).queue("mine", gpu=(2, -1, 0))
        for name in ("x", "y"):
            scene.queue(name, gpu=(1, -1, 0))
            for index in range(2):
                scene.job(f"{name}{index}", name, "n0", gpu=1)
        outcome = scene.job("a", "mine", waiting=2, gpu=1).run(RECLAIM)
        assert outcome.evicted() == ["x1-0", "y1-0"]

    def test_pods_that_are_moved_do_not_count(self) -> None:
        scene = (
            Scene().node("n0", 2).node("n1", 1).queue("theirs", gpu=(1, -1, 0)).queue("mine", gpu=(2, -1, 0))
        )
        scene.job("r", "theirs", "n0", gpu=1).job("a", "mine", waiting=1, gpu=2)
        outcome = scene.run(RECLAIM)
        assert outcome["r-0"] == ("Pipelined", "n1")
        assert outcome.evicted() == ["r-0"]

    def test_unless_that_is_switched_off(self) -> None:
        scene = (
            Scene().node("n0", 2).node("n1", 1).queue("theirs", gpu=(1, -1, 0)).queue("mine", gpu=(2, -1, 0))
        )
        scene.job("r", "theirs", "n0", gpu=1).job("a", "mine", waiting=1, gpu=2)
        assert scene.run(only(Action.RECLAIM, allow_consolidating_reclaim=False)).evicted() == []

    def test_surplus_of_subgroups_is_told_apart(self) -> None:
        scene = Scene().node("n0", 4).queue("theirs", gpu=(3, -1, 0)).queue("mine", gpu=(1, -1, 0))
        scene.group("r", "theirs", subgroups=(sub("l", 1), sub("w", 2)))
        for name in ("l", "w", "w", "w"):
            scene.pod("r", "n0", gpu=1, subgroup=name)
        assert scene.job("a", "mine", waiting=1, gpu=1).run(RECLAIM).evicted() == ["r-3"]


class TestTree:
    def tree(self, left: float, right: float) -> Scene:
        """Two departments; the left one runs four pods in two queues, the right one wants some."""
        scene = Scene().node("n0", 4).queue("left", gpu=(left, -1, 0)).queue("right", gpu=(right, -1, 0))
        for name in ("l0", "l1"):
            scene.queue(name, "left", (2, -1, 0))
            for index in range(2):
                scene.job(f"{name}-{index}", name, "n0", gpu=1)
        return scene.queue("r0", "right", (right, -1, 0))

    def test_shares_are_compared_where_the_ways_part(self) -> None:
        # Within their own quotas, but the department is above its quota.
        assert len(self.tree(2, 2).job("a", "r0", waiting=2, gpu=1).run(RECLAIM).evicted()) == 2

    def test_a_department_within_its_quota_is_safe(self) -> None:
        assert self.tree(4, 2).job("a", "r0", waiting=2, gpu=1).run(RECLAIM).evicted() == []

    def test_siblings_reclaim_from_each_other_inside_their_department(self) -> None:
        scene = (
            Scene()
            .node("n0", 4)
            .queue("d", gpu=(4, -1, 0))
            .queue("x", "d", (1, -1, 1))
            .queue("y", "d", (3, -1, 1))
        )
        for index in range(4):
            scene.job(f"r{index}", "x", "n0", gpu=1)
        assert len(scene.job("a", "y", waiting=3, gpu=1).run(RECLAIM).evicted()) == 3

    def test_ways_part_at_the_first_difference(self) -> None:
        queues = build_queues(
            [
                QueueInfo(name=name, parent=parent)
                for name, parent in (
                    ("d", ""),
                    ("a", "d"),
                    ("b", "d"),
                    ("a1", "a"),
                    ("a2", "a"),
                    ("e", ""),
                    ("e1", "e"),
                )
            ],
            full_hierarchy=True,
        )

        def names(left: str, right: str) -> tuple[str, str]:
            found: tuple[QueueState, QueueState] = parting(queues[left], queues[right])
            return found[0].info.name, found[1].info.name

        assert names("a1", "a2") == ("a1", "a2")
        assert names("a1", "b") == ("a", "b")
        assert names("a1", "e1") == ("d", "e")


class TestSaturation:
    def scene(self, **more: Any) -> Scene:
        """Two queues with a fair share of two; one has three GPUs and the other one."""
        scene = Scene().node("n0", 4).queue("theirs", gpu=(0, -1, 1)).queue("mine", gpu=(0, -1, 1))
        for index in range(3):
            scene.job(f"r{index}", "theirs", "n0", gpu=1)
        return scene.job("has", "mine", "n0", gpu=1).job("a", "mine", waiting=1, gpu=1, **more)

    def test_a_queue_takes_what_it_lacks(self) -> None:
        assert self.scene().run(RECLAIM).evicted() == ["r2-0"]

    def test_a_multiplier_only_counts_above_the_share(self) -> None:
        settings = only(Action.RECLAIM, reclaimer_saturation_multiplier=5)
        assert self.scene().run(settings).evicted() == ["r2-0"]

    @pytest.mark.parametrize(
        ("theirs", "multiplier", "evicts"), [(3, 1, False), (4, 1, True), (4, 1.4, True), (4, 1.5, False)]
    )
    def test_a_department_above_its_share_takes_only_from_one_further_above(
        self, theirs: int, multiplier: float, evicts: bool
    ) -> None:
        # Shares are one each. The upper department would have twice that, the other one less than before.
        scene = Scene().node("n0", theirs + 1).queue("top", gpu=(1, -1, 0)).queue("side", gpu=(1, -1, 0))
        scene.queue("busy", "top", (1, -1, 0)).queue("mine", "top", (1, -1, 0)).queue("other", "side")
        scene.job("has", "busy", "n0", gpu=1, priority=100)
        for index in range(theirs):
            scene.job(f"r{index}", "other", "n0", gpu=1)
        scene.job("a", "mine", waiting=1, gpu=1)
        settings = only(Action.RECLAIM, reclaimer_saturation_multiplier=multiplier)
        assert bool(scene.run(settings).evicted()) is evicts


class TestAfterwards:
    def test_the_next_cycle_has_nothing_to_take_back(self) -> None:
        """What was reclaimed is not reclaimed again by the other side."""
        scene = contest((0, -1, 1), (0, -1, 1), wants=1)
        outcome = scene.run(RECLAIM)
        (victim,) = outcome.evicted()
        after = Scene().node("n0", 4).queue("theirs", gpu=(0, -1, 1)).queue("mine", gpu=(0, -1, 1))
        for index in range(4):
            name = f"r{index}"
            if f"{name}-0" == victim:
                after.job(name, "theirs", waiting=1, gpu=1)
            else:
                after.job(name, "theirs", "n0", gpu=1)
        after.job("a", "mine", "n0", gpu=1)
        assert after.run(Settings()).evicted() == []

    def test_one_cycle_serves_several_queues(self) -> None:
        scene = Scene().node("n0", 4).queue("theirs", gpu=(0, -1, 0))
        for index in range(4):
            scene.job(f"r{index}", "theirs", "n0", gpu=1)
        for name in ("x", "y"):
            scene.queue(name, gpu=(2, -1, 0)).job(name, name, waiting=2, gpu=1)
        outcome = scene.run(RECLAIM)
        assert len(outcome.evicted()) == 4
        assert outcome.states("x") == outcome.states("y") == ["Pipelined", "Pipelined"]
