"""In which order a scenario places the preemptor and the jobs it evicted: as a later cycle would.

All jobs that wait take part in the comparing of queues, though only the preemptor and the evicted jobs are
placed. Without that, a job could be evicted for another that the next cycle would place after it, for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.joborder import JobOrder, QueuedJob, QueueKeys, as_waiting
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import QueueState
from quarterdeck.scheduler.transaction import Transaction


class PlacementOrder:
    """Orders jobs for scenarios."""

    __slots__ = ("_cluster", "_transaction", "_version", "_waiting", "keys")

    def __init__(self, cluster: Cluster, transaction: Transaction, keys: QueueKeys) -> None:
        self.keys: Final = keys
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self._version = -1
        self._waiting: dict[QueueState, list[QueuedJob]] = {}

    def begin(self) -> None:
        """A search begins; nothing is evicted yet."""
        if self._version == self._transaction.version:
            return
        self._version = self._transaction.version
        self._waiting.clear()
        for job in self._cluster.jobs.values():
            queue = job.queue
            if queue is not None and queue.is_leaf and not job.error and job.count(PodState.PENDING):
                self._waiting.setdefault(queue, []).append(as_waiting(job))

    def order(self, preemptor: QueuedJob, evicted: Collection[Job]) -> Iterator[QueuedJob]:
        """The preemptor and the evicted jobs, each when its turn has come; to be placed at once."""
        return self.in_turn([preemptor, *(as_waiting(job, with_evicted=True) for job in evicted)])

    def everyone(self, preemptor: QueuedJob, evicted: Collection[Job]) -> Iterator[QueuedJob]:
        """The same with all other jobs that wait and may get something."""
        concerned = [preemptor, *(as_waiting(job, with_evicted=True) for job in evicted)]
        known = {queued.job for queued in concerned}
        waiting = [
            queued
            for jobs in self._waiting.values()
            for queued in jobs
            if queued.job not in known and queued.job.is_ready
        ]
        jobs = JobOrder((*concerned, *waiting), self.keys)
        return iter(jobs.pop, None)

    def in_turn(self, concerned: Sequence[QueuedJob]) -> Iterator[QueuedJob]:
        """Jobs that wait, each when its turn has come; what was placed meanwhile counts."""
        queues = {queued.job.queue for queued in concerned if queued.job.queue is not None}
        if len(queues) == 1:
            yield from sorted(concerned, key=lambda queued: queued.key)
            return
        left = {queued.job for queued in concerned}
        waiting = [
            queued
            for queue in _scope(queues)
            for queued in self._waiting.get(queue, ())
            if queued.job not in left
        ]
        jobs = JobOrder((*concerned, *waiting), self.keys)
        while left:
            queued = jobs.pop()
            assert queued is not None
            if queued.job in left:
                left.discard(queued.job)
                yield queued


def _scope(queues: Collection[QueueState]) -> list[QueueState]:
    """The leaves whose jobs matter when these queues are compared.

    Queues are compared from where their paths part, each branch by its best job; branches that none of
    them is in change nothing about the order of the others.
    """
    paths = [queue.chain[::-1] for queue in queues]
    depth = 0
    while len({path[depth] for path in paths}) == 1:
        depth += 1
    branches = sorted({path[depth] for path in paths}, key=lambda queue: queue.name)
    return [leaf for branch in branches for leaf in _leaves(branch)]


def _leaves(queue: QueueState) -> list[QueueState]:
    if queue.is_leaf:
        return [queue]
    return [leaf for child in queue.children for leaf in _leaves(child)]
