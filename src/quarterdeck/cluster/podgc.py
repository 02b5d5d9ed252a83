"""Pods whose node is gone have failed, and go after 40 seconds: nobody is there to run or to end them.

So do pods that are being deleted on a node of which somebody says that it is out of service.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.client import StrategicMergePatch, metadata_of
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.nodehealth.nodeview import NodeView
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry, node_name
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

NAME: Final = "pod-garbage-collector-controller"
QUARANTINE: Final = 40.0
"""Seconds a node may be missing: one that is replaced comes back under its name."""
_TERMINAL: Final = ("Succeeded", "Failed")
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class _Collector(Reconciler[Pod]):
    def __init__(self) -> None:
        self._clock: Final = LoopClock()
        self._missing: dict[Key, float] = {}

    async def deleted(self, ctx: DeleteContext) -> None:
        self._missing.pop(ctx.key, None)

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        pod = ctx.obj
        if pod.metadata.is_deleting and _is_out_of_service(ctx.cache, pod.spec.node_name):
            await _end(ctx, pod, [])
            return None
        if not pod.spec.node_name or await _is_there(ctx, pod.spec.node_name, live=False):
            self._missing.pop(ctx.key, None)
            return None
        now = self._clock.time()
        left = self._missing.setdefault(ctx.key, now) + QUARANTINE - now
        if left > 0:
            return Requeue(after=left)
        if await _is_there(ctx, pod.spec.node_name, live=True):
            return None
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": ctx.now(),
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        await _end(ctx, pod, [condition])
        return None


async def _end(ctx: Context[Pod], pod: Pod, conditions: list[dict[str, Any]]) -> None:
    """A pod that has not ended has failed; it goes at once."""
    with ignore_not_found():
        if pod.status.phase not in _TERMINAL:
            status = {"phase": "Failed", **({"conditions": conditions} if conditions else {})}
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
            await ctx.client.status.patch(pod, StrategicMergePatch(patch))
        await ctx.delete(pod, grace_period=0)


def _is_out_of_service(cache: Cache, name: str) -> bool:
    """Whether a node is not ready and somebody vouches that it will not come back by itself."""
    entry = cache.informer(Node).get("", name) if name else None
    return entry is not None and _is_shut_down(entry)


def _is_shut_down(entry: Entry) -> bool:
    if _OUT_OF_SERVICE.encode() not in entry.raw:
        return False
    node = NodeView(entry)
    is_ready = node.ready is not None and node.ready.status == "True"
    return not is_ready and any(each.key == _OUT_OF_SERVICE for each in node.taints)


async def _is_there(ctx: Context[Pod], node: str, *, live: bool) -> bool:
    try:
        await ctx.get(metadata_of(Node), node, live=live)
    except NotFound:
        return False
    return True


class _Stranded:
    """Pods whose node is not there, or out of service: most have one, and are not looked at."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        entry = event.entry
        node = context.cache.informer(Node).get("", pod_head(entry).node)
        if node is None or (entry.is_deleting and _is_shut_down(node)):
            return (entry.key,)
        return ()


def _pods_on_node(ctx: MapContext, node: Node) -> Iterable[Key]:
    return [pod.key for pod in ctx.cache.lookup(Pod, node_name(node.metadata.name))]


def _is_bound(event: ObjectEvent[Any]) -> bool:
    return bool(pod_head(event.entry).node)


def _was_bound_now(event: ObjectEvent[Any]) -> bool:
    assert event.old is not None
    is_going = event.entry.is_deleting and not event.old.is_deleting
    return _is_bound(event) and (is_going or not pod_head(event.old).node)


_NEW_ON_A_NODE: Final = Predicate(
    "new_on_a_node", create=_is_bound, update=_was_bound_now, delete=lambda _: False
)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
_GONE: Final = Predicate(
    "gone", create=lambda _: False, update=lambda event: event.new is not None and _is_shut_down(event.new)
)


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
