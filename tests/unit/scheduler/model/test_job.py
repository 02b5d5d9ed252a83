"""Priorities, the order of pods, and which pods of a job come next."""

from typing import Any

import pytest

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.joborder import as_waiting
from quarterdeck.scheduler.model.job import Job, gang_rank, is_preemptible, priority_of
from quarterdeck.scheduler.model.state import ACTIVE, state_of
from quarterdeck.scheduler.model.task import task_order
from quarterdeck.scheduler.snapshot import PodGroupInfo, PodInfo, PriorityClassInfo
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.victimorder import next_victims
from tests.unit.scheduler.schedulerscene import NS, Scene, gpu_node, sub


def group(name: str = "") -> PodGroupInfo:
    return PodGroupInfo(namespace=NS, name="g", priority_class_name=name)


class TestPriority:
    CLASSES = (
        PriorityClassInfo(name="build", value=100),
        PriorityClassInfo(name="train", value=55, is_global_default=True),
    )

    def test_it_is_the_value_of_the_named_class(self) -> None:
        assert priority_of(group("build"), self.CLASSES) == 100

    @pytest.mark.parametrize("name", ["", "unknown"])
    def test_without_a_class_it_is_that_of_the_global_default(self, name: str) -> None:
        assert priority_of(group(name), self.CLASSES) == 55

    def test_without_a_global_default_it_is_50(self) -> None:
        assert priority_of(group(), self.CLASSES[:1]) == 50

    @pytest.mark.parametrize(
        ("said", "priority", "expected"),
        [
            ("", 99, True),
            ("", 100, False),
            ("preemptible", 1000, True),
            ("non-preemptible", 1, False),
        ],
    )
    def test_preemptibility_is_what_is_said_else_decided_by_priority(
        self, said: str, priority: int, expected: bool
    ) -> None:
        assert is_preemptible(said, priority) is expected


def pod(name: str, created: float = 0.0, **labels: str) -> PodInfo:
    keys = {"role": "training.kubeflow.org/job-role", "ray": "ray.io/node-type"}
    keys["priority"] = "kai.scheduler/task-priority"
    found = {keys[key]: value for key, value in labels.items()}
    return PodInfo(namespace=NS, name=name, uid=name, created=created, labels=found)


class TestTaskOrder:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (pod("z", role="master"), pod("a", role="worker")),
            (pod("z", role="launcher"), pod("a")),
            (pod("z", ray="head"), pod("a", ray="worker")),
            (pod("z", role="master"), pod("a", ray="head")),
            (pod("z", priority="1"), pod("a")),
            (pod("z", priority="2"), pod("a", priority="1")),
            (pod("z", priority="-5"), pod("a", priority="high")),
            (pod("z", priority="high"), pod("a")),
            (pod("z", created=1), pod("a", created=2)),
            (pod("a"), pod("b")),
        ],
    )
    def test_the_first_is_placed_before_the_second(self, first: PodInfo, second: PodInfo) -> None:
        assert task_order(first) < task_order(second)


class TestState:
    @pytest.mark.parametrize(
        ("fields", "bound", "state"),
        [
            ({}, False, PodState.PENDING),
            ({"is_gated": True}, False, PodState.GATED),
            ({}, True, PodState.BINDING),
            ({"is_gated": True}, True, PodState.BINDING),
            ({"node": "n"}, False, PodState.BOUND),
            ({"node": "n", "phase": "Running"}, False, PodState.RUNNING),
            ({"node": "n", "phase": "Running", "is_deleted": True}, False, PodState.RELEASING),
            ({"is_deleted": True}, False, PodState.RELEASING),
            ({"phase": "Succeeded", "is_deleted": True}, False, PodState.SUCCEEDED),
            ({"phase": "Failed"}, False, PodState.FAILED),
            ({"phase": "Unknown"}, False, PodState.UNKNOWN),
        ],
    )
    def test_states_follow_the_api(self, fields: dict[str, Any], bound: bool, state: PodState) -> None:
        assert state_of(PodInfo(namespace=NS, name="p", uid="p", **fields), bound) is state


def job_of(scene: Scene, name: str = "g") -> Job:
    return next(job for job in scene.cluster().jobs.values() if job.key.name == name)


def names(tasks: list[Any]) -> list[str]:
    return [task.key.name for task in tasks]


class TestTasksToAllocate:
    def test_below_the_minimum_all_that_is_missing_is_placed_at_once(self) -> None:
        scene = gpu_node().group("g", least=3)
        scene.pod("g", "n0").pod("g").pod("g").pod("g")
        assert names(job_of(scene).tasks_to_allocate()) == ["g-1", "g-2"]

    def test_all_leaves_below_their_minimum_are_placed_together(self) -> None:
        scene = gpu_node().group("g", subgroups=(sub("a", 2), sub("b", 1), sub("c", 1)))
        for leaf, node in (("a", ""), ("a", ""), ("a", ""), ("b", ""), ("c", "n0"), ("c", "")):
            scene.pod("g", node, subgroup=leaf)
        assert names(job_of(scene).tasks_to_allocate()) == ["g-0", "g-1", "g-3"]

    def test_a_gang_with_its_minimum_grows_pod_by_pod(self) -> None:
        scene = gpu_node().group("g", least=1).pod("g", "n0").pod("g").pod("g")
        assert names(job_of(scene).tasks_to_allocate()) == ["g-1"]

    def test_the_leaf_that_grew_least_grows_next(self) -> None:
        scene = gpu_node().group("g", subgroups=(sub("a", 1), sub("b", 2)))
        for leaf, node in (("a", "n0"), ("a", "n0"), ("a", ""), ("b", "n0"), ("b", "n0"), ("b", "")):
            scene.pod("g", node, subgroup=leaf)
        assert names(job_of(scene).tasks_to_allocate()) == ["g-5"]

    def test_a_leaf_without_pending_pods_is_passed_over(self) -> None:
        scene = gpu_node().group("g", subgroups=(sub("a", 1), sub("b", 1)))
        for leaf, node in (("a", "n0"), ("b", "n0"), ("b", "n0"), ("b", "")):
            scene.pod("g", node, subgroup=leaf)
        assert names(job_of(scene).tasks_to_allocate()) == ["g-3"]

    def test_gated_pods_are_not_placed(self) -> None:
        scene = gpu_node().group("g", least=1).pod("g", is_gated=True).pod("g")
        assert names(job_of(scene).tasks_to_allocate()) == ["g-1"]

    def test_pods_go_in_task_order(self) -> None:
        scene = gpu_node().group("g", least=2)
        for priority in ("1", "3", "2"):
            scene.pod("g", labels={"kai.scheduler/task-priority": priority})
        assert names(job_of(scene).tasks_to_allocate()) == ["g-1", "g-2"]

    def test_pods_that_a_search_evicted_are_placed_again_only_if_that_is_asked_for(self) -> None:
        scene = gpu_node().group("g", least=3).pod("g", "n0", gpu=1).pod("g", gpu=2)
        cluster = scene.pod("g", "n0", gpu=4, is_deleted=True).cluster()
        [job] = cluster.jobs.values()
        Transaction(cluster).evict(next(iter(job.tasks)))
        assert (names(job.tasks_to_allocate()), job.wanted()[2]) == (["g-1"], 2)
        again = as_waiting(job, with_evicted=True)
        assert (names(again.tasks), again.amounts[2]) == (["g-0", "g-1"], 3)
        assert job.wanted(with_evicted=True) == again.amounts
        assert (names(as_waiting(job).tasks), as_waiting(job).amounts[2]) == (["g-1"], 2)


class TestNextVictims:
    def victims(self, scene: Scene) -> list[str]:
        job = job_of(scene)
        return names(next_victims(job, [task for task in job.tasks if task.state in ACTIVE]))

    def test_a_pod_above_the_minimum_goes_alone_the_last_in_task_order(self) -> None:
        scene = gpu_node().group("g", least=1)
        for priority in ("2", "1", "3"):
            scene.pod("g", "n0", labels={"kai.scheduler/task-priority": priority})
        assert self.victims(scene) == ["g-1"]

    def test_without_surplus_everyone_goes(self) -> None:
        assert self.victims(gpu_node().job("g", "q", "n0", "n0")) == ["g-1", "g-0"]

    def test_the_leaf_that_grew_most_loses_first(self) -> None:
        scene = gpu_node().group("g", subgroups=(sub("a", 1), sub("b", 2)))
        for leaf in ("a", "a", "b", "b", "b"):
            scene.pod("g", "n0", subgroup=leaf)
        assert self.victims(scene) == ["g-1"]

    def test_pods_that_are_not_active_do_not_count(self) -> None:
        scene = gpu_node().group("g", least=1).pod("g", "n0").pod("g").pod("g", "n0", is_deleted=True)
        assert self.victims(scene) == ["g-0"]


@pytest.mark.parametrize(
    ("counts", "rank"), [([(0, 1), (3, 1)], 0), ([(1, 1), (2, 2)], 1), ([(1, 1), (3, 2)], 2)]
)
def test_a_gang_is_below_exactly_at_or_above_its_minimum(counts: list[tuple[int, int]], rank: int) -> None:
    assert gang_rank(counts) == rank
