"""The DaemonSet controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import UNSET, Key, LabelSelector, Selector, controller_of, value_or
from quarterdeck.api.k8s import ControllerRevision, DaemonSet, Node, Pod
from quarterdeck.api.k8s.apps import DaemonSetStatus
from quarterdeck.cluster.daemonset.decision import (
    GENERATION_ANNOTATION,
    GENERATION_LABEL,
    Changes,
    FailureBackoff,
    NodeState,
    count,
    place,
    roll,
)
from quarterdeck.cluster.daemonset.history import clean_up, sync_history
from quarterdeck.cluster.daemonset.nodefit import DaemonPod, NodeView, bound_to, fit, tolerations_of
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import claim, uncontrolled
from quarterdeck.cluster.podset.podview import Views, next_availability
from quarterdeck.cluster.podset.podwriter import create_pods, pod_of, remove_pods
from quarterdeck.cluster.podset.revision import REVISION_LABEL
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.runtime.cache import controller_uid, node_name
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

NAME: Final = "daemonset-controller"
_WORKERS: Final = 2
_CACHE_PATIENCE: Final = 60.0
_MAX_CHANGES: Final = 250
"""Pods that are made or removed in one go."""
_PERIOD_PER_POD: Final = 0.0001
_SOON: Final = 0.001
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def _selector_of(daemon_set: DaemonSet) -> Selector | None:
    selector = daemon_set.spec.selector
    return Selector.of(selector) if selector and selector != LabelSelector() else None


class DaemonSetReconciler(Reconciler[DaemonSet]):
    """Keeps the pods of one DaemonSet after the other on the nodes."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()
        self._pods: dict[Key, Views[DaemonPod]] = {}
        self._nodes: Final = Views(NodeView)
        self._backoff: Final = FailureBackoff()
        self._uids: dict[Key, str] = {}

    def batch_period(self, key: Key) -> float:
        """Seconds for which changes of the pods of a DaemonSet are gathered: longer for a large one."""
        views = self._pods.get(key)
        return len(views) * _PERIOD_PER_POD if views is not None else 0.0

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a DaemonSet."""
        self._pods.pop(ctx.key, None)
        self._backoff.forget(f"{self._uids.pop(ctx.key, '?')}/")

    async def reconcile(self, ctx: Context[DaemonSet]) -> Result | None:
        """Bring pods and status of a DaemonSet up to date."""
        selector = _selector_of(ctx.obj)
        if selector is None:
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            ctx.event("Warning", "SelectingAll", text)
            return None
        if ctx.obj.metadata.is_deleting:
            return None
        self._uids[ctx.key] = ctx.obj.metadata.uid
        pods = await self._claimed(ctx, selector)
        entry = ctx.cache.informer(DaemonSet).get(ctx.key.namespace, ctx.key.name)
        assert entry is not None
        history = await sync_history(ctx, _decode(entry.raw)["spec"]["template"], selector, pods)
        now = self._clock.time()
        nodes = self._states(ctx, pods)
        changes = place(ctx.obj, nodes, history.digest, self._backoff, now)
        _tell(ctx, changes)
        changes.remove += _lost(pods, nodes)
        failure: QuarterdeckError | None = None
        try:
            has_more = await self._apply(ctx, changes, history.digest)
            if not changes.create and not changes.remove:
                if ctx.obj.spec.update_strategy.type == "RollingUpdate":
                    step = roll(ctx.obj, nodes, history.digest, now)
                    has_more = await self._apply(ctx, step, history.digest)
                await clean_up(ctx, history.old, pods)
        except QuarterdeckError as error:
            failure, has_more = error, False
        try:
            await _store(ctx, _status(ctx.obj, nodes, history.digest, now))
        except NotFound:
            ctx.note_gone()
            return None
        if failure is not None:
            raise failure
        if has_more:
            return Requeue(after=_SOON)
        waits = (changes.wait, next_availability(pods, value_or(ctx.obj.spec.min_ready_seconds, 0), now))
        known = [wait for wait in waits if wait is not None]
        return Requeue(after=min(known)) if known else None

    async def _claimed(self, ctx: Context[DaemonSet], selector: Selector) -> list[DaemonPod]:
        views = self._pods.get(ctx.key)
        if views is None:
            views = self._pods[ctx.key] = Views(DaemonPod)
        return views.read(await claim(ctx, Pod, selector))

    def _states(self, ctx: Context[DaemonSet], pods: Iterable[DaemonPod]) -> list[NodeState]:
        """The nodes with their pods; those that have ended and are being deleted do not count."""
        by_node: dict[str, list[DaemonPod]] = {}
        for pod in pods:
            if not (pod.is_deleting and pod.phase in ("Succeeded", "Failed")):
                by_node.setdefault(pod.target, []).append(pod)
        nodes = self._nodes.read(ctx.cache.informer(Node).entries())
        return [NodeState(node.name, fit(ctx.obj, node), by_node.get(node.name, ())) for node in nodes]

    async def _apply(self, ctx: Context[DaemonSet], changes: Changes, digest: str) -> bool:
        """Make and remove pods; returns whether there is more to do than fits one go."""
        daemon_set = ctx.obj
        made = (_pod(daemon_set, digest, node) for node in changes.create[:_MAX_CHANGES])
        created = await create_pods(ctx, made)
        removed = await remove_pods(ctx, changes.remove[:_MAX_CHANGES])
        error = created.error or removed.error
        if error is not None:
            raise error
        return max(len(changes.create), len(changes.remove)) > _MAX_CHANGES


def _pod(daemon_set: DaemonSet, digest: str, node: str) -> Pod:
    template = daemon_set.spec.template
    labels = {**template.metadata.labels, REVISION_LABEL: digest}
    generation = daemon_set.metadata.annotations.get(GENERATION_ANNOTATION)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    spec = bound_to(template.spec.evolve(tolerations=tolerations_of(template.spec)), node)
    metadata = template.metadata.evolve(labels=labels)
    return pod_of(daemon_set, template.evolve(metadata=metadata, spec=spec))


def _tell(ctx: Context[DaemonSet], changes: Changes) -> None:
    for pod in changes.failed:
        where = f"{pod.entry.namespace}/{pod.name} on node {pod.target}"
        ctx.event("Warning", "FailedDaemonPod", f"Found failed daemon pod {where}, will try to kill it")
    for pod in changes.succeeded:
        where = f"{pod.entry.namespace}/{pod.name} on node {pod.target}"
        text = f"Found succeeded daemon pod {where}, will try to delete it"
        ctx.event("Normal", "SucceededDaemonPod", text)


def _lost(pods: Iterable[DaemonPod], nodes: Sequence[NodeState]) -> list[DaemonPod]:
    """Pods that wait for a node that is gone."""
    there = {node.name for node in nodes}
    return [pod for pod in pods if not pod.node_name and pod.target and pod.target not in there]


def _status(daemon_set: DaemonSet, nodes: Sequence[NodeState], digest: str, now: float) -> DaemonSetStatus:
    counts = count(daemon_set, nodes, digest, now)
    return daemon_set.status.evolve(
        observed_generation=daemon_set.metadata.generation or UNSET,
        desired_number_scheduled=counts.desired,
        current_number_scheduled=counts.current,
        number_misscheduled=counts.misscheduled,
        number_ready=counts.ready,
        updated_number_scheduled=counts.updated or UNSET,
        number_available=counts.available or UNSET,
        number_unavailable=counts.desired - counts.available or UNSET,
    )


async def _store(ctx: Context[DaemonSet], status: DaemonSetStatus) -> None:
    if status == ctx.obj.status:
        return
    try:
        ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=status)))
    except Conflict:
        live = await ctx.get(DaemonSet, ctx.key.name, ctx.key.namespace, live=True)
        if live.metadata.uid == ctx.obj.metadata.uid:
            ctx.replace(await ctx.client.status.update(live.evolve(status=status)))


class _SetsOfNodes:
    """The DaemonSets for which a node has changed in a way that matters."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        informer = context.cache.informer(DaemonSet)
        decode = informer.decoder(DaemonSet)
        entries = informer.entries()
        if not entries:
            return ()
        if event.new is None:
            return [entry.key for entry in entries]
        node = NodeView(event.new)
        if event.old is not None:
            old = NodeView(event.old)
            if (old.labels, old.taints) == (node.labels, node.taints):
                return ()
        there = _sets_on(context, node.name)
        found = []
        for entry in entries:
            daemon_set = decode(entry)
            verdict = fit(daemon_set, node)
            has_pod = entry.uid in there
            is_odd = has_pod and bool(daemon_set.status.number_misscheduled)
            if is_odd or (not has_pod and verdict.starts) or (has_pod and not verdict.continues):
                found.append(entry.key)
        return found


def _sets_on(context: MapContext, node: str) -> set[str]:
    """The UIDs of the controllers of the pods on a node."""
    table = context.cache.informer(Pod).table(node_name.name)
    assert table is not None
    owners = (controller_of(entry.owner_references) for entry in table.get(node))
    return {owner.uid for owner in owners if owner is not None}


_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)


def daemonset_controller() -> Controller[DaemonSet]:
    """The controller, for ``manager.add``."""
    reconciler = DaemonSetReconciler()
    return (
        Builder(DaemonSet, name=NAME)
        .watches(Pod, to=ClaimantsOf(DaemonSet, _selector_of), delay=reconciler.batch_period)
        .watches(Node, to=_SetsOfNodes(), delay=reconciler.batch_period)
        .watches(ControllerRevision, predicates=[_NEVER])
        .indexes(Pod, controller_uid, uncontrolled, node_name)
        .indexes(ControllerRevision, controller_uid, uncontrolled)
        .rbac(
            Rule(
                groups=("",), resources=("pods",), verbs=("create", "delete", "get", "list", "patch", "watch")
            ),
            Rule(
                groups=("apps",),
                resources=("controllerrevisions",),
                verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            ),
            Rule(
                groups=("apps",), resources=("daemonsets/status", "daemonsets/finalizers"), verbs=("update",)
            ),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
        .build(reconciler)
    )
