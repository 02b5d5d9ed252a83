"""The kinds and their definitions, and the kinds of others that the operator writes."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, crd

from .optimization import OptimizationJob
from .override import ContainerOverride, PodTemplateOverride, PodTemplateSpecOverride, RuntimePatch
from .podgroup import (
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    VolcanoPodGroup,
    VolcanoPodGroupSpec,
)
from .runtime import (
    AnyRuntime,
    ClusterTrainingRuntime,
    JobSetTemplate,
    MLPolicy,
    MpiPolicy,
    PodGroupPolicy,
    TorchPolicy,
    TrainingRuntime,
    TrainingRuntimeSpec,
)
from .trainjob import (
    Initializer,
    InitializerStep,
    JobStatus,
    RuntimeRef,
    Trainer,
    TrainerStatus,
    TrainJob,
    TrainJobSpec,
    TrainJobStatus,
)

__all__ = [
    "KINDS",
    "AnyRuntime",
    "ClusterTrainingRuntime",
    "ContainerOverride",
    "CoschedulingPodGroup",
    "CoschedulingPodGroupSpec",
    "Initializer",
    "InitializerStep",
    "JobSetTemplate",
    "JobStatus",
    "MLPolicy",
    "MpiPolicy",
    "OptimizationJob",
    "PodGroupPolicy",
    "PodTemplateOverride",
    "PodTemplateSpecOverride",
    "RuntimePatch",
    "RuntimeRef",
    "TorchPolicy",
    "TrainJob",
    "TrainJobSpec",
    "TrainJobStatus",
    "Trainer",
    "TrainerStatus",
    "TrainingRuntime",
    "TrainingRuntimeSpec",
    "VolcanoPodGroup",
    "VolcanoPodGroupSpec",
    "definitions",
]

KINDS: Final[tuple[type[Resource], ...]] = (TrainJob, TrainingRuntime, ClusterTrainingRuntime)


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions; OptimizationJobs are only stored."""
    stored: tuple[type[Resource], ...] = (*KINDS, OptimizationJob)
    return [crd(kind) for kind in stored]
