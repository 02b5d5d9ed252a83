"""Pods leave nodes whose ``NoExecute`` taints they do not tolerate: at once, or when their patience ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, ObjectMeta, Resource, value_or
from quarterdeck.api.k8s import Node, Pod, Toleration
from quarterdeck.api.toleration import tolerates
from quarterdeck.client import StrategicMergePatch
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.nodehealth.nodeview import NodeView
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.cache import Entry, node_name
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "taint-eviction-controller"
_NO_EXECUTE: Final = "NoExecute"
_WORKERS: Final = 8
_SHORTEST_WAIT: Final = 0.01


def patience(taints: Sequence[NodeTaint], tolerations: Sequence[Toleration]) -> float:
    """Seconds a pod stays with these taints: 0 if it does not tolerate one, infinity if it tolerates all."""
    used: list[Toleration] = []
    for taint in taints:
        suiting = next((each for each in tolerations if tolerates(each, taint)), None)
        if suiting is None:
            return 0.0
        used.append(suiting)
    limits = [each.toleration_seconds for each in used if isinstance(each.toleration_seconds, int)]
    return max(float(min(limits)), 0.0) if limits else math.inf


class _Eviction(msgspec.Struct):
    uid: str
    since: float
    due: float


class _Evictor(Reconciler[Resource]):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder
        self._clock: Final = LoopClock()
        self.planned: Final[dict[Key, _Eviction]] = {}

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        try:
            pod = await ctx.get(Pod, ctx.key.name, ctx.key.namespace)
        except NotFound:
            self._cancel(ctx.key)
            return None
        now = self._clock.time()
        plan = self.planned.get(ctx.key)
        if plan is not None and plan.uid != pod.metadata.uid:
            self._cancel(ctx.key)
            plan = None
        entry = ctx.cache.informer(Node).get("", pod.spec.node_name) if pod.spec.node_name else None
        taints = _evicting(entry) if entry is not None else ()
        if not taints or pod.metadata.is_deleting:
            self._cancel(ctx.key)
            return None
        span = patience(taints, pod.spec.tolerations)
        if span == math.inf:
            self._cancel(ctx.key)
            return None
        if span == 0:
            self._cancel(ctx.key)
            await self._evict(ctx, pod)
            return None
        if plan is None:
            plan = self.planned[ctx.key] = _Eviction(pod.metadata.uid, now, now + span)
        elif plan.since + span < plan.due:
            # Another taint came that it tolerates for a shorter time, counted from the first.
            self._cancel(ctx.key)
            plan = self.planned[ctx.key] = _Eviction(pod.metadata.uid, plan.since, plan.since + span)
        if plan.due > now:
            return Requeue(after=max(plan.due - now, _SHORTEST_WAIT))
        self.planned.pop(ctx.key, None)
        await self._evict(ctx, pod)
        return None

    def _cancel(self, key: Key) -> None:
        if self.planned.pop(key, None) is not None:
            self._tell(key, f"Cancelling deletion of Pod {key.namespace}/{key.name}")

    def _tell(self, key: Key, text: str) -> None:
        pod = Pod(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
        self._recorder.event(pod, "Normal", "TaintManagerEviction", "Evict", text)

    async def _evict(self, ctx: Context[Resource], pod: Pod) -> None:
        self._tell(ctx.key, f"Marking for deletion Pod {ctx.key.namespace}/{ctx.key.name}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "observedGeneration": value_or(pod.metadata.generation, 0) or None,
            "lastTransitionTime": ctx.now(),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        with ignore_not_found():
            await ctx.client.status.patch(pod, StrategicMergePatch(patch))
            await ctx.delete(pod)


def _evicting(entry: Entry) -> tuple[NodeTaint, ...]:
    return tuple(each for each in NodeView(entry).taints if each.effect == _NO_EXECUTE)


def _pods_on_node(ctx: MapContext, node: Node) -> Iterable[Key]:
    return [pod.key for pod in ctx.cache.lookup(Pod, node_name(node.metadata.name))]


def _is_tainted(event: ObjectEvent[Any]) -> bool:
    return bool(_evicting(event.entry))


def _taints_changed(event: ObjectEvent[Any]) -> bool:
    assert event.old is not None
    assert event.new is not None
    return _evicting(event.old) != _evicting(event.new)


_TAINTED: Final = Predicate("tainted", create=_is_tainted, update=_taints_changed, delete=lambda _: False)


def _is_bound(event: ObjectEvent[Any]) -> bool:
    return bool(pod_head(event.entry).node)


def _is_elsewhere(event: ObjectEvent[Any]) -> bool:
    """Bound a moment ago, or with another spec: tolerations may be added."""
    assert event.old is not None
    assert event.new is not None
    return _is_bound(event) and (
        event.old.generation != event.new.generation or pod_head(event.old).node != pod_head(event.new).node
    )


_BOUND: Final = Predicate("bound", create=_is_bound, update=_is_elsewhere)


class _OnTaintedNodes:
    """Pods on nodes with such taints, and those that wait to be evicted: very few of all."""

    def __init__(self, planned: Mapping[Key, object]) -> None:
        self._planned: Final = planned

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        key = event.entry.key
        if key in self._planned:
            return (key,)
        node = context.cache.informer(Node).get("", pod_head(event.entry).node)
        return (key,) if event.new is not None and node is not None and _evicting(node) else ()


def taint_eviction_controller(recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``recorder`` takes events about pods."""
    evictor = _Evictor(recorder)
    return (
        Builder[Resource](name=NAME)
        .watches(Pod, to=_OnTaintedNodes(evictor.planned), predicates=[_BOUND])
        .watches(Node, to=_pods_on_node, predicates=[_TAINTED])
        .indexes(Pod, node_name)
        .rbac(
            Rule(groups=("",), resources=("pods",), verbs=("delete",)),
            Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
        )
        .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
        .build(evictor)
    )
