"""Counting each pod that ended exactly once, however often the controller is interrupted.

A pod carries a finalizer until it is counted. Its UID goes into ``status.uncountedTerminatedPods`` first;
then the finalizer is removed; then the UID leaves the list and the counter goes up. Whatever step a crash
comes after, the next look at pods and status finds out what is left to be done. Indexed Jobs need no list for
pods that succeeded: an index is in ``status.completedIndexes`` or it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from quarterdeck.api import UNSET, value_or
from quarterdeck.api.k8s import Job
from quarterdeck.api.k8s.batch import JobCondition, JobStatus, UncountedTerminatedPods
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.decision import (
    Assessment,
    find_condition,
    is_indexed,
    make_condition,
)
from quarterdeck.cluster.job.index import IndexSet
from quarterdeck.cluster.job.perindex import has_limit_per_index, valid_index
from quarterdeck.cluster.job.podstate import PodState, has_failed
from quarterdeck.cluster.job.policy import match_failure_policy

MAX_UNCOUNTED: Final = 500
"""Pods counted in one go; their UIDs are part of the status, which must stay small."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after a look at all pods."""

    status: JobStatus
    free: Sequence[PodState]
    """Pods whose finalizer may go once the status is stored."""
    ending: JobCondition | None
    """The condition that ends the Job when everything is counted."""
    is_capped: bool
    """Whether some pods are left for the next time."""


def account(
    job: Job, status: JobStatus, found: Assessment, finished: JobCondition | None, now: float
) -> Account:
    """Enter pods that ended into the status; ``finished`` is how the Job ends, if it does."""
    tracked = [pod for pod in found.pods if pod.is_tracked]
    if is_indexed(job):
        tracked.sort(key=lambda pod: pod.index or 0)
    status = settle(status, {pod.uid for pod in tracked})
    uncounted = value_or(status.uncounted_terminated_pods, UncountedTerminatedPods())
    succeeded, failed = list(uncounted.succeeded), list(uncounted.failed)
    known_failed = frozenset(failed)
    indexes: list[int] = []
    free: list[PodState] = []
    for pod in tracked:
        if not _may_be_freed(job, found, finished, pod):
            continue
        free.append(pod)
        uid, index = pod.uid, valid_index(job, pod)
        if pod.is_succeeded and uid not in known_failed:
            if not is_indexed(job):
                succeeded += [uid] if uid not in uncounted.succeeded else []
            elif index is not None and index not in found.known_indexes:
                indexes.append(index)
        elif has_failed(job, pod) or (finished is not None and finished.type != names.SUCCESS_CRITERIA_MET):
            # A Job that has failed makes failures of all its pods.
            has_place = not is_indexed(job) or index is not None
            if uid not in known_failed and has_place and match_failure_policy(job, pod).counts:
                failed.append(uid)
        if len(indexes) + len(succeeded) + len(failed) >= MAX_UNCOUNTED:
            break
    is_capped = len(indexes) + len(succeeded) + len(failed) >= MAX_UNCOUNTED
    status = status.evolve(
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed)
    )
    if is_indexed(job):
        status = _with_indexes(status, found.succeeded_indexes | IndexSet.of(indexes), found.failed_indexes)
    status, ending = _with_interim(status, finished, now)
    return Account(status=status, free=free, ending=ending, is_capped=is_capped)


def _may_be_freed(job: Job, found: Assessment, finished: JobCondition | None, pod: PodState) -> bool:
    if job.metadata.is_deleting or finished is not None or pod.is_succeeded:
        return True
    if not has_failed(job, pod):
        return False
    if not has_limit_per_index(job):
        return True
    waiting = found.delayed.get(pod.index or 0)
    return waiting is None or waiting.uid != pod.uid


def _with_indexes(status: JobStatus, succeeded: IndexSet, failed: IndexSet | None) -> JobStatus:
    return status.evolve(
        succeeded=len(succeeded) or UNSET,
        completed_indexes=str(succeeded),
        failed_indexes=str(failed) if failed is not None else UNSET,
    )


def _with_interim(
    status: JobStatus, finished: JobCondition | None, now: float
) -> tuple[JobStatus, JobCondition | None]:
    """The condition that announces the end, and the one that follows when all pods are counted and gone."""
    if finished is None or finished.type in (names.FAILED, names.COMPLETE):
        return status, finished
    if find_condition(status.conditions, finished.type) is None:
        status = status.evolve(conditions=(*status.conditions, finished))
    final = names.FAILED if finished.type == names.FAILURE_TARGET else names.COMPLETE
    return status, make_condition(final, finished.reason, finished.message, now)


def settle(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Count those on the list whose finalizer is gone; ``tracked`` are the UIDs of pods that have it."""
    uncounted = status.uncounted_terminated_pods
    if not uncounted:
        return status
    succeeded = [uid for uid in uncounted.succeeded if uid in tracked]
    failed = [uid for uid in uncounted.failed if uid in tracked]
    new_succeeded = len(uncounted.succeeded) - len(succeeded)
    new_failed = len(uncounted.failed) - len(failed)
    if not new_succeeded and not new_failed:
        return status
    return status.evolve(
        succeeded=value_or(status.succeeded, 0) + new_succeeded or UNSET,
        failed=value_or(status.failed, 0) + new_failed or UNSET,
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def conclude(status: JobStatus, ending: JobCondition | None) -> JobStatus:
    """The status with the last condition, if nothing is left to be counted or to go."""
    uncounted = status.uncounted_terminated_pods
    is_open = bool(uncounted and (uncounted.succeeded or uncounted.failed))
    if ending is None or is_open or value_or(status.terminating, 0):
        return status
    status = status.evolve(conditions=(*status.conditions, ending))
    if ending.type == names.COMPLETE and ending.last_transition_time:
        status = status.evolve(completion_time=ending.last_transition_time)
    return status
