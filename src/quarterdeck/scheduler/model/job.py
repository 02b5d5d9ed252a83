"""A pod group with its pods: the gang's state, and which of its pods come next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.state import HOLDING
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF, Leaf, SubGroupSet, build_tree, leaf_order
from quarterdeck.scheduler.model.task import Amounts, Task
from quarterdeck.scheduler.snapshot import PodGroupInfo, PriorityClassInfo

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.queue import QueueState

DEFAULT_PRIORITY: Final = 50
_NON_PREEMPTIBLE_FROM: Final = 100
_SINGLE_ATTEMPT: Final = 1


def priority_of(group: PodGroupInfo, classes: Iterable[PriorityClassInfo]) -> int:
    """The value of the group's priority class, else of the global default, else 50."""
    known = sorted(classes, key=lambda each: each.name)
    for each in known:
        if group.priority_class_name and each.name == group.priority_class_name:
            return each.value
    return next((each.value for each in known if each.is_global_default), DEFAULT_PRIORITY)


def is_preemptible(preemptibility: str, priority: int) -> bool:
    """What the group says, else whether its priority is below 100."""
    return preemptibility == "preemptible" if preemptibility else priority < _NON_PREEMPTIBLE_FROM


class Job:
    """A pod group and its pods."""

    __slots__ = (
        "_placeable",
        "created",
        "error",
        "had_nodes",
        "info",
        "is_plain",
        "is_preemptible",
        "key",
        "leaves",
        "priority",
        "queue",
        "root",
        "version",
    )

    def __init__(self, info: PodGroupInfo, priority: int, queue: QueueState | None) -> None:
        self.info: Final = info
        self.key: Final = info.key
        self.created: Final = info.created
        self.priority: Final = priority
        self.is_preemptible: Final = is_preemptible(info.preemptibility, priority)
        self.queue: Final = queue
        """None if it does not exist or lacks an ancestor."""
        self.error = ""
        """Why its subgroups make no tree; such a job is not scheduled."""
        try:
            self.root = build_tree(info)
        except SchemaError as error:
            self.error = str(error)
            self.root = SubGroupSet("")
            self.root.add(Leaf(DEFAULT_LEAF, 1))
        self.leaves: Final[Mapping[str, Leaf]] = {leaf.name: leaf for leaf in self.root.all_leaves()}
        self.is_plain: Final = self.root.constraint is None and not any(
            each.topology_constraint for each in info.subgroups
        )
        """Whether its pods may be placed without regard to each other."""
        self.had_nodes = False
        """Whether pods of it had nodes before the cycle."""
        self.version = 0
        """Changes with every state of its pods."""
        self._placeable: dict[bool, tuple[int, list[Task], Amounts]] = {}

    def add(self, task: Task) -> bool:
        """Count a pod in its leaf; False if the group has no such leaf and the pod is ignored."""
        name = DEFAULT_LEAF if self.error else task.info.subgroup or DEFAULT_LEAF
        leaf = self.leaves.get(name)
        if leaf is None:
            return False
        task.job, task.leaf = self, leaf
        leaf.tasks.append(task)
        leaf.count(task.state, 1)
        return True

    def seal(self) -> None:
        """All pods are known: put them in order."""
        self.had_nodes = any(self.count(state) for state in HOLDING)
        for leaf in self.leaves.values():
            leaf.tasks.sort(key=lambda task: task.order)

    @property
    def tasks(self) -> Iterable[Task]:
        return (task for leaf in self.leaves.values() for task in leaf.tasks)

    def count(self, state: PodState) -> int:
        """How many pods are in a state."""
        return sum(leaf.counts[state] for leaf in self.leaves.values())

    @property
    def active(self) -> int:
        return sum(leaf.active for leaf in self.leaves.values())

    @property
    def used(self) -> int:
        return sum(leaf.used for leaf in self.leaves.values())

    @property
    def is_ready(self) -> bool:
        """Whether enough pods exist to try."""
        return not self.error and self.root.holds(lambda leaf: leaf.is_ready)

    def is_backed_off(self, node_pool: str) -> bool:
        """Whether the job gave up on a node pool after one failure."""
        if self.info.scheduling_backoff != _SINGLE_ATTEMPT or not self.info.scheduling_conditions:
            return False
        return self.info.scheduling_conditions[-1].node_pool == node_pool

    @property
    def is_gang_satisfied(self) -> bool:
        return self.root.holds(lambda leaf: leaf.is_gang_satisfied)

    @property
    def is_elastic(self) -> bool:
        return any(leaf.is_elastic for leaf in self.leaves.values())

    @property
    def is_stale(self) -> bool:
        """Whether pods run although the gang is no longer whole; a gang that finishes is not stale."""
        if self.error or self.count(PodState.SUCCEEDED) or not self.used:
            return False
        return not self.is_gang_satisfied

    @property
    def may_evict_from(self) -> float:
        """When others may be evicted for it: its delay counts from when it was made or last evicted."""
        return max(self.created, self.info.last_eviction or 0.0) + self.info.preemption_delay

    @property
    def must_wait(self) -> bool:
        """Whether a leaf has its minimum only with pods that are promised a node."""
        for leaf in self.leaves.values():
            promised = leaf.counts[PodState.PIPELINED]
            if promised and leaf.active - promised < leaf.minimum:
                return True
        return False

    def tasks_to_allocate(self, *, with_evicted: bool = False) -> list[Task]:
        """The pods to be placed next, all or none of them.

        Below the minimum these are all that is missing in every leaf; a gang that has its minimum grows
        pod by pod. In a search for victims, pods that it evicted may be placed again (``with_evicted``).
        """
        return self._next(with_evicted)[1]

    def wanted(self, *, with_evicted: bool = False) -> Amounts:
        """What these pods ask for."""
        return self._next(with_evicted)[2]

    def _next(self, with_evicted: bool) -> tuple[int, list[Task], Amounts]:
        known = self._placeable.get(with_evicted)
        if known is None or known[0] != self.version:
            tasks = self._choose(lambda leaf: leaf.active, lambda leaf: _placeable(leaf, with_evicted))
            known = self._placeable[with_evicted] = (self.version, tasks, total_wanted(tasks))
        return known

    def tasks_after(self, evicted: Collection[Task]) -> list[Task]:
        """The pods that would be placed next if some were evicted in a search for victims."""
        lost = Counter(task.leaf for task in evicted)
        return self._choose(
            lambda leaf: leaf.active - lost[leaf],
            lambda leaf: [task for task in leaf.tasks if task.state is PodState.PENDING or task in evicted],
        )

    def _choose(self, active: Callable[[Leaf], int], placeable: Callable[[Leaf], list[Task]]) -> list[Task]:
        below = [leaf for leaf in _required(self.root) if active(leaf) < leaf.minimum]
        chosen: list[Task] = []
        for leaf in sorted(below, key=lambda leaf: leaf_order(leaf, active(leaf))):
            chosen += placeable(leaf)[: leaf.minimum - active(leaf)]
        if below:
            return chosen
        for leaf in sorted(self.leaves.values(), key=lambda leaf: leaf_order(leaf, active(leaf))):
            ready = placeable(leaf)
            if ready:
                return ready[: max(leaf.minimum - active(leaf), 1)]
        return []


def _placeable(leaf: Leaf, with_evicted: bool) -> list[Task]:
    if not with_evicted:
        return [task for task in leaf.tasks if task.state is PodState.PENDING]
    return [
        task
        for task in leaf.tasks
        if task.state is PodState.PENDING or (task.state is PodState.RELEASING and task.is_virtual)
    ]


def _required(group: SubGroupSet) -> list[Leaf]:
    """The leaves that must have their minimum; with ``minSubGroup`` those that are closest to it."""
    if group.minimum is None:
        return [*group.leaves, *(leaf for child in group.sets for leaf in _required(child))]
    branches = [[leaf] for leaf in group.leaves] + [_required(child) for child in group.sets]
    branches.sort(key=_distance)
    return [leaf for branch in branches[: group.minimum] for leaf in branch]


def _distance(branch: Sequence[Leaf]) -> tuple[bool, bool, int, str]:
    """Branches that can be placed at all first, of these the ones that have begun, then the smallest."""
    is_ready = all(leaf.is_ready for leaf in branch)
    has_begun = any(leaf.active for leaf in branch)
    missing = sum(max(leaf.minimum - leaf.active, 0) for leaf in branch)
    return (not is_ready, not has_begun, missing, min((leaf.name for leaf in branch), default=""))


def total_wanted(tasks: Iterable[Task]) -> Amounts:
    """What pods ask for together, as queues count it."""
    cpu: float = 0
    memory: float = 0
    gpu: float = 0
    for task in tasks:
        wanted = task.wanted
        cpu += wanted[0]
        memory += wanted[1]
        gpu += wanted[2]
    return (cpu, memory, gpu)


def gang_rank(counts: Iterable[tuple[int, int]]) -> int:
    """0 below the minimum of some leaf, 1 exactly at all, 2 above; each count comes with its minimum."""
    rank = 1
    for active, minimum in counts:
        if active < minimum:
            return 0
        if active > minimum:
            rank = 2
    return rank
