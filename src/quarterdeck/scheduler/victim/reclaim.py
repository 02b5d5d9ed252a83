"""When a queue may take resources back from others.

All numbers are those before the search began: what a queue had, less what the scenario takes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
_OTHERS: Final = (0, 1)
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


class _Branch:
    """GPUs of the victims in one branch of the queue tree."""

    __slots__ = ("gpus", "of_jobs", "steps")

    def __init__(self) -> None:
        self.gpus = 0.0
        self.of_jobs: dict[Job, float] = {}
        self.steps: dict[Job, tuple[Step, ...]] = {}

    def copy(self) -> _Branch:
        made = _Branch()
        made.gpus = self.gpus
        made.of_jobs = dict(self.of_jobs)
        made.steps = dict(self.steps)
        return made

    def add(self, step: Step) -> None:
        self.gpus += step.gpus
        self.of_jobs[step.job] = self.of_jobs.get(step.job, 0.0) + step.gpus
        self.steps[step.job] = (*self.steps.get(step.job, ()), step)


class _Tally:
    """GPUs of victims, by where their queues part from that of the reclaimer."""

    __slots__ = ("branches", "gpus", "relief")

    def __init__(self) -> None:
        self.gpus = 0.0
        self.branches: dict[tuple[QueueState, QueueState], _Branch] = {}
        """By the two queues at the parting."""
        self.relief: dict[QueueState, float] = {}
        """What would be lost below each queue above the partings."""

    def extended(
        self, steps: Sequence[Step], parting: Callable[[QueueState], tuple[QueueState, QueueState]]
    ) -> _Tally:
        """The same with more victims."""
        made = _Tally()
        made.gpus = self.gpus
        made.branches = dict(self.branches)
        made.relief = dict(self.relief)
        own = set()
        for step in steps:
            assert step.job.queue is not None
            place = parting(step.job.queue)
            if place not in own:
                own.add(place)
                branch = made.branches.get(place)
                made.branches[place] = branch.copy() if branch is not None else _Branch()
            made.branches[place].add(step)
            made.gpus += step.gpus
            for queue in place[0].chain[1:]:
                made.relief[queue] = made.relief.get(queue, 0.0) + step.gpus
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
        self._surpluses: dict[tuple[Step, ...], float] = {}

    def may_allow(
        self, tasks: Sequence[Task], recorded: Sequence[Step], more: Sequence[Step], must_lose: float
    ) -> bool:
        """Whether the victims could lose so many GPUs at best.

        What a branch of the queue tree has among the victims beyond the GPUs that may be left over it will
        lose for certain.
        """
        if must_lose <= 0:
            return True
        tally = self._tally_of(recorded).extended(more, self._parting)
        left_over = tally.gpus - must_lose
        request = total_wanted(tasks)
        losable = 0.0
        for (mine, theirs), branch in tally.branches.items():
            most = self._losable(mine, theirs, branch, request, tally.relief.get(mine, 0.0))
            if branch.gpus - left_over > most:
                return False
            losable += most
        return losable >= must_lose

    def _losable(
        self, mine: QueueState, theirs: QueueState, branch: _Branch, request: Amounts, relief: float
    ) -> float:
        """How many GPUs a branch can lose at best.

        That is what it has beyond its share, and the block that crosses it; and no more than would leave it
        closer to its share than the reclaimer.
        """
        has = self._allocated[theirs]
        beyond = _beyond(has, theirs.allocatable)
        if at_most(plus(self._allocated[mine], request), mine.quota):
            beyond = max(beyond, _beyond(has, theirs.quota))
        if beyond <= 0:
            return 0.0
        most = beyond + max(branch.of_jobs.values())
        share = theirs.fair_share[_GPU]
        ratio = _saturation(self._allocated[mine][_GPU] + request[_GPU] - relief, mine.fair_share[_GPU])
        if ratio > 1 and share > 0:
            ratio *= self._cluster.settings.reclaimer_saturation_multiplier
            most = min(most, has[_GPU] - ratio * share)
        if most <= 0:
            return 0.0
        return min(most, sum(self._losable_of(job, branch, most) for job in branch.steps))

    def _losable_of(self, job: Job, branch: _Branch, most: float) -> float:
        """How many GPUs a victim can lose at best if it can lose only so many: all, or its surplus."""
        gpus = branch.of_jobs[job]
        if gpus <= most:
            return gpus
        steps = branch.steps[job]
        surplus = self._surpluses.get(steps)
        if surplus is None:
            evicted = {task for step in steps for task in step.tasks}
            kept = sum(task.shape.gpu for task in job.tasks_after(evicted) if task in evicted)
            surplus = gpus - kept if all(step.is_whole for step in steps) else gpus
            self._surpluses[steps] = surplus
        return surplus

    def _tally_of(self, recorded: Sequence[Step]) -> _Tally:
        if self._recorded is None or self._recorded[0] is not recorded:
            self._recorded = (recorded, _Tally().extended(recorded, self._parting))
        return self._recorded[1]

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


def _beyond(has: Amounts, bound: Amounts) -> float:
    """How many GPUs a queue has above a bound; no end of them if it is above it in something else."""
    if any(bound[resource] != UNLIMITED and has[resource] > bound[resource] for resource in _OTHERS):
        return float("inf")
    return has[_GPU] - bound[_GPU] if bound[_GPU] != UNLIMITED else 0.0


def _minus(left: Amounts, right: Amounts) -> Amounts:
    return (left[0] - right[0], left[1] - right[1], left[2] - right[2])


def _involved(amounts: Amounts) -> set[int]:
    return {resource for resource in _RESOURCES if amounts[resource] > 0}


def _saturation(has: float, share: float) -> float:
    if share == 0:
        return float("inf") if has > 0 else 0.0
    return 0.0 if share == UNLIMITED else has / share
