"""The controllers of ReplicaSets and ReplicationControllers.

One reconcile: claim the pods, make or remove some, write the status. The runtime holds a key back until the
cache shows what the run before wrote, so that no pod is made twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from quarterdeck.api import UNSET, Key, LabelSelector, Selector, Time, controller_of, value_or
from quarterdeck.api.k8s import Pod, PodTemplateSpec, ReplicaSet, ReplicationController
from quarterdeck.api.k8s.apps import ReplicaSetCondition, ReplicaSetStatus
from quarterdeck.api.k8s.core import ReplicationControllerCondition, ReplicationControllerStatus
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import Selecting, claim, controlled, uncontrolled
from quarterdeck.cluster.podset.podview import PodView, Views, next_availability
from quarterdeck.cluster.podset.podwriter import MAX_CHANGES, Outcome, create_pods, pod_of, remove_pods
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.cluster.replicaset.decision import count, failure_reason, pods_to_remove
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

REPLICASET: Final = "replicaset-controller"
REPLICATION: Final = "replicationcontroller-controller"
_WORKERS: Final = 5
_PERIOD_PER_POD: Final = 0.0001
"""Seconds for which changes of pods are gathered, for each pod of a set: every look is a look at all."""
_LONGEST_PERIOD: Final = 0.3
_CACHE_PATIENCE: Final = 60.0
"""Seconds to wait for the cache to show own writes: a pod too many is worse than a late one."""
_SOON: Final = 0.001

S = TypeVar("S", ReplicaSet, ReplicationController)
AnyStatus = ReplicaSetStatus | ReplicationControllerStatus


def selector_of(obj: ReplicaSet | ReplicationController) -> Selector | None:
    """Which pods a set may have; none without a selector."""
    selector = obj.spec.selector
    if not selector:
        return None
    if isinstance(selector, LabelSelector):
        return Selector.of(selector)
    return Selector.of(LabelSelector(match_labels=selector))


class _Pods(NamedTuple):
    active: list[PodView]
    terminating: int


class ReplicaReconciler(Reconciler[S], Generic[S]):
    """Keeps the number of pods of one set after the other."""

    def __init__(self, kind: type[S]) -> None:
        self._kind: Final[type[S]] = kind
        self._is_replicaset: Final = kind is ReplicaSet
        self._clock: Final = LoopClock()
        self._views: dict[Key, Views[PodView]] = {}

    def batch_period(self, key: Key) -> float:
        """Seconds for which changes of the pods of a set are gathered: longer for a large one."""
        views = self._views.get(key)
        return min(len(views) * _PERIOD_PER_POD, _LONGEST_PERIOD) if views is not None else 0.0

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a set."""
        self._views.pop(ctx.key, None)

    async def reconcile(self, ctx: Context[S]) -> Result | None:
        """Bring pods and status of a set up to date."""
        obj = cast("ReplicaSet | ReplicationController", ctx.obj)
        selector = selector_of(obj)
        if selector is None:
            return None
        pods = await self._pods(ctx, selector)
        outcome, missing = Outcome(), 0
        if not obj.metadata.is_deleting:
            missing = value_or(obj.spec.replicas, 1) - len(pods.active)
            outcome = await self._change(ctx, pods.active, missing)
        now = self._clock.time()
        status = self._status(obj, pods, outcome.error, now)
        try:
            await _store(ctx, status)
        except NotFound:
            ctx.note_gone()
            return None
        if outcome.error is not None:
            raise outcome.error
        if abs(missing) > MAX_CHANGES:
            return Requeue(after=_SOON)
        wait = next_availability(pods.active, value_or(obj.spec.min_ready_seconds, 0), now)
        return Requeue(after=wait) if wait is not None else None

    async def _pods(self, ctx: Context[S], selector: Selector) -> _Pods:
        views = self._views.get(ctx.key)
        if views is None:
            views = self._views[ctx.key] = Views(PodView)
        owned = views.read(controlled(ctx.cache, Pod, ctx.obj))
        active = await claim(ctx, Pod, selector, considers=lambda entry: views.of(entry).is_active)
        selects = Selecting(selector)
        terminating = sum(1 for pod in owned if pod.is_terminating and selects(pod.entry))
        return _Pods([views.of(entry) for entry in active], terminating)

    async def _change(self, ctx: Context[S], active: list[PodView], missing: int) -> Outcome:
        obj = cast("ReplicaSet | ReplicationController", ctx.obj)
        if missing > 0:
            pod = pod_of(obj, _template(obj))
            return await create_pods(ctx, [pod] * min(missing, MAX_CHANGES))
        if missing < 0:
            number = min(-missing, MAX_CHANGES)
            doomed = pods_to_remove(active, self._related(ctx), number, self._clock.time())
            return await remove_pods(ctx, doomed)
        return Outcome()

    def _related(self, ctx: Context[S]) -> Iterable[PodView]:
        """The pods of all sets that belong to the same owner."""
        owner = controller_of(ctx.obj.metadata.owner_references)
        if owner is None:
            return
        for sibling in ctx.index(self._kind, controller_uid(owner.uid)):
            yield from (PodView(entry) for entry in controlled(ctx.cache, Pod, sibling))

    def _status(
        self,
        obj: ReplicaSet | ReplicationController,
        pods: _Pods,
        error: QuarterdeckError | None,
        now: float,
    ) -> AnyStatus:
        template = _template(obj)
        counts = count(pods.active, template.metadata.labels, value_or(obj.spec.min_ready_seconds, 0), now)
        changes: dict[str, object] = {
            "replicas": counts.replicas,
            "fully_labeled_replicas": counts.fully_labeled or UNSET,
            "ready_replicas": counts.ready or UNSET,
            "available_replicas": counts.available or UNSET,
            "observed_generation": obj.metadata.generation or UNSET,
        }
        if self._is_replicaset:
            changes["terminating_replicas"] = pods.terminating
        status: AnyStatus = obj.status.evolve(**changes)
        known = [each for each in status.conditions if each.type == "ReplicaFailure"]
        if error is None and known:
            kept = tuple(each for each in status.conditions if each.type != "ReplicaFailure")
            status = status.evolve(conditions=kept)
        elif error is not None and not known:
            make = ReplicaSetCondition if self._is_replicaset else ReplicationControllerCondition
            condition = make(
                type="ReplicaFailure",
                status="True",
                last_transition_time=Time.of_timestamp(now),
                reason=failure_reason(len(pods.active), value_or(obj.spec.replicas, 1)),
                message=str(error),
            )
            status = status.evolve(conditions=(*status.conditions, condition))
        return status


def _template(obj: ReplicaSet | ReplicationController) -> PodTemplateSpec:
    return obj.spec.template or PodTemplateSpec()


async def _store(ctx: Context[Any], status: AnyStatus) -> None:
    """Write the status if it differs; one that met a newer version of the object is written to that."""
    if status == ctx.obj.status:
        return
    try:
        ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=status)))
    except Conflict:
        live = await ctx.get(type(ctx.obj), ctx.key.name, ctx.key.namespace, live=True)
        if live.metadata.uid == ctx.obj.metadata.uid:
            ctx.replace(await ctx.client.status.update(live.evolve(status=status)))


def replicaset_controller() -> Controller[ReplicaSet]:
    """The controller of ReplicaSets, for ``manager.add``."""
    return _controller(ReplicaSet, REPLICASET, "apps", "replicasets")


def replication_controller() -> Controller[ReplicationController]:
    """The controller of ReplicationControllers, for ``manager.add``."""
    return _controller(ReplicationController, REPLICATION, "", "replicationcontrollers")


def _is_status_only(event: ObjectEvent[Any]) -> bool:
    old, new = event.old, event.new
    return (
        old is not None
        and new is not None
        and (old.generation, old.is_deleting) == (new.generation, new.is_deleting)
        and (old.labels, old.owner_references) == (new.labels, new.owner_references)
    )


_STATUS_ONLY: Final = Predicate(
    "status_only", create=lambda _: False, update=_is_status_only, delete=lambda _: False
)
"""Most often what was written by the last look at all pods: no reason for another one at once."""


def _controller(kind: type[S], name: str, group: str, resource: str) -> Controller[S]:
    reconciler = ReplicaReconciler(kind)
    builder = (
        Builder[S](name=name)
        .for_(kind, predicates=[~_STATUS_ONLY])
        .watches(kind, predicates=[_STATUS_ONLY], delay=reconciler.batch_period)
        .watches(Pod, to=ClaimantsOf(kind, selector_of), delay=reconciler.batch_period)
        .indexes(Pod, controller_uid, uncontrolled)
        .indexes(kind, controller_uid)
        .rbac(
            Rule(
                groups=("",), resources=("pods",), verbs=("create", "delete", "get", "list", "patch", "watch")
            ),
            Rule(groups=(group,), resources=(f"{resource}/status",), verbs=("update",)),
            Rule(groups=(group,), resources=(f"{resource}/finalizers",), verbs=("update",)),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
    )
    return builder.build(reconciler)
