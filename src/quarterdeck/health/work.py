"""What can be wrong with Jobs, JobSets, trainings, workloads, volumes and quotas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, condition, is_true, number, of, plural
from .problem import Finding

_START: Final = 60.0
"""Seconds in which the pods of a workload become available."""
_VOLUME: Final = 120.0
_LATELY: Final = 3600.0


def examine_job(obj: Json) -> Iterator[Finding]:
    """A Job that failed, or waits before it tries again."""
    job = Examined("Job", obj)
    failed = condition(obj, "Failed")
    if failed.get("status") == "True":
        yield job.found("job-failed", _told(failed, "it has failed"), since=_since(failed))
    elif is_true(obj, "Complete") or job.spec.get("suspend"):
        return
    elif (failures := int(job.status.get("failed") or 0)) and not job.status.get("active"):
        text = f"{plural(failures, 'pod')} ended early and none runs: it waits before it tries again"
        yield job.found("job-back-off", text, is_dated=False)


def examine_job_set(obj: Json) -> Iterator[Finding]:
    """A JobSet that failed, was restarted, or may not have its names."""
    jobs = Examined("JobSet", obj)
    yield from _taken(jobs, obj)
    failed = condition(obj, "Failed")
    if failed.get("status") == "True":
        yield jobs.found("jobset-failed", _told(failed, "it has failed"), since=_since(failed))
    elif (restarts := int(jobs.status.get("restarts") or 0)) and not is_true(obj, "Completed"):
        again = condition(obj, "RestartingJobSet")
        yield jobs.found(
            "jobset-restarted",
            "it was started again after a failure",
            since=_since(again),
            until=_LATELY if again else math.inf,
            is_dated=bool(again),
            detail=plural(restarts, "restart"),
        )


def examine_train_job(obj: Json) -> Iterator[Finding]:
    """A training that failed or cannot start."""
    job = Examined("TrainJob", obj)
    yield from _taken(job, obj)
    failed = condition(obj, "Failed")
    if failed.get("status") == "True":
        situation = (
            "trainjob-refused" if failed.get("reason") == "TrainingRuntimeNotSupported" else "trainjob-failed"
        )
        yield job.found(situation, _told(failed, "it has failed"), since=_since(failed))
    missing = condition(obj, "JobSetMissing")
    if missing.get("status") == "True":
        yield job.found("trainjob-refused", _told(missing, "JobSet is not installed"), since=_since(missing))


def _taken(found: Examined, obj: Json) -> Iterator[Finding]:
    taken = condition(obj, "NameTaken")
    if taken.get("status") == "True":
        yield found.found("name-taken", _told(taken, "a name it needs is taken"), since=_since(taken))


def examine_deployment(obj: Json) -> Iterator[Finding]:
    """A Deployment without its pods, or with an update that stands still."""
    deployment = Examined("Deployment", obj)
    progressing, refused = condition(obj, "Progressing"), condition(obj, "ReplicaFailure")
    if progressing.get("status") == "False" and progressing.get("reason") == "ProgressDeadlineExceeded":
        yield deployment.found(
            "deployment-stalled", _told(progressing, "its update stands still"), since=_since(progressing)
        )
    if refused.get("status") == "True":
        yield deployment.found("pods-refused", _told(refused, "its pods are refused"), since=_since(refused))
    since = _since(condition(obj, "Available"))
    yield from _replicas(deployment, int(deployment.status.get("availableReplicas") or 0), since)


def examine_replica_set(obj: Json) -> Iterator[Finding]:
    """A ReplicaSet of its own whose pods are refused; one of a Deployment is told there."""
    replicas = Examined("ReplicaSet", obj)
    refused = condition(obj, "ReplicaFailure")
    if refused.get("status") == "True" and not replicas.metadata.get("ownerReferences"):
        yield replicas.found("pods-refused", _told(refused, "its pods are refused"), since=_since(refused))


def examine_stateful_set(obj: Json) -> Iterator[Finding]:
    """A StatefulSet without its pods."""
    workload = Examined("StatefulSet", obj)
    yield from _replicas(workload, int(workload.status.get("availableReplicas") or 0), "")


def examine_daemon_set(obj: Json) -> Iterator[Finding]:
    """A DaemonSet without its pods."""
    daemons = Examined("DaemonSet", obj)
    wanted = int(daemons.status.get("desiredNumberScheduled") or 0)
    has = int(daemons.status.get("numberAvailable") or 0)
    yield from _available(daemons, has, wanted, "")


def _replicas(workload: Examined, has: int, since: str) -> Iterator[Finding]:
    wanted = workload.spec.get("replicas")
    yield from _available(workload, has, 1 if wanted is None else int(wanted), since)


def _available(workload: Examined, has: int, wanted: int, since: str) -> Iterator[Finding]:
    if has < wanted:
        situation = "deployment-degraded" if has else "deployment-unavailable"
        text = f"{has} of {plural(wanted, 'pod')} {'is' if wanted == 1 else 'are'} available"
        yield workload.found(situation, text, since=since, after=_START, is_dated=bool(since))


def examine_volume_claim(obj: Json) -> Iterator[Finding]:
    """A volume that is gone or does not come."""
    claim = Examined("PersistentVolumeClaim", obj)
    if claim.status.get("phase") == "Lost":
        yield claim.found("volume-claim-lost", "its volume is gone", is_dated=False)
    elif claim.status.get("phase") == "Pending":
        yield claim.found("volume-claim-pending", "no volume has been provided", after=_VOLUME)


def examine_quota(obj: Json) -> Iterator[Finding]:
    """Resources of which a quota leaves nothing."""
    quota = Examined("ResourceQuota", obj)
    used = of(quota.status, "used")
    for name, hard in sorted(of(quota.status, "hard").items()):
        if number(hard) > 0 and number(used.get(name)) >= number(hard):
            yield quota.found("quota-used-up", f"all {hard} of {name} are used", is_dated=False)


def _told(found: Json, otherwise: str) -> str:
    return str(found.get("message") or found.get("reason") or otherwise)


def _since(found: Json) -> str:
    return str(found.get("lastTransitionTime") or "")
