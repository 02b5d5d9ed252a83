"""The extension points: what a plugin may do, and what it is told.

A plugin is any object with a name that has the methods of one or more of these protocols. It decides on
documents alone; what it needs to know of the cluster is read before and given to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from quarterdeck.api import ObjectMeta, Resource, owner_reference
from quarterdeck.api.k8s import ConfigMap, Pod, Secret
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.types import TrainJob, TrainJobStatus
from quarterdeck.wire.fielderror import FieldError

from .info import Info


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a TrainJob there are; only its own, what belongs to others is not shown to plugins."""

    jobset: JobSet | None = None
    has_pod_group: bool = False
    secret: Secret | None = None
    """With the key of the TrainJob's pods."""
    new_secret: Secret | None = None
    """To be created if the pods need a key and there is none."""
    record: Mapping[str, str] = {}
    """What the JobSet was rendered with, by annotation."""


class Component(msgspec.Struct, frozen=True):
    """An object of a TrainJob as it should be."""

    obj: Resource
    is_created_once: bool = False
    """Created if it is absent and never touched again; others are applied."""


def config_map(job: TrainJob, name: str, data: Mapping[str, str]) -> ConfigMap:
    """A ConfigMap of a TrainJob."""
    owner = owner_reference(job, controller=True)
    metadata = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=(owner,))
    return ConfigMap(metadata=metadata, data=data)


class Rendering(msgspec.Struct, frozen=True):
    """What a TrainJob should have."""

    components: Sequence[Component]
    """Its objects, in the order in which to write them."""
    record: Mapping[str, str]
    """What they were rendered with, as far as they do not tell."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What validation needs to know of the cluster."""

    jobset: JobSet | Exception | None = None
    """The JobSet of an updated TrainJob, or why it could not be read."""
    pods: Sequence[Pod] = ()
    """Pods of that JobSet."""
    missing_priorities: Mapping[str, str] = {}
    """PriorityClasses that could not be read: name to error."""


class Watch(msgspec.Struct, frozen=True):
    """A kind whose objects a TrainJob controls, and whose changes concern it."""

    kind: type[Resource]
    is_optional: bool = False
    """The kind may not be installed."""
    is_metadata_enough: bool = False


class Plugin(Protocol):
    """What all plugins have."""

    @property
    def name(self) -> str:
        """As in logs and error texts."""
        ...


@runtime_checkable
class MLPolicyEnforcer(Protocol):
    """Sizes the pods and gives them what the framework needs."""

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Complete ``info``; does nothing if the policy is another plugin's."""
        ...


@runtime_checkable
class PodGroupEnforcer(Protocol):
    """Marks pods for a gang scheduler."""

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Complete ``info``; does nothing if the policy is another plugin's."""
        ...


@runtime_checkable
class PodEnforcer(Protocol):
    """Gives pods what has to do neither with their framework nor with their scheduler."""

    def enforce_pods(self, info: Info, job: TrainJob) -> None:
        """Complete ``info``."""
        ...


@runtime_checkable
class PodNetwork(Protocol):
    """Knows the addresses of pods."""

    def identify_pods(self, info: Info) -> None:
        """Fill in the endpoints."""
        ...


@runtime_checkable
class ComponentBuilder(Protocol):
    """Makes objects."""

    def build(self, info: Info, job: TrainJob, present: Present) -> Sequence[Component]:
        """The objects as they should be now; an object that must stay as it is, is left out."""
        ...


@runtime_checkable
class CustomValidation(Protocol):
    """Judges TrainJobs."""

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> Sequence[FieldError]:
        """What is wrong; ``info`` has the overrides and nothing of other plugins."""
        ...


@runtime_checkable
class WatchExtension(Protocol):
    """Wants to know about changes."""

    def watches(self) -> Sequence[Watch]:
        """Kinds of objects that it makes."""
        ...


@runtime_checkable
class StatusSource(Protocol):
    """Knows how far a TrainJob is; there is exactly one."""

    def status(self, job: TrainJob, jobset: JobSet) -> TrainJobStatus:
        """The status with what the JobSet says."""
        ...
