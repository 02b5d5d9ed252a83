"""What is told about jobs that wait."""

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Action
from quarterdeck.scheduler.decision import NotReady, Unschedulable
from quarterdeck.scheduler.fiterror import FitError, detailed_message, pod_message, summary
from quarterdeck.scheduler.snapshot import SchedulingConditionInfo
from tests.unit.scheduler.schedulerscene import ALLOCATE, NS, Scene, gpu_node, only, sub

NO_GPUS = "no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs."


class TestNotReady:
    def test_pods_that_do_not_exist_yet(self) -> None:
        outcome = gpu_node().group("a", least=3).pod("a").run(ALLOCATE)
        assert outcome.of(NotReady) == [
            NotReady(
                Key(NS, "a"),
                "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated",
            )
        ]
        assert outcome.of(Unschedulable) == []

    def test_gated_pods(self) -> None:
        outcome = gpu_node().group("a", least=2).pod("a").pod("a", is_gated=True).run(ALLOCATE)
        (event,) = outcome.of(NotReady)
        assert event.message.endswith(" Waiting for 2 pods, currently 2 exist, 1 are gated")

    def test_each_subgroup_that_is_not_ready(self) -> None:
        scene = gpu_node().group("a", subgroups=(sub("l", 1), sub("v", 3), sub("w", 2)))
        scene.pod("a", subgroup="l").pod("a", subgroup="w").pod("a", subgroup="w", is_gated=True)
        (event,) = scene.run(ALLOCATE).of(NotReady)
        assert event.message == (
            "Job is not ready for scheduling."
            " Waiting for 3 pods for SubGroup v, currently 0 exist, 0 are gated."
            " Waiting for 2 pods for SubGroup w, currently 2 exist, 1 are gated."
        )

    def test_a_job_whose_pods_all_run_is_not_reported(self) -> None:
        assert gpu_node().job("a", "q", "n0").run(ALLOCATE).decisions == ()

    def test_an_empty_group_is_not_reported(self) -> None:
        assert gpu_node().group("a", least=2).run(ALLOCATE).decisions == ()

    def test_gated_growth_of_a_running_gang_is_reported_as_waiting(self) -> None:
        report = gpu_node().group("a").pod("a", "n0").pod("a", is_gated=True).run(ALLOCATE).unschedulable("a")
        assert report.pods == ()
        assert report.message == "Unable to schedule podgroup"


class TestMessages:
    def test_a_gang_that_got_some_of_its_pods(self) -> None:
        assert gpu_node(2).job("a", waiting=3, gpu=1).run(ALLOCATE).message("a") == (
            "PodSchedulingErrors: Resources were found for 2 pods while 3 are required for gang scheduling. "
            f"Additional pods cannot be scheduled due to: {NO_GPUS}."
        )

    def test_a_gang_of_one(self) -> None:
        scene = gpu_node(2).job("x", "q", "n0", gpu=1)
        assert scene.job("a", waiting=1, gpu=2).run(ALLOCATE).message("a") == (
            f"PodSchedulingErrors: Resources were not found for pod {NS}/a-0 due to: {NO_GPUS}."
        )

    def test_growth(self) -> None:
        scene = gpu_node(2).group("a", least=2).pod("a", "n0", gpu=1).pod("a", "n0", gpu=1).pod("a", gpu=1)
        assert scene.run(ALLOCATE).message("a") == (
            f"PodSchedulingErrors: Resources were not found for pod {NS}/a-2 due to: {NO_GPUS}."
        )

    def test_a_subgroup(self) -> None:
        scene = gpu_node(2).group("a", subgroups=(sub("l", 1), sub("w", 2)))
        for name in ("l", "w", "w"):
            scene.pod("a", gpu=1, subgroup=name)
        assert scene.run(ALLOCATE).message("a") == (
            "PodSchedulingErrors: Resources were found for 2 pods from all sub-groups while sub-group w "
            "requires 2 pods for gang scheduling. Additional pods cannot be scheduled in this sub-group "
            f"due to: {NO_GPUS}."
        )

    def test_a_queue_that_does_not_exist(self) -> None:
        report = Scene().node("n0").job("a", "nowhere", waiting=1).run(ALLOCATE).unschedulable("a")
        assert report.message == "QueueDoesNotExist: Queue 'nowhere' does not exist."
        assert [(each.reason, each.message) for each in report.reasons] == [
            ("QueueDoesNotExist", "Queue 'nowhere' does not exist")
        ]

    def test_a_queue_below_one_that_does_not_exist(self) -> None:
        scene = Scene().node("n0").queue("q", "nowhere").queue("child", "q").job("a", "child", waiting=1)
        assert scene.run(ALLOCATE).message("a") == "QueueDoesNotExist: Queue 'child' does not exist."

    def test_subgroups_that_make_no_tree(self) -> None:
        scene = gpu_node().group("a", subgroups=(sub("w", 1), sub("w", 1))).pod("a", subgroup="w")
        report = scene.run(ALLOCATE).unschedulable("a")
        assert report.message == "PodSchedulingErrors: subgroup <w> already exists."
        assert report.writes_condition

    def test_without_a_reason(self) -> None:
        scene = Scene().node("n0").queue("q").queue("child", "q").job("a", "q", waiting=1)
        report = scene.run(ALLOCATE).unschedulable("a")
        assert report.pods == ((Key(NS, "a-0"), "Unable to schedule pod"),)

    def test_each_pending_pod_has_its_own_reason_or_that_of_the_job(self) -> None:
        report = gpu_node(2).job("a", waiting=3, gpu=1).run(ALLOCATE).unschedulable("a")
        assert report.pods == (
            (Key(NS, "a-0"), report.message),
            (Key(NS, "a-1"), report.message),
            (Key(NS, "a-2"), NO_GPUS),
        )

    def test_gated_pods_are_told_nothing(self) -> None:
        scene = gpu_node(0).job("a", waiting=1, gpu=1).pod("a", gpu=1, is_gated=True)
        assert [key.name for key, _ in scene.run(ALLOCATE).unschedulable("a").pods] == ["a-0"]


class TestFields:
    def test_the_condition_is_written_only_while_no_pod_is_placed(self) -> None:
        assert gpu_node(0).job("a", waiting=1, gpu=1).run(ALLOCATE).unschedulable("a").writes_condition
        scene = gpu_node(1).group("a").pod("a", "n0", gpu=1).pod("a", gpu=1)
        assert not scene.run(ALLOCATE).unschedulable("a").writes_condition

    def test_a_promised_place_counts_as_placed(self) -> None:
        scene = (
            gpu_node(1).group("x").pod("x", "n0", gpu=1, is_deleted=True).job("a", waiting=2, gpu=1, least=1)
        )
        assert not scene.run(ALLOCATE).unschedulable("a").writes_condition

    @pytest.mark.parametrize("marks", [True, False])
    def test_pods_are_marked_as_the_group_says(self, marks: bool) -> None:
        scene = gpu_node(0).job("a", waiting=1, gpu=1, mark_unschedulable=marks)
        assert scene.run(ALLOCATE).unschedulable("a").marks_pods is marks

    def test_reasons_are_given_one_per_error(self) -> None:
        report = gpu_node(2).job("a", waiting=3, gpu=1).run(ALLOCATE).unschedulable("a")
        assert [each.reason for each in report.reasons] == ["PodSchedulingErrors"]

    def test_reports_come_last_by_name(self) -> None:
        scene = gpu_node(1).job("c", waiting=1, gpu=2).job("b", waiting=1, gpu=1).job("a", waiting=1, gpu=2)
        names = [each.pod_group.name for each in scene.run(ALLOCATE).decisions]
        assert names == ["b", "b", "a", "c"]


class TestBackoff:
    def scene(self, backoff: int, *pools: str) -> Scene:
        conditions = tuple(
            SchedulingConditionInfo(type="UnschedulableOnNodePool", node_pool=pool) for pool in pools
        )
        return (
            gpu_node(1)
            .job("x", "q", "n0", gpu=1)
            .job("a", waiting=1, gpu=1, scheduling_backoff=backoff, scheduling_conditions=conditions)
        )

    def test_messages_name_the_node_pool(self) -> None:
        report = self.scene(1).run(only(Action.ALLOCATE, node_pool="pool")).unschedulable("a")
        assert report.message.startswith("Node-Pool 'pool': PodSchedulingErrors: ")
        assert report.pods[0][1] == f"Node-Pool 'pool': {NO_GPUS}"

    def test_jobs_without_backoff_do_not(self) -> None:
        assert self.scene(-1).run(ALLOCATE).message("a").startswith("PodSchedulingErrors: ")

    @pytest.mark.parametrize(
        ("backoff", "pools", "is_skipped"),
        [
            (1, ("default",), True),
            (1, ("other", "default"), True),
            (1, ("default", "other"), False),
            (1, (), False),
            (-1, ("default",), False),
        ],
    )
    def test_a_job_that_failed_here_lately_is_skipped(
        self, backoff: int, pools: tuple[Any, ...], is_skipped: bool
    ) -> None:
        scene = self.scene(backoff, *pools)
        assert (scene.run(ALLOCATE).decisions == ()) is is_skipped
        scene.nodes.clear()
        outcome = scene.node("n1", 1).run(ALLOCATE)
        assert (outcome["a-0"][0] == "Pending") is is_skipped


class TestTexts:
    def error(self, *messages: str, **more: Any) -> FitError:
        return FitError(reason=more.pop("reason", "Why"), messages=messages, **more)

    def test_one_error(self) -> None:
        assert summary([self.error("x")]) == "Why: x."

    def test_equal_messages_are_counted_and_all_are_sorted(self) -> None:
        errors = [self.error("x"), self.error("y"), self.error("x"), self.error("b")]
        assert summary(errors) == "Unable to schedule podgroup: 2 x. \nb. \ny."

    def test_at_length(self) -> None:
        errors = [
            self.error("x", "y", subgroup="s"),
            self.error("b", domain="d"),
            self.error("c", subgroup="default"),
        ]
        assert detailed_message(errors) == ("\nUnable to schedule podgroup.\n<d>: b.\nc.\nsubgroup s: x, y.")

    def test_one_error_at_length(self) -> None:
        assert detailed_message([self.error("x")]) == "\nWhy.\nx."

    def test_a_histogram_of_nodes(self) -> None:
        reasons = {"n0": ("b", "a"), "n1": ("b",), "n2": ("c",)}
        assert pod_message(reasons) == "no nodes with enough resources were found: 1 a. \n1 c. \n2 b."

    def test_no_nodes_at_all(self) -> None:
        assert pod_message({}) == "no nodes with enough resources were found"
