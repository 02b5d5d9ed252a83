"""The actions of a cycle that place jobs, with or without victims."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.api import Duration, Time
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.fiterror import PREEMPTION_DELAY_NOT_ELAPSED, FitError
from quarterdeck.scheduler.joborder import JobOrder, QueueKeys, as_victim, as_waiting
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.signature import FailedJobs
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.placement.capacity import is_within_quota
from quarterdeck.scheduler.placement.jobplacement import Placer
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.message import Evictions
from quarterdeck.scheduler.victim.minruntime import is_protected_from_preemption, is_protected_from_reclaim
from quarterdeck.scheduler.victim.placementorder import PlacementOrder
from quarterdeck.scheduler.victim.protection import ConsolidationRules, PreemptionRules
from quarterdeck.scheduler.victim.reclaim import ReclaimRules, may_reclaim
from quarterdeck.scheduler.victim.search import Rules, VictimSearch


def is_considered(job: Job, settings: Settings) -> bool:
    """Whether the job waits for nodes and may get some."""
    if job.queue is None or not job.queue.is_leaf or not job.count(PodState.PENDING):
        return False
    return job.is_ready and not job.is_backed_off(settings.node_pool)


def within_delay(job: Job) -> FitError:
    """Why nobody is evicted for the job yet."""
    delay, end = Duration.of(seconds=job.info.preemption_delay), Time.of_timestamp(job.may_evict_from)
    text = (
        f"Workload is within its preemption delay window ({delay}) and may not trigger evictions before {end}"
    )
    return FitError(reason=PREEMPTION_DELAY_NOT_ELAPSED, messages=(text,))


class Actions:
    """Runs actions on a cluster; decisions gather in the transaction."""

    def __init__(self, cluster: Cluster, transaction: Transaction, placer: Placer) -> None:
        self._cluster: Final = cluster
        self._transaction: Final = transaction
        self._placer: Final = placer
        self._keys: Final = QueueKeys(cluster.total)
        self._placement_order: Final = PlacementOrder(cluster, transaction, self._keys)

    def allocate(self) -> None:
        """Place what fits, job by job in the order of queues."""
        order = self._waiting(Action.ALLOCATE)
        while (queued := order.pop()) is not None:
            job = queued.job
            position = self._transaction.checkpoint()
            if not self._placer.allocate(job):
                self._transaction.rollback(position)
                continue
            if job.must_wait:
                self._transaction.promise_all(job)
            self._transaction.commit()
            if job.count(PodState.PENDING):
                order.push(as_waiting(job))

    def consolidate(self) -> None:
        """Move pods together to make room for jobs that would fit if the room were in one place."""
        if self._cluster.settings.max_consolidation_preemptees:
            self._evict_for(
                Action.CONSOLIDATION,
                lambda job: job.is_preemptible and self._has_gpus_for(job),
                lambda job: self._search(job, Action.CONSOLIDATION, self._movable(job), ConsolidationRules()),
            )

    def reclaim(self) -> None:
        """Take back from other queues what a queue is entitled to."""
        self._evict_for(Action.RECLAIM, may_reclaim, self._reclaim_for)

    def _reclaim_for(self, job: Job) -> bool:
        candidates = (
            victim
            for victim in self._evictable()
            if victim.queue is not job.queue
            and (victim.is_elastic or not is_protected_from_reclaim(self._cluster, victim, job))
        )
        return self._search(job, Action.RECLAIM, candidates, ReclaimRules(self._cluster, job))

    def preempt(self) -> None:
        """Take from jobs of lower priority in the same queue."""
        self._evict_for(
            Action.PREEMPT,
            lambda job: job.is_preemptible or is_within_quota(job, job.wanted()),
            self._preempt_for,
        )

    def _preempt_for(self, job: Job) -> bool:
        candidates = (
            victim
            for victim in self._evictable()
            if victim.queue is job.queue
            and victim.priority < job.priority
            and (victim.is_elastic or not self._is_preemption_protected(victim))
        )
        return self._search(job, Action.PREEMPT, candidates, PreemptionRules(self._is_preemption_protected))

    def _is_preemption_protected(self, victim: Job) -> bool:
        return is_protected_from_preemption(self._cluster, victim)

    def _evict_for(
        self, action: Action, may_try: Callable[[Job], bool], attempt: Callable[[Job], bool]
    ) -> None:
        """Try to place each job that waits by evicting others."""
        failed = FailedJobs()
        order = self._waiting(action)
        while (queued := order.pop()) is not None:
            job = queued.job
            # Victims of a consolidation are the same for all queues.
            scope = None if action is Action.CONSOLIDATION else job.queue
            if not job.is_ready or not may_try(job):  # it may have lost pods since it got in line
                continue
            if job.info.preemption_delay > 0 and self._cluster.now < job.may_evict_from:
                self._placer.refusals.add_once(job, within_delay(job))
                continue
            if self._cluster.settings.use_scheduling_signatures and failed.covers(job, scope):
                continue
            if attempt(job):
                order.refresh()
            else:
                failed.add(job, scope)

    def _search(self, job: Job, action: Action, candidates: Iterable[Job], rules: Rules) -> bool:
        eviction = Evictions(self._cluster, job, action)
        search = VictimSearch(
            self._cluster,
            self._transaction,
            self._placer,
            self._placement_order,
            job=job,
            candidates=candidates,
            rules=rules,
        )
        if not search.run():
            return False
        self._transaction.commit(eviction)
        return True

    def _waiting(self, action: Action) -> JobOrder:
        settings = self._cluster.settings
        jobs = (as_waiting(job) for job in self._cluster.jobs.values() if is_considered(job, settings))
        return JobOrder(jobs, self._keys, depth=dict(settings.queue_depth).get(action))

    def _evictable(self) -> Iterable[Job]:
        """Jobs that may lose pods, unless something protects them."""
        return (
            job
            for job in self._cluster.jobs.values()
            if job.is_preemptible
            and not job.error
            and job.queue is not None
            and job.queue.is_leaf
            and any(task.state in ACTIVE and task.node is not None for task in job.tasks)
        )

    def _movable(self, job: Job) -> Iterable[Job]:
        """The first jobs in victim order that may be moved for another."""
        most = self._cluster.settings.max_consolidation_preemptees
        others = [victim for victim in self._evictable() if victim is not job]
        if most < 0 or len(others) <= most:
            return others
        victims = (
            as_victim(victim, [task for task in victim.tasks if task.state in ACTIVE]) for victim in others
        )
        order = JobOrder(victims, self._keys, is_victims=True)
        return [queued.job for queued in itertools.islice(iter(order.pop, None), most)]

    def _has_gpus_for(self, job: Job) -> bool:
        spare = sum(node.spare_gpus() for node in self._cluster.all_nodes.nodes if node.is_available)
        # what is claimed or cut into instances is not among the devices of nodes
        return spare >= job.wanted()[2] - sum(task.shape.other_gpus for task in job.tasks_to_allocate())
