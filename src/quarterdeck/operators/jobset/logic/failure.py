"""What is done about Jobs that failed: the JobSet fails, or all its Jobs start again, or the failed one does.

The first rule that fits a failed Job decides; without a rule that fits, all start again as long as
``maxRestarts`` allows it; without a policy the JobSet fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import re2

from quarterdeck.api import Time, value_or
from quarterdeck.api.k8s import Job
from quarterdeck.api.k8s.batch import JobCondition
from quarterdeck.operators.jobset.logic.child import replicas_of
from quarterdeck.operators.jobset.logic.state import (
    Event,
    find_condition,
    job_index,
    no_longer_restarting,
    with_condition,
)
from quarterdeck.operators.jobset.types import (
    FailurePolicyRule,
    JobSet,
    JobSetStatus,
    ReplicatedJobStatus,
    names,
)

_WHOLE_SET: Final = (names.RESTART_JOBSET, names.RESTART_JOBSET_IGNORING_MAX)
_UNLIMITED: Final = (names.RESTART_JOBSET_IGNORING_MAX, names.RESTART_JOB_IGNORING_MAX)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Callable[[str], Any] | None:
    """The search function of a regular expression in RE2's syntax; none if it is not one."""
    options = re2.Options()
    options.log_errors = False
    try:
        search: Callable[[str], Any] = re2.compile(pattern, options).search
    except (re2.error, UnicodeError):
        return None
    return search


def after_failure(
    jobset: JobSet, status: JobSetStatus, failed: Sequence[Job], now: Time
) -> tuple[JobSetStatus, list[Event]]:
    """The status after the failure of some Jobs, and what to tell."""
    policy = jobset.spec.failure_policy
    if not policy:
        return _fail(
            status, "FailedJobs", "jobset failed due to one or more job failures", _first(failed), now
        )
    rule, job = _matching(policy.rules, failed)
    action = rule.action if rule is not None else names.RESTART_JOBSET
    if action == names.FAIL_JOBSET:
        text = "applying FailJobSet failure policy action"
        return _fail(status, "FailJobSetFailurePolicyAction", text, job, now)
    if action not in _UNLIMITED and _counted_restarts(status) >= value_or(policy.max_restarts, 0):
        text = "jobset failed due to reaching max number of restarts"
        return _fail(status, "ReachedMaxRestarts", text, job, now)
    message = _told(f"applying {action} failure policy action", job)
    event = Event("Warning", f"{action}FailurePolicyAction", message)
    counts = action not in _UNLIMITED
    if action in _WHOLE_SET:
        reason = f"FailurePolicy_{rule.name}" if rule is not None else "DefaultFailurePolicy"
        restarting = with_condition(
            _restart_all(status, counts=counts), names.RESTARTING, reason=reason, message=message, now=now
        )
        return restarting, [Event("Warning", reason, message), event]
    return _restart_one(jobset, status, job, counts=counts), [event]


def _told(text: str, job: Job) -> str:
    return f"{text} (first failed job: {job.metadata.name})"


def _fail(
    status: JobSetStatus, reason: str, text: str, job: Job, now: Time
) -> tuple[JobSetStatus, list[Event]]:
    message = _told(text, job)
    events = [Event("Warning", reason, message)]
    status = with_condition(status, names.FAILED, reason=reason, message=message, now=now)
    before = status
    status = no_longer_restarting(status, "JobSetFailed", "jobset failed", now)
    if status is not before:
        events.append(Event("Normal", "JobSetFailed", "jobset failed"))
    return status.evolve(terminal_state=names.FAILED), events


def _matching(
    rules: Sequence[FailurePolicyRule], failed: Sequence[Job]
) -> tuple[FailurePolicyRule | None, Job]:
    for rule in rules:
        fitting = [job for job in failed if _fits(rule, job)]
        if fitting:
            return rule, _first(fitting)
    return None, _first(failed)


def _fits(rule: FailurePolicyRule, job: Job) -> bool:
    parent = job.metadata.labels.get(names.REPLICATED_JOB_NAME, "")
    if not parent or (rule.target_replicated_jobs and parent not in rule.target_replicated_jobs):
        return False
    failure = find_condition(job.status.conditions, "Failed") or JobCondition()
    if rule.on_job_failure_reasons and failure.reason not in rule.on_job_failure_reasons:
        return False
    searches = [compile_pattern(pattern) for pattern in rule.on_job_failure_message_patterns]
    return not searches or any(search is not None and search(failure.message) for search in searches)


def _first(failed: Sequence[Job]) -> Job:
    """The Job that failed first."""

    def when(job: Job) -> float:
        condition = find_condition(job.status.conditions, "Failed")
        time = condition.last_transition_time if condition is not None else None
        return time.timestamp() if isinstance(time, Time) else 0.0

    return min(failed, key=when)


def _counted_restarts(status: JobSetStatus) -> int:
    """All restarts that the limit is about, of the set and of single Jobs."""
    single = sum(sum(each.job_restarts_count_towards_max) for each in status.replicated_jobs_status)
    return value_or(status.restarts_count_towards_max, 0) + single


def _restart_all(status: JobSetStatus, *, counts: bool) -> JobSetStatus:
    status = status.evolve(restarts=value_or(status.restarts, 0) + 1)
    if not counts:
        return status
    return status.evolve(restarts_count_towards_max=value_or(status.restarts_count_towards_max, 0) + 1)


def _restart_one(jobset: JobSet, status: JobSetStatus, job: Job, *, counts: bool) -> JobSetStatus:
    parent = job.metadata.labels.get(names.REPLICATED_JOB_NAME, "")
    wanted = {each.name: replicas_of(each) for each in jobset.spec.replicated_jobs}

    def counted(each: ReplicatedJobStatus) -> ReplicatedJobStatus:
        if each.name != parent:
            return each
        size, index = wanted.get(parent, 0), job_index(job)
        each = each.evolve(job_restarts=_raised(each.job_restarts, size, index, 1))
        if not counts:
            return each
        limited = _raised(each.job_restarts_count_towards_max, size, index, 1)
        return each.evolve(job_restarts_count_towards_max=limited)

    return status.evolve(replicated_jobs_status=tuple(map(counted, status.replicated_jobs_status)))


def _raised(numbers: Sequence[int], size: int, index: int, by: int) -> tuple[int, ...]:
    full = [*numbers, *(0,) * (max(size, index + 1) - len(numbers))]
    full[index] += by
    return tuple(full)
