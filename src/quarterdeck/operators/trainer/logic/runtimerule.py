"""What runtimes must look like."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import UnsetType, to_dict
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import AnyRuntime
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

_CONTAINERS: Final = {
    names.TRAINER: names.NODE,
    names.MODEL_INITIALIZER: names.MODEL_INITIALIZER,
    names.DATASET_INITIALIZER: names.DATASET_INITIALIZER,
}
"""The container that each step of a TrainJob configures."""


def validate_runtime(runtime: AnyRuntime) -> list[FieldError]:
    """What is wrong with the jobs that TrainJobs configure; others are not looked at."""
    template = runtime.spec.template if runtime.spec else None
    found: list[FieldError] = []
    for place, job in enumerate(template.spec.replicated_jobs if template else ()):
        ancestor = job.template.metadata.labels.get(names.ANCESTOR_LABEL, "")
        if ancestor not in _CONTAINERS:
            continue
        path = f"spec.template.spec.replicatedJobs[{place}]"
        if not isinstance(job.replicas, UnsetType) and job.replicas != 1:
            found.append(fielderror.invalid(f"{path}.replicas", job.replicas, "always must be 1"))
        containers = job.template.spec.template.spec.containers
        if not any(container.name == _CONTAINERS[ancestor] for container in containers):
            detail = f"must contain the required container for the ancestor: {ancestor}"
            where = f"{path}.template.spec.template.spec.containers"
            found.append(fielderror.invalid(where, to_dict(containers), detail))
    return found


def is_deprecated(runtime: AnyRuntime) -> bool:
    """Whether a runtime is about to go."""
    return runtime.metadata.labels.get(names.SUPPORT_LABEL) == names.DEPRECATED


def reference_warning(name: str) -> str:
    """For those who use a deprecated runtime."""
    return f"Referenced {runtime_warning(name)}"


def runtime_warning(name: str) -> str:
    """For those who create one."""
    return (
        f'{names.CLUSTER_TRAINING_RUNTIME} "{name}" is deprecated and will be removed in a future release of '
        f"Kubeflow Trainer. See runtime deprecation policy: {names.DEPRECATION_POLICY}"
    )
