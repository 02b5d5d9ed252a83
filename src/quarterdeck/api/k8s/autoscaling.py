"""Horizontal pod autoscaling (autoscaling/v2).

Fields follow k8s.io/api v0.36.3; what a newer server adds survives as unknown fields.
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
    """Enough information to let you identify the referred resource."""

    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    api_version: str = omitempty("")


class MetricTarget(Model):
    """Target value, average value, or average utilization of a specific metric."""

    type: Annotated[str, Required()] = omitempty("")
    value: Maybe[Quantity] = UNSET
    average_value: Maybe[Quantity] = UNSET
    average_utilization: Annotated[Maybe[int], Int32] = UNSET


class MetricIdentifier(Model):
    """Name and optionally selector for a metric."""

    name: Annotated[str, Required()] = omitempty("")
    selector: Maybe[LabelSelector] = UNSET


class ObjectMetricSource(Model):
    """ObjectMetricSource indicates how to scale on a metric describing a kubernetes object (for …"""

    described_object: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())
    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())


class PodsMetricSource(Model):
    """PodsMetricSource indicates how to scale on a metric describing each pod in the current scale …"""

    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class ResourceMetricSource(Model):
    """ResourceMetricSource indicates how to scale on a resource metric known to Kubernetes, as …"""

    name: Annotated[str, Required()] = omitempty("")
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class ContainerResourceMetricSource(Model):
    """ContainerResourceMetricSource indicates how to scale on a resource metric known to Kubernetes, …"""

    name: Annotated[str, Required()] = omitempty("")
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())
    container: Annotated[str, Required()] = omitempty("")


class ExternalMetricSource(Model):
    """ExternalMetricSource indicates how to scale on a metric not associated with any Kubernetes …"""

    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    target: Annotated[MetricTarget, Required()] = omitempty(MetricTarget())


class MetricSpec(Model):
    """MetricSpec specifies how to scale based on a single metric (only `type` and one other matching …"""

    type: Annotated[str, Required()] = omitempty("")
    object: Maybe[ObjectMetricSource] = UNSET
    pods: Maybe[PodsMetricSource] = UNSET
    resource: Maybe[ResourceMetricSource] = UNSET
    container_resource: Maybe[ContainerResourceMetricSource] = UNSET
    external: Maybe[ExternalMetricSource] = UNSET


class HPAScalingPolicy(Model):
    """Single policy which must hold true for a specified past interval."""

    type: Annotated[str, Required()] = omitempty("")
    value: Annotated[Maybe[int], Int32, Required()] = UNSET
    period_seconds: Annotated[Maybe[int], Int32, Required()] = UNSET


class HPAScalingRules(Model):
    """HPAScalingRules configures the scaling behavior for one direction via scaling Policy Rules and a …"""

    stabilization_window_seconds: Annotated[Maybe[int], Int32] = UNSET
    select_policy: Maybe[str] = UNSET
    policies: Annotated[Seq[HPAScalingPolicy], Atomic()] = omitempty(())
    tolerance: Maybe[Quantity] = UNSET


class HorizontalPodAutoscalerBehavior(Model):
    """HorizontalPodAutoscalerBehavior configures the scaling behavior of the target in both Up and …"""

    scale_up: Maybe[HPAScalingRules] = UNSET
    scale_down: Maybe[HPAScalingRules] = UNSET


class HorizontalPodAutoscalerSpec(Model):
    """Desired functionality of the HorizontalPodAutoscaler."""

    scale_target_ref: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )
    min_replicas: Annotated[Maybe[int], Int32] = UNSET
    max_replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    metrics: Annotated[Seq[MetricSpec], Atomic()] = omitempty(())
    behavior: Maybe[HorizontalPodAutoscalerBehavior] = UNSET


class MetricValueStatus(Model):
    """Current value for a metric."""

    value: Maybe[Quantity] = UNSET
    average_value: Maybe[Quantity] = UNSET
    average_utilization: Annotated[Maybe[int], Int32] = UNSET


class ObjectMetricStatus(Model):
    """ObjectMetricStatus indicates the current value of a metric describing a kubernetes object (for …"""

    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())
    described_object: Annotated[CrossVersionObjectReference, Required()] = omitempty(
        CrossVersionObjectReference()
    )


class PodsMetricStatus(Model):
    """PodsMetricStatus indicates the current value of a metric describing each pod in the current …"""

    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class ResourceMetricStatus(Model):
    """ResourceMetricStatus indicates the current value of a resource metric known to Kubernetes, as …"""

    name: Annotated[str, Required()] = omitempty("")
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class ContainerResourceMetricStatus(Model):
    """ContainerResourceMetricStatus indicates the current value of a resource metric known to …"""

    name: Annotated[str, Required()] = omitempty("")
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())
    container: Annotated[str, Required()] = omitempty("")


class ExternalMetricStatus(Model):
    """ExternalMetricStatus indicates the current value of a global metric not associated with any …"""

    metric: Annotated[MetricIdentifier, Required()] = omitempty(MetricIdentifier())
    current: Annotated[MetricValueStatus, Required()] = omitempty(MetricValueStatus())


class MetricStatus(Model):
    """Last-read state of a single metric."""

    type: Annotated[str, Required()] = omitempty("")
    object: Maybe[ObjectMetricStatus] = UNSET
    pods: Maybe[PodsMetricStatus] = UNSET
    resource: Maybe[ResourceMetricStatus] = UNSET
    container_resource: Maybe[ContainerResourceMetricStatus] = UNSET
    external: Maybe[ExternalMetricStatus] = UNSET


class HorizontalPodAutoscalerCondition(Model):
    """State of a HorizontalPodAutoscaler at a certain point."""

    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")


class HorizontalPodAutoscalerStatus(Model):
    """Current status of a horizontal pod autoscaler."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    last_scale_time: Maybe[Time] = UNSET
    current_replicas: Annotated[Maybe[int], Int32] = UNSET
    desired_replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    current_metrics: Annotated[Seq[MetricStatus], Atomic()] = omitempty(())
    conditions: Annotated[Seq[HorizontalPodAutoscalerCondition], ListMap("type")] = omitempty(())


class HorizontalPodAutoscaler(Resource, group="autoscaling", version="v2", short_names=["hpa"], status=True):
    """Configuration for a horizontal pod autoscaler, which automatically manages the replica count of …"""

    spec: Annotated[HorizontalPodAutoscalerSpec, Required()] = omitempty(HorizontalPodAutoscalerSpec())
    status: HorizontalPodAutoscalerStatus = omitempty(HorizontalPodAutoscalerStatus())
