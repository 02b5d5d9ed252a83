"""What the metrics of an autoscaler ask for, with the messages of kube-controller-manager."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple, cast

from quarterdeck.api import UNSET, LabelSelector, Quantity, Selector, value_or
from quarterdeck.api.k8s import HorizontalPodAutoscaler, MetricSpec, Pod, ScaleSubresource
from quarterdeck.api.k8s.autoscaling import (
    ContainerResourceMetricStatus,
    ExternalMetricStatus,
    MetricIdentifier,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from quarterdeck.api.quantity import QuantityFormat
from quarterdeck.cluster.autoscaling.calculation import (
    Proposal,
    Tolerance,
    by_ratio,
    by_total,
    by_usage,
    by_utilization,
    requests_of,
)
from quarterdeck.cluster.autoscaling.measure import external_values, object_value, pod_values, resource_usage
from quarterdeck.errors import QuarterdeckError, ReconcileError
from quarterdeck.runtime.reconcile.context import Context


class Metric(NamedTuple):
    """What one metric asks for."""

    replicas: int
    name: str
    status: MetricStatus


class RefusedMetric(ReconcileError):
    """A metric that says nothing; ``reason`` is what the condition says about it."""

    def __init__(self, text: str, reason: str, cause: str) -> None:
        super().__init__(text)
        self.reason: Final = reason
        self.cause: Final = cause


class MetricReader:
    """Reads the metrics of one autoscaler."""

    def __init__(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        scale: ScaleSubresource,
        selector: Selector,
        now: float,
    ) -> None:
        self._ctx: Final = ctx
        self._client: Final = ctx.client
        self._namespace: Final = ctx.key.namespace
        self._selector: Final = selector
        self._current: Final = value_or(scale.spec.replicas, 0)
        self._running: Final = value_or(scale.status.replicas, 0)
        self._tolerance: Final = _tolerance(ctx.obj)
        self._now: Final = now

    def _pods(self) -> Sequence[Pod]:
        informer = self._ctx.cache.informer(Pod)
        decode = informer.decoder(Pod)
        entries = informer.entries(self._namespace)
        return [decode(entry) for entry in entries if self._selector.matches(entry.labels)]

    async def read(self, spec: MetricSpec) -> Metric:
        """What a metric asks for; raises ``RefusedMetric``."""
        if spec.type == "Resource" and spec.resource:
            name, target = spec.resource.name, spec.resource.target
            reason, prefix = "FailedGetResourceMetric", f"failed to get {name} resource metric value"
            found = await self._try(self._resource(name, target, ""), reason, prefix)
            status = ResourceMetricStatus(name=name, current=found.value)
            return Metric(found.replicas, found.name, MetricStatus(type=spec.type, resource=status))
        if spec.type == "ContainerResource" and spec.container_resource:
            source = spec.container_resource
            reason = "FailedGetContainerResourceMetric"
            prefix = f"failed to get {source.container} container metric value"
            work = self._resource(source.name, source.target, source.container)
            found = await self._try(work, reason, prefix)
            inner = ContainerResourceMetricStatus(
                name=source.name, container=source.container, current=found.value
            )
            return Metric(found.replicas, found.name, MetricStatus(type=spec.type, container_resource=inner))
        if spec.type == "Pods" and spec.pods:
            metric = spec.pods.metric
            prefix = "failed to get pods metric value"
            work = self._of_pods(metric, spec.pods.target)
            found = await self._try(work, "FailedGetPodsMetric", prefix)
            pods = PodsMetricStatus(metric=metric, current=found.value)
            return Metric(found.replicas, found.name, MetricStatus(type=spec.type, pods=pods))
        if spec.type == "Object" and spec.object:
            prefix = "failed to get object metric value"
            found = await self._try(self._of_object(spec), "FailedGetObjectMetric", prefix)
            one = ObjectMetricStatus(
                metric=spec.object.metric,
                described_object=spec.object.described_object,
                current=found.value,
            )
            return Metric(found.replicas, found.name, MetricStatus(type=spec.type, object=one))
        if spec.type == "External" and spec.external:
            prefix = f"failed to get {spec.external.metric.name} external metric value"
            found = await self._try(self._external(spec), "FailedGetExternalMetric", prefix)
            outer = ExternalMetricStatus(metric=spec.external.metric, current=found.value)
            return Metric(found.replicas, found.name, MetricStatus(type=spec.type, external=outer))
        text = f'unknown metric source type "{spec.type}"'
        raise RefusedMetric(text, "InvalidMetricSourceType", text)

    @staticmethod
    async def _try(work: Awaitable[_Asked], reason: str, prefix: str) -> _Asked:
        try:
            return await work
        except QuarterdeckError as error:
            raise RefusedMetric(f"{prefix}: {error}", reason, str(error)) from error

    async def _resource(self, name: str, target: MetricTarget, container: str) -> _Asked:
        wants_value = isinstance(target.average_value, Quantity)
        what = "usage" if wants_value else "utilization"
        if not wants_value and not isinstance(target.average_utilization, int):
            raise ReconcileError(
                "invalid resource metric source: neither an average utilization target nor an average value "
                "(usage) target was set"
            )
        form = QuantityFormat.BINARY_SI if name == "memory" else QuantityFormat.DECIMAL_SI
        try:
            measures = await resource_usage(self._client, name, self._namespace, self._selector, container)
            pods = self._pods()
            if isinstance(target.average_value, Quantity):
                wanted = target.average_value.milli_value
                found = by_usage(
                    pods,
                    measures,
                    target=wanted,
                    current=self._current,
                    resource=name,
                    tolerance=self._tolerance,
                    now=self._now,
                )
            else:
                found = by_utilization(
                    pods,
                    measures,
                    lambda: requests_of(pods, name, container),
                    target=cast("int", target.average_utilization),
                    current=self._current,
                    resource=name,
                    tolerance=self._tolerance,
                    now=self._now,
                )
        except QuarterdeckError as error:
            raise ReconcileError(f"failed to get {name} {what}: {error}") from error
        value = MetricValueStatus(average_value=Quantity.of_milli(found.usage, form))
        if wants_value:
            return _Asked(found.replicas, f"{name} resource", value)
        kind = "container resource" if container else "resource"
        text = f"{name} {kind} utilization (percentage of request)"
        return _Asked(found.replicas, text, value.evolve(average_utilization=found.utilization))

    async def _of_pods(self, metric: MetricIdentifier, target: MetricTarget) -> _Asked:
        chosen = _selector_of(metric)
        measures = await pod_values(self._client, metric.name, self._namespace, self._selector, chosen)
        found = by_usage(
            self._pods(),
            measures,
            target=value_or(target.average_value, Quantity("1")).milli_value,
            current=self._current,
            resource="",
            tolerance=self._tolerance,
            now=self._now,
        )
        return _Asked(found.replicas, f"pods metric {metric.name}", _average(found))

    async def _of_object(self, spec: MetricSpec) -> _Asked:
        assert spec.object
        metric, target, described = spec.object.metric, spec.object.target, spec.object.described_object
        wanted, average = target.value, target.average_value
        has_value = target.type == "Value" and isinstance(wanted, Quantity)
        if not has_value and not (target.type == "AverageValue" and isinstance(average, Quantity)):
            raise ReconcileError(
                "invalid object metric source: neither a value target nor an average value target was set"
            )
        chosen = _selector_of(metric)
        usage = await object_value(self._client, metric.name, self._namespace, described, chosen)
        if isinstance(wanted, Quantity) and has_value:
            replicas = by_ratio(self._pods(), usage / wanted.milli_value, self._current, self._tolerance)
            value = MetricValueStatus(value=Quantity.of_milli(usage))
            return _Asked(replicas, f"{described.kind} metric {metric.name}", value)
        found = by_total(usage, cast("Quantity", average).milli_value, self._running, self._tolerance)
        return _Asked(found.replicas, _external_name(metric), _average(found))

    async def _external(self, spec: MetricSpec) -> _Asked:
        assert spec.external
        metric, target = spec.external.metric, spec.external.target
        average, wanted = target.average_value, target.value
        if not isinstance(average, Quantity) and not isinstance(wanted, Quantity):
            raise ReconcileError(
                "invalid external metric source: neither a value target nor an average value target was set"
            )
        try:
            values = await external_values(self._client, metric.name, self._namespace, _selector_of(metric))
        except ReconcileError as error:
            where = f"{self._namespace}/{metric.name}/{_shown(metric)}"
            raise ReconcileError(f"unable to get external metric {where}: {error}") from error
        usage = sum(values)
        if isinstance(average, Quantity):
            found = by_total(usage, average.milli_value, self._running, self._tolerance)
            return _Asked(found.replicas, _external_name(metric), _average(found))
        target_value = cast("Quantity", wanted).milli_value
        replicas = by_ratio(self._pods(), usage / target_value, self._current, self._tolerance)
        value = MetricValueStatus(value=Quantity.of_milli(usage))
        return _Asked(replicas, _external_name(metric), value)


class _Asked(NamedTuple):
    replicas: int
    name: str
    value: MetricValueStatus


def _average(found: Proposal) -> MetricValueStatus:
    return MetricValueStatus(average_value=Quantity.of_milli(found.usage))


def _selector_of(metric: MetricIdentifier) -> Selector:
    """Which series of a metric are meant; all without a selector."""
    return (
        Selector.of(metric.selector) if isinstance(metric.selector, LabelSelector) else Selector.everything()
    )


def _external_name(metric: MetricIdentifier) -> str:
    return f"external metric {metric.name}({_shown(metric)})"


def _shown(metric: MetricIdentifier) -> str:
    """A selector as Go prints it."""
    if not isinstance(metric.selector, LabelSelector):
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(metric.selector.match_labels.items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )


def _tolerance(hpa: HorizontalPodAutoscaler) -> Tolerance:
    usual = Tolerance()
    behavior = hpa.spec.behavior
    if not behavior:
        return usual
    down = behavior.scale_down.tolerance if behavior.scale_down else UNSET
    up = behavior.scale_up.tolerance if behavior.scale_up else UNSET
    return Tolerance(
        float(down.as_fraction()) if isinstance(down, Quantity) else usual.down,
        float(up.as_fraction()) if isinstance(up, Quantity) else usual.up,
    )
