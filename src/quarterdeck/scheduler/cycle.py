"""One cycle: from a snapshot to decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quarterdeck.scheduler.action import Actions
from quarterdeck.scheduler.decision import (
    CycleResult,
    Decision,
    DeleteBindRequest,
    Evict,
    PodOutcome,
    PodState,
    QueueShare,
    SetLastEviction,
    SetLastStart,
)
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.queue import QueueState
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.placement.capacity import resources_from
from quarterdeck.scheduler.placement.jobplacement import Placer
from quarterdeck.scheduler.report import reports
from quarterdeck.scheduler.settings import Action, Settings
from quarterdeck.scheduler.snapshot import Snapshot
from quarterdeck.scheduler.transaction import Transaction
from quarterdeck.scheduler.victim.stale import evict_stale_gangs


def schedule(snapshot: Snapshot, settings: Settings | None = None) -> CycleResult:
    """Decide what to do about a cluster; equal snapshots give equal decisions."""
    settings = settings or Settings()
    cluster = Cluster(snapshot, settings)
    transaction = Transaction(cluster)
    placer = Placer(cluster, transaction)
    actions = Actions(cluster, transaction, placer)
    run: dict[Action, Callable[[], None]] = {
        Action.ALLOCATE: actions.allocate,
        Action.CONSOLIDATION: actions.consolidate,
        Action.RECLAIM: actions.reclaim,
        Action.PREEMPT: actions.preempt,
        Action.STALE_GANG_EVICTION: lambda: evict_stale_gangs(cluster, transaction),
    }
    for action in cluster.settings.actions:
        run[action]()
    transaction.keep_promises()
    decided = transaction.decisions()
    return CycleResult(
        decisions=(
            *map(DeleteBindRequest, cluster.obsolete_bind_requests),
            *decided,
            *_starts(cluster),
            *_evictions(cluster, decided),
            *reports(cluster, placer.refusals),
        ),
        pods={task.key: _outcome(task) for task in (*cluster.tasks.values(), *cluster.ignored)},
        queues={name: _share(queue) for name, queue in cluster.queues.items()},
        ignored_pods=tuple(task.key for task in cluster.ignored),
    )


def _starts(cluster: Cluster) -> Iterable[SetLastStart]:
    """The gangs that had no pod with a node before the cycle and have some now."""
    for job in cluster.jobs.values():
        if job.count(PodState.ALLOCATED) and not job.had_nodes:
            yield SetLastStart(job.key, cluster.now)


def _evictions(cluster: Cluster, decided: Iterable[Decision]) -> Iterable[SetLastEviction]:
    """The gangs that lose pods."""
    for group in dict.fromkeys(each.pod_group for each in decided if isinstance(each, Evict)):
        yield SetLastEviction(group, cluster.now)


def _outcome(task: Task) -> PodOutcome:
    if task.state is PodState.RELEASING and task.info.node:
        return PodOutcome(task.state, task.info.node)  # it may have lost the promise of another one
    return PodOutcome(task.state, task.node.name if task.node is not None else task.info.node)


def _share(queue: QueueState) -> QueueShare:
    return QueueShare(
        fair_share=resources_from(queue.fair_share),
        allocated=resources_from(queue.allocated),
        allocated_non_preemptible=resources_from(queue.non_preemptible),
        requested=resources_from(queue.requested),
    )
