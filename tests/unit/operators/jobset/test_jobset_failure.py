"""What is done about Jobs that failed."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time
from quarterdeck.api.k8s import Job
from quarterdeck.operators.jobset.logic.failure import after_failure
from quarterdeck.operators.jobset.logic.state import with_condition
from quarterdeck.operators.jobset.types import JobSet, JobSetStatus

from .jobsetkit import job_of, jobset, part

NOW = Time.of_timestamp(0)


def failed(
    owner: JobSet, place: int = 0, index: int = 0, *, reason: str = "", message: str = "", at: int = 0
) -> Job:
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": f"2030-01-01T00:00:{at:02}Z",
    }
    return job_of(owner, place, index, conditions=[condition])


def owner_with(*rules: dict[str, Any], status: Any = None, **policy: Any) -> JobSet:
    named = [{"name": f"r{place}", **rule} for place, rule in enumerate(rules)]
    return jobset(
        part("a", replicas=2), part("b"), failurePolicy={"rules": named, **policy}, status=status or {}
    )


def outcome(owner: JobSet, *jobs: Job) -> tuple[JobSetStatus, list[str]]:
    status, events = after_failure(owner, owner.status, jobs, NOW)
    return status, [each.reason for each in events]


def test_without_a_policy_the_set_fails_and_the_first_failure_is_told() -> None:
    owner = jobset(part("a", replicas=2))
    status, events = outcome(owner, failed(owner, index=0, at=9), failed(owner, index=1, at=3))
    assert (status.terminal_state, events) == ("Failed", ["FailedJobs"])
    assert status.conditions[0].message.endswith("(first failed job: js-a-1)")


@pytest.mark.parametrize(
    ("restarts", "most", "ends"), [(0, 0, True), (0, 1, False), (1, 2, False), (2, 2, True), (3, 2, True)]
)
def test_a_set_restarts_as_often_as_it_may(restarts: int, most: int, ends: bool) -> None:
    owner = owner_with(maxRestarts=most, status={"restarts": 5, "restartsCountTowardsMax": restarts})
    status, events = outcome(owner, failed(owner))
    if ends:
        assert (status.terminal_state, events) == ("Failed", ["ReachedMaxRestarts"])
        assert status.restarts == 5
    else:
        assert (status.restarts, status.restarts_count_towards_max) == (6, restarts + 1)
        assert events == ["DefaultFailurePolicy", "RestartJobSetFailurePolicyAction"]
        [condition] = status.conditions
        assert (condition.type, condition.status) == ("RestartingJobSet", "True")


def test_restarts_of_single_jobs_count_towards_the_limit() -> None:
    counted = {"replicatedJobsStatus": [{"name": "a", "jobRestartsCountTowardsMax": [1, 1]}]}
    status, events = outcome(owner_with(maxRestarts=2, status=counted), failed(owner_with()))
    assert (status.terminal_state, events) == ("Failed", ["ReachedMaxRestarts"])
    status, _ = outcome(owner_with(maxRestarts=3, status=counted), failed(owner_with()))
    assert status.terminal_state != "Failed"


def test_a_restart_beyond_the_limit_is_not_counted() -> None:
    owner = owner_with({"action": "RestartJobSetAndIgnoreMaxRestarts"}, maxRestarts=0)
    status, events = outcome(owner, failed(owner))
    assert status.restarts == 1
    assert not status.restarts_count_towards_max
    assert events == ["FailurePolicy_r0", "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction"]


@pytest.mark.parametrize(
    ("rule", "job", "fits"),
    [
        ({}, {}, True),
        ({"targetReplicatedJobs": ["a"]}, {}, True),
        ({"targetReplicatedJobs": ["b"]}, {}, False),
        ({"onJobFailureReasons": ["DeadlineExceeded"]}, {"reason": "DeadlineExceeded"}, True),
        ({"onJobFailureReasons": ["DeadlineExceeded"]}, {"reason": "BackoffLimitExceeded"}, False),
        ({"onJobFailureMessagePatterns": ["^x", "disk.*full"]}, {"message": "the disk is full"}, True),
        ({"onJobFailureMessagePatterns": ["^disk"]}, {"message": "the disk is full"}, False),
        (
            {"onJobFailureReasons": ["DeadlineExceeded"], "onJobFailureMessagePatterns": ["disk"]},
            {"reason": "DeadlineExceeded", "message": "network"},
            False,
        ),
    ],
)
def test_the_first_rule_that_fits_decides(rule: dict[str, Any], job: dict[str, Any], fits: bool) -> None:
    owner = owner_with({"action": "FailJobSet", **rule}, maxRestarts=1)
    _, events = outcome(owner, failed(owner, **job))
    assert (events[0] == "FailJobSetFailurePolicyAction") is fits


def test_a_rule_is_told_with_the_first_job_that_it_fits() -> None:
    owner = owner_with({"action": "FailJobSet", "targetReplicatedJobs": ["b"]})
    status, _ = outcome(owner, failed(owner, 0, at=1), failed(owner, 1, at=2))
    assert status.conditions[0].message.endswith("(first failed job: js-b-0)")


@pytest.mark.parametrize(
    ("action", "limited"), [("RestartJob", (0, 1)), ("RestartJobAndIgnoreMaxRestarts", ())]
)
def test_a_single_job_is_restarted_alone_and_counted(action: str, limited: tuple[int, ...]) -> None:
    known = {"replicatedJobsStatus": [{"name": "a"}, {"name": "b"}]}
    owner = owner_with({"action": action}, maxRestarts=1, status=known)
    status, events = outcome(owner, failed(owner, 0, 1))
    a, b = status.replicated_jobs_status
    assert tuple(a.job_restarts) == (0, 1)
    assert tuple(a.job_restarts_count_towards_max) == limited
    assert (tuple(b.job_restarts), status.restarts or 0) == ((), 0)
    assert events == [f"{action}FailurePolicyAction"]


def test_a_set_that_fails_while_it_restarts_is_no_longer_restarting() -> None:
    owner = jobset()
    restarting = with_condition(owner.status, "RestartingJobSet", reason="A", message="", now=NOW)
    status, events = after_failure(owner, restarting, [failed(owner)], NOW)
    assert {c.type: c.status for c in status.conditions} == {"RestartingJobSet": "False", "Failed": "True"}
    assert [each.reason for each in events] == ["FailedJobs", "JobSetFailed"]
