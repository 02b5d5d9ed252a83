"""The Node objects of a simulated cluster, and the leases by which they say that they are alive.

Nodes that are missing are made when the program starts; one that somebody deletes later stays away, as a
machine's would whose kubelet does not start again. Every simulated node renews its lease, whoever made it,
unless it has failed. The more nodes there are, the longer their leases: ten renewals a second are enough for
any number.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta, Quantity, Resource, Time, owner_reference
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import KUBERNETES_VERSION, Lease, Node, Taint
from quarterdeck.api.k8s.coordination import LeaseSpec
from quarterdeck.api.k8s.node import NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo
from quarterdeck.client import MergePatch, StrategicMergePatch
from quarterdeck.cluster.node import names
from quarterdeck.cluster.node.profile import NodeSettings, PlannedNode
from quarterdeck.errors import AlreadyExists, NotFound, ignore_already_exists, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate, annotations_changed, condition_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import FunctionSource, SourceContext
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "simulated-node-controller"
LEASE_NAMESPACE: Final = "kube-node-lease"
_RENEWALS_PER_SECOND: Final = 10
_SHORTEST_PERIOD: Final = 10.0
_PERIODS_PER_LEASE: Final = 4
_LAST_LEASE: Final = 40
"""Seconds for which the last lease of a machine lasts that goes down."""
HOSTS: Final = ipaddress.ip_network("10.64.0.0/10")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_FINE: Final = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status"),
)


def make_node(planned: PlannedNode, now: Time) -> Node:
    """A Node that is ready, as its kubelet would register it."""
    capacity = {resource: Quantity(amount) for resource, amount in planned.capacity.items()}
    return Node(
        metadata=ObjectMeta(
            name=planned.name,
            labels={
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": planned.name,
                "kubernetes.io/os": "linux",
                **planned.labels,
                names.SIMULATED: "true",
            },
        ),
        spec=NodeSpec(
            taints=tuple(Taint(key=each.key, value=each.value, effect=each.effect) for each in planned.taints)
        ),
        status=NodeStatus(
            capacity=capacity,
            allocatable=capacity,
            addresses=(
                NodeAddress(type="InternalIP", address=str(HOSTS[planned.number + 1])),
                NodeAddress(type="Hostname", address=planned.name),
            ),
            conditions=_fine(now),
            node_info=NodeSystemInfo(
                architecture="amd64",
                operating_system="linux",
                kubelet_version=KUBERNETES_VERSION,
                os_image="simulated",
                container_runtime_version="simulated://1",
                kernel_version="simulated",
            ),
        ),
    )


def _fine(now: Time) -> tuple[NodeCondition, ...]:
    return tuple(
        NodeCondition(
            type=type,
            status=status,
            reason=reason,
            message=message,
            last_heartbeat_time=now,
            last_transition_time=now,
        )
        for type, status, reason, message in _FINE
    )


class NodeRegistration(Reconciler[Resource]):
    """Makes the nodes and renews their leases; ``controller`` makes the controller."""

    def __init__(self, settings: NodeSettings) -> None:
        self._planned: Final = {each.name: each for each in settings.planned()}
        self._made: Final[set[str]] = set()
        self._alive: Final[set[str]] = set()
        """Nodes that renew their leases."""
        self._clock: Final = LoopClock()

    @property
    def is_complete(self) -> bool:
        """Whether all nodes have been made."""
        return len(self._made) == len(self._planned)

    @property
    def _period(self) -> float:
        number = max(len(self._planned), len(self._alive))
        return max(_SHORTEST_PERIOD, number / _RENEWALS_PER_SECOND)

    async def deleted(self, ctx: DeleteContext) -> None:
        """A node is gone, and its kubelet with it."""
        self._alive.discard(ctx.key.name)

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Make a node, or let it say that it is alive."""
        name = ctx.key.name
        node: Node | None = None
        if name in self._planned and name not in self._made:
            node = await self._register(ctx, self._planned[name])
            self._made.add(name)
        if node is None:
            try:
                node = await ctx.get(Node, name)
            except NotFound:
                self._alive.discard(name)
                return None
        if node.metadata.labels.get(names.SIMULATED) != "true":
            return None
        if is_failed(node):
            if name in self._alive:
                self._alive.discard(name)
                await self._renew(ctx, node, _LAST_LEASE)
            return None
        is_new = name not in self._alive
        self._alive.add(name)
        await self._report(ctx, node)
        await self._renew(ctx, node, int(self._period * _PERIODS_PER_LEASE), is_new=is_new)
        return Requeue(after=self._period)

    async def _register(self, ctx: Context[Resource], planned: PlannedNode) -> Node | None:
        try:
            node = await ctx.create(make_node(planned, ctx.now()))
        except AlreadyExists:
            return None
        taints = [each for each in node.spec.taints if each.key != _NOT_READY]
        if len(taints) < len(node.spec.taints):  # an API server takes a new node for one that is not ready
            await ctx.patch(node, MergePatch({"spec": {"taints": taints or None}}))
        return node

    async def _report(self, ctx: Context[Resource], node: Node) -> None:
        """Say that a node is well of which nothing was known."""
        ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
        if ready is not None and ready.status != "Unknown":
            return
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": list(_fine(ctx.now()))}}
        with ignore_not_found():
            await ctx.client.status.patch(node, StrategicMergePatch(patch))

    async def _renew(self, ctx: Context[Resource], node: Node, seconds: int, *, is_new: bool = False) -> None:
        """Renew a lease; that of a node made a moment ago is probably not there yet."""
        now = MicroTime.of_timestamp(self._clock.time())
        lease = Lease(
            metadata=ObjectMeta(
                name=node.metadata.name,
                namespace=LEASE_NAMESPACE,
                owner_references=(owner_reference(node),),
            ),
            spec=LeaseSpec(
                holder_identity=node.metadata.name, lease_duration_seconds=seconds, renew_time=now
            ),
        )
        if is_new:
            try:
                await ctx.client.create(lease)
            except AlreadyExists:
                pass
            else:
                return
        change = {"spec": {"renewTime": now, "leaseDurationSeconds": seconds}}
        try:
            await ctx.client.patch(lease, MergePatch(change))
        except NotFound:
            with ignore_already_exists():
                await ctx.client.create(lease)

    async def _all(self, context: SourceContext) -> None:
        for name in self._planned:
            context.enqueue(Key("", name, context.cluster), 0)
        context.synced()

    def controller(self) -> Controller[Resource]:
        """The controller, for ``manager.add``."""
        return (
            Builder[Resource](name=NAME)
            .source(FunctionSource(self._all, name="nodes"))
            .watches(Node, predicates=[_SIMULATED, _NEW | _FAILURE | condition_changed("Ready")])
            .rbac(
                Rule(groups=("",), resources=("nodes",), verbs=("create", "get", "patch")),
                Rule(groups=("",), resources=("nodes/status",), verbs=("patch",)),
                Rule(groups=("coordination.k8s.io",), resources=("leases",), verbs=("create", "patch")),
            )
            .options(field_manager="kubelet")
            .build(self)
        )


def is_failed(node: Node) -> bool:
    """Whether the machine of a simulated node is down."""
    return node.metadata.annotations.get(names.FAILED) == "true"


def _is_simulated(event: ObjectEvent[Any]) -> bool:
    return event.entry.labels.get(names.SIMULATED) == "true"


def _fails_or_recovers(event: ObjectEvent[Any]) -> bool:
    before: Node | None = event.old_object
    return before is None or is_failed(event.object) != is_failed(before)


_FAILURE: Final = annotations_changed & Predicate("failure", update=_fails_or_recovers)
_SIMULATED: Final = Predicate("simulated", create=_is_simulated, update=_is_simulated, delete=_is_simulated)
_NEW: Final = Predicate("new", update=lambda _: False)
