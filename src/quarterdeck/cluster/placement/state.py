"""Nodes, what is left of them, and who may go where: pure, for one round of the default scheduler.

A pod gets the node that is left with most room: the mean of what is free of its CPU, memory and pod slots.
What a pod would rather have counts on top of it: nodes it prefers, nodes that do not warn it off, domains
that have few of its kind. Among equals the first by name wins: the same cluster always gets the same answer.

Pods that are alike ask the same question, and the answer changes only where a pod was placed meanwhile.
So nodes are ranked once for each shape of pods, and a node is looked at again when its turn comes; for pods
that are spread over domains, the nodes of each domain are. Pods with affinity, host ports, claims for devices
or volumes that are counted are no such simple case: for them every node is looked at.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import Key
from quarterdeck.cluster.placement.neighbour import Neighbours
from quarterdeck.cluster.placement.spread import Spread, SpreadConstraint
from quarterdeck.cluster.placement.volumelimit import VolumeLimits
from quarterdeck.cluster.placement.wish import Wishes
from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.device import Allocation
from quarterdeck.scheduler.model.affinity import PodAffinities, has_pod_affinity
from quarterdeck.scheduler.model.claim import Claims
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.predicate import Predicates
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.resource import GPU
from quarterdeck.scheduler.snapshot import NodeInfo, PodInfo

_NO_NODES: Final = "no nodes available to schedule pods"
_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
_TAINT: Final = "node(s) had untolerated taint"
_WORDS: Final = {
    "node is unschedulable": "node(s) were unschedulable",
    "node has NotReady condition": "node(s) were not ready",
}
"""What the gang scheduler says in other words."""
ELSEWHERE: Final = "resourceclaim not available on the node"
_SPREAD_WEIGHT: Final = 2.0
_NEIGHBOUR_WEIGHT: Final = 2.0

_Ranking = list[tuple[float, int, NodeState]]


class Demand(msgspec.Struct, frozen=True):
    """A pod that wants a node."""

    info: PodInfo
    priority: int = 0
    spread: tuple[SpreadConstraint, ...] = ()
    preempts: bool = True
    """Whether others may be made to go for it."""
    problem: str = ""
    """Why no node will do, whatever it has."""


class PlacementState:
    """The cluster while pods are placed."""

    def __init__(
        self,
        nodes: Iterable[NodeInfo],
        pods: Iterable[PodInfo],
        namespaces: Mapping[str, Mapping[str, str]],
        *,
        claims: Claims | None = None,
        limits: VolumeLimits | None = None,
        checks_nodes: bool = True,
    ) -> None:
        """``pods`` are all that have not ended; without ``checks_nodes`` any pod may go anywhere."""
        ordered = sorted(nodes, key=lambda node: node.name)
        self.nodes: Final = [NodeState(info, rank) for rank, info in enumerate(ordered)]
        self._checks_nodes: Final = checks_nodes
        self._shapes: dict[object, Shape] = {}
        self._rankings: dict[tuple[Shape, tuple[str, ...]], list[_Ranking]] = {}
        self._refusals: dict[Shape, str] = {}
        known = list(pods)
        sociable = [pod for pod in known if has_pod_affinity(pod)]
        self._affinities: Final = PodAffinities(sociable, namespaces)
        self._claims: Final = claims
        self._limits: Final = limits
        self._predicates: Final = Predicates(self._affinities, self._claims)
        self._neighbours: Final = Neighbours(sociable, namespaces)
        self._users: Final[dict[str, Task]] = {}
        """Pods that use claims for devices, by UID."""
        self._by_name: Final = {node.name: node for node in self.nodes}
        self._wishes: Final = Wishes(self.nodes)
        self._spread: Final = Spread(self.nodes, [pod for pod in known if pod.node])
        for pod in known:
            node = self._by_name.get(pod.node)
            if node is not None:
                self._seat(pod, node, Hold.LEAVING if pod.is_deleted else Hold.RUNNING)
        if self._claims is not None:
            self._claims.seal([each for each in self._users.values() if each.info.node])

    def place(self, demand: Demand) -> str:
        """The node for a pod, which takes its place there; empty if there is none."""
        node = None if demand.problem else self._best(demand)
        if node is None:
            return ""
        self.reserve(demand.info, node.name)
        return node.name

    def reserve(self, pod: PodInfo, name: str) -> None:
        """A pod takes its place on a node, even where there is no room yet."""
        node = self._by_name.get(name)
        if node is not None:
            self._hold(pod, node, Hold.RUNNING)
            self._spread.placed(pod, name)

    def allocations(self, pod: PodInfo) -> list[tuple[str, Allocation | None]]:
        """What each claim of a pod that was placed has, or is to get."""
        task = self._users.get(pod.uid)
        if task is None:
            return []
        return [
            (claim.info.name, devices) for claim, devices in zip(task.shape.claims, task.devices, strict=True)
        ]

    def take_away(self, pod: PodInfo, node: NodeState) -> None:
        """Look at a node as if a pod were not there."""
        self._hold(pod, node, Hold.RUNNING, -1)

    def give_back(self, pod: PodInfo, node: NodeState) -> None:
        """Undo ``take_away``."""
        self._hold(pod, node, Hold.RUNNING, 1)

    def refusal(self, demand: Demand) -> str:
        """Why there is no node for a pod; asked when all pods are placed."""
        if not self.nodes:
            return _NO_NODES
        if demand.problem:
            return f"0/{len(self.nodes)} nodes are available: {demand.problem}."
        task = self._task(demand.info)
        known = self._refusals.get(task.shape)
        if known is not None and not demand.spread:
            return known
        reasons = Counter(reason for node in self.nodes for reason in self.objections(demand, node))
        text = summary(len(self.nodes), reasons)
        if not self._depends_on_pods(task) and not demand.spread:
            self._refusals[task.shape] = text
        return text

    def has_counted_things(self, pod: PodInfo) -> bool:
        """Whether a pod has claims for devices, or volumes of which a node takes only so many."""
        return bool(pod.claims) or (self._limits is not None and self._limits.concerns(pod))

    def is_hopeless(self, demand: Demand, node: NodeState) -> bool:
        """Whether a node will not do whoever is there."""
        return bool(demand.problem or self._predicates.objections(self._task(demand.info), node))

    def objections(self, demand: Demand, node: NodeState) -> list[str]:
        """What speaks against a node as it is now, in kube-scheduler's words."""
        task = self._task(demand.info)
        found = [_in_words(each) for each in self._predicates.objections(task, node)]
        if found:
            return found[:1] if found[0].startswith(_TAINT) else found
        lacking = _lacking(task.shape, node)
        if lacking:
            return lacking
        conflict = self._conflict(task, node)
        if not conflict and demand.spread:
            conflict = self._spread_judge(demand, task)(node)
        return [conflict] if conflict else []

    def _best(self, demand: Demand) -> NodeState | None:
        task = self._task(demand.info)
        near = self._neighbours.scores(demand.info) if self._neighbours.is_needed else None
        must_see_all = near is not None or self._depends_on_pods(task)
        if not demand.spread and not must_see_all:
            (ranking,) = self._ranked(task, ())
            return self._first(task, ranking)
        problem = self._spread_judge(demand, task)
        if must_see_all:
            fitting = [node for node in self.nodes if self._fits(task, node) and not problem(node)]
        else:
            # the nodes of a domain are alike in this
            keys = tuple(each.topology_key for each in demand.spread)
            rankings = [each for each in self._ranked(task, keys) if each and not problem(each[0][2])]
            fitting = [node for each in rankings if (node := self._first(task, each)) is not None]
        bonus = self._spread.scores(demand.info, demand.spread, task.shape, *self._node_tests(task))
        welcome = _evened_out(near, fitting)

        def worth(node: NodeState) -> tuple[float, int]:
            wishes = _SPREAD_WEIGHT * bonus(node) + _NEIGHBOUR_WEIGHT * welcome(node)
            return self._score(task.shape, node) + wishes, -node.rank

        return max(fitting, key=worth, default=None)

    def _depends_on_pods(self, task: Task) -> bool:
        """Whether it matters for a pod which others are there."""
        return self.has_counted_things(task.info) or self._predicates.depends_on_pods(task)

    def _conflict(self, task: Task, node: NodeState) -> str:
        """What speaks against running beside the pods that are there."""
        if self._limits is not None and (problem := self._limits.problem(task.info, node)):
            return problem
        if any(not claim.can_be_used_on(node) for claim in task.shape.claims):
            return ELSEWHERE
        return self._predicates.conflict(task, node, is_now=True)

    def _spread_judge(self, demand: Demand, task: Task) -> Callable[[NodeState], str]:
        return self._spread.judge(demand.info, demand.spread, task.shape, *self._node_tests(task))

    def _node_tests(self, task: Task) -> tuple[Callable[[NodeState], bool], Callable[[NodeState], bool]]:
        """Whether a node is one that a pod asks for, and whether it tolerates its taints."""

        def objections(node: NodeState) -> Sequence[str]:
            return self._predicates.objections(task, node)

        return (
            lambda node: _AFFINITY not in objections(node),
            lambda node: not any(each.startswith(_TAINT) for each in objections(node)),
        )

    def _ranked(self, task: Task, keys: tuple[str, ...]) -> list[_Ranking]:
        """The nodes that would do, the best first: a ranking for each domain of these labels."""
        rankings = self._rankings.get((task.shape, keys))
        if rankings is None:
            domains: dict[tuple[str | None, ...], _Ranking] = {} if keys else {(): []}
            for node in self.nodes:
                if self._accepts(task, node):
                    domain = tuple(node.info.labels.get(key) for key in keys)
                    place = (-self._score(task.shape, node), node.rank, node)
                    domains.setdefault(domain, []).append(place)
            rankings = self._rankings[task.shape, keys] = list(domains.values())
            for ranking in rankings:
                heapq.heapify(ranking)
        return rankings

    def _first(self, task: Task, ranking: _Ranking) -> NodeState | None:
        """The first of a ranking whose place is still what it was."""
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
            self._accepts(task, node) and self._has_room(task.shape, node) and not self._conflict(task, node)
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
            + self._wishes.score(shape, node)
        )

    def _seat(self, pod: PodInfo, node: NodeState, hold: Hold) -> None:
        """A pod that has its node already, and devices."""
        self._hold_node(pod, node, hold, 1)
        if self._claims is not None and pod.claims:
            self._claims.seat(self._task(pod).shape.claims, hold)

    def _hold(self, pod: PodInfo, node: NodeState, hold: Hold, sign: int = 1) -> None:
        self._hold_node(pod, node, hold, sign)
        if self._claims is not None and pod.claims:
            self._claims.hold(self._task(pod), node, hold, sign)

    def _hold_node(self, pod: PodInfo, node: NodeState, hold: Hold, sign: int) -> None:
        node.hold(self._shape(pod), (), hold, sign)
        if self._affinities.is_needed or has_pod_affinity(pod):
            self._affinities.hold(pod, node, hold, sign)
        if self._neighbours.is_needed:
            self._neighbours.hold(pod, node, sign)
        if self._limits is not None:
            self._limits.hold(pod, node, sign)

    def _task(self, pod: PodInfo) -> Task:
        if not pod.claims or self._claims is None:
            return Task(pod, self._shape(pod), PodState.PENDING, (0, 0, 0))
        known = self._users.get(pod.uid)
        if known is None:
            known = self._users[pod.uid] = Task(pod, self._shape(pod), PodState.PENDING, (0, 0, 0))
        return known

    def _shape(self, pod: PodInfo) -> Shape:
        key: tuple[object, ...] = (pod.request, pod.constraints)
        if pod.claims:
            key = (*key, pod.namespace, pod.claims)
        shape = self._shapes.get(key)
        if shape is None:
            keys = [Key(pod.namespace, each.claim) for each in pod.claims]
            claims = self._claims.named(keys) if self._claims is not None else ()
            shape = self._shapes[key] = Shape(pod.request, None, pod.constraints, claims)
        return shape


def _evened_out(
    score: Callable[[NodeState], int] | None, nodes: Sequence[NodeState]
) -> Callable[[NodeState], float]:
    """Scores from 0, for the least of these nodes, to 1."""
    if score is None or not nodes:
        return lambda _: 0.0
    known = {node.rank: score(node) for node in nodes}
    least, span = min(known.values()), max(known.values()) - min(known.values())
    return lambda node: (known[node.rank] - least) / span if span else 0.0


def summary(nodes: int, reasons: Mapping[str, int]) -> str:
    """`0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`"""
    texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(texts)}."


def _in_words(objection: str) -> str:
    if objection.startswith(_TAINT):
        return f"{_TAINT}(s)"
    return _WORDS.get(objection, objection)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _lacking(shape: Shape, node: NodeState) -> list[str]:
    """What a node has not enough of."""
    idle = node.idle
    wanted = {"cpu": shape.cpu, "memory": shape.memory, GPU: shape.gpu, **dict(shape.scalars)}
    there = {"cpu": idle.cpu, "memory": idle.memory, GPU: idle.gpu, **idle.scalars}
    lacking = [f"Insufficient {name}" for name, need in wanted.items() if need and need > there.get(name, 0)]
    return lacking + (["Too many pods"] if idle.pods < 1 else [])
