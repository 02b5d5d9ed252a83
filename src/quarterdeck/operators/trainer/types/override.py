"""``podTemplateOverrides`` and ``runtimePatches``: what a TrainJob changes of its runtime's pods."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Map, Maybe, Model, ObjectMeta, Seq, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.k8s import (
    Affinity,
    EnvVar,
    SecurityContext,
    Toleration,
    Volume,
    VolumeMount,
)
from quarterdeck.api.k8s.pod import PodSchedulingGate, PodSecurityContext
from quarterdeck.api.marker import Atomic, Ge, Int64, Len, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP

from .constraint import FEW, IMMUTABLE, LABEL, NAME

_SECRETS: Final = Len(max=64)
_CONTAINERS: Final = Len(max=64)
_GATES: Final = Len(max=16)
_JOBS: Final = Len(max=100)


class TargetJob(Model):
    """A replicated job of the runtime."""

    name: Annotated[str, Required(), NAME] = omitempty("")
    """Name of a replicated job of the runtime."""


class PullSecret(Model):
    """A Secret with the credentials of an image registry."""

    name: Annotated[str, Required()] = omitempty("")


class ContainerOverride(Model):
    """What is changed of a container that the runtime has."""

    name: Annotated[str, Required(), NAME] = omitempty("")
    env: Annotated[Seq[EnvVar], ListMap("name"), FEW] = omitempty(())
    """Variables, merged by name; not for containers that the TrainJob configures itself."""
    volume_mounts: Annotated[Seq[VolumeMount], ListMap("name"), FEW] = omitempty(())
    """Mounts, merged by path."""


class PodTemplateSpecOverride(Model):
    """What is changed of a pod."""

    service_account_name: Maybe[str] = UNSET
    node_selector: Map[str, str] = omitempty(EMPTY_MAP)
    affinity: Maybe[Affinity] = UNSET
    tolerations: Annotated[Seq[Toleration], Atomic()] = omitempty(())
    """Replace those of the runtime."""
    volumes: Annotated[Seq[Volume], ListMap("name")] = omitempty(())
    init_containers: Annotated[Seq[ContainerOverride], ListMap("name")] = omitempty(())
    containers: Annotated[Seq[ContainerOverride], ListMap("name")] = omitempty(())
    scheduling_gates: Annotated[Seq[PodSchedulingGate], ListMap("name")] = omitempty(())
    image_pull_secrets: Annotated[Seq[PullSecret], ListMap("name")] = omitempty(())


class PodTemplateOverride(Model):
    """Changes of the pods of some replicated jobs; later overrides win."""

    target_jobs: Annotated[Seq[TargetJob], Atomic(), Required()] = omitempty(())
    metadata: ObjectMeta = omitempty(ObjectMeta())
    """Labels and annotations of the pods."""
    spec: Maybe[PodTemplateSpecOverride] = UNSET


class ContainerPatch(Model):
    """What is changed of a container that the runtime has."""

    name: Annotated[str, Required(), LABEL] = omitempty("")
    env: Annotated[Seq[EnvVar], ListMap("name"), FEW] = omitempty(())
    volume_mounts: Annotated[Seq[VolumeMount], ListMap("mountPath"), FEW] = omitempty(())
    security_context: Maybe[SecurityContext] = UNSET


class PodSpecPatch(Model):
    """What is changed of a pod; where it runs may change while the TrainJob is suspended, the rest not."""

    service_account_name: Annotated[Maybe[str], IMMUTABLE, Len(max=253)] = UNSET
    node_selector: Map[str, str] = omitempty(EMPTY_MAP)
    affinity: Maybe[Affinity] = UNSET
    tolerations: Annotated[Seq[Toleration], Atomic(), FEW] = omitempty(())
    volumes: Annotated[Seq[Volume], ListMap("name"), FEW] = omitempty(())
    init_containers: Annotated[Seq[ContainerPatch], ListMap("name"), _CONTAINERS] = omitempty(())
    containers: Annotated[Seq[ContainerPatch], ListMap("name"), _CONTAINERS] = omitempty(())
    scheduling_gates: Annotated[Seq[PodSchedulingGate], ListMap("name"), _GATES] = omitempty(())
    image_pull_secrets: Annotated[Seq[PullSecret], ListMap("name"), _SECRETS] = omitempty(())
    security_context: Maybe[PodSecurityContext] = UNSET
    termination_grace_period_seconds: Annotated[Maybe[int], Int64, Ge(0), IMMUTABLE] = UNSET


class PodTemplatePatch(Model):
    """Changes of a pod template."""

    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: Maybe[PodSpecPatch] = UNSET


class JobSpecPatch(Model):
    """Changes of a Job."""

    template: Maybe[PodTemplatePatch] = UNSET


class JobTemplatePatch(Model):
    """Changes of the template of a replicated job."""

    metadata: ObjectMeta = omitempty(ObjectMeta())
    spec: Maybe[JobSpecPatch] = UNSET


class ReplicatedJobPatch(Model):
    """Changes of a replicated job that the runtime has."""

    name: Annotated[str, Required(), LABEL] = omitempty("")
    template: Maybe[JobTemplatePatch] = UNSET


class JobSetSpecPatch(Model):
    """Changes of the JobSet."""

    replicated_jobs: Annotated[Seq[ReplicatedJobPatch], ListMap("name"), _JOBS] = omitempty(())


class JobSetTemplatePatch(Model):
    """Changes of the runtime's template."""

    metadata: ObjectMeta = omitempty(ObjectMeta())
    """Labels and annotations of the JobSet."""
    spec: Maybe[JobSetSpecPatch] = UNSET


class TrainingRuntimeSpecPatch(Model):
    """Changes of the runtime."""

    template: Maybe[JobSetTemplatePatch] = UNSET


class RuntimePatch(Model):
    """What one manager changes of the runtime for this TrainJob."""

    manager: Annotated[str, Required(), LABEL] = omitempty("")
    """The manager of the change: a domain and a path, which the webhook checks."""
    time: OptionalTime = UNSET
    """When the patch was changed; filled in on admission."""
    training_runtime_spec: Maybe[TrainingRuntimeSpecPatch] = UNSET
