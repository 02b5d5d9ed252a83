"""Topology trees: domains of nodes, from the whole cluster down to racks or hosts.

A node belongs to a tree only if it carries the labels of all levels. Domains keep the sum of what is free on
their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import TopologyInfo

if TYPE_CHECKING:
    from quarterdeck.scheduler.model.task import Shape

ROOT: Final = "root"


class Domain:
    """Nodes with the same labels down to some level."""

    __slots__ = (
        "_copies",
        "_nodes",
        "_version",
        "children",
        "cpu",
        "depth",
        "gpu",
        "id",
        "level",
        "memory",
        "parent",
        "scalars",
        "set",
    )

    def __init__(self, identity: str, level: str, parent: Domain | None) -> None:
        self.id: Final = identity
        self.level: Final = level
        self.parent: Final = parent
        self.depth: Final[int] = parent.depth + 1 if parent else 0
        self.children: dict[str, Domain] = {}
        self._nodes: list[NodeState] = []
        self.set = NodeSet(())
        self.cpu = 0
        self.memory = 0
        self.gpu = 0.0
        self.scalars: dict[str, int] = {}
        self._version = 0
        """Changes with what is free."""
        self._copies: dict[Shape, tuple[int, int]] = {}

    def add(self, node: NodeState) -> None:
        """Count a node in."""
        self._nodes.append(node)
        node.observers.append(self)
        self.cpu += node.free.cpu
        self.memory += node.free.memory
        self.gpu += node.free.gpu
        for name, amount in node.free.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + amount

    def seal(self) -> None:
        """All nodes are known."""
        self.set = NodeSet(self._nodes)
        for child in self.children.values():
            child.seal()

    def freed(self, node: NodeState, cpu: int, memory: int, gpu: float) -> None:
        """Keep the sums."""
        self._version += 1
        self.cpu -= cpu
        self.memory -= memory
        self.gpu -= gpu

    def freed_scalar(self, name: str, amount: int) -> None:
        """Keep the sums."""
        self._version += 1
        self.scalars[name] = self.scalars.get(name, 0) - amount

    def copies(self, shape: Shape) -> int:
        """How many pods of a shape will fit on its nodes; remembered as long as nothing changes here."""
        known = self._copies.get(shape)
        if known is not None and known[0] == self._version:
            return known[1]
        if self.children:
            count = sum(child.copies(shape) for child in self.children.values())
        else:
            count = sum(node.copies(shape) for node in self._nodes)
        self._copies[shape] = (self._version, count)
        return count

    @property
    def free(self) -> Resources:
        return Resources(self.cpu, self.memory, self.gpu, tuple(sorted(self.scalars.items())))

    def pressure(self, needed: Resources) -> float:
        """The largest part that a request takes of anything free here; above 1 it cannot fit."""
        ratio = 0.0
        if needed.gpu > 0:
            ratio = needed.gpu / self.gpu if self.gpu > 0 else _NEVER
        for need, free in ((needed.cpu, self.cpu), (needed.memory, self.memory)):
            if need:
                ratio = max(ratio, need / free if free > 0 else _NEVER)
        for name, need in needed.scalars:
            free = self.scalars.get(name, 0)
            ratio = max(ratio, need / free if free > 0 else _NEVER)
        return ratio

    def above(self, depth: int) -> Domain:
        """The domain at a smaller depth that this one is in; itself if it is not deeper."""
        domain = self
        while domain.depth > depth and domain.parent is not None:
            domain = domain.parent
        return domain


_NEVER: Final = float("inf")


class TopologyTree:
    """All domains of a topology."""

    __slots__ = ("_common", "_lowest", "levels", "name", "root")

    def __init__(self, info: TopologyInfo, nodes: Iterable[NodeState]) -> None:
        self.name: Final = info.name
        self.levels: Final = (ROOT, *info.levels)
        """Names of the levels by depth."""
        self.root: Final = Domain(ROOT, ROOT, None)
        self._lowest: dict[NodeState, Domain] = {}
        self._common: dict[tuple[NodeSet, int], Domain] = {}
        for node in nodes:
            if all(level in node.info.labels for level in info.levels):
                self._add(node, info.levels)
        self.root.seal()

    def _add(self, node: NodeState, levels: Sequence[str]) -> None:
        domain, values = self.root, []
        domain.add(node)
        for level in levels:
            values.append(node.info.labels[level])
            identity = ".".join(values)
            child = domain.children.get(identity)
            if child is None:
                child = domain.children[identity] = Domain(identity, level, domain)
            child.add(node)
            domain = child
        self._lowest[node] = domain

    def lowest(self, node: NodeState) -> Domain | None:
        """The narrowest domain of a node; none if it is outside the topology."""
        return self._lowest.get(node)

    def common(self, nodes: NodeSet, deepest: int) -> Domain:
        """The lowest domain that has all nodes of the set, not below a depth."""
        if not nodes.is_lasting:
            return self._find_common(nodes, deepest)
        known = self._common.get((nodes, deepest))
        if known is None:
            known = self._common[nodes, deepest] = self._find_common(nodes, deepest)
        return known

    def _find_common(self, nodes: NodeSet, deepest: int) -> Domain:
        found: Domain | None = None
        for node in nodes.nodes:
            domain = self._lowest.get(node)
            if domain is None:
                continue
            domain = domain.above(deepest)
            if found is None:
                found = domain
                continue
            while found is not domain and found.parent is not None:
                if domain.depth >= found.depth and domain.parent is not None:
                    domain = domain.parent
                else:
                    found = found.parent
            if found.parent is None:
                break
        return found or self.root

    def nodes_in(self, domain: Domain, nodes: NodeSet) -> NodeSet:
        """The nodes of a domain that are in a set."""
        if domain.set.members <= nodes.members:
            return domain.set
        return nodes.view([node for node in domain.set.nodes if node in nodes])

    def depth_of(self, level: str) -> int | None:
        """The depth of a level; none if the topology has no such level."""
        return self.levels.index(level, 1) if level in self.levels[1:] else None


class Topologies:
    """The trees of a cluster, each built when it is first asked for: keeping sums costs time."""

    __slots__ = ("_infos", "_nodes", "_trees")

    def __init__(self, infos: Iterable[TopologyInfo], nodes: Sequence[NodeState]) -> None:
        self._infos: Final = {info.name: info for info in infos}
        self._nodes: Final = nodes
        self._trees: dict[str, TopologyTree] = {}

    def get(self, name: str) -> TopologyTree | None:
        """The tree of a topology; none if there is no such topology."""
        tree = self._trees.get(name)
        if tree is None and name in self._infos:
            tree = self._trees[name] = TopologyTree(self._infos[name], self._nodes)
        return tree
