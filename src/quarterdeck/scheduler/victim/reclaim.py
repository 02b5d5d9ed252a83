"""When a queue may take resources back from others.

All numbers are those before the search began: what a queue had, less what the scenario takes from it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job, total_wanted
from quarterdeck.scheduler.model.queue import NO_AMOUNTS, QueueState, at_most, plus
from quarterdeck.scheduler.model.subgroup import Leaf
from quarterdeck.scheduler.model.task import Amounts, Task
from quarterdeck.scheduler.snapshot import UNLIMITED
from quarterdeck.scheduler.victim.evictionstep import Step, VictimOutcome, total_charge
from quarterdeck.scheduler.victim.minruntime import is_protected_from_reclaim
from quarterdeck.scheduler.victim.protection import spares_minimum

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


class ReclaimRules:
    """Judges scenarios of one reclaimer.

    The rule has two parts. A block of pods may be taken from a queue that is above what it is entitled to
    (``_is_takeable``), and when all is done nobody who lost may be worse off than the reclaimer
    (``_is_unfair``). ``allow`` asks both about what a scenario came to. ``may_allow`` asks both about the
    best that could come of it, before anybody is evicted.
    """

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
        self._partings: Final[dict[QueueState, tuple[QueueState, QueueState]]] = {}

    def may_allow(self, tasks: Sequence[Task], steps: Sequence[Step], must_lose: float) -> bool:
        """Whether the victims could lose so many GPUs at best.

        What a branch of the queue tree has among the victims beyond the GPUs that may be left over it will
        lose for certain.
        """
        if must_lose <= 0:
            return True
        branches: dict[tuple[QueueState, QueueState], list[Step]] = {}
        for step in steps:
            assert step.job.queue is not None
            branches.setdefault(self._parting(step.job.queue), []).append(step)
        gpus = {place: sum(step.gpus for step in its) for place, its in branches.items()}
        left_over = sum(gpus.values()) - must_lose
        request = total_wanted(tasks)
        losable = 0.0
        for (mine, theirs), its in branches.items():
            relief = sum(amount for (other, _), amount in gpus.items() if mine in other.chain[1:])
            most = self._losable(mine, theirs, its, request, relief)
            if gpus[mine, theirs] - left_over > most:
                return False
            losable += most
        return losable >= must_lose

    def _losable(
        self,
        mine: QueueState,
        theirs: QueueState,
        steps: Sequence[Step],
        request: Amounts,
        relief: float,
    ) -> float:
        """How many GPUs a branch could lose at best, if ``relief`` is lost below the reclaimer's branch.

        It loses blocks until it is down to what it is entitled to, and the last one may be a whole job. CPU
        and memory are left as they are: it may be that none are lost.
        """
        cpu, memory, gpu = self._allocated[theirs]
        after = plus(self._allocated[mine], (request[0], request[1], request[_GPU] - relief))
        sizes: dict[Job, float] = {}
        for step in steps:
            sizes[step.job] = sizes.get(step.job, 0.0) + step.gpus
        everything = sum(sizes.values())
        unit = _unit(steps)
        amounts = range(math.ceil(everything / unit) + 1)

        def is_kept(count: int) -> bool:
            return not self._is_takeable(mine, theirs, (cpu, memory, gpu - count * unit), request)

        def is_too_much(count: int) -> bool:
            return self._is_unfair(mine, after, theirs, (cpu, memory, gpu - count * unit), _GPU)

        # Both are true from some amount on: the more is gone the less may be taken.
        until = bisect_left(amounts, True, key=is_kept)
        if not until:
            return 0.0
        fair = bisect_left(amounts, True, key=is_too_much)
        return min(until * unit + max(sizes.values()), fair * unit - (unit == 1), everything)

    def _parting(self, victim: QueueState) -> tuple[QueueState, QueueState]:
        known = self._partings.get(victim)
        if known is None:
            known = self._partings[victim] = parting(self._queue, victim)
        return known

    def allow(self, tasks: Sequence[Task], steps: Sequence[Step], outcome: VictimOutcome) -> bool:
        """Whether the scenario respects shares, quotas and protected victims."""
        request = total_wanted(tasks)
        remaining = dict(self._allocated)
        touched: dict[QueueState, set[int]] = {}
        for job, blocks in self._blocks(steps, outcome):
            assert job.queue is not None
            for block in blocks:
                if not self._may_take(job.queue, request, remaining):
                    return False
                for queue in job.queue.chain:
                    remaining[queue] = _minus(remaining[queue], block)
                    touched.setdefault(queue, set()).update(_involved(block))
        return self._stays_in_bounds(request, remaining, touched) and spares_minimum(
            outcome, lambda victim: is_protected_from_reclaim(self._cluster, victim, self._job)
        )

    def _blocks(self, steps: Sequence[Step], outcome: VictimOutcome) -> Iterable[tuple[Job, list[Amounts]]]:
        """What each victim loses: its surplus pod by pod, then the rest at once."""
        counts = outcome.lost if self._cluster.settings.allow_consolidating_reclaim else outcome.disturbed
        for job, tasks in _by_job(steps).items():
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


def _by_job(steps: Sequence[Step]) -> dict[Job, list[Task]]:
    """The victims of each job."""
    found: dict[Job, list[Task]] = {}
    for step in steps:
        found.setdefault(step.job, []).extend(step.tasks)
    return found


def _unit(steps: Sequence[Step]) -> float:
    """Amounts of GPUs that victims lose are multiples of this, or at least not smaller."""
    sizes = [step.gpus for step in steps if step.gpus]
    return 1.0 if all(size == int(size) for size in sizes) else min(sizes)


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
