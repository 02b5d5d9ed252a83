"""The subgroup tree of a pod group: inner sets and, as leaves, sets of pods.

Only leaves have a minimum of pods; an inner set matters for topology and for ``minSubGroup``: how many of its
children must have their minimum (all of them, if it does not say).

A leaf counts its pods by state; the counts follow every change that a cycle makes in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.state import ACTIVE, ALIVE, USED
from quarterdeck.scheduler.snapshot import PodGroupInfo, SubGroupInfo, TopologyConstraint

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.task import Task

DEFAULT_LEAF: Final = "default"
"""Name of the only leaf of a group without subgroups."""
LeafOrder: TypeAlias = tuple[bool, bool, float, str]


class Leaf:
    """A set of pods, of which ``minimum`` must run for the gang to run."""

    __slots__ = ("active", "constraint", "counts", "minimum", "name", "parent", "tasks")

    def __init__(self, name: str, minimum: int, constraint: TopologyConstraint | None = None) -> None:
        self.name = name
        self.minimum = minimum
        self.constraint = constraint
        self.parent: SubGroupSet | None = None
        self.tasks: list[Task] = []
        """In task order."""
        self.counts = dict.fromkeys(PodState, 0)
        self.active = 0
        """Pods that have a node or the promise of one."""

    def count(self, state: PodState, change: int) -> None:
        """A pod enters or leaves a state."""
        self.counts[state] += change
        if state in ACTIVE:
            self.active += change

    def move(self, old: PodState, new: PodState) -> None:
        """A pod goes from one state to another."""
        self.counts[old] -= 1
        self.counts[new] += 1
        self.active += (new in ACTIVE) - (old in ACTIVE)

    @property
    def used(self) -> int:
        return self._sum(USED)

    @property
    def alive(self) -> int:
        return self._sum(ALIVE)

    @property
    def gated(self) -> int:
        return self.counts[PodState.GATED]

    def _sum(self, states: frozenset[PodState]) -> int:
        return sum(self.counts[state] for state in states)

    @property
    def is_ready(self) -> bool:
        """Whether enough pods exist to try."""
        return self.alive - self.gated >= self.minimum

    @property
    def is_gang_satisfied(self) -> bool:
        return self.used >= self.minimum

    @property
    def is_elastic(self) -> bool:
        return self.minimum < len(self.tasks)

    @property
    def order(self) -> LeafOrder:
        """Leaves below their minimum first, then those that grew least."""
        return leaf_order(self, self.active)


def leaf_order(leaf: Leaf, active: int) -> LeafOrder:
    """The order of a leaf if it had so many active pods; one that nobody waits for comes last."""
    is_satisfied = active >= leaf.minimum
    if not leaf.minimum:
        return (is_satisfied, True, active, leaf.name)
    return (is_satisfied, False, active / leaf.minimum if is_satisfied else 0.0, leaf.name)


class SubGroupSet:
    """An inner node of the tree; the root has no name."""

    __slots__ = ("constraint", "leaves", "minimum", "name", "parent", "sets")

    def __init__(
        self, name: str, constraint: TopologyConstraint | None = None, minimum: int | None = None
    ) -> None:
        self.name = name
        self.constraint = constraint
        self.minimum = minimum
        """How many children must have their minimum; all if none."""
        self.parent: SubGroupSet | None = None
        self.sets: list[SubGroupSet] = []
        self.leaves: list[Leaf] = []

    def add(self, child: SubGroupSet | Leaf) -> None:
        """Attach a child."""
        child.parent = self
        if isinstance(child, Leaf):
            self.leaves.append(child)
        else:
            self.sets.append(child)

    def all_leaves(self) -> Iterator[Leaf]:
        """The leaves at every depth."""
        yield from self.leaves
        for child in self.sets:
            yield from child.all_leaves()

    def holds(self, test: Callable[[Leaf], bool]) -> bool:
        """Whether enough children pass a test of their leaves."""
        if self.minimum is None:
            return all(map(test, self.leaves)) and all(child.holds(test) for child in self.sets)
        passed = sum(map(test, self.leaves)) + sum(child.holds(test) for child in self.sets)
        return passed >= self.minimum


def build_tree(group: PodGroupInfo) -> SubGroupSet:
    """The tree of a group, children in the order of their names; ``SchemaError`` if the subgroups make none.

    Parents are looked up in lower case while names are taken as they are: a parent with upper-case letters
    is never found. Admission refuses such groups, so this only shows when it was bypassed.
    """
    constraint = group.topology_constraint if group.topology_constraint.topology else None
    root = SubGroupSet("", constraint, group.min_subgroup)
    members = {"": root, **_members(group.subgroups)}
    for each in sorted(group.subgroups, key=lambda subgroup: subgroup.name):
        parent = members.get(_parent_of(each))
        if not isinstance(parent, SubGroupSet):
            raise SchemaError(f"parent subgroup <{_parent_of(each)}> of <{each.name}> not found")
        parent.add(members[each.name])
    if not group.subgroups:
        root.add(Leaf(DEFAULT_LEAF, max(group.min_member, 1)))
    elif not _reaches(root, len(members)):
        raise SchemaError("cycle detected in subgroups")
    return root


def _reaches(root: SubGroupSet, count: int) -> bool:
    """Whether all members hang on the root: those in a cycle do not."""
    found, ahead = 0, [root]
    while ahead:
        each = ahead.pop()
        found += 1 + len(each.leaves)
        ahead += each.sets
    return found == count


def _members(subgroups: tuple[SubGroupInfo, ...]) -> dict[str, SubGroupSet | Leaf]:
    parents = {_parent_of(each) for each in subgroups}
    members: dict[str, SubGroupSet | Leaf] = {}
    for each in subgroups:
        if each.name in members:
            raise SchemaError(f"subgroup <{each.name}> already exists")
        if each.name in parents:
            members[each.name] = SubGroupSet(each.name, each.topology_constraint, each.min_subgroup)
        else:
            minimum = 0 if each.is_optional else max(each.min_member, 1)
            members[each.name] = Leaf(each.name, minimum, each.topology_constraint)
    return members


def _parent_of(subgroup: SubGroupInfo) -> str:
    return "" if subgroup.parent is None else subgroup.parent.lower()
