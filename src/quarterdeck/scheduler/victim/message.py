"""The messages of evictions."""

from __future__ import annotations

from typing import Final

from quarterdeck.scheduler.decision import Evict
from quarterdeck.scheduler.fiterror import amounts_text
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.queue import NO_AMOUNTS, QueueState, plus
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF
from quarterdeck.scheduler.model.task import Task
from quarterdeck.scheduler.settings import Action
from quarterdeck.scheduler.victim.reclaim import parting


class Evictions:
    """Makes the decisions to evict pods for a job; queues are described as they were before."""

    def __init__(self, cluster: Cluster, preemptor: Job, action: Action) -> None:
        self._preemptor: Final = preemptor
        self._action: Final = action
        self._allocated: Final = (
            {queue: plus(queue.allocated, NO_AMOUNTS) for queue in cluster.queues.values()}
            if action is Action.RECLAIM
            else {}
        )

    def __call__(self, task: Task, victims: int) -> Evict:
        return evict(task, self._action, self._message(task), self._preemptor, victims)

    def _message(self, task: Task) -> str:
        if self._action is Action.CONSOLIDATION:
            return (
                f"Pod {task.key} was preempted and rescheduled due to bin packing "
                "(resource consolidation) procedure"
            )
        if self._action is Action.PREEMPT:
            return f"Pod {task.key} was preempted by higher priority workload {self._preemptor.key}"
        assert task.job is not None
        assert task.job.queue is not None
        assert self._preemptor.queue is not None
        mine, theirs = parting(self._preemptor.queue, task.job.queue)
        lines = (
            f"Pod {task.key} was preempted by workload {self._preemptor.key}.",
            self._account(theirs),
            self._account(mine),
        )
        return "\n".join(lines)

    def _account(self, queue: QueueState) -> str:
        return (
            f"{queue.title} uses <{amounts_text(self._allocated[queue])}> with a quota of "
            f"<{amounts_text(queue.quota)}>, fair-share of <{amounts_text(queue.fair_share)}> "
            f"and queue priority of <{queue.info.priority}>."
        )


def evict(task: Task, action: Action, message: str, preemptor: Job | None, victims: int) -> Evict:
    """The decision to evict a pod, one of so many."""
    assert task.job is not None
    return Evict(
        pod=task.key,
        pod_group=task.job.key,
        node=task.info.node or (task.node.name if task.node is not None else ""),
        action=action,
        message=message,
        preemptor=preemptor.key if preemptor is not None else None,
        evicted_pods=victims,
    )


def stale_text(task: Task) -> str:
    """Why a pod of a gang that fell below its minimum is evicted."""
    assert task.leaf is not None
    leaf = task.leaf
    where = "" if leaf.name == DEFAULT_LEAF else f" in sub-group {leaf.name}"
    return (
        f"Workload doesn't meet the minimum required number of pods ({leaf.minimum}){where}, "
        f"evicting remaining pod: {task.key}"
    )
