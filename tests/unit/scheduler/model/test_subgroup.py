"""Subgroup trees and the states of gangs."""

from typing import Any

import pytest

from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.subgroup import SubGroupSet, build_tree
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.resource import NOTHING
from quarterdeck.scheduler.snapshot import PodConstraints, PodGroupInfo, PodInfo, SubGroupInfo
from tests.unit.scheduler.schedulerscene import NS, near, sub

SHAPE = Shape(NOTHING, None, PodConstraints())


def group(*subgroups: SubGroupInfo, least: int = 0, **more: Any) -> PodGroupInfo:
    return PodGroupInfo(namespace=NS, name="g", min_member=least, subgroups=subgroups, **more)


def job(info: PodGroupInfo, *pods: tuple[str, PodState]) -> Job:
    """A job with pods given by their leaf and state."""
    made = Job(info, 50, None)
    for number, (leaf, state) in enumerate(pods):
        name = f"p{number}"
        pod = PodInfo(namespace=NS, name=name, uid=name, pod_group="g", subgroup=leaf)
        made.add(Task(pod, SHAPE, state, (0, 0, 0)))
    made.seal()
    return made


def shown(tree: SubGroupSet) -> object:
    return (
        tree.name,
        [shown(child) for child in tree.sets],
        [(leaf.name, leaf.minimum) for leaf in tree.leaves],
    )


class TestTree:
    def test_a_group_without_subgroups_has_one_leaf_named_default(self) -> None:
        assert shown(build_tree(group(least=4))) == ("", [], [("default", 4)])

    def test_a_minimum_is_at_least_one(self) -> None:
        assert shown(build_tree(group())) == ("", [], [("default", 1)])
        assert shown(build_tree(group(sub("a"), least=7))) == ("", [], [("a", 1)])

    def test_the_groups_own_minimum_plays_no_part_with_subgroups(self) -> None:
        assert shown(build_tree(group(sub("a", 2), sub("b", 3), least=9))) == ("", [], [("a", 2), ("b", 3)])

    def test_a_parent_becomes_a_set_and_its_minimum_is_ignored(self) -> None:
        tree = build_tree(group(sub("a", 5), sub("b", 3, "a"), sub("c", 2, "a")))
        assert shown(tree) == ("", [("a", [], [("b", 3), ("c", 2)])], [])

    def test_children_are_in_the_order_of_their_names(self) -> None:
        tree = build_tree(group(sub("z"), sub("s"), sub("b", 1, "s"), sub("a", 1, "s")))
        assert shown(tree) == ("", [("s", [], [("a", 1), ("b", 1)])], [("z", 1)])

    def test_the_root_has_a_constraint_only_if_a_topology_is_named(self) -> None:
        assert build_tree(group(topology_constraint=near("rack"))).constraint == near("rack")
        assert build_tree(group()).constraint is None

    def test_a_subgroup_has_the_constraint_that_it_is_given(self) -> None:
        (leaf,) = build_tree(group(sub("a", topology_constraint=near("rack")))).leaves
        assert leaf.constraint == near("rack")

    @pytest.mark.parametrize(
        ("subgroups", "message"),
        [
            ((sub("a"), sub("a")), "subgroup <a> already exists"),
            ((sub("a", 1, "nope"),), "parent subgroup <nope> of <a> not found"),
            ((sub("Master"), sub("w", 4, "Master")), "parent subgroup <master> of <w> not found"),
            ((sub("a", 1, "b"), sub("b", 1, "a")), "cycle detected in subgroups"),
            ((sub("a", 1, "a"), sub("b")), "cycle detected in subgroups"),
        ],
    )
    def test_subgroups_that_make_no_tree_are_refused(
        self, subgroups: tuple[SubGroupInfo, ...], message: str
    ) -> None:
        with pytest.raises(SchemaError, match=f"^{message}$"):
            build_tree(group(*subgroups))

    def test_a_parent_is_looked_up_in_lower_case(self) -> None:
        assert shown(build_tree(group(sub("s"), sub("a", 1, "S")))) == ("", [("s", [], [("a", 1)])], [])


P, G, R, X, S, F = (
    PodState.PENDING,
    PodState.GATED,
    PodState.RUNNING,
    PodState.RELEASING,
    PodState.SUCCEEDED,
    PodState.FAILED,
)


class TestGang:
    @pytest.mark.parametrize(
        ("states", "ready", "satisfied", "stale", "elastic"),
        [
            ([P, P], True, False, False, False),
            ([P, G], False, False, False, False),
            ([R, S], False, False, False, False),
            ([R, F], False, False, True, False),
            ([R, R, P], True, True, False, True),
            ([R, X], False, True, False, False),
            ([X], False, False, True, False),
            ([F, F], False, False, False, False),
            ([PodState.BOUND, PodState.BINDING], True, True, False, False),
            ([PodState.ALLOCATED, PodState.PIPELINED], True, True, False, False),
        ],
    )
    def test_states_of_a_gang_of_two(
        self, states: list[PodState], ready: bool, satisfied: bool, stale: bool, elastic: bool
    ) -> None:
        made = job(group(least=2), *(("", state) for state in states))
        assert (made.is_ready, made.is_gang_satisfied, made.is_stale, made.is_elastic) == (
            ready,
            satisfied,
            stale,
            elastic,
        )

    def test_one_leaf_below_its_minimum_holds_the_whole_gang_back(self) -> None:
        made = job(group(sub("a", 1), sub("b", 2)), ("a", R), ("a", R), ("b", R))
        assert not made.is_gang_satisfied
        assert made.is_stale

    def test_leaves_count_at_every_depth(self) -> None:
        info = group(sub("s"), sub("a", 1, "s"), sub("b", 1))
        assert not job(info, ("b", P)).is_ready
        assert job(info, ("a", P), ("b", P)).is_ready

    def test_pods_that_name_no_leaf_are_ignored(self) -> None:
        made = Job(group(sub("s"), sub("a", 1, "s")), 50, None)
        for leaf in ("", "s", "other"):
            pod = PodInfo(namespace=NS, name="p", uid="p", pod_group="g", subgroup=leaf)
            assert not made.add(Task(pod, SHAPE, P, (0, 0, 0)))
        assert not made.is_ready

    def test_a_broken_tree_is_kept_as_the_error_of_the_job(self) -> None:
        made = job(group(sub("a"), sub("a")), ("a", P), ("b", R))
        assert made.error == "subgroup <a> already exists"
        assert not made.is_ready
        assert not made.is_stale
        assert made.active == 1


class TestMinimumOfSubgroups:
    INFO = group(sub("a", 1), sub("b", 1), sub("c", 2), min_subgroup=2)

    def test_so_many_children_make_the_gang(self) -> None:
        assert job(self.INFO, ("a", R), ("b", R)).is_gang_satisfied
        assert not job(self.INFO, ("a", R), ("c", R)).is_gang_satisfied

    def test_the_children_closest_to_their_minimum_are_placed_first(self) -> None:
        made = job(self.INFO, ("a", P), ("b", P), ("c", R), ("c", P))
        assert [task.leaf.name for task in made.tasks_to_allocate()] == ["a", "c"]

    def test_further_children_grow_as_a_whole(self) -> None:
        made = job(self.INFO, ("a", R), ("b", R), ("c", P), ("c", P), ("c", P))
        assert [task.leaf.name for task in made.tasks_to_allocate()] == ["c", "c"]

    def test_nested_sets_count_as_children(self) -> None:
        info = group(sub("s", min_subgroup=1), sub("a", 1, "s"), sub("b", 1, "s"), sub("c", 1))
        assert job(info, ("b", R), ("c", R)).is_gang_satisfied
        assert not job(info, ("a", R), ("b", R)).is_gang_satisfied
