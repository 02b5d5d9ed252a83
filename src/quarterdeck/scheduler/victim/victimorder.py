"""Who is evicted first: the candidates of a search, one step at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from quarterdeck.scheduler.joborder import JobOrder, QueueKeys, as_victim
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import leaf_order
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.victim.evictionstep import Step


def next_victims(job: Job, active: Sequence[Task]) -> list[Task]:
    """Which of the active pods of a job go first, given that the others are gone already."""
    counts = dict.fromkeys(job.leaves.values(), 0)
    for task in active:
        assert task.leaf is not None
        counts[task.leaf] += 1
    leaves = sorted(counts, key=lambda leaf: leaf_order(leaf, counts[leaf]), reverse=True)
    victims: list[Task] = []
    for leaf in leaves:
        tasks = [task for task in active if task.leaf is leaf]
        tasks.sort(key=lambda task: task.order, reverse=True)
        if counts[leaf] > leaf.minimum:
            return tasks[:1]
        victims += tasks
    return victims


class VictimOrder:
    """Jobs that may be evicted, in order; what was found out once is remembered."""

    __slots__ = ("_candidates", "_first", "_keys", "_nodes", "_rest")

    def __init__(self, jobs: Iterable[Job], keys: QueueKeys) -> None:
        """A pod whose node is not in the snapshot leaves no room: it is no candidate."""
        self._keys: Final = keys
        self._candidates: Final = {job: as_victim(job, _evictable(job)) for job in jobs}
        self._first: Final[list[Step]] = []
        """The order as long as nobody is chosen, as far as it was asked for."""
        self._rest: Iterator[Step] | None = None
        self._nodes: Final[dict[Job, Sequence[NodeState]]] = {}

    def everyone(self) -> list[Step]:
        """All candidates, each in one step."""
        return [Step(each.job, each.tasks) for each in self._candidates.values()]

    def nodes_of(self, job: Job) -> Sequence[NodeState]:
        """Where a job has pods, in order."""
        nodes = self._nodes.get(job)
        if nodes is None:
            found = {task.node for task in job.tasks if task.node is not None}
            nodes = self._nodes[job] = sorted(found, key=lambda node: node.rank)
        return nodes

    def without(self, chosen: Collection[Step]) -> Iterable[Step]:
        """One step after the other, without those that were chosen before.

        Where every job that was chosen is gone as a whole, the order of the others is what it was.
        """
        if all(len(step.tasks) == len(self._candidates[step.job].tasks) for step in chosen):
            gone = {step.job for step in chosen}
            return (step for step in self._remembered() if step.job not in gone)
        return self._ordered({task for step in chosen for task in step.tasks})

    def _remembered(self) -> Iterator[Step]:
        known = self._first
        yield from known
        if self._rest is None:
            self._rest = self._ordered(set())
        for step in self._rest:
            known.append(step)
            yield step

    def _ordered(self, chosen: Collection[Task]) -> Iterator[Step]:
        order = JobOrder(self._candidates.values(), self._keys, is_victims=True)
        while (queued := order.pop()) is not None:
            victims = next_victims(queued.job, queued.tasks)
            is_chosen = any(task in chosen for task in victims)
            gone = chosen if is_chosen else victims
            rest = [task for task in queued.tasks if task not in gone]
            if rest:
                order.push(as_victim(queued.job, rest))
            if not is_chosen:
                yield Step(queued.job, victims)


def _evictable(job: Job) -> list[Task]:
    return [task for task in job.tasks if task.state in ACTIVE and task.node is not None]
