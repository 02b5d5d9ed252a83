"""The Jobs of a JobSet sorted and counted, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Time
from quarterdeck.operators.jobset.logic.state import (
    Children,
    are_all_ready,
    has_reached,
    has_succeeded,
    is_finished,
    job_index,
    no_longer_restarting,
    replicated_status,
    sort_children,
    with_condition,
)
from quarterdeck.operators.jobset.types import JobSetStatus, ReplicatedJobStatus

from .jobsetkit import job_of, jobset, part

NOW, LATER = Time.of_timestamp(0), Time.of_timestamp(60)
COMPLETE: dict[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED: dict[str, Any] = {"conditions": [{"type": "Failed", "status": "True"}]}


def names(jobs: Any) -> list[str]:
    return [each.metadata.name for each in jobs]


def test_jobs_are_sorted_by_what_became_of_them() -> None:
    owner = jobset(part("a", replicas=4))
    jobs = [
        job_of(owner, index=0),
        job_of(owner, index=1, **COMPLETE),
        job_of(owner, index=2, **FAILED),
        job_of(owner, index=3, conditions=[{"type": "Complete", "status": "False"}]),
    ]
    found = sort_children(owner, jobs)
    assert names(found.active) == ["js-a-0", "js-a-3"]
    assert names(found.successful) == ["js-a-1"]
    assert names(found.failed) == ["js-a-2"]
    assert found.names == {"js-a-0", "js-a-1", "js-a-2", "js-a-3"}


def test_jobs_of_an_earlier_attempt_are_to_go() -> None:
    before = jobset(part("a", replicas=2), status={"restarts": 1})
    now = jobset(part("a", replicas=2), status={"restarts": 2})
    found = sort_children(now, [job_of(before, index=0, **COMPLETE), job_of(now, index=1, **COMPLETE)])
    assert (names(found.previous), names(found.successful)) == (["js-a-0"], ["js-a-1"])


def test_a_job_that_was_restarted_alone_replaces_only_its_own_predecessor() -> None:
    status = {"replicatedJobsStatus": [{"name": "a", "jobRestarts": [0, 2]}]}
    owner = jobset(part("a", replicas=3), status=status)
    jobs = [
        job_of(owner, index=0),
        job_of(owner, index=1, own_restarts=1),
        job_of(owner, index=2),
    ]
    found = sort_children(owner, jobs)
    assert (names(found.previous), names(found.active)) == (["js-a-1"], ["js-a-0", "js-a-2"])
    again = job_of(owner, index=1, own_restarts=2)
    assert names(sort_children(owner, [again]).active) == ["js-a-1"]


@pytest.mark.parametrize(("text", "index"), [("7", 7), ("x", 0), ("", 0), ("٣", 0)])
def test_an_index_that_is_no_number_is_0(text: str, index: int) -> None:
    job = job_of(jobset())
    labels = {**job.metadata.labels, "jobset.sigs.k8s.io/job-index": text}
    assert job_index(job.evolve(metadata=job.metadata.evolve(labels=labels))) == index


@pytest.mark.parametrize(
    ("job", "status", "is_ready"),
    [
        ({"parallelism": 2}, {"ready": 2}, 1),
        ({"parallelism": 2}, {"ready": 1}, 0),
        ({"parallelism": 2}, {"ready": 1, "succeeded": 1}, 1),
        ({"parallelism": 4, "completions": 2}, {"ready": 2}, 1),
        ({"parallelism": 2, "completions": 4}, {"ready": 2}, 1),
        ({}, {"ready": 1}, 1),
        ({}, {}, 0),
    ],
)
def test_a_job_is_ready_when_as_many_pods_are_as_may_run(
    job: dict[str, int], status: dict[str, int], is_ready: int
) -> None:
    owner = jobset(part("a", job=job))
    [counted] = replicated_status(owner, Children(active=[job_of(owner, **status)]))
    assert counted.ready == is_ready


def test_jobs_are_counted_for_the_part_they_belong_to() -> None:
    owner = jobset(part("a", replicas=2), part("b"), suspend=True)
    running = job_of(owner, 1, active=1)
    children = Children(
        active=[job_of(owner, 0, 0), running.evolve(spec=running.spec.evolve(suspend=False))],
        successful=[job_of(owner, 0, 1, **COMPLETE)],
        failed=[job_of(owner, 1, 0, **FAILED)],
    )
    a, b = replicated_status(owner, children)
    assert (a.name, a.active, a.suspended, a.succeeded, a.failed) == ("a", 0, 1, 1, 0)
    assert (b.name, b.active, b.suspended, b.succeeded, b.failed) == ("b", 1, 0, 0, 1)


def test_counts_of_restarts_survive_a_count() -> None:
    owner = jobset(status={"replicatedJobsStatus": [{"name": "a", "jobRestarts": [2]}]})
    [counted] = replicated_status(owner, Children())
    assert tuple(counted.job_restarts) == (2,)


@pytest.mark.parametrize(
    ("wanted", "counts", "reached"),
    [
        ("Complete", {"succeeded": 2}, True),
        ("Complete", {"succeeded": 1, "ready": 1}, False),
        ("Ready", {"ready": 2}, True),
        ("Ready", {"ready": 1, "succeeded": 1}, True),
        ("Ready", {"ready": 1, "failed": 1}, True),
        ("Ready", {"ready": 1}, False),
    ],
)
def test_a_part_waits_for_what_it_depends_on(wanted: str, counts: dict[str, int], reached: bool) -> None:
    owner = jobset(part("a", replicas=2), part("b", dependsOn=[{"name": "a", "status": wanted}]))
    a, b = owner.spec.replicated_jobs
    statuses = {"a": ReplicatedJobStatus(name="a").evolve(**counts)}
    assert has_reached(b, {"a": a}, statuses) is reached
    assert has_reached(a, {"a": a}, statuses) is True
    assert has_reached(b, {}, statuses) is False


@pytest.mark.parametrize(
    ("policy", "done", "succeeded"),
    [
        ({"operator": "All"}, [(0, 0), (0, 1), (1, 0)], True),
        ({"operator": "All"}, [(0, 0), (0, 1)], False),
        ({"operator": "Any"}, [(1, 0)], True),
        ({"operator": "Any"}, [], False),
        ({"operator": "All", "targetReplicatedJobs": ["a"]}, [(0, 0), (0, 1)], True),
        ({"operator": "All", "targetReplicatedJobs": ["a"]}, [(0, 0), (1, 0)], False),
        ({"operator": "Any", "targetReplicatedJobs": ["b"]}, [(0, 0)], False),
    ],
)
def test_a_set_succeeds_by_its_policy(policy: Any, done: list[tuple[int, int]], succeeded: bool) -> None:
    owner = jobset(part("a", replicas=2), part("b"), successPolicy=policy)
    successful = [job_of(owner, place, index, **COMPLETE) for place, index in done]
    assert has_succeeded(owner, Children(successful=successful)) is succeeded


def test_all_jobs_are_ready_or_have_succeeded() -> None:
    owner = jobset(part("a", replicas=2), part("b"))

    def ready(**a: int) -> bool:
        b = ReplicatedJobStatus(name="b", ready=1)
        return are_all_ready(owner, {"a": ReplicatedJobStatus(name="a").evolve(**a), "b": b})

    assert ready(ready=2) is True
    assert ready(ready=1, succeeded=1) is True
    assert ready(ready=1) is False


def conditions(status: JobSetStatus) -> list[tuple[str, str, str, Any]]:
    return [(c.type, c.status, c.reason, c.last_transition_time) for c in status.conditions]


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = with_condition(JobSetStatus(), "Suspended", reason="A", message="m", now=NOW)
    assert conditions(first) == [("Suspended", "True", "A", NOW)]
    assert with_condition(first, "Suspended", reason="A", message="m", now=LATER) is first
    other = with_condition(first, "Suspended", reason="B", message="m", now=LATER)
    assert conditions(other) == [("Suspended", "True", "B", NOW)]
    over = with_condition(first, "Suspended", reason="C", message="m", now=LATER, holds=False)
    assert conditions(over) == [("Suspended", "False", "C", LATER)]


def test_a_condition_that_does_not_hold_is_not_added() -> None:
    status = JobSetStatus()
    assert with_condition(status, "Suspended", reason="A", message="", now=NOW, holds=False) is status
    assert no_longer_restarting(status, "A", "", NOW) is status


def test_startup_is_in_progress_or_completed_and_never_both() -> None:
    begun = with_condition(JobSetStatus(), "StartupPolicyInProgress", reason="A", message="", now=NOW)
    done = with_condition(begun, "StartupPolicyCompleted", reason="B", message="", now=LATER)
    assert conditions(done) == [
        ("StartupPolicyInProgress", "False", "A", LATER),
        ("StartupPolicyCompleted", "True", "B", LATER),
    ]
    suspended = with_condition(begun, "Suspended", reason="C", message="", now=LATER)
    assert conditions(suspended)[0] == ("StartupPolicyInProgress", "True", "A", NOW)


def test_a_set_is_finished_when_it_completed_or_failed() -> None:
    for type, ended in (("Completed", True), ("Failed", True), ("Suspended", False)):
        status = with_condition(JobSetStatus(), type, reason="A", message="", now=NOW)
        assert (is_finished(jobset().evolve(status=status)) is not None) is ended
    over = with_condition(JobSetStatus(), "Completed", reason="A", message="", now=NOW)
    over = with_condition(over, "Completed", reason="A", message="", now=NOW, holds=False)
    assert is_finished(jobset().evolve(status=over)) is None
