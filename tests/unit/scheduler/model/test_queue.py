"""The queue tree, its accounts, and whose turn it is."""

from typing import Any

import pytest

from quarterdeck.scheduler import Action
from quarterdeck.scheduler.joborder import JobOrder, QueueKeys, as_victim, as_waiting
from quarterdeck.scheduler.model.queue import QueueState, at_most, build_queues
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.snapshot import QueueInfo, QueueResource
from tests.unit.scheduler.schedulerscene import ALL, Scene, only, sub


class TestTree:
    def test_queues_without_their_parent_are_dropped_with_all_below(self) -> None:
        infos = [QueueInfo(name="a"), QueueInfo(name="b", parent="gone"), QueueInfo(name="c", parent="b")]
        assert set(build_queues(infos)) == {"a"}

    def test_a_ring_of_parents_is_dropped(self) -> None:
        infos = [QueueInfo(name="a", parent="b"), QueueInfo(name="b", parent="a"), QueueInfo(name="c")]
        assert set(build_queues(infos)) == {"c"}

    def test_any_depth_is_legal(self) -> None:
        infos = [QueueInfo(name="c", parent="b"), QueueInfo(name="b", parent="a"), QueueInfo(name="a")]
        queues = build_queues(infos)
        assert [queue.name for queue in queues["c"].chain] == ["c", "b", "a"]

    def test_without_hierarchy_leaves_share_one_unlimited_queue(self) -> None:
        infos = [QueueInfo(name="a"), QueueInfo(name="b", parent="a"), QueueInfo(name="c", parent="b")]
        queues = build_queues(infos, full_hierarchy=False)
        assert set(queues) == {"default", "b", "c"}
        assert queues["b"].parent is queues["c"].parent is queues["default"]
        assert queues["default"].limit == (-1, -1, -1)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), True),
        ((1, 2, 4), (1, 2, 3), False),
        ((9, 9, 9), (-1, -1, -1), True),
        ((-1, 0, 0), (5, 0, 0), False),
        ((-1, 0, 0), (-1, 0, 0), True),
    ],
)
def test_unlimited_is_more_than_any_number(
    left: tuple[Any, ...], right: tuple[Any, ...], expected: bool
) -> None:
    assert at_most(left, right) is expected


def queue_with(**amounts: Any) -> QueueState:
    queue = QueueState(QueueInfo(name="q"), None)
    for name, value in amounts.items():
        setattr(queue, name, value)
    return queue


@pytest.mark.parametrize(
    ("allocatable", "has", "share"),
    [
        ((10, 10, 10), (1, 2, 3), 0.3),
        ((10, 4, 10), (1, 2, 3), 0.5),
        ((2, 4, 10), (2, 2, 3), 1.0),
        ((-1, -1, -1), (10, 10, 30), 0.3),
        ((10, 10, 0), (1, 1, 2), 2000),
        ((10, 10, 0), (1, 0, 0), 0.1),
    ],
)
def test_the_dominant_share_is_the_largest_part_of_anything(
    allocatable: tuple[float, ...], has: tuple[float, ...], share: float
) -> None:
    assert queue_with(allocatable=allocatable).dominant_share(has, (100, 100, 100)) == share


@pytest.mark.parametrize(
    ("has", "is_over"),
    [((2, 2, 2), True), ((1, 2, 2), False), ((2, 1, 2), False), ((2, 2, 1), False), ((9, 9, 0), False)],
)
def test_a_queue_is_over_its_share_only_in_everything(has: tuple[float, ...], is_over: bool) -> None:
    assert queue_with(fair_share=(1, 1, 1), allocated=list(has)).is_over_fair_share() is is_over


def test_what_is_charged_and_given_back_leaves_nothing() -> None:
    parent = QueueState(QueueInfo(name="d"), None)
    queue = QueueState(QueueInfo(name="q"), parent)
    for is_preemptible in (True, False):
        queue.charge((1, 2, 0.1), is_preemptible, 1)
        queue.charge((1, 2, 0.2), is_preemptible, 1)
    for each in (queue, parent):
        assert (each.allocated, each.non_preemptible) == ([4, 8, 0.6], [2, 4, 0.3])
    queue.charge((1, 2, 0.2), False, -1)
    assert (parent.allocated, parent.non_preemptible) == ([3, 6, 0.4], [1, 2, 0.1])


class TestAccounts:
    def test_pods_that_hold_quota_are_charged_up_the_whole_chain(self) -> None:
        scene = Scene().node("n", 8).queue("d").queue("q", "d")
        scene.job("a", "q", "n", gpu=2).job("b", "q", "n", gpu=1, priority=100)
        scene.group("c").pod("c", "n", gpu=1, is_deleted=True)
        queues = scene.cluster().queues
        for name in ("q", "d"):
            assert queues[name].allocated[2] == 3
            assert queues[name].non_preemptible[2] == 1

    def test_requests_count_pending_pods_but_not_gated_ones(self) -> None:
        scene = Scene().node("n", 8).queue("q").group("a")
        scene.pod("a", "n", gpu=1).pod("a", gpu=2).pod("a", gpu=4, is_gated=True)
        assert scene.cluster().queues["q"].requested[2] == 3

    def test_the_total_leaves_out_nodes_that_are_not_fit_and_pods_of_other_schedulers(self) -> None:
        scene = Scene().node("a", 4).node("b", 4, is_ready=False).node("c", 4, is_unschedulable=True)
        scene.node("d", 4, pressures=("DiskPressure",)).queue("q")
        scene.pod("other", "a", gpu=1, scheduler_name="default-scheduler")
        assert scene.cluster().total[2] == 3

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [((-1, -1, 1), -1), ((-1, 3, 1), 3), ((2, -1, 0), 2), ((2, -1, 1), 6), ((2, 4, 1), 4)],
    )
    def test_what_may_be_allocated(self, bounds: tuple[float, float, float], expected: float) -> None:
        scene = Scene().node("n", 6).queue("q", gpu=bounds).job("a", waiting=6, gpu=1)
        assert scene.cluster().queues["q"].allocatable[2] == expected

    def test_children_divide_what_their_parent_gets(self) -> None:
        scene = Scene().node("n", 8).queue("d", gpu=(4, -1, 0)).queue("a", "d", (0, -1, 1))
        scene.queue("b", "d", (0, -1, 1)).queue("e", gpu=(4, -1, 0))
        scene.job("x", "a", waiting=8, gpu=1).job("y", "b", waiting=8, gpu=1).job("z", "e", waiting=8, gpu=1)
        shares = {name: queue.fair_share[2] for name, queue in scene.cluster().queues.items()}
        assert shares == {"d": 4, "a": 2, "b": 2, "e": 4}


def turns(scene: Scene, **options: Any) -> list[str]:
    """Jobs in the order in which they come."""
    cluster = scene.cluster(ALL)
    jobs = [as_waiting(job) for job in cluster.jobs.values() if job.tasks_to_allocate()]
    order = JobOrder(jobs, QueueKeys(cluster.total), **options)
    found = []
    while (queued := order.pop()) is not None:
        found.append(queued.job.key.name)
    return found


def two(
    a: tuple[float, float, float] = (-1, -1, 1), b: tuple[float, float, float] = (-1, -1, 1), **more: Any
) -> Scene:
    """Two queues with a waiting job each: b is older, and so comes first if nothing else decides."""
    scene = Scene().node("n", 100).queue("b", gpu=b, created=0.0)
    return scene.queue("a", gpu=a, created=1.0, **more)


class TestQueueOrder:
    def test_the_older_queue_comes_first_then_the_name(self) -> None:
        assert turns(two().job("x", "a", waiting=1, gpu=1).job("y", "b", waiting=1, gpu=1)) == ["y", "x"]
        scene = Scene().node("n", 9).queue("b", created=0.0).queue("a", created=0.0)
        assert turns(scene.job("x", "a", waiting=1).job("y", "b", waiting=1)) == ["x", "y"]

    def test_a_queue_over_its_fair_share_in_everything_goes_last(self) -> None:
        less = QueueResource(0, -1, 0)
        scene = Scene().node("n", 100, cpu=200, memory=200)
        scene.queue("b", gpu=(0, -1, 0), created=0.0, cpu=less, memory=less).queue("a", created=1.0)
        scene.job("r", "b", "n", gpu=1).job("x", "a", waiting=1, gpu=50).job("y", "b", waiting=1, gpu=1)
        assert turns(scene) == ["x", "y"]

    def test_a_queue_that_stays_within_its_quota_goes_first(self) -> None:
        scene = two(a=(5, -1, 1), b=(0, -1, 1))
        assert turns(scene.job("x", "a", waiting=1, gpu=5).job("y", "b", waiting=1, gpu=1)) == ["x", "y"]

    def test_then_higher_queue_priority(self) -> None:
        scene = two(priority=200).job("x", "a", waiting=1, gpu=50).job("y", "b", waiting=1, gpu=1)
        assert turns(scene) == ["x", "y"]

    def test_a_queue_that_would_use_what_it_has_no_share_of_goes_last(self) -> None:
        scene = two(a=(1, -1, 0), b=(0, -1, 0))
        assert turns(scene.job("x", "a", waiting=1, gpu=60).job("y", "b", waiting=1, gpu=1)) == ["x", "y"]

    def test_then_the_smaller_dominant_share_with_the_job(self) -> None:
        scene = two(a=(1, -1, 1), b=(1, -1, 1))
        assert turns(scene.job("x", "a", waiting=1, gpu=2).job("y", "b", waiting=1, gpu=3)) == ["x", "y"]

    def test_then_the_smaller_dominant_share_without_it(self) -> None:
        scene = two(a=(0, -1, 1), b=(0, -1, 1)).job("r", "b", "n", gpu=2)
        scene.job("x", "a", waiting=1, gpu=4).job("y", "b", waiting=1, gpu=2)
        # Both would have the same; their fair shares are equal, too.
        cluster = scene.cluster()
        assert cluster.queues["a"].fair_share[2] == cluster.queues["b"].fair_share[2] == 4
        assert turns(scene) == ["x", "y"]

    def test_then_the_smaller_entitlement(self) -> None:
        less = QueueResource(50_000, -1, 0)
        scene = Scene().node("n", 100).queue("b", gpu=(10, -1, 0), created=0.0)
        scene.queue("a", gpu=(10, -1, 0), created=1.0, cpu=less)
        # Nothing is asked for, so that nothing else can tell the queues apart.
        scene.group("x", "a").pod("x", cpu=0, memory=0).group("y", "b").pod("y", cpu=0, memory=0)
        assert turns(scene) == ["x", "y"]

    def test_inner_queues_are_compared_with_the_best_job_below(self) -> None:
        scene = Scene().node("n", 100).queue("d", gpu=(4, -1, 1)).queue("e", gpu=(4, -1, 1))
        scene.queue("d1", "d").queue("d2", "d").queue("e1", "e")
        scene.job("big", "d1", waiting=1, gpu=9).job("small", "d2", waiting=1, gpu=1)
        scene.job("middle", "e1", waiting=1, gpu=2)
        assert turns(scene) == ["small", "middle", "big"]

    def test_a_queue_comes_later_the_more_it_gets(self) -> None:
        scene = Scene().node("n", 100).queue("a", gpu=(0, -1, 1)).queue("b", gpu=(0, -1, 1))
        for name in ("a", "b"):
            for number in range(3):
                scene.job(f"{name}{number}", name, waiting=1, gpu=1)
        outcome = scene.run(only(Action.ALLOCATE))
        bound = [each.pod.name[:2] for each in outcome.decisions if hasattr(each, "gpu_count")]
        assert bound == ["a0", "b0", "a1", "b1", "a2", "b2"]

    def test_a_depth_bounds_the_jobs_of_each_queue(self) -> None:
        scene = Scene().node("n", 9).queue("a").queue("b")
        for number in range(3):
            scene.job(f"a{number}", "a", waiting=1).job(f"b{number}", "b", waiting=1)
        assert sorted(turns(scene, depth=2)) == ["a0", "a1", "b0", "b1"]


class TestJobOrder:
    def test_higher_priority_then_gangs_below_their_minimum_then_age_then_name(self) -> None:
        scene = Scene().node("n", 100).queue("q")
        scene.job("old", waiting=1).job("high", waiting=1, priority=75)
        scene.group("above", least=1, created=-3.0).pod("above", "n").pod("above", "n").pod("above")
        scene.group("exact", least=1, created=-2.0).pod("exact", "n").pod("exact")
        scene.job("bb", waiting=1, created=9.0).job("aa", waiting=1, created=9.0)
        assert turns(scene) == ["high", "old", "aa", "bb", "exact", "above"]

    def test_one_leaf_below_makes_the_gang_below(self) -> None:
        scene = Scene().node("n", 100).queue("q").job("plain", waiting=1, created=9.0)
        scene.group("split", subgroups=(sub("a", 1), sub("b", 1)), created=0.0)
        scene.pod("split", "n", subgroup="a").pod("split", "n", subgroup="a").pod("split", subgroup="b")
        assert turns(scene) == ["split", "plain"]


def victims(scene: Scene) -> list[str]:
    cluster = scene.cluster(ALL)
    jobs = [
        as_victim(job, [task for task in job.tasks if task.state in ACTIVE])
        for job in cluster.jobs.values()
        if job.active
    ]
    order = JobOrder(jobs, QueueKeys(cluster.total), is_victims=True)
    found = []
    while (queued := order.pop()) is not None:
        found.append(queued.job.key.name)
    return found


class TestVictimOrder:
    def test_inside_a_queue_it_is_the_reverse(self) -> None:
        scene = Scene().node("n", 100).queue("q")
        scene.job("high", "q", "n", priority=75).job("old", "q", "n").job("young", "q", "n")
        scene.group("above", least=1).pod("above", "n").pod("above", "n")
        assert victims(scene) == ["above", "young", "old", "high"]

    def test_the_queue_that_has_most_beyond_its_share_loses_first(self) -> None:
        scene = Scene().node("n", 100).queue("a", gpu=(2, -1, 0)).queue("b", gpu=(2, -1, 0))
        scene.job("a0", "a", "n", gpu=3).job("b0", "b", "n", gpu=6)
        assert victims(scene)[0] == "b0"

    def test_what_was_taken_counts(self) -> None:
        scene = Scene().node("n", 100).queue("a", gpu=(1, -1, 0)).queue("b", gpu=(1, -1, 0))
        for number in range(3):
            scene.job(f"a{number}", "a", "n", gpu=2).job(f"b{number}", "b", "n", gpu=2)
        assert victims(scene) == ["b2", "a2", "b1", "a1", "b0", "a0"]
