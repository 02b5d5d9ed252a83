"""Horizontal pod autoscaling (autoscaling/v2).

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime, Time
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, Required
from quarterdeck.api.meta import LabelSelector
from quarterdeck.api.model import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource

__all__ = [
    "ContainerResourceMetricSource",
    "ContainerResourceMetricStatus",
    "CrossVersionObjectReference",
    "ExternalMetricSource",
    "ExternalMetricStatus",
    "HPAScalingPolicy",
    "HPAScalingRules",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerCondition",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "MetricIdentifier",
    "MetricSpec",
    "MetricStatus",
    "MetricTarget",
    "MetricValueStatus",
    "ObjectMetricSource",
    "ObjectMetricStatus",
    "PodsMetricSource",
    "PodsMetricStatus",
    "ResourceMetricSource",
    "ResourceMetricStatus",
]


class CrossVersionObjectReference(Model):
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    api_version: str = omitempty("")


class MetricTarget(Model):
    type: Annotated[str, Required()] = omitempty("")
    value: Maybe[Quantity] = UNSET
    average_value: Maybe[Quantity] = UNSET
    average_utilization: Annotated[Maybe[int], Int32] = UNSET


class MetricIdentifier(Model):
    name: Annotated[str, Required()] = omitempty("")
    selector: Maybe[LabelSelector] = UNSET


class ObjectMetricSource(Model):
    described_object: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())


class PodsMetricSource(Model):
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class ResourceMetricSource(Model):
    name: Annotated[str, Required()] = omitempty("")
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class ContainerResourceMetricSource(Model):
    name: Annotated[str, Required()] = omitempty("")
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())
    container: Annotated[str, Required()] = omitempty("")


class ExternalMetricSource(Model):
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class MetricSpec(Model):
    type: Annotated[str, Required()] = omitempty("")
    object: Maybe[ObjectMetricSource] = UNSET
    pods: Maybe[PodsMetricSource] = UNSET
    resource: Maybe[ResourceMetricSource] = UNSET
    container_resource: Maybe[ContainerResourceMetricSource] = UNSET
    external: Maybe[ExternalMetricSource] = UNSET


class HPAScalingPolicy(Model):
    type: Annotated[str, Required()] = omitempty("")
    value: Annotated[Maybe[int], Int32, Required()] = UNSET
    period_seconds: Annotated[Maybe[int], Int32, Required()] = UNSET


class HPAScalingRules(Model):
    stabilization_window_seconds: Annotated[Maybe[int], Int32] = UNSET
    select_policy: Maybe[str] = UNSET
    policies: Annotated[Seq[HPAScalingPolicy], Atomic()] = omitempty(())
    tolerance: Maybe[Quantity] = UNSET


class HorizontalPodAutoscalerBehavior(Model):
    scale_up: Maybe[HPAScalingRules] = UNSET
    scale_down: Maybe[HPAScalingRules] = UNSET


class HorizontalPodAutoscalerSpec(Model):
    scale_target_ref: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )
    min_replicas: Annotated[Maybe[int], Int32] = UNSET
    max_replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    metrics: Annotated[Seq[MetricSpec], Atomic()] = omitempty(())
    behavior: Maybe[HorizontalPodAutoscalerBehavior] = UNSET


class MetricValueStatus(Model):
    value: Maybe[Quantity] = UNSET
    average_value: Maybe[Quantity] = UNSET
    average_utilization: Annotated[Maybe[int], Int32] = UNSET


class ObjectMetricStatus(Model):
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())
    described_object: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )


class PodsMetricStatus(Model):
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class ResourceMetricStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class ContainerResourceMetricStatus(Model):
    name: Annotated[str, Required()] = omitempty("")
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())
    container: Annotated[str, Required()] = omitempty("")


class ExternalMetricStatus(Model):
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class MetricStatus(Model):
    type: Annotated[str, Required()] = omitempty("")
    object: Maybe[ObjectMetricStatus] = UNSET
    pods: Maybe[PodsMetricStatus] = UNSET
    resource: Maybe[ResourceMetricStatus] = UNSET
    container_resource: Maybe[ContainerResourceMetricStatus] = UNSET
    external: Maybe[ExternalMetricStatus] = UNSET


class HorizontalPodAutoscalerCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class HorizontalPodAutoscalerStatus(Model):
    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    last_scale_time: Maybe[Time] = UNSET
    current_replicas: Annotated[Maybe[int], Int32] = UNSET
    desired_replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    current_metrics: Annotated[Seq[MetricStatus], Atomic()] = omitempty(())
    conditions: Annotated[Seq[HorizontalPodAutoscalerCondition], ListMap("type")] = omitempty(())


class HorizontalPodAutoscaler(
    Resource,
    group="autoscaling",
    version="v2",
    plural="horizontalpodautoscalers",
    short_names=["hpa"],
    status=True,
):
    spec: Annotated[HorizontalPodAutoscalerSpec, Required()] = omitempty(HorizontalPodAutoscalerSpec())
    status: HorizontalPodAutoscalerStatus = omitempty(HorizontalPodAutoscalerStatus())
