"""The node lifecycle controller: nodes whose lease is not renewed, and the taints that conditions bring.

Every five seconds it looks at all nodes. One that was silent for too long gets conditions that say so, and
its pods are no longer ready; while it is not well it has a taint that drives its pods away (``eviction``),
which comes to one node after the other, at the pace of its zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, Resource, Time
from quarterdeck.api.k8s import Lease, Node, NodeCondition, Pod
from quarterdeck.client import StrategicMergePatch
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.nodehealth.health import MONITOR_PERIOD, Health
from quarterdeck.cluster.nodehealth.nodeview import LeaseView, NodeView
from quarterdeck.cluster.nodehealth.taint import NOT_READY, UNREACHABLE, by_condition, swapped
from quarterdeck.cluster.nodehealth.zone import Turn, Zones
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry, node_name
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import FunctionSource, SourceContext
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "node-lifecycle-controller"
EVENT_SOURCE: Final = "node-controller"
LEASE_NAMESPACE: Final = "kube-node-lease"
_WORKERS: Final = 8
_TRIES: Final = 5
_MONITOR: Final = Key("monitor", "monitor")
_EVICTOR: Final = Key("monitor", "evictor")
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that become Unknown when a kubelet does not report; the network's is set by others."""
_LABELS: Final = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)
"""Old names that follow the new ones."""


class NodeLifecycle(Reconciler[Resource]):
    """Looks after all nodes; keys are those of nodes, and one each for the rounds."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder
        self._clock: Final = LoopClock()
        self._nodes: dict[str, NodeView] = {}
        self._leases: dict[str, LeaseView] = {}
        self._health: dict[str, Health] = {}
        self._zones: Final = Zones()
        self._to_mark: set[str] = set()
        """Nodes whose pods could not all be marked."""
        self._controller: Controller[Resource] | None = None

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One node, or one round."""
        if ctx.key == _MONITOR:
            await self._monitor(ctx)
            return Requeue(after=MONITOR_PERIOD)
        if ctx.key == _EVICTOR:
            return await self._taint_those_due(ctx)
        entry = ctx.cache.informer(Node).get("", ctx.key.name)
        if entry is not None:
            await self._settle(ctx, NodeView(entry))
        return None

    async def _settle(self, ctx: Context[Resource], node: NodeView) -> None:
        """Bring taints against new pods, and old labels, up to date."""
        add, remove = by_condition(node)
        if add or remove:
            await _swap(ctx, node, add, remove)
        labels = node.entry.labels
        late = {old: labels[new] for new, old in _LABELS if new in labels and labels.get(old) != labels[new]}
        if late:
            with ignore_not_found():
                await ctx.client.patch(node.reference, StrategicMergePatch({"metadata": {"labels": late}}))

    async def _monitor(self, ctx: Context[Resource]) -> None:
        nodes = self._look(ctx.cache)
        now = self._clock.time()
        ready: dict[tuple[str, str], list[bool]] = {}
        silent: list[NodeView] = []
        for node in nodes:
            if self._is_silent(node, now):
                silent.append(node)
        statuses = await self._silenced(ctx, silent)
        for node in nodes:
            status = statuses.get(node.name, node.ready.status if node.ready is not None else "")
            if node.counts:
                ready.setdefault(node.zone, []).append(status == "True")
            await self._pace(ctx, node, status)
        turn = self._zones.judge(ready)
        if turn is Turn.ALL_DOWN:
            for node in nodes:
                await self._reachable(ctx, node)
        elif turn is Turn.BACK:
            for each in self._health.values():
                each.heard = now
        if self._zones.next_due(now) is not None and self._controller is not None:
            self._controller.queue.add(_EVICTOR)

    def _look(self, cache: Cache) -> list[NodeView]:
        """All nodes as they are; tells of those that came and went."""
        known: dict[str, NodeView] = {}
        for entry in cache.informer(Node).entries():
            view = self._nodes.get(entry.name)
            if view is None or view.entry is not entry:
                view = NodeView(entry)
            known[entry.name] = view
        for name in known.keys() - self._nodes.keys():
            self._tell(known[name], "RegisteredNode", f"Registered Node {name} in Controller")
            self._zones.add(known[name].zone)
        for name in self._nodes.keys() - known.keys():
            self._tell(self._nodes[name], "RemovingNode", f"Removing Node {name} from Controller")
            self._health.pop(name, None)
            self._to_mark.discard(name)
            self._zones.forget(name)
        leases: dict[str, LeaseView] = {}
        for entry in cache.informer(Lease).entries(LEASE_NAMESPACE):
            lease = self._leases.get(entry.name)
            leases[entry.name] = lease if lease is not None and lease.entry is entry else LeaseView(entry)
        self._nodes, self._leases = known, leases
        return list(known.values())

    def _tell(self, node: NodeView, reason: str, text: str) -> None:
        note = f"Node {node.name} event: {text}"
        self._recorder.event(node.reference, "Normal", reason, "Monitor", note)

    def _is_silent(self, node: NodeView, now: float) -> bool:
        health = self._health.get(node.name)
        if health is None or health.uid != node.uid:
            health = self._health[node.name] = Health.of(node, now)
        health.note(node, self._leases.get(node.name), now)
        return health.is_silent(now)

    async def _silenced(self, ctx: Context[Resource], nodes: Sequence[NodeView]) -> dict[str, str]:
        """Say of silent nodes that nothing is known of them; returns what is true of each now."""
        known = [node for node in nodes if node.ready is None or node.ready.status != "Unknown"]
        todo = known + [node for node in nodes if node.name in self._to_mark and node not in known]
        errors = await attempt_all(todo, lambda node: self._silence(ctx, node), at_once=_WORKERS)
        failed = {node.name for node, error in zip(todo, errors, strict=True) if error is not None}
        return {node.name: "Unknown" for node in nodes if node.name not in failed}

    async def _silence(self, ctx: Context[Resource], node: NodeView) -> None:
        was_ready = False
        if node.ready is None or node.ready.status != "Unknown":
            was_ready = node.ready is not None and node.ready.status == "True"
            await self._write_unknown(ctx, node)
        if was_ready:
            text = f"Node {node.name} status is now: NodeNotReady"
            self._recorder.event(node.reference, "Normal", "NodeNotReady", "Monitor", text)
        if was_ready or node.name in self._to_mark:
            self._to_mark.add(node.name)
            pods = ctx.cache.lookup(Pod, node_name(node.name))
            errors = await attempt_all(list(pods), lambda pod: self._mark_not_ready(ctx, pod))
            if not any(errors):
                self._to_mark.discard(node.name)

    async def _write_unknown(self, ctx: Context[Resource], view: NodeView) -> None:
        for _ in range(_TRIES):
            try:
                node = await ctx.get(Node, view.name, live=True)
                status = node.status.evolve(conditions=_unknown(node, ctx.now()))
                await ctx.client.status.update(node.evolve(status=status))
            except Conflict:
                continue
            return

    async def _mark_not_ready(self, ctx: Context[Resource], pod: Pod) -> None:
        ready = next((each for each in pod.status.conditions if each.type == "Ready"), None)
        if ready is None or ready.status == "False":
            return
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": ctx.now()}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await ctx.client.status.patch(pod, StrategicMergePatch(patch))
        except NotFound:
            return
        self._recorder.event(pod, "Warning", "NodeNotReady", "Monitor", "Node is not ready")

    async def _pace(self, ctx: Context[Resource], node: NodeView, status: str) -> None:
        """See to the taint that drives pods away from a node."""
        if status in ("False", "Unknown"):
            wanted, other = (NOT_READY, UNREACHABLE) if status == "False" else (UNREACHABLE, NOT_READY)
            if node.has_taint(other.key, other.effect):
                await self._try_swap(ctx, node, [wanted], [other])
            elif not node.has_taint(wanted.key, wanted.effect):
                self._zones.add(node.zone)
                self._zones.wait(node.zone, node.name)
        elif status == "True":
            await self._reachable(ctx, node)

    async def _reachable(self, ctx: Context[Resource], node: NodeView) -> None:
        self._zones.forget(node.name)
        there = [each for each in (UNREACHABLE, NOT_READY) if node.has_taint(each.key, each.effect)]
        if there:
            await self._try_swap(ctx, node, [], there)

    async def _taint_those_due(self, ctx: Context[Resource]) -> Result | None:
        now = self._clock.time()
        for name in self._zones.due(now):
            entry = ctx.cache.informer(Node).get("", name)
            if entry is None:
                continue
            node = NodeView(entry)
            status = node.ready.status if node.ready is not None else ""
            if status == "False":
                await self._try_swap(ctx, node, [NOT_READY], [UNREACHABLE])
            elif status == "Unknown":
                await self._try_swap(ctx, node, [UNREACHABLE], [NOT_READY])
        left = self._zones.next_due(now)
        return Requeue(after=max(left, 0.1)) if left is not None else None

    async def _try_swap(
        self, ctx: Context[Resource], node: NodeView, add: Sequence[NodeTaint], remove: Sequence[NodeTaint]
    ) -> None:
        """What does not work is tried again in the next round."""
        try:
            await _swap(ctx, node, add, remove)
        except QuarterdeckError as error:
            ctx.log.warning("cannot change the taints of a node", error, node=node.name)

    def controller(self) -> Controller[Resource]:
        """The controller, for ``manager.add``."""
        made: Controller[Resource] = (
            Builder[Resource](name=NAME)
            .watches(Node, predicates=[_MATTERS])
            .watches(Lease, predicates=[_NEVER])
            .source(FunctionSource(_begin, name="monitor"))
            .indexes(Pod, node_name)
            .rbac(
                Rule(groups=("",), resources=("nodes",), verbs=("get", "patch")),
                Rule(groups=("",), resources=("nodes/status",), verbs=("update",)),
                Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
            )
            .options(max_concurrent_reconciles=_WORKERS, field_manager=FIELD_MANAGER)
            .build(self)
        )
        self._controller = made
        return made


def _unknown(node: Node, now: Time) -> list[NodeCondition]:
    """The conditions of a node of which nothing is known."""
    conditions = list(node.status.conditions)
    for type in _REPORTED:
        place = next((i for i, each in enumerate(conditions) if each.type == type), None)
        if place is None:
            conditions.append(
                NodeCondition(
                    type=type,
                    status="Unknown",
                    reason="NodeStatusNeverUpdated",
                    message="Kubelet never posted node status.",
                    last_heartbeat_time=node.metadata.creation_timestamp,
                    last_transition_time=now,
                )
            )
        elif conditions[place].status != "Unknown":
            conditions[place] = conditions[place].evolve(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                last_transition_time=now,
            )
    return conditions


class _TaintSpec(msgspec.Struct, gc=False):
    taints: list[dict[str, Any]] = []


class _TaintedNode(msgspec.Struct, gc=False):
    spec: _TaintSpec = msgspec.field(default_factory=_TaintSpec)


_decode_taints: Final = msgspec.json.Decoder(_TaintedNode).decode


async def _swap(
    ctx: Context[Resource], node: NodeView, add: Iterable[NodeTaint], remove: Iterable[NodeTaint]
) -> None:
    """Add taints to a node and take others away; they are one list on the wire, so nobody else may write."""
    raw, version = node.entry.raw, node.entry.resource_version
    for _ in range(_TRIES):
        taints = swapped(_decode_taints(raw).spec.taints, add, remove, str(ctx.now()))
        if taints is None:
            return
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
        try:
            await ctx.client.patch(node.reference, StrategicMergePatch(patch))
        except Conflict:
            fresh = await ctx.get(Node, node.name, live=True)
            raw, version = fresh.to_bytes(), fresh.metadata.resource_version
            continue
        except NotFound:
            return
        return
    raise Conflict(f"the taints of node {node.name} change all the time")


def _state(entry: Entry) -> tuple[object, ...]:
    view = NodeView(entry)
    statuses = tuple((each.type, each.status) for each in view.conditions)
    return statuses, view.taints, view.is_unschedulable, entry.labels


def _is_other(event: ObjectEvent[Any]) -> bool:
    assert event.old is not None
    assert event.new is not None
    return _state(event.old) != _state(event.new)


_MATTERS: Final = Predicate("node_matters", update=_is_other, delete=lambda _: False)
_NEVER: Final = Predicate("never", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
"""For a kind that is only read."""


async def _begin(context: SourceContext) -> None:
    if not context.cluster:
        context.enqueue(_MONITOR, 0)
    context.synced()


def node_lifecycle_controller(recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``recorder`` takes events about nodes and their pods."""
    return NodeLifecycle(recorder).controller()
