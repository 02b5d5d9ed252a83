"""The controller of HorizontalPodAutoscalers: a look at each every fifteen seconds."""

from __future__ import annotations

from typing import Final, Literal

from quarterdeck.api import (
    UNSET,
    DynamicObject,
    GroupVersionKind,
    Key,
    Selector,
    Time,
    value_or,
)
from quarterdeck.api.k8s import HorizontalPodAutoscaler, Pod, ScaleSubresource
from quarterdeck.api.k8s.autoscaling import (
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from quarterdeck.api.k8s.scale import ScaleSpec
from quarterdeck.cluster.autoscaling.behavior import ScaleMemory
from quarterdeck.cluster.autoscaling.metricreader import MetricReader, RefusedMetric
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import (
    Conflict,
    QuarterdeckError,
    ReconcileError,
    SchemaError,
    ignore_not_found,
)
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "horizontal-pod-autoscaler-controller"
SYNC_PERIOD: Final = 15.0
"""Seconds between two looks at an autoscaler; the first comes that long after it was made."""
_WORKERS: Final = 5
_TRIES: Final = 5

ABLE: Final = "AbleToScale"
ACTIVE: Final = "ScalingActive"
LIMITED: Final = "ScalingLimited"


class _Look:
    """One look at one autoscaler; the status is collected and written at the end."""

    def __init__(self, ctx: Context[HorizontalPodAutoscaler], now: float) -> None:
        self._ctx: Final = ctx
        self._now: Final = now
        status = ctx.obj.status
        self.conditions: list[HorizontalPodAutoscalerCondition] = list(status.conditions)
        self.status: HorizontalPodAutoscalerStatus = status
        self.metrics: list[MetricStatus] = []

    def set(self, type: str, status: Literal["True", "False"], reason: str, message: str) -> None:
        """Set a condition; it keeps its place."""
        place = next((i for i, each in enumerate(self.conditions) if each.type == type), None)
        time = Time.of_timestamp(self._now)
        known = self.conditions[place] if place is not None else None
        since = known.last_transition_time if known is not None and known.status == status else time
        wanted = HorizontalPodAutoscalerCondition(
            type=type, status=status, reason=reason, message=message, last_transition_time=since
        )
        if place is None:
            self.conditions.append(wanted)
        else:
            self.conditions[place] = wanted

    def count(self, current: int, desired: int | None, *, is_rescaled: bool = False) -> None:
        """Set the numbers; without ``desired`` that stays as it is."""
        known = self._ctx.obj.status
        self.status = HorizontalPodAutoscalerStatus(
            current_replicas=current or UNSET,
            desired_replicas=value_or(known.desired_replicas, 0) if desired is None else desired,
            last_scale_time=Time.of_timestamp(self._now) if is_rescaled else known.last_scale_time,
            current_metrics=tuple(self.metrics),
        )

    async def store(self) -> None:
        """Write the status if it differs."""
        ctx = self._ctx
        status = self.status.evolve(conditions=tuple(self.conditions))
        if status == ctx.obj.status:
            return
        try:
            with ignore_not_found():
                await ctx.client.status.update(ctx.obj.evolve(status=status))
        except QuarterdeckError as error:
            ctx.event("Warning", "FailedUpdateStatus", str(error))
            raise ReconcileError(f"failed to update status for {ctx.key.name}: {error}") from error


class AutoscalingReconciler(Reconciler[HorizontalPodAutoscaler]):
    """Scales the target of one autoscaler after the other."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()
        self._memory: dict[Key, ScaleMemory] = {}
        self._selectors: dict[Key, Selector] = {}

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget an autoscaler."""
        self._memory.pop(ctx.key, None)
        self._selectors.pop(ctx.key, None)

    async def reconcile(self, ctx: Context[HorizontalPodAutoscaler]) -> Result | None:
        """Look at the load, and scale the target."""
        look = _Look(ctx, self._clock.time())
        try:
            await self._scale(ctx, look)
        except QuarterdeckError as error:
            ctx.log.debug("autoscaler cannot do its work", error=str(error))
        return Requeue(after=SYNC_PERIOD)

    async def _scale(self, ctx: Context[HorizontalPodAutoscaler], look: _Look) -> None:
        hpa = ctx.obj
        target = hpa.spec.scale_target_ref
        try:
            scale = await ctx.client.subresource("scale").get(
                GroupVersionKind.parse(target.api_version, target.kind),
                target.name,
                ctx.key.namespace,
                returns=ScaleSubresource,
            )
        except QuarterdeckError as error:
            ctx.event("Warning", "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            look.set(ABLE, "False", "FailedGetScale", text)
            await look.store()
            return
        text = "the HPA controller was able to get the target's current scale"
        look.set(ABLE, "True", "SucceededGetScale", text)
        now = self._clock.time()
        current = value_or(scale.spec.replicas, 0)
        memory = self._memory.setdefault(ctx.key, ScaleMemory(current, now))
        least, most = value_or(hpa.spec.min_replicas, 1), value_or(hpa.spec.max_replicas, 1)
        reason = ""
        if current == 0:
            desired = 0
            text = "scaling is disabled since the replica count of the target is zero"
            look.set(ACTIVE, "False", "ScalingDisabled", text)
        elif current > most:
            desired, reason = most, "Current number of replicas above Spec.MaxReplicas"
        elif current < least:
            desired, reason = least, "Current number of replicas below Spec.MinReplicas"
        else:
            try:
                wanted, name = await self._by_metrics(ctx, look, scale)
            except ReconcileError as error:
                look.count(current, None)
                await look.store()
                ctx.event("Warning", "FailedComputeMetricsReplicas", str(error))
                raise
            if wanted > current:
                reason = f"{name} above target"
            elif wanted < current:
                reason = "All metrics below target"
            desired = self._limited(ctx, look, memory, current, wanted)
        is_rescaled = desired != current
        if is_rescaled:
            await self._rescale(ctx, look, scale, desired, reason)
            memory.scaled(hpa.spec.behavior or None, current, desired, now)
        look.count(current, desired, is_rescaled=is_rescaled)
        await look.store()

    def _limited(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        look: _Look,
        memory: ScaleMemory,
        current: int,
        wanted: int,
    ) -> int:
        spec = ctx.obj.spec
        least, most = value_or(spec.min_replicas, 1), value_or(spec.max_replicas, 1)
        found = memory.limit(spec.behavior or None, current, wanted, least, most, self._clock.time())
        look.set(ABLE, "True", found.stability.word, found.stability.text)
        look.set(LIMITED, "True" if found.is_limited else "False", found.limit.word, found.limit.text)
        return found.replicas

    async def _rescale(
        self,
        ctx: Context[HorizontalPodAutoscaler],
        look: _Look,
        scale: ScaleSubresource,
        desired: int,
        reason: str,
    ) -> None:
        reference = ctx.obj.spec.scale_target_ref
        metadata = {"name": reference.name, "namespace": ctx.key.namespace}
        target = DynamicObject(
            {"apiVersion": reference.api_version, "kind": reference.kind, "metadata": metadata}
        )
        try:
            await _put_scale(ctx, target, scale, desired)
        except QuarterdeckError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error}"
            ctx.event("Warning", "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error}"
            look.set(ABLE, "False", "FailedUpdateScale", text)
            look.count(value_or(scale.spec.replicas, 0), None)
            await look.store()
            raise
        text = f"the HPA controller was able to update the target scale to {desired}"
        look.set(ABLE, "True", "SucceededRescale", text)
        ctx.event("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")

    async def _by_metrics(
        self, ctx: Context[HorizontalPodAutoscaler], look: _Look, scale: ScaleSubresource
    ) -> tuple[int, str]:
        """The largest number of pods that a metric asks for, and which one does."""
        selector = self._selector(ctx, look, scale)
        specs = ctx.obj.spec.metrics
        look.metrics = [MetricStatus() for _ in specs]
        replicas, name = 0, ""
        refused: list[RefusedMetric] = []
        reader = MetricReader(ctx, scale, selector, self._clock.time())
        for i, spec in enumerate(specs):
            try:
                found = await reader.read(spec)
            except RefusedMetric as error:
                ctx.event("Warning", error.reason, error.cause)
                refused.append(error)
                continue
            look.metrics[i] = found.status
            if replicas == 0 or found.replicas > replicas:
                replicas, name = found.replicas, found.name
        if refused and (len(refused) >= len(specs) or replicas < value_or(scale.spec.replicas, 0)):
            first = refused[0]
            text = f"the HPA was unable to compute the replica count: {first.cause}"
            look.set(ACTIVE, "False", first.reason, text)
            raise ReconcileError(
                f"invalid metrics ({len(refused)} invalid out of {len(specs)}), first error is: {first}"
            )
        text = f"the HPA was able to successfully calculate a replica count from {name}"
        look.set(ACTIVE, "True", "ValidMetricFound", text)
        return replicas, name

    def _selector(
        self, ctx: Context[HorizontalPodAutoscaler], look: _Look, scale: ScaleSubresource
    ) -> Selector:
        text = scale.status.selector
        if not text:
            ctx.event("Warning", "SelectorRequired", "selector is required")
            look.set(ACTIVE, "False", "InvalidSelector", "the HPA target's scale is missing a selector")
            raise ReconcileError("selector is required")
        try:
            selector = Selector.parse(text)
        except SchemaError as error:
            what = f"couldn't convert selector into a corresponding internal selector object: {error}"
            ctx.event("Warning", "InvalidSelector", what)
            look.set(ACTIVE, "False", "InvalidSelector", what)
            raise ReconcileError(what) from error
        self._selectors[ctx.key] = selector
        rivals = self._rivals(ctx, selector)
        if len(rivals) > 1:
            names = " ".join(f"{{{key.name} {key.namespace}}}" for key in rivals)
            what = f"pods by selector {text} are controlled by multiple HPAs: [{names}]"
            ctx.event("Warning", "AmbiguousSelector", what)
            look.set(ACTIVE, "False", "AmbiguousSelector", what)
            raise ReconcileError(what)
        return selector

    def _rivals(self, ctx: Context[HorizontalPodAutoscaler], selector: Selector) -> list[Key]:
        """The autoscalers that select some of the same pods."""
        namespace = ctx.key.namespace
        others = {key: each for key, each in self._selectors.items() if key.namespace == namespace}
        if len(others) == 1:
            return list(others)
        entries = ctx.cache.informer(Pod).entries(namespace)
        mine = [entry.labels for entry in entries if selector.matches(entry.labels)]
        return [key for key, each in others.items() if any(each.matches(labels) for labels in mine)]


async def _put_scale(
    ctx: Context[HorizontalPodAutoscaler], target: DynamicObject, scale: ScaleSubresource, desired: int
) -> None:
    """Write the scale, anew if the target was written meanwhile."""
    subresource = ctx.client.subresource("scale")
    for _ in range(_TRIES - 1):
        try:
            await subresource.put(target, scale.evolve(spec=ScaleSpec(replicas=desired)))
        except Conflict:
            kind = GroupVersionKind.parse(target.api_version, target.kind)
            scale = await subresource.get(
                kind, target.metadata.name, ctx.key.namespace, returns=ScaleSubresource
            )
        else:
            return
    await subresource.put(target, scale.evolve(spec=ScaleSpec(replicas=desired)))


_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)
_THERE: Final = Predicate("there", delete=lambda _: False)


def autoscaling_controller() -> Controller[HorizontalPodAutoscaler]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(HorizontalPodAutoscaler, predicates=[_GONE])
        # A change is looked at when the next look is due anyway.
        .watches(HorizontalPodAutoscaler, predicates=[_THERE], delay=lambda _: SYNC_PERIOD)
        .watches(Pod, predicates=[_NEVER])
        .rbac(
            Rule(groups=("autoscaling",), resources=("horizontalpodautoscalers/status",), verbs=("update",)),
            Rule(groups=("*",), resources=("*/scale",), verbs=("get", "update")),
            Rule(groups=("metrics.k8s.io",), resources=("pods",), verbs=("list",)),
            Rule(
                groups=("custom.metrics.k8s.io", "external.metrics.k8s.io"),
                resources=("*",),
                verbs=("get", "list"),
            ),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
        .build(AutoscalingReconciler())
    )
