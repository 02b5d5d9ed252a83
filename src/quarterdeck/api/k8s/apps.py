"""Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
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
    max_unavailable: Maybe[IntOrString] = UNSET
    max_surge: Maybe[IntOrString] = UNSET


class DeploymentStrategy(Model):
    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateDeployment] = UNSET


class DeploymentSpec(Model):
    replicas: Annotated[Maybe[int], Int32] = UNSET
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    strategy: DeploymentStrategy = omitempty(DeploymentStrategy())
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    revision_history_limit: Annotated[Maybe[int], Int32] = UNSET
    paused: Maybe[bool] = UNSET
    progress_deadline_seconds: Annotated[Maybe[int], Int32] = UNSET


class DeploymentCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_update_time: OptionalTime = UNSET
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class DeploymentStatus(Model):
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    replicas: Annotated[Maybe[int], Int32] = UNSET
    updated_replicas: Annotated[Maybe[int], Int32] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    available_replicas: Annotated[Maybe[int], Int32] = UNSET
    unavailable_replicas: Annotated[Maybe[int], Int32] = UNSET
    terminating_replicas: Annotated[Maybe[int], Int32] = UNSET
    conditions: Annotated[Seq[DeploymentCondition], ListMap("type")] = omitempty(())
    collision_count: Annotated[Maybe[int], Int32] = UNSET


class Deployment(
    Resource, group="apps", version="v1", plural="deployments", short_names=["deploy"], status=True
):
    spec: DeploymentSpec = omitempty(DeploymentSpec())
    status: DeploymentStatus = omitempty(DeploymentStatus())


class ReplicaSetSpec(Model):
    replicas: Annotated[Maybe[int], Int32] = UNSET
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: PodTemplateSpec = omitempty(PodTemplateSpec())


class ReplicaSetCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class ReplicaSetStatus(Model):
    replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    fully_labeled_replicas: Annotated[Maybe[int], Int32] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    available_replicas: Annotated[Maybe[int], Int32] = UNSET
    terminating_replicas: Annotated[Maybe[int], Int32] = UNSET
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    conditions: Annotated[Seq[ReplicaSetCondition], ListMap("type")] = omitempty(())


class ReplicaSet(Resource, group="apps", version="v1", plural="replicasets", short_names=["rs"], status=True):
    spec: ReplicaSetSpec = omitempty(ReplicaSetSpec())
    status: ReplicaSetStatus = omitempty(ReplicaSetStatus())


class RollingUpdateStatefulSetStrategy(Model):
    partition: Annotated[Maybe[int], Int32] = UNSET
    max_unavailable: Maybe[IntOrString] = UNSET


class StatefulSetUpdateStrategy(Model):
    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateStatefulSetStrategy] = UNSET


class StatefulSetPersistentVolumeClaimRetentionPolicy(Model):
    when_deleted: str = omitempty("")
    when_scaled: str = omitempty("")


class StatefulSetOrdinals(Model):
    start: Annotated[Maybe[int], Int32] = UNSET


class StatefulSetSpec(Model):
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
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class StatefulSetStatus(Model):
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


class StatefulSet(
    Resource, group="apps", version="v1", plural="statefulsets", short_names=["sts"], status=True
):
    spec: StatefulSetSpec = omitempty(StatefulSetSpec())
    status: StatefulSetStatus = omitempty(StatefulSetStatus())


class RollingUpdateDaemonSet(Model):
    max_unavailable: Maybe[IntOrString] = UNSET
    max_surge: Maybe[IntOrString] = UNSET


class DaemonSetUpdateStrategy(Model):
    type: str = omitempty("")
    rolling_update: Maybe[RollingUpdateDaemonSet] = UNSET


class DaemonSetSpec(Model):
    selector: Annotated[Maybe[LabelSelector], Required()] = UNSET
    template: Annotated[PodTemplateSpec, Required()] = omitempty(PodTemplateSpec())
    update_strategy: DaemonSetUpdateStrategy = omitempty(DaemonSetUpdateStrategy())
    min_ready_seconds: Annotated[Maybe[int], Int32] = UNSET
    revision_history_limit: Annotated[Maybe[int], Int32] = UNSET


class DaemonSetCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class DaemonSetStatus(Model):
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


class DaemonSet(Resource, group="apps", version="v1", plural="daemonsets", short_names=["ds"], status=True):
    spec: DaemonSetSpec = omitempty(DaemonSetSpec())
    status: DaemonSetStatus = omitempty(DaemonSetStatus())


class ControllerRevision(Resource, group="apps", version="v1", plural="controllerrevisions"):
    data: Annotated[Maybe[JsonObjectField], Preserve()] = UNSET
    revision: Annotated[Maybe[int], Int64, Required()] = UNSET
