"""Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet.

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s.pod import PodTemplateSpec
from quarterdeck.api.k8s.volume import PersistentVolumeClaim
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, Preserve, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import UNSET, JsonObjectField, Maybe, Model, Seq, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "Deployment",
    "DeploymentCondition",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDaemonSet",
    "RollingUpdateDeployment",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
]


class RollingUpdateDeployment(Model):
    """Spec to control the desired behavior of rolling update."""

    max_unavailable: Maybe[IntOrString] = UNSET
    max_surge: Maybe[IntOrString] = UNSET


class DeploymentStrategy(Model):
    """How to replace existing pods with new ones."""

    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateDeployment] = UNSET


class DeploymentSpec(Model):
    """Specification of the desired behavior of the Deployment."""

    replicas: Annotated[Maybe[int], Int32] = UNSET
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    strategy: DeploymentStrategy = omitempty(DeploymentStrategy())
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    revision_history_limit: Annotated[Maybe[int], Int32] = UNSET
    paused: Maybe[bool] = UNSET
    progress_deadline_seconds: Annotated[Maybe[int], Int32] = UNSET


class DeploymentCondition(Model):
    """State of a deployment at a certain point."""

    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_update_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class DeploymentStatus(Model):
    """Most recently observed status of the Deployment."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    replicas: Annotated[Maybe[int], Int32] = UNSET
    updated_replicas: Annotated[Maybe[int], Int32] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    available_replicas: Annotated[Maybe[int], Int32] = UNSET
    unavailable_replicas: Annotated[Maybe[int], Int32] = UNSET
    terminating_replicas: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[DeploymentCondition], ListMap("type")] = omitempty(())
    collision_count: Annotated[Maybe[int], Int32] = UNSET


class Deployment(Resource, group="apps", version="v1", short_names=["deploy"], status=True):
    """Deployment enables declarative updates for Pods and ReplicaSets."""

    spec: DeploymentSpec = omitempty(DeploymentSpec())
    status: DeploymentStatus = omitempty(DeploymentStatus())


class ReplicaSetSpec(Model):
    """Specification of a ReplicaSet."""

    replicas: Annotated[Maybe[int], Int32] = UNSET
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: PodTemplateSpec = omitempty(PodTemplateSpec())


class ReplicaSetCondition(Model):
    """State of a replica set at a certain point."""

    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class ReplicaSetStatus(Model):
    """Current status of a ReplicaSet."""

    replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    fully_labeled_replicas: Annotated[Maybe[int], Int32] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    available_replicas: Annotated[Maybe[int], Int32] = UNSET
    terminating_replicas: Annotated[Maybe[int], Int32] = UNSET
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    conditions: Annotated[Seq[ReplicaSetCondition], ListMap("type")] = omitempty(())


class ReplicaSet(Resource, group="apps", version="v1", short_names=["rs"], status=True):
    """ReplicaSet ensures that a specified number of pod replicas are running at any given time."""

    spec: ReplicaSetSpec = omitempty(ReplicaSetSpec())
    status: ReplicaSetStatus = omitempty(ReplicaSetStatus())


class RollingUpdateStatefulSetStrategy(Model):
    """Used to communicate parameter for RollingUpdateStatefulSetStrategyType."""

    partition: Annotated[Maybe[int], Int32] = UNSET
    max_unavailable: Maybe[IntOrString] = UNSET


class StatefulSetUpdateStrategy(Model):
    """StatefulSetUpdateStrategy indicates the strategy that the StatefulSet controller will use to …"""

    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateStatefulSetStrategy] = UNSET


class StatefulSetPersistentVolumeClaimRetentionPolicy(Model):
    """Policy used for PVCs created from the StatefulSet VolumeClaimTemplates."""

    when_deleted: str = omitempty("")
    when_scaled: str = omitempty("")


class StatefulSetOrdinals(Model):
    """Policy used for replica ordinal assignment in this StatefulSet."""

    start: Annotated[Maybe[int], Int32] = UNSET


class StatefulSetSpec(Model):
    """A StatefulSetSpec is the specification of a StatefulSet."""

    replicas: Annotated[Maybe[int], Int32] = UNSET
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    volume_claim_templates: Annotated[Seq[PersistentVolumeClaim], Atomic()] = omitempty(())
    service_name: str = omitempty("")
    pod_management_policy: str = omitempty("")
    update_strategy: StatefulSetUpdateStrategy = omitempty(StatefulSetUpdateStrategy())
    revision_history_limit: Annotated[Maybe[int], Int32] = UNSET
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    persistent_volume_claim_retention_policy: Maybe[StatefulSetPersistentVolumeClaimRetentionPolicy] = UNSET
    ordinals: Maybe[StatefulSetOrdinals] = UNSET


class StatefulSetCondition(Model):
    """State of a statefulset at a certain point."""

    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class StatefulSetStatus(Model):
    """Current state of a StatefulSet."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    current_replicas: Annotated[Maybe[int], Int32] = UNSET
    updated_replicas: Annotated[Maybe[int], Int32] = UNSET
    current_revision: str = omitempty("")
    update_revision: str = omitempty("")
    collision_count: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[StatefulSetCondition], ListMap("type")] = omitempty(())
    available_replicas: Annotated[Maybe[int], Int32] = UNSET


class StatefulSet(Resource, group="apps", version="v1", short_names=["sts"], status=True):
    """Set of pods with consistent identities."""

    spec: StatefulSetSpec = omitempty(StatefulSetSpec())
    status: StatefulSetStatus = omitempty(StatefulSetStatus())


class RollingUpdateDaemonSet(Model):
    """Spec to control the desired behavior of daemon set rolling update."""

    max_unavailable: Maybe[IntOrString] = UNSET
    max_surge: Maybe[IntOrString] = UNSET


class DaemonSetUpdateStrategy(Model):
    """Struct used to control the update strategy for a DaemonSet."""

    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateDaemonSet] = UNSET


class DaemonSetSpec(Model):
    """Specification of a daemon set."""

    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    update_strategy: DaemonSetUpdateStrategy = omitempty(DaemonSetUpdateStrategy())
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    revision_history_limit: Annotated[Maybe[int], Int32] = UNSET


class DaemonSetCondition(Model):
    """State of a DaemonSet at a certain point."""

    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class DaemonSetStatus(Model):
    """Current status of a daemon set."""

    current_number_scheduled: Annotated[Maybe[int], Int32, Required()] = UNSET
    number_misscheduled: Annotated[Maybe[int], Int32, Required()] = UNSET
    desired_number_scheduled: Annotated[Maybe[int], Int32, Required()] = UNSET
    number_ready: Annotated[Maybe[int], Int32, Required()] = UNSET
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    updated_number_scheduled: Annotated[Maybe[int], Int32] = UNSET
    number_available: Annotated[Maybe[int], Int32] = UNSET
    number_unavailable: Annotated[Maybe[int], Int32] = UNSET
    collision_count: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[DaemonSetCondition], ListMap("type")] = omitempty(())


class DaemonSet(Resource, group="apps", version="v1", short_names=["ds"], status=True):
    """Configuration of a daemon set."""

    spec: DaemonSetSpec = omitempty(DaemonSetSpec())
    status: DaemonSetStatus = omitempty(DaemonSetStatus())


class ControllerRevision(Resource, group="apps", version="v1"):
    """ControllerRevision implements an immutable snapshot of state data."""

    data: Annotated[Maybe[JsonObjectField], Preserve()] = UNSET
    revision: Annotated[Maybe[int], Int64, Required()] = UNSET
