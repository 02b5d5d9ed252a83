"""The status of a TrainJob: what its JobSet says, and what its own spec does."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.api import Time, UnsetType
from quarterdeck.api.condition import Conditions, find_condition, is_condition_true
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import JobStatus, TrainJob, TrainJobStatus

from .info import spec_of


def is_finished(status: TrainJobStatus) -> bool:
    """Whether the TrainJob has come to an end, one way or the other."""
    return is_condition_true(status.conditions, names.COMPLETE) or is_condition_true(
        status.conditions, names.FAILED
    )


def with_suspension(status: TrainJobStatus, job: TrainJob, now: Time) -> TrainJobStatus:
    """The condition Suspended; a job that was never suspended has none."""
    conditions = Conditions(status.conditions)
    if spec_of(job).suspend:
        conditions.set(
            names.SUSPENDED, True, reason=names.SUSPENDED, message="TrainJob is suspended", now=now
        )
    elif conditions.is_true(names.SUSPENDED):
        conditions.set(names.SUSPENDED, False, reason=names.RESUMED, message="TrainJob is resumed", now=now)
    return _with(status, conditions)


def with_unsupported_runtime(status: TrainJobStatus, key: str, now: Time) -> TrainJobStatus:
    """Failed, because nobody knows the kind of the runtime."""
    conditions = Conditions(status.conditions)
    conditions.set(
        names.FAILED, True, reason=names.RUNTIME_NOT_SUPPORTED, message=f"unsupported runtime: {key}", now=now
    )
    return _with(status, conditions)


def with_deadline_exceeded(status: TrainJobStatus, now: Time) -> TrainJobStatus:
    """Failed, because time is up."""
    conditions = Conditions(status.conditions)
    conditions.set(
        names.FAILED,
        True,
        reason=names.DEADLINE_EXCEEDED,
        message="TrainJob exceeded its active deadline",
        now=now,
    )
    return _with(status, conditions)


def with_jobset_missing(status: TrainJobStatus, problem: str, now: Time) -> TrainJobStatus:
    """Why nothing can run, or nothing of it once that is past; a status must not become empty."""
    conditions = Conditions(status.conditions)
    if problem:
        conditions.set(
            names.JOBSET_MISSING, True, reason=names.JOBSET_NOT_INSTALLED, message=problem, now=now
        )
    elif len(conditions) > 1 or status.jobs_status:
        conditions.remove(names.JOBSET_MISSING)
    elif conditions.is_true(names.JOBSET_MISSING):
        message = "the cluster has JobSet now"
        conditions.set(names.JOBSET_MISSING, False, reason=names.JOBSET_INSTALLED, message=message, now=now)
    return _with(status, conditions)


def with_name_taken(status: TrainJobStatus, problem: str, now: Time) -> TrainJobStatus:
    """Whose the name of one of its objects is, as long as it is somebody else's."""
    conditions = Conditions(status.conditions)
    if problem:
        conditions.set(names.NAME_TAKEN, True, reason=names.FOREIGN_OBJECT, message=problem, now=now)
    elif conditions.is_true(names.NAME_TAKEN):
        message = "all objects are the TrainJob's own"
        conditions.set(names.NAME_TAKEN, False, reason=names.OWN_OBJECTS, message=message, now=now)
    return _with(status, conditions)


def mirrored(status: TrainJobStatus, jobset: JobSet) -> TrainJobStatus:
    """What the JobSet says: how it ended, unless the TrainJob has ended already, and its counters."""
    if not is_finished(status):
        conditions = Conditions(status.conditions)
        for theirs, ours in (
            (jobset_names.COMPLETED, names.COMPLETE),
            (jobset_names.FAILED, names.FAILED),
        ):
            end = find_condition(jobset.status.conditions, theirs)
            since = end.last_transition_time if end is not None and end.status == "True" else None
            if end is not None and isinstance(since, Time):
                conditions.set(ours, True, reason=end.reason, message=end.message, now=since)
                break
        status = _with(status, conditions)
    counters = _counters(jobset)
    if not counters and not status.conditions:
        return status  # a status must not become empty
    return status if counters == tuple(status.jobs_status) else status.evolve(jobs_status=counters)


def _counters(jobset: JobSet) -> Sequence[JobStatus]:
    return tuple(
        JobStatus(
            name=each.name,
            ready=each.ready,
            succeeded=each.succeeded,
            failed=each.failed,
            active=each.active,
            suspended=each.suspended,
        )
        for each in jobset.status.replicated_jobs_status
    )


def _with(status: TrainJobStatus, conditions: Conditions) -> TrainJobStatus:
    changed = conditions.frozen()
    return status if changed == tuple(status.conditions) else status.evolve(conditions=changed)


def deadline(job: TrainJob, status: TrainJobStatus) -> float | None:
    """When a TrainJob must have ended, in seconds of Unix time; ``None`` without a limit that counts now."""
    limit = spec_of(job).active_deadline_seconds
    if isinstance(limit, UnsetType) or spec_of(job).suspend or is_finished(status):
        return None
    resumed = find_condition(status.conditions, names.SUSPENDED)
    since = resumed.last_transition_time if resumed is not None else job.metadata.creation_timestamp
    return since.timestamp() + limit if isinstance(since, Time) else None
