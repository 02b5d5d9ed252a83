"""Sets of nodes that pods are placed on, and their order for bin-packing and spreading.

The set of all nodes and those of topology domains last for the whole cycle. They keep their nodes sorted by
what is free, so that the best node for a pod is found without looking at all of them. Sets made for a search
are views of a lasting one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.settings import Placement

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.task import Shape

Key = tuple[bool, float, int]

_LOOK_AT_ALL: Final = 16
"""A view of so few nodes is sorted when it is asked."""


def order_key(node: NodeState, needs_gpu: bool, placement: Placement) -> Key:
    """Sort key of a node for pods that need GPUs or not; the best node is first."""
    free = node.free.gpu if needs_gpu else node.free.cpu
    worse = needs_gpu != node.has_gpus
    if placement == "binpack":
        return (worse, free, node.rank)
    total = node.info.allocatable.gpu if needs_gpu else node.info.allocatable.cpu
    return (worse, -free / total if total else 0.0, node.rank)


class NodeOrder:
    """The nodes of a set in the order in which pods of one kind take them.

    Nodes that changed find their new position when the order is needed next: a search changes many and
    takes most of it back.
    """

    __slots__ = ("_by_rank", "_changed", "_keys", "_order", "needs_gpu", "placement")

    def __init__(self, nodes: Sequence[NodeState], needs_gpu: bool, placement: Placement) -> None:
        self.needs_gpu: Final = needs_gpu
        self.placement: Final = placement
        self._by_rank: Final = {node.rank: node for node in nodes}
        self._keys: Final = {node.rank: self.key(node) for node in nodes}
        self._order: Final = sorted(self._keys.values())
        self._changed: set[NodeState] = set()
        for node in nodes:
            node.observers.append(self)

    def key(self, node: NodeState) -> Key:
        return order_key(node, self.needs_gpu, self.placement)

    def freed(self, node: NodeState, cpu: int, memory: int, gpu: float) -> None:
        """Note that a node changed."""
        self._changed.add(node)

    def freed_scalar(self, name: str, amount: int) -> None:
        """Other resources do not matter here."""

    def _settle(self) -> None:
        order, keys = self._order, self._keys
        for node in self._changed:
            old, new = keys[node.rank], self.key(node)
            if old != new:
                del order[bisect_left(order, old)]
                insort(order, new)
                keys[node.rank] = new
        self._changed.clear()

    def walk(self, need: float) -> Iterator[NodeState]:
        """Nodes, best first, without those that have less than the need (when bin-packing)."""
        if self._changed:
            self._settle()
        order, by_rank = self._order, self._by_rank
        if self.placement == "spread":
            for _, _, rank in order:
                yield by_rank[rank]
            return
        for worse in (False,) if self.needs_gpu else (False, True):
            at = bisect_left(order, (worse, need, -1))
            while at < len(order) and order[at][0] == worse:
                yield by_rank[order[at][2]]
                at += 1


class NodeSet:
    """Nodes in the order of their names."""

    __slots__ = ("_base", "_orders", "members", "nodes")

    def __init__(self, nodes: Sequence[NodeState], base: NodeSet | None = None) -> None:
        """``base`` is a lasting set that has all these nodes; without it the set is lasting itself."""
        self.nodes: Final = sorted(nodes, key=lambda node: node.rank)
        self.members: Final = frozenset(self.nodes)
        self._base: Final = base
        self._orders: dict[bool, NodeOrder] = {}

    def __contains__(self, node: NodeState) -> bool:
        return node in self.members

    @property
    def is_lasting(self) -> bool:
        return self._base is None

    def view(self, nodes: Collection[NodeState]) -> NodeSet:
        """A set of some of these nodes."""
        return NodeSet(list(nodes), self._base or self)

    def walk(self, shape: Shape, placement: Placement) -> Iterator[NodeState]:
        """Nodes that may have enough for a pod, best first as far as packing decides."""
        need = shape.gpu if shape.needs_gpu else shape.cpu
        if self._base is None:
            order = self._orders.get(shape.needs_gpu)
            if order is None:
                order = self._orders[shape.needs_gpu] = NodeOrder(self.nodes, shape.needs_gpu, placement)
            return order.walk(need)
        if len(self.nodes) <= _LOOK_AT_ALL:
            return iter(sorted(self.nodes, key=lambda node: order_key(node, shape.needs_gpu, placement)))
        return (node for node in self._base.walk(shape, placement) if node in self.members)
