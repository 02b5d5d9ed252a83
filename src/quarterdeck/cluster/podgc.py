"""Pods whose node is gone have failed, and go after 40 seconds: nobody is there to run or to end them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import StrategicMergePatch, metadata_of
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.cache import node_name
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Requeue, Result
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.operator.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext

__all__ = ["NAME", "QUARANTINE", "pod_gc_controller"]

NAME: Final = "pod-garbage-collector-controller"
QUARANTINE: Final = 40.0
"""Seconds a node may be missing: one that is replaced comes back under its name."""
_TERMINAL: Final = ("Succeeded", "Failed")


class _Collector(Reconciler[Pod]):
    def __init__(self) -> None:
        self._clock: Final = LoopClock()
        self._missing: dict[Key, float] = {}

    async def deleted(self, ctx: DeleteContext) -> None:
        self._missing.pop(ctx.key, None)

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        pod = ctx.obj
        if not pod.spec.node_name or await _is_there(ctx, pod.spec.node_name, live=False):
            self._missing.pop(ctx.key, None)
            return None
        now = self._clock.time()
        left = self._missing.setdefault(ctx.key, now) + QUARANTINE - now
        if left > 0:
            return Requeue(after=left)
        if await _is_there(ctx, pod.spec.node_name, live=True):
            return None
        with ignore_not_found():
            if pod.status.phase not in _TERMINAL:
                condition = {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastTransitionTime": ctx.now(),
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                }
                status = {"phase": "Failed", "conditions": [condition]}
                patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
                await ctx.client.status.patch(pod, StrategicMergePatch(patch))
            await ctx.delete(pod, grace_period=0)
        return None


async def _is_there(ctx: Context[Pod], node: str, *, live: bool) -> bool:
    try:
        await ctx.get(metadata_of(Node), node, live=live)
    except NotFound:
        return False
    return True


class _Stranded:
    """Pods whose node is not there: most have one, and are not looked at."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        node = context.cache.informer(Node).get("", pod_head(event.entry).node)
        return (event.entry.key,) if node is None else ()


def _pods_on_node(ctx: MapContext, node: Node) -> Iterable[Key]:
    return [pod.key for pod in ctx.cache.lookup(Pod, node_name(node.metadata.name))]


def _is_bound(event: ObjectEvent[Any]) -> bool:
    return bool(pod_head(event.entry).node)


def _was_bound_now(event: ObjectEvent[Any]) -> bool:
    assert event.old is not None
    return _is_bound(event) and not pod_head(event.old).node


_NEW_ON_A_NODE: Final = Predicate(
    "new_on_a_node", create=_is_bound, update=_was_bound_now, delete=lambda _: False
)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
_GONE: Final = Predicate("gone", create=lambda _: False, update=lambda _: False)


def pod_gc_controller() -> Controller[Pod]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Pod, predicates=[_NEVER])
        .watches(Pod, to=_Stranded(), predicates=[_NEW_ON_A_NODE])
        .watches(Node, to=_pods_on_node, predicates=[_GONE])
        .indexes(Pod, node_name)
        .rbac(
            Rule(groups=("",), resources=("pods",), verbs=("delete",)),
            Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
            Rule(groups=("",), resources=("nodes",), verbs=("get",)),
        )
        .options(field_manager=FIELD_MANAGER)
        .build(_Collector())
    )
