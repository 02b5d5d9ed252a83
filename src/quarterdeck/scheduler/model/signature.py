"""Jobs that are no easier to place than one that already failed need not be tried.

Two jobs are comparable if their pods have the same constraints. A job is no easier than another if it has as
many pods to place, and each of them asks for as much as its counterpart.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.snapshot import TopologyConstraint


class FailedJobs:
    """The smallest jobs that failed in an action, by what they have in common."""

    __slots__ = ("_by_signature",)

    def __init__(self) -> None:
        self._by_signature: Final[dict[Hashable, list[list[Task]]]] = {}

    def add(self, job: Job, scope: Hashable = None) -> None:
        """A job failed; ``scope`` separates what must not be compared, such as queues."""
        self._by_signature.setdefault((scope, _signature(job)), []).append(_largest_first(job))

    def covers(self, job: Job, scope: Hashable = None) -> bool:
        """Whether a job that is no harder to place has failed."""
        failed = self._by_signature.get((scope, _signature(job)))
        if not failed:
            return False
        tasks = _largest_first(job)
        return any(_is_no_easier(tasks, each) for each in failed)


def _largest_first(job: Job) -> list[Task]:
    return sorted(job.tasks_to_allocate(), key=lambda task: task.wanted[::-1], reverse=True)


def _is_no_easier(tasks: list[Task], others: list[Task]) -> bool:
    if len(tasks) < len(others):
        return False
    return all(_asks_as_much(mine.shape, theirs.shape) for mine, theirs in zip(tasks, others, strict=False))


def _asks_as_much(mine: Shape, theirs: Shape) -> bool:
    if mine is theirs:
        return True
    if mine.share != theirs.share or mine.claims != theirs.claims:
        return False
    has = dict(mine.scalars)
    return (
        mine.gpu >= theirs.gpu
        and mine.cpu >= theirs.cpu
        and mine.memory >= theirs.memory
        and all(has.get(name, 0) >= amount for name, amount in theirs.scalars)
    )


def _signature(job: Job) -> Hashable:
    """What decides which nodes come into question."""
    parts = set()
    for task in job.tasks_to_allocate():
        assert task.leaf is not None
        parts.add((_constraints(task.leaf), task.shape.constraints))
    return (job.is_preemptible, frozenset(parts))


def _constraints(leaf: Leaf) -> tuple[TopologyConstraint | None, ...]:
    found = [leaf.constraint]
    group: SubGroupSet | None = leaf.parent
    while group is not None:
        found.append(group.constraint)
        group = group.parent
    return tuple(found)
