"""Binds pods of the default scheduler to nodes.

All pods that wait are placed in one round, the most important first. A round takes place a moment after
something happened that may make a difference: a pod came, one ended or went, a node changed. The runtime
starts no round before the cache shows the bindings of the last one.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from quarterdeck.api import Key, ObjectMeta, Resource, Time
from quarterdeck.api.k8s import Binding, Namespace, Node, ObjectReference, Pod
from quarterdeck.client import StrategicMergePatch
from quarterdeck.cluster.attempt import attempt_all
from quarterdeck.cluster.placement.state import PlacementState
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Result
from quarterdeck.runtime.operator.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.scheduler.intake import node_info, pod_info
from quarterdeck.scheduler.snapshot import NodeInfo, PodInfo

__all__ = ["NAME", "SchedulerSettings", "scheduler_controller"]

NAME: Final = "default-scheduler"
_ROUND: Final = Key("", "round")
_EVENTS_PER_ROUND: Final = 200
"""Events are for people: of a round that places thousands of pods, the first are enough."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the default scheduler works."""

    names: tuple[str, ...] = (NAME,)
    """Pods of these ``schedulerName``s are placed; empty: all pods."""
    checks_nodes: bool = True
    """Whether a node must suit a pod; otherwise any pod may go to any node, which suits some tests."""
    batch_period: float = 0.02
    """Seconds to wait for more pods before a round."""
    batch_period_per_pod: float = 0.00005
    """Added to it for each pod of the cluster: every round looks at all of them."""


class _Known(msgspec.Struct):
    """What an earlier round found out about a pod."""

    entry: Entry
    """The state of the object that it is about."""
    info: PodInfo | None
    """As ``PlacementState`` wants it; none for pods that do not matter."""
    priority: int = 0


class _Waiting(msgspec.Struct):
    """A pod that has no node."""

    entry: Entry
    info: PodInfo
    priority: int


class _Scheduler(Reconciler[Resource]):
    def __init__(self, settings: SchedulerSettings, recorder: Recorder) -> None:
        self._settings: Final = settings
        self._recorder: Final = recorder
        self._pods: dict[str, _Known] = {}
        self._told: dict[str, str] = {}
        self._events_left = 0
        self._nodes: dict[str, tuple[str, NodeInfo]] = {}

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One round."""
        placed, waiting = self._look(ctx.cache)
        if not waiting:
            return None
        waiting.sort(
            key=lambda each: (-each.priority, each.info.created, each.info.namespace, each.info.name)
        )
        everybody = [*placed, *(each.info for each in waiting)]
        labels = {each.metadata.name: each.metadata.labels for each in await ctx.list(Namespace)}
        nodes = self._node_infos(ctx.cache)
        state = PlacementState(nodes, everybody, labels, checks_nodes=self._settings.checks_nodes)
        decisions = [(each, state.place(each.info)) for each in waiting]
        self._events_left = _EVENTS_PER_ROUND
        errors = await attempt_all(
            [(each, node) for each, node in decisions if node], lambda pair: self._bind(ctx, *pair)
        )
        refused = [(each, state.refusal(each.info)) for each, node in decisions if not node]
        news = [pair for pair in refused if self._told.get(pair[0].info.uid) != pair[1]]
        errors += await attempt_all(news, lambda pair: self._refuse(ctx, *pair))
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            # The next round sees what became of it: who has a node by then is asked no more.
            raise first
        self._told = {each.info.uid: text for each, text in refused}
        return None

    def _look(self, cache: Cache) -> tuple[list[PodInfo], list[_Waiting]]:
        """Pods that hold a place on a node, and those that wait for one."""
        placed: list[PodInfo] = []
        waiting: list[_Waiting] = []
        known: dict[str, _Known] = {}
        for entry in cache.informer(Pod).entries():
            found = self._pods.get(entry.uid)
            if found is None or found.entry is not entry:
                found = self._read(entry, found)
            known[entry.uid] = found
            if found.info is None:
                continue
            if found.info.node:
                placed.append(found.info)
            else:
                waiting.append(_Waiting(entry, found.info, found.priority))
        self._pods = known
        return placed, waiting

    def _read(self, entry: Entry, before: _Known | None) -> _Known:
        head = pod_head(entry)
        if head.has_ended:
            return _Known(entry, None)
        is_mine = not self._settings.names or head.scheduler in self._settings.names
        if not head.node and (entry.is_deleting or head.is_gated or not is_mine):
            return _Known(entry, None)
        # What a pod asks for changes with its generation only, or its labels.
        is_same = (
            before is not None
            and before.entry.generation == entry.generation
            and before.entry.labels is entry.labels
        )
        info = before.info if before is not None and is_same else None
        if info is None:
            info = pod_info(_decode(entry.raw))
        elif (info.node, info.is_deleted) != (head.node, entry.is_deleting):
            info = msgspec.structs.replace(info, node=head.node, is_deleted=entry.is_deleting)
        return _Known(entry, info, head.priority)

    def batch_period(self, _: Key) -> float:
        """Seconds for which changes are gathered."""
        return self._settings.batch_period + len(self._pods) * self._settings.batch_period_per_pod

    def _node_infos(self, cache: Cache) -> list[NodeInfo]:
        known: dict[str, tuple[str, NodeInfo]] = {}
        for entry in cache.informer(Node).entries():
            found = self._nodes.get(entry.uid)
            if found is None or found[0] != entry.resource_version:
                found = (entry.resource_version, node_info(_decode(entry.raw)))
            if not entry.is_deleting:
                known[entry.uid] = found
        self._nodes = known
        return [info for _, info in known.values()]

    async def _bind(self, ctx: Context[Resource], waiting: _Waiting, node: str) -> None:
        pod = _reference(waiting.entry)
        binding = Binding(
            metadata=ObjectMeta(
                name=waiting.info.name, namespace=waiting.info.namespace, uid=waiting.info.uid
            ),
            target=ObjectReference(api_version="v1", kind="Node", name=node),
        )
        try:
            await ctx.client.subresource("binding").create(pod, binding)
        except NotFound:
            return
        text = f"Successfully assigned {waiting.info.namespace}/{waiting.info.name} to {node}"
        self._tell(pod, "Normal", "Scheduled", "Binding", text)

    async def _refuse(self, ctx: Context[Resource], waiting: _Waiting, text: str) -> None:
        """Say why a pod has no node, unless it says so already."""
        pod = Pod.from_bytes(waiting.entry.raw)
        known = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        if known is not None and (known.status, known.message) == ("False", text):
            return
        since = known.last_transition_time if known is not None and known.status == "False" else ctx.now()
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": since if isinstance(since, Time) else ctx.now(),
            "reason": "Unschedulable",
            "message": text,
        }
        # Only of this very state: somebody else may have given it a node a moment ago.
        seen = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        patch = {"metadata": seen, "status": {"conditions": [condition]}}
        try:
            await ctx.client.status.patch(pod, StrategicMergePatch(patch))
        except (NotFound, Conflict):
            return
        self._tell(pod, "Warning", "FailedScheduling", "Scheduling", text)

    def _tell(
        self, pod: Pod, type: Literal["Normal", "Warning"], reason: str, action: str, text: str
    ) -> None:
        if self._events_left > 0:
            self._events_left -= 1
            self._recorder.event(pod, type, reason, action, text)


def _reference(entry: Entry) -> Pod:
    """Enough of a pod to write about it."""
    return Pod(
        metadata=ObjectMeta(
            name=entry.name,
            namespace=entry.namespace,
            uid=entry.uid,
            resource_version=entry.resource_version,
        )
    )


class _NextRound:
    """Whatever happened concerns the next round."""

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> tuple[Key, ...]:
        return (_ROUND,)


def _is_waiting(event: ObjectEvent[Any]) -> bool:
    return not pod_head(event.entry).node


def _makes_a_difference(event: ObjectEvent[Any]) -> bool:
    old, new = event.old, event.new
    assert old is not None
    assert new is not None
    head = pod_head(new)
    if head.node:
        return head.has_ended and not pod_head(old).has_ended
    return old.generation != new.generation or old.labels is not new.labels


_POD_MATTERS: Final = Predicate("pod_matters", create=_is_waiting, update=_makes_a_difference)


def scheduler_controller(settings: SchedulerSettings, recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``."""
    mapper, scheduler = _NextRound(), _Scheduler(settings, recorder)
    return (
        Builder[Resource](name=NAME)
        .watches(Namespace, predicates=[_NOTHING])
        .watches(Pod, to=mapper, delay=scheduler.batch_period, predicates=[_POD_MATTERS])
        .watches(Node, to=mapper, delay=scheduler.batch_period)
        .rbac(
            Rule(groups=("",), resources=("pods", "nodes"), verbs=("get", "list", "watch")),
            Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
            Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
        )
        .options(max_concurrent_reconciles=1, backoff_cap=5.0, field_manager="kube-scheduler")
        .build(scheduler)
    )


_NOTHING: Final = Predicate("nothing", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
"""For a kind that is only read."""
