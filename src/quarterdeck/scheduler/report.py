"""What is reported of jobs that wait at the end of a cycle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.scheduler.decision import (
    ClearUnschedulable,
    Decision,
    NotReady,
    PodState,
    Unschedulable,
    UnschedulableReason,
)
from quarterdeck.scheduler.fiterror import (
    POD_SCHEDULING_ERRORS,
    QUEUE_DOES_NOT_EXIST,
    UNABLE_TO_SCHEDULE_POD,
    FitError,
    detailed_message,
    summary,
)
from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.job import Job
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF
from quarterdeck.scheduler.placement.refusal import Refusals

_AWAITING_BIND: Final = (PodState.ALLOCATED, PodState.PIPELINED, PodState.BINDING)


def reports(cluster: Cluster, refusals: Refusals) -> Iterable[Decision]:
    """One report for each job with pods that are pending or gated, or whose old report no longer holds."""
    for job in cluster.jobs.values():
        if not job.count(PodState.PENDING) and not job.count(PodState.GATED):
            # until the last pod is bound they tell why it waited
            if job.info.scheduling_conditions and not any(map(job.count, _AWAITING_BIND)):
                yield ClearUnschedulable(job.key)
            continue
        if job.is_backed_off(cluster.settings.node_pool):
            continue
        if not job.is_ready and not job.error:
            yield NotReady(job.key, _not_ready(job))
        else:
            yield _unschedulable(cluster, job, refusals)


def _not_ready(job: Job) -> str:
    text = "Job is not ready for scheduling."
    for leaf in job.leaves.values():
        if leaf.is_ready:
            continue
        if leaf.name == DEFAULT_LEAF:
            text += f" Waiting for {leaf.minimum} pods, currently {leaf.alive} exist, {leaf.gated} are gated"
        else:
            text += (
                f" Waiting for {leaf.minimum} pods for SubGroup {leaf.name}, "
                f"currently {leaf.alive} exist, {leaf.gated} are gated."
            )
    return text


def _unschedulable(cluster: Cluster, job: Job, refusals: Refusals) -> Unschedulable:
    settings = cluster.settings
    errors = _errors(job, refusals)
    text = summary(errors)
    prefix = f"Node-Pool '{settings.node_pool}': " if job.info.scheduling_backoff == 1 else ""
    pods = []
    for task in sorted(job.tasks, key=lambda task: task.key):
        if task.state is PodState.PENDING:
            own = refusals.of_task(task) or (text if errors else UNABLE_TO_SCHEDULE_POD)
            pods.append((task.key, prefix + own))
    return Unschedulable(
        pod_group=job.key,
        message=prefix + (detailed_message(errors) if settings.detailed_fit_errors else text),
        reasons=tuple(
            UnschedulableReason(reason=each.reason, message=", ".join(each.messages), queue=each.queue)
            for each in errors
        ),
        pods=tuple(pods),
        writes_condition=not job.active,
        marks_pods=job.info.mark_unschedulable,
    )


def _errors(job: Job, refusals: Refusals) -> list[FitError]:
    if job.error:
        return [FitError(reason=POD_SCHEDULING_ERRORS, messages=(job.error,))]
    if job.queue is None:
        text = f"Queue '{job.info.queue}' does not exist"
        return [FitError(reason=QUEUE_DOES_NOT_EXIST, messages=(text,))]
    return list(refusals.of_job(job))
