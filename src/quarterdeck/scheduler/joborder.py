"""Which job comes next: the best queue at each level of the tree, then the best job of the leaf.

Queues are compared together with what their next job would take (or, among victims, with what would be
left once the next victim is gone). When a job is placed only the queues on the way to it change their
position, and they are on top of their heaps then: putting those in order again is enough.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from quarterdeck.scheduler.model.job import Job, gang_rank, total_wanted
from quarterdeck.scheduler.model.queue import NO_AMOUNTS, QueueState, at_most, plus
from quarterdeck.scheduler.model.state import HOLDING
from quarterdeck.scheduler.model.task import Amounts, Task

JobKey = tuple[int, int, float, str, str]
QueueKey = tuple[bool, bool, int, bool, float, float]


class QueuedJob:
    """A job in line: for its next pods, or as a victim for those that are left of it."""

    __slots__ = ("amounts", "job", "key", "tasks", "version")

    def __init__(self, job: Job, rank: int, amounts: Amounts, tasks: list[Task]) -> None:
        self.job: Final = job
        self.version: Final = job.version
        self.key: Final[JobKey] = (-job.priority, rank, job.created, job.key.name, job.key.namespace)
        self.amounts: Final = amounts
        """What its pods would take, or hold."""
        self.tasks: Final = tasks


def _by_key(queued: QueuedJob) -> JobKey:
    return queued.key


def as_waiting(job: Job, *, with_evicted: bool = False) -> QueuedJob:
    """A job that waits to place its next pods."""
    rank = gang_rank((leaf.active, leaf.minimum) for leaf in job.leaves.values())
    tasks = job.tasks_to_allocate(with_evicted=with_evicted)
    return QueuedJob(job, rank, job.wanted(with_evicted=with_evicted), tasks)


def as_waiting_without(job: Job, evicted: Collection[Task]) -> QueuedJob:
    """A job as it would wait if some of its pods were evicted in a search for victims."""
    lost = Counter(task.leaf for task in evicted)
    rank = gang_rank((leaf.active - lost[leaf], leaf.minimum) for leaf in job.leaves.values())
    tasks = job.tasks_after(evicted)
    return QueuedJob(job, rank, total_wanted(tasks), tasks)


def as_victim(job: Job, tasks: list[Task]) -> QueuedJob:
    """A job of which some active pods may still be evicted."""
    counts = dict.fromkeys(job.leaves.values(), 0)
    held = NO_AMOUNTS
    for task in tasks:
        assert task.leaf is not None
        counts[task.leaf] += 1
        if task.state in HOLDING:
            held = plus(held, task.charge)
    rank = gang_rank((count, leaf.minimum) for leaf, count in counts.items())
    return QueuedJob(job, rank, held, tasks)


class QueueKeys:
    """Sort keys of queues; a search for victims asks for the same ones over and over."""

    __slots__ = ("_known", "_total")

    def __init__(self, total: Amounts) -> None:
        """``total`` is what the cluster has."""
        self._total: Final = total
        self._known: dict[tuple[QueueState, Amounts, Amounts, Amounts], QueueKey] = {}

    def of(self, queue: QueueState, allocated: Amounts, asked: Amounts, after: Amounts) -> QueueKey:
        """The key of a queue that has so much; ``asked`` counts what its next job wants, ``after`` as well,
        or what is left when the next victim is gone."""
        place = (queue, allocated, asked, after)
        key = self._known.get(place)
        if key is None:
            key = self._known[place] = (
                queue.is_over_fair_share(),
                not at_most(asked, queue.quota),
                -queue.info.priority,
                any(has > 0 and not may for has, may in zip(asked, queue.allocatable, strict=True)),
                queue.dominant_share(after, self._total),
                queue.dominant_share(allocated, self._total),
            )
        return key


class _Place:
    """A queue in the order: a leaf has jobs, an inner queue has the places of its children."""

    __slots__ = ("_is_victims", "_keys", "children", "jobs", "key", "parent", "queue", "taken")

    def __init__(self, queue: QueueState, parent: _Place | None, keys: QueueKeys, is_victims: bool) -> None:
        self.queue: Final = queue
        self.parent: Final = parent
        self.children: list[_Place] = []
        self.jobs: list[QueuedJob] = []
        """The next one first, or last among victims."""
        self.taken: Amounts = NO_AMOUNTS
        """Held by the victims that were taken from this leaf."""
        self.key: QueueKey = (False, False, 0, False, 0.0, 0.0)
        self._keys: Final = keys
        self._is_victims: Final = is_victims

    @property
    def is_empty(self) -> bool:
        return not self.children and not self.jobs

    @property
    def next(self) -> QueuedJob:
        return self.jobs[-1 if self._is_victims else 0]

    def best_leaf(self) -> _Place:
        place = self
        while place.children:
            place = place.children[0]
        return place

    def measure(self) -> None:
        """Compute the key anew, from what the best job of the subtree would change."""
        leaf, allocated = self.best_leaf(), self.queue.allocated
        amounts = leaf.next.amounts
        if self._is_victims:
            gone = plus(leaf.taken, amounts)
            after = (allocated[0] - gone[0], allocated[1] - gone[1], allocated[2] - gone[2])
            asked = (allocated[0], allocated[1], allocated[2])
        else:
            asked = after = plus(allocated, amounts)
        self.key = self._keys.of(self.queue, (allocated[0], allocated[1], allocated[2]), asked, after)

    def __lt__(self, other: _Place) -> bool:
        return _precedes(other, self) if self._is_victims else _precedes(self, other)


def _precedes(left: _Place, right: _Place) -> bool:
    if left.key != right.key:
        return left.key < right.key
    mine, theirs = left.queue.allocatable, right.queue.allocatable
    if mine != theirs:
        if at_most(mine, theirs):
            return True
        if at_most(theirs, mine):
            return False
    return (left.queue.info.created, left.queue.name) < (right.queue.info.created, right.queue.name)


class JobOrder:
    """Jobs in the order of their queues; as victims in the reverse order."""

    __slots__ = ("_changed", "_is_victims", "_keys", "_places", "_roots")

    def __init__(
        self,
        jobs: Iterable[QueuedJob],
        keys: QueueKeys,
        *,
        is_victims: bool = False,
        depth: int | None = None,
    ) -> None:
        """``depth`` bounds the number of jobs of one queue."""
        self._keys: Final = keys
        self._is_victims: Final = is_victims
        self._places: dict[QueueState, _Place] = {}
        self._roots: list[_Place] = []
        self._changed: _Place | None = None
        for queued in jobs:
            assert queued.job.queue is not None
            self._place_of(queued.job.queue).jobs.append(queued)
        for place in self._places.values():
            place.jobs.sort(key=_by_key)
            if depth is not None:
                del place.jobs[depth:]
        self._arrange(self._roots)

    def _place_of(self, queue: QueueState) -> _Place:
        place = self._places.get(queue)
        if place is None:
            parent = self._place_of(queue.parent) if queue.parent is not None else None
            place = self._places[queue] = _Place(queue, parent, self._keys, self._is_victims)
            (parent.children if parent is not None else self._roots).append(place)
        return place

    def _arrange(self, places: list[_Place]) -> None:
        for place in places:
            self._arrange(place.children)
            place.measure()
        heapq.heapify(places)

    def pop(self) -> QueuedJob | None:
        """Take the next job; none if there is none."""
        self._settle()
        if not self._roots:
            return None
        leaf = self._roots[0].best_leaf()
        queued = leaf.jobs.pop(-1 if self._is_victims else 0)
        if self._is_victims:
            leaf.taken = plus(leaf.taken, queued.amounts)
        self._changed = leaf
        return queued

    def push(self, queued: QueuedJob) -> None:
        """Put the job that was taken last back in line, as it is now."""
        assert self._changed is not None
        assert self._changed.queue is queued.job.queue
        insort(self._changed.jobs, queued, key=_by_key)

    def refresh(self) -> None:
        """More has changed than the job taken last: all find their positions anew, as they are now."""
        self._settle()
        for place in self._places.values():
            if any(queued.version != queued.job.version for queued in place.jobs):
                place.jobs = sorted((as_waiting(queued.job) for queued in place.jobs), key=_by_key)
        self._arrange(self._roots)

    def _settle(self) -> None:
        """The queues of the job taken last find their new positions, from the leaf up."""
        place, self._changed = self._changed, None
        while place is not None:
            heap = place.parent.children if place.parent is not None else self._roots
            if place.is_empty:
                heapq.heappop(heap)
            else:
                place.measure()
                heapq.heapreplace(heap, place)
            place = place.parent
