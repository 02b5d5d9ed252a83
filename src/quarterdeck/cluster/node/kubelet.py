"""The kubelets of all simulated nodes in one controller: pods bound to them run without containers.

What a pod does is up to its annotations and the settings (``behavior``); a program or a test may also say it
for single pods (``override``). Where there are Stages of KWOK for pods, those say it, and nothing else does.
Nothing happens on a node that is not Ready or has failed.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import Key, Time, to_dict, value_or
from quarterdeck.api.k8s import Node, Pod, PodStatus
from quarterdeck.cluster.node import names
from quarterdeck.cluster.node.admission import Rejection, port_rejection
from quarterdeck.cluster.node.behavior import Behavior, Script
from quarterdeck.cluster.node.happening import happenings
from quarterdeck.cluster.node.lifecycle import InitGate, Life, Place, begin_of, stage_of
from quarterdeck.cluster.node.lifecycle import Stage as LifeStage
from quarterdeck.cluster.node.registration import is_failed
from quarterdeck.cluster.node.room import NodeRoom, amounts_wanted, whole_amounts
from quarterdeck.cluster.node.statuspatch import status_patch
from quarterdeck.cluster.podhead import pod_head
from quarterdeck.cluster.stage.follower import StageFollower
from quarterdeck.cluster.stage.function import Surroundings
from quarterdeck.cluster.stage.types import Stage
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry, node_name
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import (
    Predicate,
    annotations_changed,
    condition_changed,
    labels_changed,
)
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "simulated-kubelet"
EVENT_SOURCE: Final = "kubelet"
_WORKERS: Final = 8
_TELLS_AT_ONCE: Final = 100
"""Changes of pods that events are written about at once; more than that only so many a second."""
_TELLS_PER_SECOND: Final = 5.0
_ADDRESSES: Final = ipaddress.ip_network("10.128.0.0/9")
_NO_ADDRESS: Final = "127.0.0.1"
_ENDED: Final = ("Succeeded", "Failed")
_NO_ROOM: Final = 5.0
"""Seconds until a pod tries again to get an address of its node's range."""


_Mark = tuple[LifeStage, int, int]
"""What changes when a stage begins: the stage, init containers that ended, restarts."""


class _Memory(msgspec.Struct):
    """What the status of a pod does not tell, or not exactly enough.

    It holds for one pod on one node, as long as its status is at the mark: a server that goes back to a
    backup has pods again as they were before they ended, started, or came to their node.
    """

    uid: str
    node: str
    mark: _Mark
    began: float
    """When its stage began."""
    ip: str = ""
    is_told: bool = False
    """Whether it was told that there is no address for it."""
    settled: str = ""
    """The version of the pod at which nothing more will happen by itself; empty if something will."""
    is_writing: bool = False
    unheard: str = ""
    """The version of the pod that was seen last while its status was being written."""


class Kubelet(Reconciler[Pod]):
    """Runs the pods of simulated nodes; ``controller`` makes the controller."""

    def __init__(self, behavior: Behavior | None = None, *, init_gate: InitGate | None = None) -> None:
        """``init_gate`` holds init containers back until it says yes; it is asked every second."""
        self._behavior = behavior if behavior is not None else Behavior()
        self._init_gate: Final = init_gate
        self._clock: Final = LoopClock()
        self._pods: dict[Key, _Memory] = {}
        self._room: Final = NodeRoom()
        self._overrides: dict[Key, Script] = {}
        self._addresses: dict[str, str] | None = None
        """Whose each address is, by the uid of the pod."""
        self._next_address = int(_ADDRESSES.network_address)
        self._controller: Controller[Pod] | None = None
        self._recorder: Recorder | None = None
        self._stages: Final = StageFollower()
        self._started: Final = Time.of_timestamp(self._clock.time())
        self._breath = float(_TELLS_AT_ONCE)
        self._breathed = 0.0

    def behave(self, behavior: Behavior) -> None:
        """How pods behave from now on; those that run follow suit at their next change."""
        self._behavior = behavior
        for memory in self._pods.values():
            memory.settled = ""

    def override(self, pod: Key, script: Script | None) -> None:
        """Say what a pod of this name does, whatever it says itself; ``None`` takes it back."""
        if script is None:
            self._overrides.pop(pod, None)
        else:
            self._overrides[pod] = script
        if pod in self._pods:
            self._pods[pod].settled = ""
        if self._controller is not None:
            self._look_again(pod)

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a pod."""
        self._forget(ctx.key)

    def _forget(self, key: Key) -> None:
        """Give the place and the address of a pod that is gone away."""
        self._stages.forget(key)
        self._room.release(key)
        memory = self._pods.pop(key, None)
        if memory is not None and self._owns(memory):
            assert self._addresses is not None
            del self._addresses[memory.ip]

    def _owns(self, memory: _Memory) -> bool:
        """Whether the address that a pod was given is still its own."""
        return self._addresses is not None and self._addresses.get(memory.ip) == memory.uid

    async def reconcile(self, ctx: Context[Pod]) -> Result | None:
        """Take a pod as far as it has got by now."""
        if self._is_settled(ctx):
            return None
        rules = self._stages.rules(ctx.cache)
        pod = ctx.obj
        if not pod.spec.node_name:
            self._forget(ctx.key)
            return None
        node = await _simulated_node(ctx, pod.spec.node_name)
        if node is None:
            return None
        now = self._clock.time()
        memory = self._recall(pod, now)
        place = self._place(ctx.cache, pod, node, memory)
        if not place.pod_ip and not pod.metadata.is_deleting:
            if not memory.is_told:
                text = (
                    f"failed to set up the network: no IP addresses available in range {node.spec.pod_cidr}"
                )
                ctx.event("Warning", "FailedCreatePodSandBox", text)
                memory.is_told = True
            return Requeue(after=_NO_ROOM)
        if rules is not None:
            around = Surroundings(
                now=str(Time.of_timestamp(now)),
                started=str(self._started),
                node_ip=place.host_ip,
                pod_ip=place.pod_ip,
            )
            return await self._stages.follow(ctx, rules, around, now=now, recorder=self._recorder)
        script = self._overrides.get(ctx.key) or self._behavior.script(pod)
        life = Life(script, self._behavior, place, now=now, gate=self._init_gate)
        if pod.metadata.is_deleting:
            return await self._stop(ctx, memory, life)
        if stage_of(pod) is LifeStage.NEW:
            rejection = self._admit(ctx.cache, pod, node)
            if rejection is not None:
                await self._write(ctx, memory, rejection.status(pod, Time.of_timestamp(now)))
                return None
        step = life.advance(pod, now - memory.began)
        if step.status is not None:
            if script.mistakes and stage_of(pod) is LifeStage.NEW:
                ctx.event("Warning", "InvalidAnnotation", f"ignored: {', '.join(script.mistakes)}")
            if not await self._write(ctx, memory, step.status):
                return None
            if (mark := _mark(ctx.obj)) != memory.mark:
                memory.mark, memory.began = mark, now
        after = step.after
        if step.status is not None and after == 0:
            following = life.advance(ctx.obj, now - memory.began)
            after = following.after if following.status is None else 0.0
            if after == 0:
                self._look_again(ctx.key)
        # A deletion that came while the status was written is part of the answer, and still to be seen to.
        is_settled = after == math.inf and not ctx.obj.metadata.is_deleting
        memory.settled = ctx.obj.metadata.resource_version if is_settled else ""
        return Requeue(after=after) if 0 < after < math.inf else None

    def _look_again(self, key: Key) -> None:
        assert self._controller is not None
        self._controller.queue.add(key)

    def _is_settled(self, ctx: Context[Pod]) -> bool:
        entry = ctx.cache.informer(Pod).get(ctx.key.namespace, ctx.key.name)
        return entry is not None and self._is_echo(ctx.key, entry)

    def _is_echo(self, key: Key, entry: Entry) -> bool:
        """Whether this is only what was written last: most pods change once and then run."""
        memory = self._pods.get(key)
        return memory is not None and bool(memory.settled) and entry.resource_version == memory.settled

    def _matters(self, event: ObjectEvent[Any]) -> bool:
        if not _is_on_a_node(event):
            # from a node back to none: only a server that goes back to a backup does that
            return event.old is not None and bool(pod_head(event.old).node)
        memory = self._pods.get(event.key)
        if memory is not None and memory.is_writing:
            # Most often what is being written; whether there was more is known when the answer is.
            memory.unheard = event.entry.resource_version
            return False
        return not self._is_echo(event.key, event.entry)

    async def _stop(self, ctx: Context[Pod], memory: _Memory, life: Life) -> Result | None:
        """End a pod that is being deleted: its containers stop, then it goes."""
        pod = ctx.obj
        grace = value_or(pod.metadata.deletion_grace_period_seconds, 0)
        deadline = pod.metadata.deletion_timestamp
        if stage_of(pod) is not LifeStage.ENDED:
            asked = deadline.timestamp() - grace if isinstance(deadline, Time) else life.now
            left = asked + min(life.script.stop_seconds, grace) - life.now
            if left > 0:
                return Requeue(after=left)
            if not await self._write(ctx, memory, life.stop(pod)):
                return None
        if grace == 0 and pod.metadata.finalizers:
            return None  # it waits for others
        with ignore_not_found():
            await ctx.delete(pod, grace_period=0)
        return None

    async def _write(self, ctx: Context[Pod], memory: _Memory, status: PodStatus) -> bool:
        """Write a status and tell of it; returns whether the pod is still there."""
        pod = ctx.obj
        memory.is_writing, memory.unheard = True, ""
        try:
            if not await _store(ctx, status):
                return False
        finally:
            memory.is_writing = False
            written = ctx.obj.metadata
            was_deleted = written.is_deleting and not pod.metadata.is_deleting
            if was_deleted or memory.unheard not in ("", written.resource_version):
                self._look_again(ctx.key)
        if status.phase in _ENDED:
            self._room.release(ctx.key)
        if self._recorder is not None and self._has_breath():
            for each in happenings(pod, status):
                self._recorder.event(
                    pod,
                    each.type,
                    each.reason,
                    "Run",
                    each.text,
                    field_path=each.field_path,
                    host=pod.spec.node_name,
                )
        return True

    def _has_breath(self) -> bool:
        """Whether there is room for the events of another pod: of very many, the first are told of."""
        now = self._clock.monotonic()
        passed, self._breathed = now - self._breathed, now
        self._breath = min(self._breath + passed * _TELLS_PER_SECOND, float(_TELLS_AT_ONCE))
        if self._breath < 1:
            return False
        self._breath -= 1
        return True

    def _pods_on_node(self, ctx: MapContext, node: Node) -> Iterable[Key]:
        """All pods of a node: a new one of that name may have another address."""
        keys = [pod.key for pod in ctx.cache.lookup(Pod, node_name(node.metadata.name))]
        for key in keys:
            if key in self._pods:
                self._pods[key].settled = ""
        return keys

    def _pods_of_stages(self, ctx: MapContext, stage: Stage) -> Iterable[Key]:
        """A stage that comes, changes or goes concerns all pods."""
        for memory in self._pods.values():
            memory.settled = ""
        return list(self._pods)

    def _recall(self, pod: Pod, now: float) -> _Memory:
        uid, node, mark = pod.metadata.uid, pod.spec.node_name, _mark(pod)
        memory = self._pods.get(pod.key)
        if memory is None or (memory.uid, memory.node) != (uid, node):
            self._forget(pod.key)  # an earlier pod of this name, or this one before it came here
            memory = self._pods[pod.key] = _Memory(uid, node, mark, begin_of(pod, now))
        elif memory.mark != mark:
            memory.mark, memory.began = mark, begin_of(pod, now)
        if pod.status.pod_ip and not (memory.ip == pod.status.pod_ip and self._owns(memory)):
            memory.ip = pod.status.pod_ip
            if self._addresses is not None:
                self._addresses[memory.ip] = uid
        self._keep_place(pod, mark[0])
        return memory

    def _keep_place(self, pod: Pod, stage: LifeStage) -> None:
        """A pod that runs has its place, and one that has ended has none, whoever said so."""
        node = pod.spec.node_name
        if stage is LifeStage.ENDED:
            self._room.release(pod.key)
        elif stage is not LifeStage.NEW and self._room.knows(node) and not self._room.holds(pod.key, node):
            self._room.take(pod.key, node, amounts_wanted(to_dict(pod)))

    def _admit(self, cache: Cache, pod: Pod, node: Node) -> Rejection | None:
        """Give a pod its place on its node, or say why it has none."""
        name = node.metadata.name
        if not self._room.knows(name):  # pods may be older than this process
            there = cache.lookup(Pod, node_name(name))
            started = [each for each in there if stage_of(each) not in (LifeStage.NEW, LifeStage.ENDED)]
            self._room.count(name, ((each.key, amounts_wanted(to_dict(each))) for each in started))
        taken = port_rejection(pod, lambda: cache.lookup(Pod, node_name(name)))
        if taken is not None:
            return taken
        offered = whole_amounts(node.status.allocatable)
        return self._room.admit(pod.key, name, amounts_wanted(to_dict(pod)), offered)

    def _place(self, cache: Cache, pod: Pod, node: Node, memory: _Memory) -> Place:
        internal = (each.address for each in node.status.addresses if each.type == "InternalIP")
        host = next(internal, _NO_ADDRESS)
        if pod.spec.host_network is True:
            return Place(host_ip=host, pod_ip=host)
        if not memory.ip or (self._addresses is not None and not self._owns(memory)):
            memory.ip = self._take_address(cache, node.spec.pod_cidr, memory.uid)
        return Place(host_ip=host, pod_ip=memory.ip)

    def _take_address(self, cache: Cache, pod_range: str, uid: str) -> str:
        """An address that no other pod has, of the node's range if it has one; empty if there is none."""
        if self._addresses is None:  # pods may be older than this process
            informer = cache.informer(Pod)
            pods = map(informer.decoder(Pod).once, informer.entries())
            self._addresses = {pod.status.pod_ip: pod.metadata.uid for pod in pods if pod.status.pod_ip}
        if pod_range:
            hosts = map(str, ipaddress.ip_network(pod_range, strict=False).hosts())
            address = next((each for each in hosts if each not in self._addresses), "")
            if address:
                self._addresses[address] = uid
            return address
        while True:
            self._next_address += 1
            if self._next_address >= int(_ADDRESSES.broadcast_address):
                self._next_address = int(_ADDRESSES.network_address) + 1
            address = str(ipaddress.IPv4Address(self._next_address))
            if address not in self._addresses:
                self._addresses[address] = uid
                return address

    def controller(self, recorder: Recorder | None = None) -> Controller[Pod]:
        """The controller, for ``manager.add``; ``recorder`` takes what kubelets tell of pods."""
        self._recorder = recorder
        made: Controller[Pod] = (
            Builder(name=NAME)
            .for_(Pod, predicates=[Predicate("matters", create=_is_on_a_node, update=self._matters)])
            .watches(Node, to=self._pods_on_node, predicates=[_NODE_MATTERS])
            .watches(Stage, to=self._pods_of_stages, optional=True)
            .indexes(Pod, node_name)
            .rbac(
                Rule(groups=("",), resources=("pods",), verbs=("delete", "patch")),
                Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
            )
            .options(max_concurrent_reconciles=_WORKERS, field_manager="kubelet")
            .build(self)
        )
        self._controller = made
        return made


async def _simulated_node(ctx: Context[Pod], name: str) -> Node | None:
    """The node if it is simulated, ready and not down."""
    try:
        node = await ctx.get(Node, name) if name else None
    except NotFound:
        return None
    if node is None or node.metadata.labels.get(names.SIMULATED) != "true" or is_failed(node):
        return None
    is_ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return node if is_ready else None


async def _store(ctx: Context[Pod], status: PodStatus) -> bool:
    """Write what is new in the status of the pod; returns whether the pod is still there."""
    patch = status_patch(ctx.obj, status)
    if patch is None:
        return True
    try:
        ctx.replace(await ctx.client.status.patch(ctx.obj, patch))
    except NotFound:
        ctx.note_gone()
        return False
    return True


def _mark(pod: Pod) -> _Mark:
    ended = sum(1 for each in pod.status.init_container_statuses if each.state.terminated)
    restarts = sum(value_or(each.restart_count, 0) for each in pod.status.container_statuses)
    return stage_of(pod), ended, restarts


def _is_on_a_node(event: ObjectEvent[Any]) -> bool:
    return bool(pod_head(event.entry).node)


_NODE_MATTERS: Final = condition_changed("Ready") | labels_changed | annotations_changed
