"""The five invariants of TrainJobs, as far as a stored cluster shows whether they hold.

The remedies are the recoveries of the design. Admission keeps the second and the third one for new requests;
what is found here was written past it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from quarterdeck.api import Key, Resource, controller_of, to_dict
from quarterdeck.api.condition import is_condition_true
from quarterdeck.api.invariant import Invariant, Objects
from quarterdeck.api.k8s import ConfigMap, Pod, Secret
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import AnyRuntime, ClusterTrainingRuntime, TrainingRuntime, TrainJob

from .audit import find_drift
from .overriderule import active_jobs
from .plugins import default_framework
from .secret import key_digest, secret_name
from .snapshot import InvalidSnapshot, read_snapshot
from .status import is_finished

Found: TypeAlias = Iterator[tuple[Resource, str, str]]
_RECREATE: Final = "delete and recreate the TrainJob"
_RUNTIMES: Final = (ClusterTrainingRuntime, TrainingRuntime, ConfigMap)
"""What has the runtime of a TrainJob: the ConfigMap is what the TrainJob keeps of it."""


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
    for job in objects.every(TrainJob):
        for jobset in controlled.pop(job.metadata.uid, ()):
            if jobset.metadata.name != job.metadata.name:
                problem = f"is controlled by TrainJob {job.metadata.name}, which has a JobSet of its own name"
                yield jobset, problem, "delete it"
    for jobsets in controlled.values():
        for jobset in jobsets:
            problem = "its TrainJob is gone"
            yield jobset, problem, "the garbage collector removes it; if it stays, delete it"


def _reserved_variables(objects: Objects) -> Found:
    framework, runtime_of, controlled = default_framework(), _runtimes(objects), _controlled(objects)
    for job in _ours(objects):
        runtime = runtime_of(job)
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


def _ours(objects: Objects) -> list[TrainJob]:
    """TrainJobs that this operator renders."""
    jobs = objects.of(TrainJob)
    return [
        job for job in jobs if not job.spec or (job.spec.managed_by or names.CONTROLLER) == names.CONTROLLER
    ]


def _runtimes(objects: Objects) -> Callable[[TrainJob], AnyRuntime | None]:
    """Finds the runtime that a TrainJob goes by: what it keeps of it, else the one that is there."""
    runtimes: dict[tuple[str, Key], AnyRuntime] = {
        ("ClusterTrainingRuntime", each.key): each for each in objects.of(ClusterTrainingRuntime)
    }
    runtimes |= {("TrainingRuntime", each.key): each for each in objects.of(TrainingRuntime)}
    kept = _snapshots(objects)
    return lambda job: kept.get(job.metadata.uid) or runtimes.get(_runtime_of(job))


def _one_template(objects: Objects) -> Found:
    """Pods of one run of a replicated job are alike in what overrides may change and nobody else does."""
    names_of = {(job.metadata.namespace, job.metadata.name): job for job in objects.of(TrainJob)}
    seen: dict[tuple[str, ...], object] = {}
    for pod in sorted(objects.of(Pod), key=lambda each: each.metadata.name):
        labels, space = pod.metadata.labels, pod.metadata.namespace
        job = names_of.get((space, labels.get(jobset_names.JOBSET_NAME, "")))
        if job is None or pod.status.phase in ("Succeeded", "Failed"):
            continue
        part = labels.get(jobset_names.REPLICATED_JOB_NAME, "")
        run = (space, job.metadata.name, part, labels.get(jobset_names.RESTART_ATTEMPT, ""))
        made_of = [(each.name, each.image, to_dict(each).get("env")) for each in pod.spec.containers]
        if seen.setdefault(run, (pod.spec.service_account_name, made_of)) != (
            pod.spec.service_account_name,
            made_of,
        ):
            problem = f"differs from other pods of {part} of TrainJob {job.metadata.name}"
            yield pod, problem, "suspend and resume the TrainJob: its pods are then made of one template"


def _one_runtime(objects: Objects) -> Found:
    runtime_of = _runtimes(objects)
    for job in _ours(objects):
        if runtime_of(job) is None and not (job.status and is_finished(job.status)):
            kind, key = _runtime_of(job)
            yield (
                job,
                f"its {kind} {key.name} does not exist",
                "create the runtime; the TrainJob then goes on",
            )


def _snapshots(objects: Objects) -> dict[str, AnyRuntime]:
    """The runtimes as TrainJobs first saw them, which is what those go by; by UID of the TrainJob."""
    jobs = {job.metadata.uid: job for job in objects.of(TrainJob)}
    found: dict[str, AnyRuntime] = {}
    for kept in objects.of(ConfigMap):
        owner = controller_of(kept.metadata.owner_references)
        job = jobs.get(owner.uid) if owner is not None else None
        if job is None or not job.spec or kept.metadata.name != names.snapshot_name(job.metadata.name):
            continue
        with suppress(InvalidSnapshot):
            found[job.metadata.uid] = read_snapshot(kept.data, job.spec.runtime_ref)
    return found


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
            yield secret, "the SSH keys can be changed under running pods", _RECREATE
    yield from _lost_keys(objects)


def _lost_keys(objects: Objects) -> Found:
    """Keys that are not those with which the pods of a TrainJob were started."""
    runtime_of, controlled = _runtimes(objects), _controlled(objects)
    secrets = {each.key: each for each in objects.of(Secret)}
    noted = {each.key: each.metadata.annotations for each in objects.of(ConfigMap)}
    for job in _ours(objects):
        runtime = runtime_of(job)
        policy = runtime.spec.ml_policy if runtime is not None and runtime.spec else None
        name = secret_name(policy, job.metadata.name) if policy else ""
        running = [each for each in controlled.get(job.metadata.uid, ()) if active_jobs(each)]
        if not name or not running:
            continue
        space = job.metadata.namespace
        secret = secrets.get(Key(space, name))
        snapshot: Mapping[str, str] = noted.get(Key(space, names.snapshot_name(job.metadata.name)), {})
        expected = {**running[0].metadata.annotations, **snapshot}.get(names.KEY_DIGEST)
        if secret is None:
            yield job, f"the keys of its running pods are gone: there is no Secret {name}", _RECREATE
        elif expected is not None and expected != key_digest(secret):
            yield secret, "the keys are not those of the pods that run", _RECREATE


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
        (TrainJob, JobSet, *_RUNTIMES),
        _reserved_variables,
        True,
    ),
    Invariant(
        "trainer/one-template",
        "Pods that run together are made of one template.",
        (TrainJob, Pod),
        _one_template,
        True,
    ),
    Invariant(
        "trainer/fixed-keys",
        "The SSH keys of an MPI job never change.",
        (TrainJob, JobSet, Secret, *_RUNTIMES),
        _fixed_keys,
        True,
    ),
    Invariant(
        "trainer/one-runtime",
        "A TrainJob that has not ended has the runtime that it refers to, or keeps it.",
        (TrainJob, *_RUNTIMES),
        _one_runtime,
        True,
    ),
)
