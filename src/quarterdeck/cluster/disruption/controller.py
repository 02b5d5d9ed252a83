"""The controller of PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from quarterdeck.api import Key, LabelSelector, Selector
from quarterdeck.api.intorstring import resolve_percent
from quarterdeck.api.k8s import (
    Deployment,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from quarterdeck.api.k8s.policy import PodDisruptionBudgetStatus
from quarterdeck.cluster.disruption.decision import budget_status, disrupted, failed_status
from quarterdeck.cluster.disruption.scale import expected_scale
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.podview import PodView, Views
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "disruption-controller"
_PERIOD_PER_POD: Final = 0.0001


def _selector_of(budget: PodDisruptionBudget) -> Selector | None:
    selector = budget.spec.selector
    return Selector.of(selector) if isinstance(selector, LabelSelector) else None


class DisruptionReconciler(Reconciler[PodDisruptionBudget]):
    """Says of one budget after the other how many pods may go."""

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` takes events about pods."""
        self._recorder: Final = recorder
        self._clock: Final = LoopClock()
        self._views: dict[Key, Views[PodView]] = {}

    def batch_period(self, key: Key) -> float:
        """Seconds for which changes of the pods of a budget are gathered: longer for many."""
        views = self._views.get(key)
        return len(views) * _PERIOD_PER_POD if views is not None else 0.0

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a budget."""
        self._views.pop(ctx.key, None)

    async def reconcile(self, ctx: Context[PodDisruptionBudget]) -> Result | None:
        """Bring the status of a budget up to date."""
        views = self._views.get(ctx.key)
        if views is None:
            views = self._views[ctx.key] = Views(PodView)
        pods = views.read(_covered(ctx.cache, ctx.obj))
        now = self._clock.time()
        try:
            return await self._sync(ctx, pods, now)
        except Conflict:
            raise
        except NotFound:
            ctx.note_gone()
            return None
        except QuarterdeckError as error:
            await _store(ctx, failed_status(ctx.obj, str(error), now))
            return None

    async def _sync(
        self, ctx: Context[PodDisruptionBudget], pods: Sequence[PodView], now: float
    ) -> Result | None:
        budget = ctx.obj
        if not pods:
            ctx.event("Normal", "NoPods", "No matching pods found")
        try:
            expected, desired, unmanaged = await _expected(ctx, pods)
        except QuarterdeckError as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            ctx.event("Warning", "CalculateExpectedPodCountFailed", text)
            raise
        if unmanaged:
            ctx.event("Warning", "UnmanagedPods", _unmanaged_text(budget))
        found = disrupted(budget, pods, now)
        for pod in found.overdue:
            space = budget.metadata.namespace
            text = f"Pod was expected by PDB {space}/{space} to be deleted but it wasn't"
            self._recorder.event(pod.reference, "Warning", "NotDeleted", "Reconcile", text)
        status = budget_status(budget, pods, found.waiting, expected=expected, desired=desired, now=now)
        await _store(ctx, status)
        return Requeue(after=found.recheck_in) if found.recheck_in is not None else None


def _covered(cache: Cache, budget: PodDisruptionBudget) -> Iterable[Entry]:
    selector = _selector_of(budget)
    if selector is None:
        return ()
    entries = cache.informer(Pod).entries(budget.metadata.namespace)
    return (entry for entry in entries if selector.matches(entry.labels))


async def _expected(ctx: Context[PodDisruptionBudget], pods: Sequence[PodView]) -> tuple[int, int, list[str]]:
    """Pods there should be, healthy ones there must be, and those that nobody controls."""
    spec = ctx.obj.spec
    if isinstance(spec.max_unavailable, int | str):
        expected, unmanaged = await expected_scale(ctx, pods)
        missing = resolve_percent(spec.max_unavailable, expected, round_up=True)
        return expected, max(0, expected - missing), unmanaged
    if isinstance(spec.min_available, int):
        return len(pods), spec.min_available, []
    if isinstance(spec.min_available, str):
        expected, unmanaged = await expected_scale(ctx, pods)
        return expected, resolve_percent(spec.min_available, expected, round_up=True), unmanaged
    return 0, 0, []


def _unmanaged_text(budget: PodDisruptionBudget) -> str:
    selector = budget.spec.selector or LabelSelector()
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    others = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values)}],}},"
        for each in selector.match_expressions
    )
    shown = (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{others}}},}}"
    )
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be unmanaged. As a "
        "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
        'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer '
        "value."
    )


async def _store(ctx: Context[PodDisruptionBudget], status: PodDisruptionBudgetStatus) -> None:
    if status != ctx.obj.status:
        ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=status)))


class _BudgetsOfPods:
    """The budgets that cover a pod, or did before it changed."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        informer = context.cache.informer(PodDisruptionBudget)
        states = [each.labels for each in (event.old, event.new) if each is not None]
        decode = informer.decoder(PodDisruptionBudget)
        found = []
        for entry in informer.entries(event.entry.namespace):
            selector = _selector_of(decode(entry))
            if selector is not None and any(selector.matches(labels) for labels in states):
                found.append(entry.key)
        return found


_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def disruption_controller(recorder: Recorder) -> Controller[PodDisruptionBudget]:
    """The controller, for ``manager.add``; ``recorder`` takes events about pods."""
    reconciler = DisruptionReconciler(recorder)
    builder = Builder(PodDisruptionBudget, name=NAME).watches(
        Pod, to=_BudgetsOfPods(), delay=reconciler.batch_period
    )
    for kind in (ReplicaSet, Deployment, StatefulSet, ReplicationController):
        builder = builder.watches(kind, predicates=[_NEVER])
    return (
        builder.rbac(
            Rule(groups=("policy",), resources=("poddisruptionbudgets/status",), verbs=("update",)),
            Rule(groups=("*",), resources=("*/scale",), verbs=("get",)),
        )
        .options(max_concurrent_reconciles=1, backoff_cap=1000.0, field_manager=FIELD_MANAGER)
        .build(reconciler)
    )
