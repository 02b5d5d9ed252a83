"""Nodes, what is left of them, and who may go where: pure, for one round of the default scheduler.

A pod gets the node that is left with most room: the mean of what is free of its CPU, memory and pod slots.
Among equals the first by name wins, so the same cluster always gets the same answer.

Pods that are alike ask the same question, and the answer changes only where a pod was placed meanwhile.
So nodes are ranked once for each shape of pods, and a node is looked at again when its turn comes. Pods
with affinity or host ports are no such simple case: for them every node is looked at.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.resource import GPU
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.placement.affinity import PodAffinities, has_pod_affinity
from quarterdeck.scheduler.placement.predicate import Predicates
from quarterdeck.scheduler.snapshot import NodeInfo, PodInfo

__all__ = ["PlacementState"]

_NO_NODES: Final = "no nodes available to schedule pods"
_WORDS: Final = {
    "node is unschedulable": "node(s) were unschedulable",
    "node has NotReady condition": "node(s) were not ready",
}
"""What the gang scheduler says in other words."""

_Ranking = list[tuple[float, int, NodeState]]


class PlacementState:
    """The cluster while pods are placed."""

    def __init__(
        self,
        nodes: Iterable[NodeInfo],
        pods: Iterable[PodInfo],
        namespaces: Mapping[str, Mapping[str, str]],
        *,
        checks_nodes: bool = True,
    ) -> None:
        """``pods`` are all that have not ended; without ``checks_nodes`` any pod may go anywhere."""
        ordered = sorted(nodes, key=lambda node: node.name)
        self._nodes: Final = [NodeState(info, rank) for rank, info in enumerate(ordered)]
        self._checks_nodes: Final = checks_nodes
        self._shapes: dict[object, Shape] = {}
        self._rankings: dict[Shape, _Ranking] = {}
        self._refusals: dict[Shape, str] = {}
        known = list(pods)
        self._affinities: Final = PodAffinities(known, namespaces)
        self._predicates: Final = Predicates(self._affinities)
        by_name = {node.name: node for node in self._nodes}
        for pod in known:
            node = by_name.get(pod.node)
            if node is not None:
                self._hold(pod, node, Hold.LEAVING if pod.is_deleted else Hold.RUNNING)

    def place(self, pod: PodInfo) -> str:
        """The node for a pod, which takes its place there; empty if there is none."""
        node = self._best(pod)
        if node is None:
            return ""
        self._hold(pod, node, Hold.RUNNING)
        return node.name

    def refusal(self, pod: PodInfo) -> str:
        """Why there is no node for a pod; asked when all pods are placed."""
        if not self._nodes:
            return _NO_NODES
        task = self._task(pod)
        known = self._refusals.get(task.shape)
        if known is not None:
            return known
        reasons = Counter(reason for node in self._nodes for reason in self._objections(task, node))
        texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        text = f"0/{len(self._nodes)} nodes are available: {', '.join(texts)}."
        if not self._predicates.depends_on_pods(task):
            self._refusals[task.shape] = text
        return text

    def _best(self, pod: PodInfo) -> NodeState | None:
        task = self._task(pod)
        if not self._predicates.depends_on_pods(task):
            return self._best_by_ranking(task)
        fitting = [node for node in self._nodes if self._fits(task, node)]
        return max(fitting, key=lambda node: (self._score(task.shape, node), -node.rank), default=None)

    def _best_by_ranking(self, task: Task) -> NodeState | None:
        """The first of the ranking whose place is still what it was."""
        ranking = self._rankings.get(task.shape)
        if ranking is None:
            ranking = [
                (-self._score(task.shape, node), node.rank, node)
                for node in self._nodes
                if self._accepts(task, node)
            ]
            heapq.heapify(ranking)
            self._rankings[task.shape] = ranking
        while ranking:
            score, rank, node = ranking[0]
            now = -self._score(task.shape, node)
            if now != score:
                heapq.heapreplace(ranking, (now, rank, node))
            elif self._has_room(task.shape, node):
                return node
            else:
                heapq.heappop(ranking)  # nothing is freed before the next round
        return None

    def _fits(self, task: Task, node: NodeState) -> bool:
        return (
            self._accepts(task, node)
            and self._has_room(task.shape, node)
            and not self._predicates.conflict(task, node, is_now=True)
        )

    def _accepts(self, task: Task, node: NodeState) -> bool:
        return not self._checks_nodes or not self._predicates.objections(task, node)

    def _has_room(self, shape: Shape, node: NodeState) -> bool:
        return not self._checks_nodes or node.idle.holds(shape)

    def _score(self, shape: Shape, node: NodeState) -> float:
        idle, whole = node.idle, node.info.allocatable
        return (
            _share(idle.cpu - shape.cpu, whole.cpu)
            + _share(idle.memory - shape.memory, whole.memory)
            + _share(idle.pods - 1, node.info.pods)
        )

    def _objections(self, task: Task, node: NodeState) -> list[str]:
        found = [_WORDS.get(each, each) for each in self._predicates.objections(task, node)]
        if found:
            return found
        lacking = _lacking(task.shape, node)
        if lacking:
            return lacking
        conflict = self._predicates.conflict(task, node, is_now=True)
        return [conflict] if conflict else []

    def _hold(self, pod: PodInfo, node: NodeState, hold: Hold) -> None:
        node.hold(self._shape(pod), (), hold, 1)
        if self._affinities.is_needed or has_pod_affinity(pod):
            self._affinities.hold(pod, node, hold, 1)

    def _task(self, pod: PodInfo) -> Task:
        return Task(pod, self._shape(pod), PodState.PENDING, (0, 0, 0))

    def _shape(self, pod: PodInfo) -> Shape:
        key = (pod.request, pod.constraints)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(pod.request, None, pod.constraints)
        return shape


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _lacking(shape: Shape, node: NodeState) -> list[str]:
    """What a node has not enough of."""
    idle = node.idle
    wanted = {"cpu": shape.cpu, "memory": shape.memory, GPU: shape.gpu, **dict(shape.scalars)}
    there = {"cpu": idle.cpu, "memory": idle.memory, GPU: idle.gpu, **idle.scalars}
    lacking = [f"Insufficient {name}" for name, need in wanted.items() if need and need > there.get(name, 0)]
    return lacking + (["Too many pods"] if idle.pods < 1 else [])
