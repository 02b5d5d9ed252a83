"""JobSet: what a TrainJob runs as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UnsetType, to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic import status
from quarterdeck.operators.trainer.logic.env import user_env
from quarterdeck.operators.trainer.logic.framework import is_running
from quarterdeck.operators.trainer.logic.info import Info, spec_of, trainer_of
from quarterdeck.operators.trainer.logic.overriderule import validate_overrides
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts, Component, Present, Watch
from quarterdeck.operators.trainer.logic.systemenv import Shape
from quarterdeck.operators.trainer.logic.template import job_spec, pod_template, upsert_env
from quarterdeck.operators.trainer.types import InitializerStep, TrainJob, TrainJobStatus
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

_CONFIGURED: Final = {
    names.DATASET_INITIALIZER: "datasetConfig",
    names.MODEL_INITIALIZER: "modelConfig",
}


class JobSetPlugin:
    """Every TrainJob becomes a JobSet."""

    name: Final = "JobSet"

    def identify_pods(self, info: Info) -> None:
        """One address for each pod, of all replicas."""
        for pods in info.pod_sets:
            pods.endpoints = [
                f"{info.job_name}-{pods.name}-{replica}-{index}.{info.subdomain}"
                for replica in range(pods.replicas)
                for index in range(pods.count)
            ]

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The JobSet, unless it runs."""
        if is_running(job, present.jobset):
            return []
        for pods in info.pod_sets:
            spec = job_spec(pods.job)
            spec["parallelism"] = spec["completions"] = pods.count
        reserved = info.env_owner.reserved if info.env_owner is not None else ()
        _add_initializers(info, job)
        _add_trainer(info, job, reserved)
        _mark_pods(info)
        if info.env_owner is not None:
            shape = Shape(
                job_name=info.job_name,
                template=info.template,
                policy=info.ml_policy,
                processes=info.processes,
                has_own_command=bool(info.command),
            )
            # The last word: nothing of a user or a runtime comes after it.
            for target in info.env_owner.system_env(shape):
                container = _find(info, target.job, target.container)
                if container is not None:
                    upsert_env(container, target.entries)
        if info.processes:
            info.record[names.PROCESSES_PER_NODE] = info.processes
        return [Component(JobSet.from_dict(_document(info, job)))]

    def watches(self) -> list[Watch]:
        """The JobSet."""
        return [Watch(JobSet, is_optional=True)]

    def status(self, job: TrainJob, jobset: JobSet) -> TrainJobStatus:
        """Conditions and counters of the JobSet."""
        return status.mirrored(job.status or TrainJobStatus(), jobset)

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """Initializers that the runtime must have, and overrides."""
        return [*_validate_initializers(info, new), *validate_overrides(info, old, new, facts)]


def _find(info: Info, job: str, container: str) -> Json | None:
    pods = info.pod_set(job)
    return pods.any_container(container) if pods is not None else None


def _add_initializers(info: Info, job: TrainJob) -> None:
    initializer = spec_of(job).initializer
    for step in (names.DATASET_INITIALIZER, names.MODEL_INITIALIZER):
        pods = info.ancestor(step)
        if pods is None:
            continue
        pods.job["replicas"] = 1
        if not initializer:
            continue
        wanted = initializer.dataset if step == names.DATASET_INITIALIZER else initializer.model
        container = pods.container(step)
        if wanted and container is not None:
            _configure_initializer(container, wanted)


def _configure_initializer(container: Json, wanted: InitializerStep) -> None:
    if not isinstance(wanted.storage_uri, UnsetType):
        upsert_env(container, [{"name": names.STORAGE_URI, "value": wanted.storage_uri}])
    upsert_env(container, user_env(wanted.env))
    if wanted.secret_ref:
        source = {"secretRef": to_dict(wanted.secret_ref)}
        sources: list[Json] = container.setdefault("envFrom", [])
        if source not in sources:
            sources.append(source)


def _add_trainer(info: Info, job: TrainJob, reserved: Sequence[str]) -> None:
    trainer = trainer_of(job)
    pods = info.ancestor(names.TRAINER)
    if pods is not None:
        pods.job["replicas"] = 1
        container = pods.container(names.NODE)
        if container is not None:
            command = info.command or trainer.command
            for key, value in (("image", trainer.image), ("command", command), ("args", trainer.args)):
                if value:
                    container[key] = value if isinstance(value, str) else list(value)
            if not info.has_arguments:
                container.pop("args", None)
    for each in info.trainers():
        container = each.container(names.NODE)
        if container is not None:
            upsert_env(container, user_env(trainer.env, reserved))


def _mark_pods(info: Info) -> None:
    for pods in info.pod_sets:
        metadata = pod_template(pods.job).setdefault("metadata", {})
        for key, marks in (("labels", info.pod_labels), ("annotations", info.pod_annotations)):
            if marks:
                metadata[key] = {**(metadata.get(key) or {}), **marks}
        if not metadata:
            del pod_template(pods.job)["metadata"]


def _document(info: Info, job: TrainJob) -> Json:
    metadata: Json = {
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.TRAIN_JOB,
                "name": job.metadata.name,
                "uid": job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    for key, marks in (("labels", info.labels), ("annotations", info.annotations)):
        if marks:
            metadata[key] = dict(marks)
    gvk = JobSet.type_info.gvk
    spec = {**info.template, "suspend": bool(spec_of(job).suspend)}
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, "spec": spec}


def _validate_initializers(info: Info, job: TrainJob) -> list[FieldError]:
    spec = spec_of(job)
    initializer = spec.initializer
    if not initializer:
        return []
    steps = ((names.DATASET_INITIALIZER, initializer.dataset), (names.MODEL_INITIALIZER, initializer.model))
    found: list[FieldError] = []
    for step, wanted in steps:
        problem = _initializer_problem(info, step, wanted) if wanted else ""
        if problem:
            found.append(fielderror.invalid("spec.runtimeRef", spec.runtime_ref, problem))
    return found


def _initializer_problem(info: Info, step: str, wanted: InitializerStep) -> str:
    pods = info.pod_set(step)
    if pods is None:
        return f"must have {step} job when trainJob is configured with input {_CONFIGURED[step]}"
    container = pods.container(step)
    if container is None:
        return f"must have container with name - {step} in the {step} job"
    if (wanted.storage_uri or "").startswith(names.CACHE_SCHEME):
        return ""  # it is served from memory, not put on a volume
    mounts = container.get("volumeMounts") or ()
    if not any(mount.get("name") == names.INITIALIZER_VOLUME for mount in mounts):
        return (
            f"must have volumeMount with name - {names.INITIALIZER_VOLUME} in container {step} "
            f"of the {step} job"
        )
    return ""
