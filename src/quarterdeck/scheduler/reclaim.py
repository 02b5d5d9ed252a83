"""When a queue may take resources back from others.

All numbers are those before the search began: what a queue had, less what the scenario takes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
_GPU: Final = 2


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


class _Tally:
    """GPUs of victims, by where their queues part from that of the reclaimer."""

    __slots__ = ("by_branch", "gpus", "relief")

    def __init__(self) -> None:
        self.gpus = 0.0
        self.by_branch: dict[tuple[QueueState, QueueState], float] = {}
        """By the two queues at the parting."""
        self.relief: dict[QueueState, float] = {}
        """What would be lost below each queue above the partings."""

    def extended(
        self, steps: Sequence[Step], parting: Callable[[QueueState], tuple[QueueState, QueueState]]
    ) -> _Tally:
        """The same with more victims."""
        made = _Tally()
        made.gpus = self.gpus
        made.by_branch = dict(self.by_branch)
        made.relief = dict(self.relief)
        for step in steps:
            assert step.job.queue is not None
            gpus = step.gpus
            branch = parting(step.job.queue)
            made.gpus += gpus
            made.by_branch[branch] = made.by_branch.get(branch, 0.0) + gpus
            for queue in branch[0].chain[1:]:
                made.relief[queue] = made.relief.get(queue, 0.0) + gpus
        return made


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
        self._partings: dict[QueueState, tuple[QueueState, QueueState]] = {}
        self._recorded: tuple[Sequence[Step], _Tally] | None = None

    def may_allow(
        self, tasks: Sequence[Task], recorded: Sequence[Step], more: Sequence[Step], must_lose: float
    ) -> bool:
        """Whether the victims could lose so many GPUs at best.

        What a branch of the queue tree has among the victims beyond the GPUs that may be left over it will
        lose for certain; it must be entitled to less.
        """
        if must_lose <= 0:
            return True
        tally = self._tally_of(recorded).extended(more, self._parting)
        left_over = tally.gpus - must_lose
        request = total_wanted(tasks)
        losable = 0.0
        for (mine, theirs), gpus in tally.by_branch.items():
            has = self._allocated[theirs]
            after = (0, 0, self._allocated[mine][2] + request[2] - tally.relief.get(mine, 0.0))
            is_takeable = self._is_takeable(mine, theirs, has, request)
            lost = gpus - left_over
            if lost > 0 and (
                not is_takeable or self._is_unfair(mine, after, theirs, (0, 0, has[2] - lost), _GPU)
            ):
                return False
            if is_takeable and not self._is_unfair(mine, after, theirs, has, _GPU):
                losable += gpus
        return losable >= must_lose

    def _tally_of(self, recorded: Sequence[Step]) -> _Tally:
        if self._recorded is None or self._recorded[0] is not recorded:
            self._recorded = (recorded, _Tally().extended(recorded, self._parting))
        return self._recorded[1]

    def _parting(self, victim: QueueState) -> tuple[QueueState, QueueState]:
        known = self._partings.get(victim)
        if known is None:
            known = self._partings[victim] = parting(self._queue, victim)
        return known

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
        mine, theirs = self._parting(victim)
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
