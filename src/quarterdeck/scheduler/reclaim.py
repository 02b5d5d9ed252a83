"""When a queue may take resources back from others.

All numbers are those before the search began: what a queue had, less what the scenario takes from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.scheduler.cluster import Cluster
from quarterdeck.scheduler.job import Job, total_wanted
from quarterdeck.scheduler.minruntime import is_protected_from_reclaim
from quarterdeck.scheduler.protection import spares_minimum
from quarterdeck.scheduler.queue import NO_AMOUNTS, QueueState, at_most, plus
from quarterdeck.scheduler.snapshot import UNLIMITED
from quarterdeck.scheduler.step import Fate, Step, total_charge
from quarterdeck.scheduler.subgroup import Leaf
from quarterdeck.scheduler.task import Amounts, Task

__all__ = ["ReclaimRules", "may_reclaim", "parting"]

_RESOURCES: Final = (0, 1, 2)


def may_reclaim(job: Job) -> bool:
    """Whether the job's queue would stay within its fair share, and its quota if it cannot be preempted."""
    queue = job.queue
    assert queue is not None
    if not at_most(plus(queue.allocated, job.wanted()), queue.fair_share):
        return False
    return job.is_preemptible or at_most(plus(queue.non_preemptible, job.wanted()), queue.quota)


def parting(left: QueueState, right: QueueState) -> tuple[QueueState, QueueState]:
    """The two queues at the first level where the ways from the root to these queues differ."""
    mine, theirs = left.chain[-1], right.chain[-1]
    for mine, theirs in zip(reversed(left.chain), reversed(right.chain), strict=False):
        if mine is not theirs:
            break
    return mine, theirs


class ReclaimRules:
    """Judges scenarios of one reclaimer."""

    def __init__(self, cluster: Cluster, reclaimer: Job) -> None:
        assert reclaimer.queue is not None
        self._cluster: Final = cluster
        self._job: Final = reclaimer
        self._queue: Final = reclaimer.queue
        self._allocated: Final = {
            queue: plus(queue.allocated, NO_AMOUNTS) for queue in cluster.queues.values()
        }
        self._non_preemptible: Final = {
            queue: plus(queue.non_preemptible, NO_AMOUNTS) for queue in self._queue.chain
        }

    def losable(self, tasks: Sequence[Task], steps: Sequence[Step]) -> list[Step]:
        """The steps whose loss could be allowed at best, that is if all the others were lost as well."""
        request = total_wanted(tasks)
        after = {queue: plus(self._allocated[queue], request) for queue in self._queue.chain}
        for step in steps:
            assert step.job.queue is not None
            for queue in step.job.queue.chain:
                if queue in after:
                    after[queue] = _minus(after[queue], step.held)
        involved = _involved(request)
        known: dict[QueueState, bool] = {}
        found = []
        for step in steps:
            victim = step.job.queue
            assert victim is not None
            if victim not in known:
                known[victim] = self._is_losable(victim, request, involved, after)
            if known[victim]:
                found.append(step)
        return found

    def _is_losable(
        self, victim: QueueState, request: Amounts, involved: set[int], after: dict[QueueState, Amounts]
    ) -> bool:
        mine, theirs = parting(self._queue, victim)
        left = self._allocated[theirs]
        return self._is_takeable(mine, theirs, left, request) and not any(
            self._is_unfair(mine, after[mine], theirs, left, resource) for resource in involved
        )

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], fate: Fate) -> bool:
        """Whether the scenario respects shares, quotas and protected victims."""
        request = total_wanted(tasks)
        remaining = dict(self._allocated)
        touched: dict[QueueState, set[int]] = {}
        for job, blocks in self._blocks(steps, fate):
            assert job.queue is not None
            for block in blocks:
                if not self._may_take(job.queue, request, remaining):
                    return False
                for queue in job.queue.chain:
                    remaining[queue] = _minus(remaining[queue], block)
                    touched.setdefault(queue, set()).update(_involved(block))
        return self._stays_in_bounds(request, remaining, touched) and spares_minimum(
            fate, lambda victim: is_protected_from_reclaim(self._cluster, victim, self._job)
        )

    def _blocks(self, steps: Sequence[Step], fate: Fate) -> Iterable[tuple[Job, list[Amounts]]]:
        """What each victim loses: its surplus pod by pod, then the rest at once."""
        counts = fate.lost if self._cluster.settings.allow_consolidating_reclaim else fate.disturbed
        tasks_of: dict[Job, list[Task]] = {}
        for step in steps:
            tasks_of.setdefault(step.job, []).extend(step.tasks)
        for job, tasks in tasks_of.items():
            surplus, core = _split(tasks)
            lost = [[task] for task in surplus if task in counts]
            lost.append([task for task in core if task in counts])
            blocks = [total_charge(block) for block in lost if block]
            if blocks:
                yield job, blocks

    def _may_take(self, victim: QueueState, request: Amounts, remaining: dict[QueueState, Amounts]) -> bool:
        mine, theirs = parting(self._queue, victim)
        return self._is_takeable(mine, theirs, remaining[theirs], request)

    def _is_takeable(self, mine: QueueState, theirs: QueueState, left: Amounts, request: Amounts) -> bool:
        """Whether the other queue is above its share, or above its quota while this one is below."""
        if not at_most(left, theirs.allocatable):
            return True
        is_starved = at_most(plus(self._allocated[mine], request), mine.quota)
        return is_starved and not at_most(left, theirs.quota)

    def _stays_in_bounds(
        self,
        request: Amounts,
        remaining: dict[QueueState, Amounts],
        touched: dict[QueueState, set[int]],
    ) -> bool:
        for queue in self._queue.chain:
            after = plus(remaining[queue], request)
            for sibling, involved in touched.items():
                if sibling.parent is not queue.parent or sibling is queue:
                    continue
                for resource in involved | _involved(request):
                    if self._is_unfair(queue, after, sibling, remaining[sibling], resource):
                        return False
            if not self._job.is_preemptible and not at_most(
                plus(self._non_preemptible[queue], request), queue.quota
            ):
                return False
        return True

    def _is_unfair(
        self, queue: QueueState, after: Amounts, sibling: QueueState, left: Amounts, resource: int
    ) -> bool:
        """Whether the reclaimer would be above its share, and further than the one it takes from."""
        mine, theirs = queue.fair_share[resource], sibling.fair_share[resource]
        if mine == theirs == UNLIMITED:
            return False
        ratio, other = _saturation(after[resource], mine), _saturation(left[resource], theirs)
        multiplier = self._cluster.settings.reclaimer_saturation_multiplier
        return ratio > 1 and theirs > 0 and ratio * multiplier >= other


def _split(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Pods above the minimum of their leaf, and the others."""
    by_leaf: dict[Leaf, list[Task]] = {}
    for task in tasks:
        assert task.leaf is not None
        by_leaf.setdefault(task.leaf, []).append(task)
    surplus: list[Task] = []
    core: list[Task] = []
    for leaf, members in by_leaf.items():
        core += members[: leaf.minimum]
        surplus += members[leaf.minimum :]
    return surplus, core


def _minus(left: Amounts, right: Amounts) -> Amounts:
    return (left[0] - right[0], left[1] - right[1], left[2] - right[2])


def _involved(amounts: Amounts) -> set[int]:
    return {resource for resource in _RESOURCES if amounts[resource] > 0}


def _saturation(has: float, share: float) -> float:
    if share == 0:
        return float("inf") if has > 0 else 0.0
    return 0.0 if share == UNLIMITED else has / share
