"""What holds between a TrainJob, its JobSet and its keys; admission keeps the rest of the invariants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, TypeAlias

from quarterdeck.api import Key, Resource, controller_of, is_condition_true
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import Secret
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import AnyRuntime, ClusterTrainingRuntime, TrainingRuntime, TrainJob

from .audit import find_drift
from .plugins import default_framework

__all__ = ["INVARIANTS"]

Found: TypeAlias = Iterator[tuple[Resource, str, str]]


def _controlled(objects: Objects) -> dict[str, list[JobSet]]:
    """JobSets by the UID of their controller."""
    found: dict[str, list[JobSet]] = defaultdict(list)
    for jobset in objects.of(JobSet):
        owner = controller_of(jobset.metadata.owner_references)
        if owner is not None and owner.kind == "TrainJob":
            found[owner.uid].append(jobset)
    return found


def _one_jobset(objects: Objects) -> Found:
    controlled = _controlled(objects)
    for job in objects.of(TrainJob):
        for jobset in controlled.pop(job.metadata.uid, ()):
            if jobset.metadata.name != job.metadata.name:
                problem = f"is controlled by TrainJob {job.metadata.name}, which has a JobSet of its own name"
                yield jobset, problem, "delete it"
    for jobsets in controlled.values():
        for jobset in jobsets:
            problem = "its TrainJob is gone"
            yield jobset, problem, "the garbage collector removes it; if it stays, delete it"


def _reserved_variables(objects: Objects) -> Found:
    framework = default_framework()
    runtimes: dict[tuple[str, Key], AnyRuntime] = {
        ("ClusterTrainingRuntime", each.key): each for each in objects.of(ClusterTrainingRuntime)
    }
    runtimes |= {("TrainingRuntime", each.key): each for each in objects.of(TrainingRuntime)}
    controlled = _controlled(objects)
    for job in objects.of(TrainJob):
        runtime = runtimes.get(_runtime_of(job))
        owner = framework.env_owner(runtime) if runtime is not None else None
        policy = runtime.spec.ml_policy if runtime is not None and runtime.spec else None
        if owner is None or not policy:
            continue
        for jobset in controlled.get(job.metadata.uid, ()):
            drift = [] if _has_ended(jobset) else find_drift(owner, policy, jobset, processes="")
            if drift:
                variables = ", ".join(sorted({name for each in drift for name in each.names}))
                problem = f"somebody changed what the system sets: {variables}"
                yield (
                    jobset,
                    problem,
                    "the operator restores it when nothing of it runs; suspend the TrainJob",
                )


def _runtime_of(job: TrainJob) -> tuple[str, Key]:
    reference = job.spec.runtime_ref if job.spec else None
    kind = (reference.kind if reference is not None else "") or "ClusterTrainingRuntime"
    space = job.metadata.namespace if kind == "TrainingRuntime" else ""
    return kind, Key(space, reference.name if reference is not None else "")


def _has_ended(jobset: JobSet) -> bool:
    return any(
        is_condition_true(jobset.status.conditions, kind)
        for kind in (jobset_names.COMPLETED, jobset_names.FAILED)
    )


def _fixed_keys(objects: Objects) -> Found:
    jobs = {job.metadata.uid for job in objects.of(TrainJob)}
    for secret in objects.of(Secret):
        owner = controller_of(secret.metadata.owner_references)
        if owner is None or owner.uid not in jobs or secret.type != names.SSH_SECRET_TYPE:
            continue
        if not secret.immutable:
            yield secret, "the SSH keys can be changed under running pods", "delete and recreate the TrainJob"


INVARIANTS: Final = (
    Invariant(
        "trainer/one-jobset",
        "A TrainJob has one JobSet, of its own name.",
        (TrainJob, JobSet),
        _one_jobset,
        True,
    ),
    Invariant(
        "trainer/reserved-variables",
        "What the system sets in a JobSet, nobody else changes.",
        (TrainJob, JobSet, ClusterTrainingRuntime, TrainingRuntime),
        _reserved_variables,
        True,
    ),
    Invariant(
        "trainer/fixed-keys", "The SSH keys of an MPI job never change.", (TrainJob, Secret), _fixed_keys
    ),
)
