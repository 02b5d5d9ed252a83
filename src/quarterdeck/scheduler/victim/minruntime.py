"""How long a job may run before others may take its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import QueueState
from quarterdeck.scheduler.settings import Settings


def is_protected_from_preemption(cluster: Cluster, victim: Job) -> bool:
    """By the first queue that says so, from the victim's upward."""
    assert victim.queue is not None
    runtime = _first(victim.queue.chain, lambda queue: queue.info.preempt_min_runtime)
    return _is_protected(
        cluster, victim, cluster.settings.preempt_min_runtime if runtime is None else runtime
    )


def is_protected_from_reclaim(cluster: Cluster, victim: Job, reclaimer: Job) -> bool:
    """By the first queue that says so, upward from where the two queues part (or from the victim's)."""
    assert victim.queue is not None
    assert reclaimer.queue is not None
    queue = _start(victim.queue, reclaimer.queue, cluster.settings)
    runtime = _first(queue.chain, lambda queue: queue.info.reclaim_min_runtime)
    return _is_protected(
        cluster, victim, cluster.settings.reclaim_min_runtime if runtime is None else runtime
    )


def _start(victim: QueueState, reclaimer: QueueState, settings: Settings) -> QueueState:
    if settings.reclaim_resolve_method == "queue":
        return victim
    for queue in victim.chain:
        if queue.parent is None or queue.parent in reclaimer.chain:
            return queue
    return victim


def _first(chain: Iterable[QueueState], of: Callable[[QueueState], float | None]) -> float | None:
    return next((value for value in map(of, chain) if value is not None), None)


def _is_protected(cluster: Cluster, victim: Job, runtime: float) -> bool:
    start = victim.info.last_start
    return start is not None and cluster.now < start + runtime
