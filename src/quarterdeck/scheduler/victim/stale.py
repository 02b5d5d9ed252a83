"""Gangs that run below their minimum are evicted after a while."""

from __future__ import annotations

from quarterdeck.scheduler.decision import ClearStale, MarkStale, StaleJob
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.state import ACTIVE
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF
from quarterdeck.scheduler.settings import Action
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.message import evict, stale_text


def evict_stale_gangs(cluster: Cluster, transaction: Transaction) -> None:
    """Note since when gangs are stale, and evict those whose grace period is over."""
    for job in cluster.jobs.values():
        since = job.info.stale_since
        if not job.is_stale:
            if since is not None:
                transaction.add(ClearStale(job.key))
            continue
        if since is None:
            transaction.add(MarkStale(job.key, cluster.now))
        own = job.info.staleness_grace_period
        grace = cluster.settings.staleness_grace_period if own is None else own
        if grace >= 0 and cluster.now - (cluster.now if since is None else since) >= grace:
            _evict(job, transaction)
        transaction.add(StaleJob(job.key, stale_message(job)))


def _evict(job: Job, transaction: Transaction) -> None:
    for task in sorted((task for task in job.tasks if task.state in ACTIVE), key=lambda task: task.key):
        transaction.evict(task)
    transaction.commit(
        lambda task, victims: evict(task, Action.STALE_GANG_EVICTION, stale_text(task), None, victims)
    )


def stale_message(job: Job) -> str:
    """What is said about a stale gang."""
    minimum = sum(leaf.minimum for leaf in job.leaves.values())
    text = f"Job is stale. {job.used} pods are active, minMember is {minimum}"
    for leaf in job.leaves.values():
        if leaf.name != DEFAULT_LEAF and not leaf.is_gang_satisfied:
            text += f", subGroup {leaf.name} minMember is {leaf.minimum} and {leaf.used} pods are active"
    return text
