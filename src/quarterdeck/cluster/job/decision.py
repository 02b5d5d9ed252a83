"""What to do about a Job, given its pods: pure, apart from the controller that does it.

``assess`` counts and finds out whether the Job has come to an end; ``plan`` says which pods to make or to
remove if it has not. Names, order of checks and texts are those of kube-controller-manager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from quarterdeck.api import Time, UnsetType, value_or
from quarterdeck.api.k8s import Job
from quarterdeck.api.k8s.batch import JobCondition
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.backoff import Failures, JobSettings, remaining
from quarterdeck.cluster.job.index import NO_INDEXES, IndexSet
from quarterdeck.cluster.job.perindex import (
    delayed_pods,
    failed_indexes,
    has_limit_per_index,
    valid_index,
    wait_of_index,
)
from quarterdeck.cluster.job.podstate import PodState, has_failed, replaces_failed_only
from quarterdeck.cluster.job.policy import match_failure_policy, match_success_policy

MAX_CHANGES: Final = 500
"""Pods that are made or removed in one go."""


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """A Job and its pods at one moment."""

    pods: Sequence[PodState]
    active: Sequence[PodState]
    ready: int
    terminating: int
    succeeded: int
    """Counted and not yet counted ones; of an Indexed Job, distinct indexes."""
    failures: Failures
    """Failures in a row, those just seen included."""
    known_indexes: IndexSet
    """Succeeded indexes according to the status."""
    succeeded_indexes: IndexSet
    failed_indexes: IndexSet | None
    """With a back-off limit per index only."""
    delayed: Mapping[int, PodState]
    """Failed pods that stay until their successor is made, by index."""
    finished: JobCondition | None
    """How the Job ends, if it does."""
    deadline_in: float | None
    """Seconds until it has run too long."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next; pods are either made or removed, never both at once."""

    remove: Sequence[PodState] = ()
    create: Sequence[int | None] = ()
    """One for each new pod: its index, none for Jobs without."""
    wait: float = 0.0
    """Seconds until pods may be made again."""


def is_indexed(job: Job) -> bool:
    """Whether pods have indexes."""
    return job.spec.completion_mode == "Indexed"


def is_suspended(job: Job) -> bool:
    """Whether the Job must not run."""
    return job.spec.suspend is True


def find_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    """The condition of a type if it is true."""
    return next((each for each in conditions if each.type == type and each.status == "True"), None)


def is_finished(job: Job) -> bool:
    """Whether the Job has succeeded or failed, and everything about it is done."""
    return any(find_condition(job.status.conditions, each) for each in (names.COMPLETE, names.FAILED))


def make_condition(type: str, reason: str, message: str, now: float, status: str = "True") -> JobCondition:
    """A condition that began now (seconds since 1970)."""
    time = Time.of_timestamp(now)
    return JobCondition(
        type=type,
        status=status,
        last_probe_time=time,
        last_transition_time=time,
        reason=reason,
        message=message,
    )


def success(now: float) -> JobCondition:
    """The condition of a Job with enough succeeded pods."""
    return make_condition(
        names.SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods", now
    )


def assess(
    job: Job, pods: Sequence[PodState], failures: Failures, *, now: float, started: Time | None
) -> Assessment:
    """Count pods and see whether the Job has come to an end; ``started`` is when it began to run."""
    active = [pod for pod in pods if pod.is_active]
    status = job.status
    uncounted = status.uncounted_terminated_pods
    counted_failed = frozenset(uncounted.failed if uncounted else ())
    counted_succeeded = frozenset(uncounted.succeeded if uncounted else ())
    new_succeeded = _uncounted(job, pods, counted_succeeded, lambda pod: pod.is_succeeded)
    new_failed = _uncounted(job, pods, counted_failed, lambda pod: has_failed(job, pod))
    failed = value_or(status.failed, 0) + len(counted_failed)
    failed += sum(1 for pod in new_failed if match_failure_policy(job, pod).counts)
    finished, deadline_in = _ending(job, pods, failed, now, started)
    known = new_indexes = NO_INDEXES
    lost: IndexSet | None = None
    delayed: Mapping[int, PodState] = {}
    if is_indexed(job):
        known = IndexSet.parse(status.completed_indexes, value_or(job.spec.completions, 0))
        new_indexes = known | IndexSet.of(_succeeded_indexes(job, pods))
        if has_limit_per_index(job):
            lost = failed_indexes(job, pods)
            finished = finished or _ending_by_index(job, lost, new_indexes, now)
            settled = new_indexes | lost
            delayed = delayed_pods(job, [pod for pod in pods if pod.is_tracked], active, settled)
        met = match_success_policy(job, new_indexes) if finished is None else None
        if met is not None:
            finished = make_condition(names.SUCCESS_CRITERIA_MET, "SuccessPolicy", met, now)
        succeeded = len(new_indexes)
    else:
        succeeded = value_or(status.succeeded, 0) + len(counted_succeeded) + len(new_succeeded)
    return Assessment(
        pods=pods,
        active=active,
        ready=sum(1 for pod in active if pod.is_ready),
        terminating=sum(1 for pod in pods if pod.is_terminating),
        succeeded=succeeded,
        failures=failures.after(new_succeeded, new_failed),
        known_indexes=known,
        succeeded_indexes=new_indexes,
        failed_indexes=lost,
        delayed=delayed,
        finished=finished,
        deadline_in=deadline_in,
    )


def _uncounted(
    job: Job, pods: Iterable[PodState], counted: frozenset[str], test: Callable[[PodState], bool]
) -> list[PodState]:
    """Pods that pass a test, and neither the status nor its list of pods to be counted knows about."""
    return [
        pod
        for pod in pods
        if pod.is_tracked
        and pod.uid not in counted
        and (not is_indexed(job) or valid_index(job, pod) is not None)
        and test(pod)
    ]


def _succeeded_indexes(job: Job, pods: Iterable[PodState]) -> Iterable[int]:
    for pod in pods:
        index = valid_index(job, pod) if pod.is_succeeded and pod.is_tracked else None
        if index is not None:
            yield index


def _ending(
    job: Job, pods: Sequence[PodState], failed: int, now: float, started: Time | None
) -> tuple[JobCondition | None, float | None]:
    """How the Job ends, and how long it may still run if it does not."""
    conditions = job.status.conditions
    met = find_condition(conditions, names.SUCCESS_CRITERIA_MET)
    if met is not None:
        return met, None
    target = find_condition(conditions, names.FAILURE_TARGET)
    if target is not None:
        return make_condition(names.FAILED, target.reason, target.message, now), None
    for pod in pods if job.spec.pod_failure_policy else ():
        message = match_failure_policy(job, pod).message if has_failed(job, pod) else ""
        if message:
            return make_condition(names.FAILURE_TARGET, "PodFailurePolicy", message, now), None
    if failed > value_or(job.spec.backoff_limit, 6) or _has_restarted_too_often(job, pods):
        text = "Job has reached the specified backoff limit"
        return make_condition(names.FAILURE_TARGET, "BackoffLimitExceeded", text, now), None
    limit = job.spec.active_deadline_seconds
    if isinstance(limit, UnsetType) or started is None or is_suspended(job):
        return None, None
    left = limit - (now - started.timestamp())
    if left > 0:
        return None, left
    text = "Job was active longer than specified deadline"
    return make_condition(names.FAILURE_TARGET, "DeadlineExceeded", text, now), None


def _has_restarted_too_often(job: Job, pods: Sequence[PodState]) -> bool:
    """Containers that are restarted in place make no failed pod: their restarts are counted instead."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    return sum(pod.all_restarts for pod in pods) >= max(value_or(job.spec.backoff_limit, 6), 1)


def _ending_by_index(job: Job, failed: IndexSet, succeeded: IndexSet, now: float) -> JobCondition | None:
    limit = job.spec.max_failed_indexes
    if not isinstance(limit, UnsetType) and len(failed) > limit:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return make_condition(names.FAILURE_TARGET, "MaxFailedIndexesExceeded", text, now)
    if failed and len(failed) + len(succeeded) >= value_or(job.spec.completions, 0):
        return make_condition(names.FAILURE_TARGET, "FailedIndexes", "Job has failed indexes", now)
    return None


def is_complete(job: Job, found: Assessment, active: int) -> bool:
    """Whether enough pods have succeeded and none is left."""
    if isinstance(job.spec.completions, UnsetType):
        return found.succeeded > 0 and active == 0
    return found.succeeded >= job.spec.completions and active == 0


def plan(job: Job, found: Assessment, *, now: float, settings: JobSettings) -> Plan:
    """Which pods to make or to remove, for a Job that goes on."""
    active = len(found.active)
    if is_suspended(job):
        return Plan(remove=_removable(job, found.active, active))
    wanted = _wanted(job, found)
    doomed = _removable(job, found.active, max(0, active - wanted))[:MAX_CHANGES]
    if doomed:
        return Plan(remove=doomed)
    missing = wanted - active - (found.terminating if replaces_failed_only(job) else 0)
    if missing <= 0:
        return Plan()
    if has_limit_per_index(job):
        return _plan_by_index(job, found, min(missing, MAX_CHANGES), now, settings)
    wait = remaining(found.failures, now, settings)
    if wait > 0:
        return Plan(wait=wait)
    missing = min(missing, MAX_CHANGES)
    if not is_indexed(job):
        return Plan(create=(None,) * missing)
    return Plan(create=_pending_indexes(job, found, missing))


def _wanted(job: Job, found: Assessment) -> int:
    parallelism = value_or(job.spec.parallelism, 1)
    if isinstance(job.spec.completions, UnsetType):
        # The first success says that there is nothing more to do: what runs may end.
        return len(found.active) if found.succeeded > 0 else parallelism
    return max(0, min(job.spec.completions - found.succeeded, parallelism))


def _plan_by_index(job: Job, found: Assessment, missing: int, now: float, settings: JobSettings) -> Plan:
    """Each index waits for itself."""
    waits = {
        index: wait_of_index(found.delayed.get(index), now, settings)
        for index in _pending_indexes(job, found, missing)
    }
    ready = [index for index, wait in waits.items() if wait == 0]
    return Plan(create=ready) if ready else Plan(wait=min(waits.values(), default=0.0))


def _pending_indexes(job: Job, found: Assessment, count: int) -> list[int]:
    """The lowest indexes for which there is nothing."""
    occupied = list(found.active)
    if replaces_failed_only(job):
        occupied += (pod for pod in found.pods if pod.is_terminating)
    taken = found.succeeded_indexes | IndexSet.of(pod.index for pod in occupied if pod.index is not None)
    if found.failed_indexes is not None:
        taken |= found.failed_indexes
    return list(islice(taken.missing(value_or(job.spec.completions, 0)), count))


def _removable(job: Job, active: Sequence[PodState], at_least: int) -> list[PodState]:
    """Pods to give up: those without a place among the indexes, then those that have got least far."""
    doomed: list[PodState] = []
    left = active
    if is_indexed(job):
        best: dict[int, PodState] = {}
        for pod in active:
            index = valid_index(job, pod)
            if index is None:
                doomed.append(pod)
                continue
            rival = best.setdefault(index, pod)
            if rival is not pod:
                best[index], loser = (pod, rival) if rival.removal_rank < pod.removal_rank else (rival, pod)
                doomed.append(loser)
        left = list(best.values())
    more = at_least - len(doomed)
    return doomed + sorted(left, key=lambda pod: pod.removal_rank)[:more] if more > 0 else doomed
