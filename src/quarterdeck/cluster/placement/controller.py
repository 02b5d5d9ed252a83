"""Binds pods of the default scheduler to nodes.

All pods that wait are placed in one round, the most important first. A round takes place a moment after
something happened that may make a difference: a pod came, one ended or went, a node or a claim changed. The
runtime starts no round before the cache shows the bindings of the last one.

A pod for which there is no room may make less important ones go (``preemption``); until they are gone, its
place is kept. A pod whose claims wait for a first consumer gets its node when they have their volumes.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from quarterdeck.api import Key, ObjectMeta, Resource, Selector, Time, value_or
from quarterdeck.api.k8s import (
    Binding,
    CSINode,
    DeviceClass,
    Namespace,
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    VolumeAttachment,
)
from quarterdeck.client import MergePatch, StrategicMergePatch
from quarterdeck.cluster.placement.device import (
    DeviceReader,
    give_devices,
    give_up_devices,
    problem_of,
    uses_devices,
)
from quarterdeck.cluster.placement.podtable import PodTable, Waiting
from quarterdeck.cluster.placement.preemption import Budget, Plan, Preemption
from quarterdeck.cluster.placement.state import ELSEWHERE, PlacementState
from quarterdeck.cluster.placement.volume import VolumeReader
from quarterdeck.cluster.placement.volumelimit import VolumeLimits
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.cluster.volume.names import SELECTED_NODE
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result
from quarterdeck.scheduler.device import Allocation
from quarterdeck.scheduler.intake import node_info
from quarterdeck.scheduler.model.claim import Claims
from quarterdeck.scheduler.snapshot import NodeInfo, PodInfo

NAME: Final = "default-scheduler"
_ROUND: Final = Key("", "round")
_EVENTS_PER_ROUND: Final = 200
"""Events are for people: of a round that places thousands of pods, the first are enough."""
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_Given: TypeAlias = list[tuple[str, Allocation | None]]
"""What the claims of a pod are to have, by their names."""


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the default scheduler works."""

    names: tuple[str, ...] = (NAME,)
    """Pods of these ``schedulerName``s are placed; empty: all pods."""
    checks_nodes: bool = True
    """Whether a node must suit a pod; otherwise any pod may go to any node, which suits some tests."""
    batch_period: float = 0.02
    """Seconds to wait for more pods before a round."""
    batch_period_per_pod: float = 0.00005
    """Added to it for each pod of the cluster: every round that places pods looks at all of them."""


class _Refused(NamedTuple):
    """A pod that gets no node in this round."""

    waiting: Waiting
    preemption: str = ""
    """Why others are not made to go for it."""
    text: str = ""
    plan: Plan | None = None

    def told(self, state: PlacementState) -> _Refused:
        """With the text, once all others have their nodes."""
        if self.text:
            return self
        text = state.refusal(self.waiting.demand)
        return self._replace(text=f"{text} preemption: {self.preemption}" if state.nodes else text)


class _Scheduler(Reconciler[Resource]):
    def __init__(self, settings: SchedulerSettings, recorder: Recorder) -> None:
        self._settings: Final = settings
        self._recorder: Final = recorder
        self._pods: Final = PodTable(settings.names)
        self._told: dict[str, str] = {}
        self._events_left = 0
        self._nodes: dict[str, tuple[str, NodeInfo]] = {}
        self._nominated: dict[str, str] = {}
        self._devices: Final = DeviceReader()

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """One round."""
        waiting = self._pods.look(ctx.cache)
        if not waiting:
            self._nominated = {}
            return None
        waiting.sort(
            key=lambda each: (-each.demand.priority, each.info.created, each.info.namespace, each.info.name)
        )
        placed = self._pods.placed
        everybody = [*(each.info for each in placed), *(each.info for each in waiting)]
        labels = {each.metadata.name: each.metadata.labels for each in await ctx.list(Namespace)}
        nodes = self._node_infos(ctx.cache)
        state = PlacementState(
            nodes,
            everybody,
            labels,
            claims=self._claims(ctx.cache, waiting),
            limits=self._limits(ctx.cache),
            checks_nodes=self._settings.checks_nodes,
        )
        preemption = Preemption(state, placed, await _budgets(ctx))
        bindings: list[tuple[Waiting, str, _Given]] = []
        refused: list[_Refused] = []
        for each in waiting:
            node = state.place(each.demand)
            if not node:
                refused.append(self._turn_down(each, state, preemption))
            elif each.unbound:
                await self._select_node(ctx, each, node)
            else:
                bindings.append((each, node, state.allocations(each.info)))
        self._events_left = _EVENTS_PER_ROUND
        errors = await attempt_all(bindings, lambda one: self._bind(ctx, *one))
        refused = [each.told(state) for each in refused]
        news = [each for each in refused if each.plan or self._told.get(each.waiting.info.uid) != each.text]
        errors += await attempt_all(news, lambda each: self._refuse(ctx, each))
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            # The next round sees what became of it: who has a node by then is asked no more.
            raise first
        self._told = {each.waiting.info.uid: each.text for each in refused}
        kept = {each.waiting.info.uid for each in refused}
        self._nominated = {uid: node for uid, node in self._nominated.items() if uid in kept}
        return None

    def _claims(self, cache: Cache, waiting: list[Waiting]) -> Claims | None:
        """The claims for devices, if any pod waits for some; pods whose claims are hopeless are told."""
        users = [each for each in waiting if each.info.claims]
        if not users:
            return None
        claims, account = self._devices.claims(cache)
        for each in users:
            problem = each.demand.problem or problem_of(each.info, account, cache)
            each.demand = msgspec.structs.replace(each.demand, problem=problem)
        return claims

    def _limits(self, cache: Cache) -> VolumeLimits | None:
        """What nodes can have attached, if anything is limited."""
        volumes = VolumeReader(cache)
        limits = volumes.limits()
        if not limits:
            return None
        counted = {
            entry.uid: found
            for entry, claims in self._pods.with_volumes()
            if (found := volumes.attachable(entry.namespace, claims))
        }
        return VolumeLimits(limits, counted, volumes.attached())

    def _turn_down(self, waiting: Waiting, state: PlacementState, preemption: Preemption) -> _Refused:
        """There is no node for a pod now: see who could make room, and keep the place that is promised."""
        demand = waiting.demand
        uid = demand.info.uid
        promised = self._nominated.get(uid) or demand.info.nominated_node
        if promised and preemption.is_under_way(promised, demand.priority):
            state.reserve(demand.info, promised)
            return _Refused(waiting, "not eligible due to a terminating pod on the nominated node.")
        if not demand.preempts:
            return _Refused(waiting, "not eligible due to preemptionPolicy=Never.")
        found = preemption.plan(demand)
        if isinstance(found, str):
            self._nominated.pop(uid, None)
            return _Refused(waiting, found)
        # Said before the place is kept: it counts who is there now.
        text = state.refusal(demand)
        state.reserve(demand.info, found.node)
        self._nominated[uid] = found.node
        return _Refused(waiting, text=text, plan=found)

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

    async def _bind(self, ctx: Context[Resource], waiting: Waiting, node: str, given: _Given) -> None:
        pod = _reference(waiting.entry)
        if given and not await give_devices(ctx.client, ctx.cache, waiting.info, given):
            return  # a claim changed, and its event brings the next round
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

    async def _select_node(self, ctx: Context[Resource], waiting: Waiting, node: str) -> None:
        """Tell who provides volumes where a pod will run; it is bound when they are there."""
        patch = MergePatch({"metadata": {"annotations": {SELECTED_NODE: node}}})
        for name in waiting.unbound:
            try:
                await ctx.client.patch(
                    PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace=waiting.info.namespace)),
                    patch,
                )
            except (NotFound, Conflict):
                return

    async def _evict(self, ctx: Context[Resource], victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Make a pod go for a more important one."""
        pod = Pod(metadata=ObjectMeta(name=victim.name, namespace=victim.namespace, uid=victim.uid))
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": ctx.now(),
            "reason": "PreemptionByScheduler",
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
        }
        try:
            await ctx.client.status.patch(pod, StrategicMergePatch({"status": {"conditions": [condition]}}))
            await ctx.client.delete(pod)
        except (NotFound, Conflict):
            return
        text = f"Preempted by pod {preemptor.uid} on node {node}"
        self._tell(pod, "Normal", "Preempted", "Preempting", text)

    async def _refuse(self, ctx: Context[Resource], refused: _Refused) -> None:
        """Say why a pod has no node, unless it says so already; make room for it if that is the plan."""
        waiting, text, plan = refused.waiting, refused.text, refused.plan
        if plan is not None:
            for victim in plan.victims:
                await self._evict(ctx, victim, waiting.info, plan.node)
        elif ELSEWHERE in text:
            await give_up_devices(ctx.client, ctx.cache, waiting.info)
        pod = Pod.from_bytes(waiting.entry.raw)
        known = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        if plan is None and known is not None and (known.status, known.message) == ("False", text):
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
        status: dict[str, Any] = {"conditions": [condition]}
        if plan is not None:
            status["nominatedNodeName"] = plan.node
        patch = {"metadata": seen, "status": status}
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


async def _budgets(ctx: Context[Resource]) -> list[Budget]:
    """The budgets that limit whom others may drive away."""
    return [
        Budget(
            each.metadata.namespace,
            Selector.of(each.spec.selector or None),
            value_or(each.status.disruptions_allowed, 0),
        )
        for each in await ctx.list(PodDisruptionBudget)
    ]


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
    return old.generation != new.generation or old.labels is not new.labels or uses_devices(new)


_POD_MATTERS: Final = Predicate("pod_matters", create=_is_waiting, update=_makes_a_difference)


def scheduler_controller(settings: SchedulerSettings, recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``."""
    mapper, scheduler = _NextRound(), _Scheduler(settings, recorder)
    return (
        Builder[Resource](name=NAME)
        .watches(Namespace, predicates=[_NOTHING])
        .watches(PodDisruptionBudget, predicates=[_NOTHING])
        .watches(StorageClass, predicates=[_NOTHING])
        .watches(DeviceClass, to=mapper, delay=scheduler.batch_period)
        .watches(ResourceSlice, to=mapper, delay=scheduler.batch_period)
        .watches(ResourceClaim, to=mapper, delay=scheduler.batch_period)
        .watches(CSINode, to=mapper, delay=scheduler.batch_period)
        .watches(VolumeAttachment, to=mapper, delay=scheduler.batch_period)
        .watches(PersistentVolume, to=mapper, delay=scheduler.batch_period)
        .watches(PersistentVolumeClaim, to=mapper, delay=scheduler.batch_period)
        .watches(Pod, to=mapper, delay=scheduler.batch_period, predicates=[_POD_MATTERS])
        .watches(Node, to=mapper, delay=scheduler.batch_period)
        .rbac(
            Rule(groups=("",), resources=("pods", "nodes"), verbs=("get", "list", "watch")),
            Rule(groups=("",), resources=("pods",), verbs=("delete",)),
            Rule(groups=("",), resources=("persistentvolumeclaims",), verbs=("patch",)),
            Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
            Rule(
                groups=("resource.k8s.io",),
                resources=("resourceclaims", "resourceclaims/binding", "resourceclaims/status"),
                verbs=("patch",),
            ),
            Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
        )
        .options(max_concurrent_reconciles=1, backoff_cap=5.0, field_manager="kube-scheduler")
        .build(scheduler)
    )


_NOTHING: Final = Predicate("nothing", create=lambda _: False, update=lambda _: False, delete=lambda _: False)
"""For a kind that is only read."""
