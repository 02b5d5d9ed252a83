"""The other kinds of the core group: namespaces, configuration, accounts, quotas, legacy events.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalMicroTime, OptionalTime
from quarterdeck.api.k8s.pod import PodTemplateSpec
from quarterdeck.api.k8s.reference import LocalObjectReference, ObjectReference
from quarterdeck.api.marker import Atomic, Default, Int32, Int64, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "ConfigMap",
    "Event",
    "EventSeries",
    "EventSource",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "Secret",
    "ServiceAccount",
]


class NamespaceSpec(Model):
    finalizers: Annotated[Seq[str], Atomic()] = omitempty(())


class NamespaceCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class NamespaceStatus(Model):
    phase: str = omitempty("")
    conditions: Annotated[Seq[NamespaceCondition], ListMap("type")] = omitempty(())


class Namespace(
    Resource, version="v1", plural="namespaces", scope="Cluster", short_names=["ns"], status=True
):
    spec: NamespaceSpec = omitempty(NamespaceSpec())
    status: NamespaceStatus = omitempty(NamespaceStatus())


class ConfigMap(Resource, version="v1", plural="configmaps", short_names=["cm"]):
    immutable: Maybe[bool] = UNSET
    data: Map[str, str] = omitempty(EMPTY_MAP)
    binary_data: Map[str, bytes] = omitempty(EMPTY_MAP)


class Secret(Resource, version="v1", plural="secrets"):
    immutable: Maybe[bool] = UNSET
    data: Map[str, bytes] = omitempty(EMPTY_MAP)
    string_data: Map[str, str] = omitempty(EMPTY_MAP)
    type: str = omitempty("")


class ServiceAccount(Resource, version="v1", plural="serviceaccounts", short_names=["sa"]):
    secrets: Annotated[Seq[ObjectReference], ListMap("name")] = omitempty(())
    image_pull_secrets: Annotated[Seq[LocalObjectReference], Atomic()] = omitempty(())
    automount_service_account_token: Maybe[bool] = UNSET


class ScopedResourceSelectorRequirement(Model):
    scope_name: Annotated[str, Required()] = omitempty("")
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic()] = omitempty(())


class ScopeSelector(Model, rules=[Atomic()]):
    match_expressions: Annotated[Seq[ScopedResourceSelectorRequirement], Atomic()] = omitempty(())


class ResourceQuotaSpec(Model):
    hard: Map[str, Quantity] = omitempty(EMPTY_MAP)
    scopes: Annotated[Seq[str], Atomic()] = omitempty(())
    scope_selector: Maybe[ScopeSelector] = UNSET


class ResourceQuotaStatus(Model):
    hard: Map[str, Quantity] = omitempty(EMPTY_MAP)
    used: Map[str, Quantity] = omitempty(EMPTY_MAP)


class ResourceQuota(Resource, version="v1", plural="resourcequotas", short_names=["quota"], status=True):
    spec: ResourceQuotaSpec = omitempty(ResourceQuotaSpec())
    status: ResourceQuotaStatus = omitempty(ResourceQuotaStatus())


class LimitRangeItem(Model):
    type: Annotated[str, Required()] = omitempty("")
    max: Map[str, Quantity] = omitempty(EMPTY_MAP)
    min: Map[str, Quantity] = omitempty(EMPTY_MAP)
    default: Map[str, Quantity] = omitempty(EMPTY_MAP)
    default_request: Map[str, Quantity] = omitempty(EMPTY_MAP)
    max_limit_request_ratio: Map[str, Quantity] = omitempty(EMPTY_MAP)


class LimitRangeSpec(Model):
    limits: Annotated[Seq[LimitRangeItem], Atomic(), Required()] = omitempty(())


class LimitRange(Resource, version="v1", plural="limitranges", short_names=["limits"]):
    spec: LimitRangeSpec = omitempty(LimitRangeSpec())


class ReplicationControllerSpec(Model):
    replicas: Annotated[Maybe[int], Int32, Default(1)] = UNSET
    min_ready_seconds: Annotated[Maybe[int], Int32, Default(0)] = UNSET
    selector: Annotated[Map[str, str], Atomic()] = omitempty(EMPTY_MAP)
    template: Maybe[PodTemplateSpec] = UNSET


class ReplicationControllerCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class ReplicationControllerStatus(Model):
    replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    fully_labeled_replicas: Annotated[Maybe[int], Int32] = UNSET
    ready_replicas: Annotated[Maybe[int], Int32] = UNSET
    available_replicas: Annotated[Maybe[int], Int32] = UNSET
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    conditions: Annotated[Seq[ReplicationControllerCondition], ListMap("type")] = omitempty(())


class ReplicationController(
    Resource, version="v1", plural="replicationcontrollers", short_names=["rc"], status=True
):
    spec: ReplicationControllerSpec = omitempty(ReplicationControllerSpec())
    status: ReplicationControllerStatus = omitempty(ReplicationControllerStatus())


class EventSource(Model):
    component: str = omitempty("")
    host: str = omitempty("")


class EventSeries(Model):
    count: Annotated[Maybe[int], Int32] = UNSET
    last_observed_time: OptionalMicroTime = UNSET


class Event(Resource, version="v1", plural="events", short_names=["ev"]):
    involved_object: Annotated[ObjectReference, Required()] = omitempty(ObjectReference())
    reason: str = omitempty("")
    message: str = omitempty("")
    source: EventSource = omitempty(EventSource())
    first_timestamp: OptionalTime = UNSET
    last_timestamp: OptionalTime = UNSET
    count: Annotated[Maybe[int], Int32] = UNSET
    type: str = omitempty("")
    event_time: OptionalMicroTime = UNSET
    series: Maybe[EventSeries] = UNSET
    action: str = omitempty("")
    related: Maybe[ObjectReference] = UNSET
    reporting_component: str = omitempty("")
    reporting_instance: str = omitempty("")
