"""The Jobs of a JobSet sorted by what became of them, and what the status says of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import Condition, Time, value_or
from quarterdeck.api.k8s import Job
from quarterdeck.api.k8s.batch import JobCondition
from quarterdeck.operators.jobset.logic.child import JOB_RESTART_ATTEMPT, replicas_of
from quarterdeck.operators.jobset.types import JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus, names

_EXCLUSIVE: Final = {names.STARTUP_IN_PROGRESS, names.STARTUP_COMPLETED}


class Event(msgspec.Struct, frozen=True):
    """Something to tell once the status is stored."""

    type: str
    reason: str
    message: str


class Children(msgspec.Struct, frozen=True):
    """The Jobs of a JobSet."""

    active: Sequence[Job] = ()
    successful: Sequence[Job] = ()
    failed: Sequence[Job] = ()
    previous: Sequence[Job] = ()
    """Of an earlier attempt; they are to go."""

    @property
    def names(self) -> frozenset[str]:
        """Names that are taken."""
        every = (*self.active, *self.successful, *self.failed, *self.previous)
        return frozenset(job.metadata.name for job in every)


def find_condition(conditions: Iterable[JobCondition], type: str) -> JobCondition | None:
    """The condition of a Job of a type if it is true."""
    return next((each for each in conditions if each.type == type and each.status == "True"), None)


def job_index(job: Job) -> int:
    """The index of a Job among those of its template."""
    return _number(job, names.JOB_INDEX)


def _number(job: Job, label: str) -> int:
    text = job.metadata.labels.get(label, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def sort_children(jobset: JobSet, jobs: Iterable[Job]) -> Children:
    """Sort Jobs by attempt and outcome."""
    restarts = value_or(jobset.status.restarts, 0)
    known = {each.name: each for each in jobset.status.replicated_jobs_status}
    active: list[Job] = []
    successful: list[Job] = []
    failed: list[Job] = []
    previous: list[Job] = []
    for job in jobs:
        if _number(job, names.RESTART_ATTEMPT) < restarts or _number(
            job, JOB_RESTART_ATTEMPT
        ) < _own_restarts(known.get(job.metadata.labels.get(names.REPLICATED_JOB_NAME, "")), job_index(job)):
            previous.append(job)
        elif find_condition(job.status.conditions, "Complete"):
            successful.append(job)
        elif find_condition(job.status.conditions, "Failed"):
            failed.append(job)
        else:
            active.append(job)
    return Children(active, successful, failed, previous)


def _own_restarts(status: ReplicatedJobStatus | None, index: int) -> int:
    restarts = status.job_restarts if status is not None else ()
    return restarts[index] if index < len(restarts) else 0


def replicated_status(jobset: JobSet, children: Children) -> list[ReplicatedJobStatus]:
    """What is said of each ReplicatedJob, in the order of the spec."""
    known = {each.name: each for each in jobset.status.replicated_jobs_status}
    counted = []
    for job in jobset.spec.replicated_jobs:
        active = [each for each in children.active if _belongs(each, job)]
        before = known.get(job.name, ReplicatedJobStatus(name=job.name))
        counted.append(
            before.evolve(
                ready=sum(1 for each in active if _is_ready(each)),
                active=sum(1 for each in active if value_or(each.status.active, 0) > 0),
                suspended=sum(1 for each in active if each.spec.suspend is True),
                succeeded=sum(1 for each in children.successful if _belongs(each, job)),
                failed=sum(1 for each in children.failed if _belongs(each, job)),
            )
        )
    return counted


def _belongs(job: Job, to: ReplicatedJob) -> bool:
    return job.metadata.labels.get(names.REPLICATED_JOB_NAME) == to.name


def _is_ready(job: Job) -> bool:
    parallelism = value_or(job.spec.parallelism, 1)
    wanted = min(parallelism, value_or(job.spec.completions, parallelism))
    return value_or(job.status.succeeded, 0) + value_or(job.status.ready, 0) >= wanted


def has_reached(
    job: ReplicatedJob, jobs: Mapping[str, ReplicatedJob], statuses: Mapping[str, ReplicatedJobStatus]
) -> bool:
    """Whether everything that a ReplicatedJob depends on is as far as it must be."""
    for each in job.depends_on:
        if each.name not in jobs:
            return False
        status, wanted = statuses[each.name], replicas_of(jobs[each.name])
        if each.status == names.COMPLETE and status.succeeded != wanted:
            return False
        if each.status == names.READY and status.ready + status.failed + status.succeeded != wanted:
            return False
    return True


def has_succeeded(jobset: JobSet, children: Children) -> bool:
    """Whether enough Jobs have succeeded."""
    policy = jobset.spec.success_policy
    targets = policy.target_replicated_jobs if policy else ()
    concerned = [job for job in jobset.spec.replicated_jobs if not targets or job.name in targets]
    succeeded = sum(1 for job in concerned for each in children.successful if _belongs(each, job))
    if policy and policy.operator == names.ANY:
        return succeeded >= 1
    return succeeded >= sum(map(replicas_of, concerned))


def is_finished(jobset: JobSet) -> Condition | None:
    """The condition that ended the JobSet; none while it goes on."""
    finals = (names.COMPLETED, names.FAILED)
    return next((c for c in jobset.status.conditions if c.type in finals and c.status == "True"), None)


def with_condition(
    status: JobSetStatus, type: str, *, reason: str, message: str, now: Time, holds: bool = True
) -> JobSetStatus:
    """The status with a condition as it should be, the very same if it is; one that does not hold is not
    added."""
    value = "True" if holds else "False"
    wanted = Condition(type=type, status=value, reason=reason, message=message, last_transition_time=now)
    conditions: list[Condition] = []
    is_new = holds
    for known in status.conditions:
        if known.type == type:
            is_new = False
            conditions.append(_changed(known, wanted))
        elif holds and {known.type, type} == _EXCLUSIVE and known.status == "True":
            conditions.append(known.evolve(status="False", last_transition_time=now))
        else:
            conditions.append(known)
    if is_new:
        conditions.append(wanted)
    return status.evolve(conditions=conditions) if conditions != list(status.conditions) else status


def _changed(known: Condition, wanted: Condition) -> Condition:
    """A condition as wanted; the time is that of the last change of its status."""
    if known.status != wanted.status:
        return wanted
    return known.evolve(reason=wanted.reason, message=wanted.message)


def no_longer_restarting(status: JobSetStatus, reason: str, message: str, now: Time) -> JobSetStatus:
    """The status of a set whose restart is over, the very same if there was none."""
    return with_condition(status, names.RESTARTING, reason=reason, message=message, now=now, holds=False)


def are_all_ready(jobset: JobSet, statuses: Mapping[str, ReplicatedJobStatus]) -> bool:
    """Whether every Job is ready or has succeeded."""
    return all(
        statuses[job.name].ready + statuses[job.name].succeeded == replicas_of(job)
        for job in jobset.spec.replicated_jobs
    )
