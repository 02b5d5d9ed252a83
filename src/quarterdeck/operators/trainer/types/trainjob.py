"""TrainJob: one training, run as a runtime says."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Column, Condition, Map, Maybe, Model, Resource, Seq, UnsetType, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s import EnvVar, LocalObjectReference, ResourceRequirements
from quarterdeck.api.marker import Atomic, Cel, Default, Ge, Int32, Int64, Le, Len, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP, field
from quarterdeck.operators.trainer import names

from .constraint import FEW, IMMUTABLE, LABEL
from .override import PodTemplateOverride, RuntimePatch

_STORAGE_URI: Final = Cel(
    r"self.size() == 0 || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
    message="storageUri may be empty, or it must be a valid URI (scheme://...)",
)
_PROCESSES: Final = Cel(
    "type(self) == string || self >= 1", message="numProcPerNode must be greater than or equal to 1"
)
_COUNTER: Final = Ge(0)
_Word = Annotated[str, Len(max=1048576)]
"""Of a command; a function that the SDK sends along is one word."""


class RuntimeRef(Model):
    """The runtime, by kind and name; a TrainingRuntime is looked for in the TrainJob's namespace."""

    name: Annotated[str, Required(), LABEL] = omitempty("")
    """Name of the runtime."""
    api_group: Annotated[Maybe[str], Default(names.GROUP), Len(max=253)] = UNSET
    """API group of the runtime."""
    kind: Annotated[Maybe[str], Default(names.CLUSTER_TRAINING_RUNTIME), Len(max=253)] = UNSET
    """TrainingRuntime or ClusterTrainingRuntime."""

    @property
    def key(self) -> str:
        """What its implementation is registered as."""
        kind = names.CLUSTER_TRAINING_RUNTIME if isinstance(self.kind, UnsetType) else self.kind
        group = names.GROUP if isinstance(self.api_group, UnsetType) else self.api_group
        return names.registry_key(kind, group)


class InitializerStep(Model):
    """What a job fetches before training begins."""

    storage_uri: Annotated[Maybe[str], _STORAGE_URI, Len(max=2048)] = field(name="storageUri", default=UNSET)
    """Where it is fetched from: scheme://path."""
    env: Annotated[Seq[EnvVar], ListMap("name"), FEW] = omitempty(())
    secret_ref: Maybe[LocalObjectReference] = UNSET
    """Secret whose keys become variables of the container."""


class Initializer(Model):
    """Dataset and model."""

    dataset: Maybe[InitializerStep] = UNSET
    model: Maybe[InitializerStep] = UNSET


class Trainer(Model):
    """The container that trains, and how often it runs."""

    image: Annotated[Maybe[str], Len(max=500)] = UNSET
    """Image instead of the runtime's."""
    command: Annotated[Seq[_Word], Atomic(), FEW] = omitempty(())
    """Command instead of the runtime's."""
    args: Annotated[Seq[_Word], Atomic(), FEW] = omitempty(())
    """Arguments instead of the runtime's."""
    env: Annotated[Seq[EnvVar], ListMap("name"), FEW] = omitempty(())
    """Variables that are added to the runtime's."""
    num_nodes: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """Nodes to train on."""
    resources_per_node: Maybe[ResourceRequirements] = UNSET
    """Resources of each node."""
    num_proc_per_node: Annotated[Maybe[IntOrString], _PROCESSES] = UNSET
    """Processes on each node: a number or, for Torch, auto, cpu or gpu."""


class TrainJobSpec(Model):
    """What is to be trained, and with which runtime."""

    runtime_ref: Annotated[
        RuntimeRef, Required(), Cel("self == oldSelf", message="runtimeRef is immutable")
    ] = omitempty(RuntimeRef())
    initializer: Maybe[Initializer] = UNSET
    trainer: Maybe[Trainer] = UNSET
    labels: Map[str, str] = omitempty(EMPTY_MAP)
    """Labels of the JobSet."""
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    """Annotations of the JobSet."""
    pod_template_overrides: Annotated[Seq[PodTemplateOverride], Atomic()] = omitempty(())
    """Changes of the runtime's pods; may change while the TrainJob is suspended and nothing of it runs."""
    runtime_patches: Annotated[Seq[RuntimePatch], ListMap("manager"), Len(max=16)] = omitempty(())
    """Changes grouped by manager, the successor of podTemplateOverrides; applied after them."""
    suspend: Annotated[Maybe[bool], Default(False)] = UNSET
    """Whether the training is suspended; its resources are released."""
    active_deadline_seconds: Annotated[Maybe[int], Int64, Ge(1), IMMUTABLE] = UNSET
    """Seconds the TrainJob may run before it is ended; time spent suspended does not count."""
    managed_by: Annotated[
        Maybe[str],
        Default(names.CONTROLLER),
        Cel(
            f"self in ['{names.CONTROLLER}', '{names.MULTIKUEUE}']",
            message=f"ManagedBy must be {names.CONTROLLER} or {names.MULTIKUEUE} if set",
        ),
        Cel("self == oldSelf", message="ManagedBy value is immutable"),
    ] = UNSET
    """Which controller handles it."""


class JobStatus(Model):
    """Jobs of one replicated job, counted."""

    name: Annotated[str, Required(), LABEL] = omitempty("")
    """Name of the replicated job."""
    ready: Annotated[int, Int32, Required(), _COUNTER] = 0
    """Jobs whose pods are ready."""
    succeeded: Annotated[int, Int32, Required(), _COUNTER] = 0
    """Jobs that succeeded."""
    failed: Annotated[int, Int32, Required(), _COUNTER] = 0
    """Jobs that failed."""
    active: Annotated[int, Int32, Required(), _COUNTER] = 0
    """Jobs that run."""
    suspended: Annotated[int, Int32, Required(), _COUNTER] = 0
    """Jobs that wait."""


class TrainerMetric(Model):
    """A number that the training reports."""

    name: Annotated[str, Required(), Len(1, 64)] = omitempty("")
    """Name of the metric."""
    value: Annotated[str, Required(), Len(1, 64)] = omitempty("")
    """Its value, as the training wrote it."""


class TrainerStatus(Model):
    """What the training reports about itself."""

    progress_percentage: Annotated[Maybe[int], Int32, Ge(0), Le(100)] = UNSET
    """Progress in percent, 0 to 100."""
    estimated_remaining_seconds: Annotated[Maybe[int], Int32, Ge(0)] = UNSET
    """Seconds until it is done, as the training estimates."""
    metrics: Annotated[Seq[TrainerMetric], Atomic(), Len(max=256)] = omitempty(())
    last_updated_time: OptionalTime = UNSET
    """When the training reported last."""


class TrainJobStatus(Model):
    """The state of the TrainJob."""

    conditions: Annotated[Seq[Condition], ListMap("type"), Len(max=8)] = omitempty(())
    jobs_status: Annotated[Seq[JobStatus], ListMap("name"), Len(max=100)] = omitempty(())
    trainer_status: Maybe[TrainerStatus] = UNSET


class TrainJob(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    columns=[
        Column("State", ".status.conditions[-1:].type"),
        Column(
            "Progress",
            ".status.trainerStatus.progressPercentage",
            type="integer",
            description="Percent of the training that is done, as it reports itself",
        ),
        Column(
            "Remaining",
            ".status.trainerStatus.estimatedRemainingSeconds",
            type="integer",
            description="Seconds that the training expects to take yet",
        ),
        Column.age(),
    ],
    rules=[
        Cel(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must match RFC 1035 DNS label format",
        ),
        Cel("size(self.metadata.name) <= 63", message="metadata.name must be no more than 63 characters"),
    ],
):
    """A training of a model, by a runtime."""

    spec: Maybe[TrainJobSpec] = UNSET
    status: Annotated[Maybe[TrainJobStatus], Len(1)] = UNSET
