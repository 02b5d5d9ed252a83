"""The Node objects of a simulated cluster, and the leases by which they say that they are alive.

Nodes that are missing are made when the program starts; one that somebody deletes later stays away, as a
machine's would whose kubelet does not start again. The more nodes there are, the longer their leases: ten
renewals a second are enough for any number.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

import msgspec

from quarterdeck.api import (
    EMPTY_MAP,
    FrozenMap,
    Key,
    MicroTime,
    ObjectMeta,
    PartialObjectMetadata,
    Quantity,
    Resource,
    Time,
    owner_reference,
)
from quarterdeck.api.k8s import KUBERNETES_VERSION, Lease, Node
from quarterdeck.api.k8s.coordination import LeaseSpec
from quarterdeck.api.k8s.node import NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.cluster.node import names
from quarterdeck.errors import AlreadyExists, NotFound, ignore_already_exists
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Requeue, Result
from quarterdeck.runtime.controller.source import FunctionSource, SourceContext
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.operator.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context

__all__ = ["NAME", "NodeRegistration", "NodeSettings", "make_node"]

NAME: Final = "simulated-node-controller"
LEASE_NAMESPACE: Final = "kube-node-lease"
_RENEWALS_PER_SECOND: Final = 10
_SHORTEST_PERIOD: Final = 10.0
_PERIODS_PER_LEASE: Final = 4
_HOSTS: Final = ipaddress.ip_network("10.64.0.0/10")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TROUBLES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes there are."""

    count: int = 0
    prefix: str = "node-"
    """Nodes are called ``<prefix><number>``, from 0."""
    capacity: Mapping[str, str] = FrozenMap({"cpu": "32", "memory": "256Gi", "pods": "110"})
    """Resources of each node, all of them allocatable."""
    labels: Mapping[str, str] = EMPTY_MAP
    """Labels beyond those of a kubelet."""

    def name(self, number: int) -> str:
        """The name of a node."""
        return f"{self.prefix}{number}"


def make_node(settings: NodeSettings, number: int, now: Time) -> Node:
    """A Node that is ready, as its kubelet would register it."""
    name = settings.name(number)
    labels = {"hostname": name, "os": "linux", "arch": "amd64"}
    capacity = {resource: Quantity(amount) for resource, amount in settings.capacity.items()}
    ready = ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status")
    fine = ((type, "False", reason, message) for type, reason, message in _TROUBLES)
    return Node(
        metadata=ObjectMeta(
            name=name,
            labels={
                **{f"kubernetes.io/{key}": value for key, value in labels.items()},
                **settings.labels,
                names.SIMULATED: "true",
            },
        ),
        status=NodeStatus(
            capacity=capacity,
            allocatable=capacity,
            addresses=(
                NodeAddress(type="InternalIP", address=str(_HOSTS[number + 1])),
                NodeAddress(type="Hostname", address=name),
            ),
            conditions=tuple(
                NodeCondition(
                    type=type,
                    status=status,
                    reason=reason,
                    message=message,
                    last_heartbeat_time=now,
                    last_transition_time=now,
                )
                for type, status, reason, message in (*fine, ready)
            ),
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


class NodeRegistration(Reconciler[Resource]):
    """Makes the nodes and renews their leases; ``controller`` makes the controller."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings: Final = settings
        self._numbers: Final = {settings.name(number): number for number in range(settings.count)}
        self._made: Final[set[str]] = set()
        self._period: Final = max(_SHORTEST_PERIOD, settings.count / _RENEWALS_PER_SECOND)
        self._clock: Final = LoopClock()

    @property
    def is_complete(self) -> bool:
        """Whether all nodes have been made."""
        return len(self._made) == len(self._numbers)

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Make a node, or renew its lease."""
        name = ctx.key.name
        if name not in self._made:
            await self._register(ctx, name)
            self._made.add(name)
        try:
            node = await ctx.get(metadata_of(Node), name, live=True)
        except NotFound:
            return None
        await self._renew(ctx, node)
        return Requeue(after=self._period)

    async def _register(self, ctx: Context[Resource], name: str) -> None:
        try:
            node = await ctx.create(make_node(self._settings, self._numbers[name], ctx.now()))
        except AlreadyExists:
            return
        taints = [each for each in node.spec.taints if each.key != _NOT_READY]
        if len(taints) < len(node.spec.taints):  # an API server takes a new node for one that is not ready
            await ctx.patch(node, MergePatch({"spec": {"taints": taints or None}}))

    async def _renew(self, ctx: Context[Resource], node: PartialObjectMetadata) -> None:
        now = MicroTime.of_timestamp(self._clock.time())
        lease = Lease(
            metadata=ObjectMeta(
                name=node.metadata.name,
                namespace=LEASE_NAMESPACE,
                owner_references=(owner_reference(node),),
            ),
            spec=LeaseSpec(
                holder_identity=node.metadata.name,
                lease_duration_seconds=int(self._period * _PERIODS_PER_LEASE),
                renew_time=now,
            ),
        )
        try:
            await ctx.client.patch(lease, MergePatch({"spec": {"renewTime": now}}))
        except NotFound:
            with ignore_already_exists():
                await ctx.create(lease)

    async def _all(self, context: SourceContext) -> None:
        for name in self._numbers:
            context.enqueue(Key("", name, context.cluster), 0)
        context.synced()

    def controller(self) -> Controller[Resource]:
        """The controller, for ``manager.add``."""
        return (
            Builder[Resource](name=NAME)
            .source(FunctionSource(self._all, name="nodes"))
            .rbac(
                Rule(groups=("",), resources=("nodes",), verbs=("create", "get", "patch")),
                Rule(groups=("coordination.k8s.io",), resources=("leases",), verbs=("create", "patch")),
            )
            .options(field_manager="kubelet")
            .build(self)
        )
