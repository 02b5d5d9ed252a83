"""The best node for a pod.

Nodes are scored, and the parts of a score are so far apart that they decide one after the other: the node
that the API nominated, the preferred topology domain, room on a GPU that is shared already, being able to
start at once, no GPUs wasted on a pod that needs none, and packing or spreading. Equals go by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quarterdeck.scheduler.model.cluster import Cluster
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.nodeset import NodeSet
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.placement.capacity import is_within_capacity
from quarterdeck.scheduler.placement.domainchoice import Scores


class Pick(NamedTuple):
    """A node for a pod, and whether the pod can start there at once."""

    node: NodeState
    is_now: bool


def by_score(nodes: NodeSet, scores: Scores | None) -> Sequence[NodeSet]:
    """The nodes in groups of equal topology score, best first."""
    if scores is None:
        return (nodes,)
    groups: dict[int, list[NodeState]] = {}
    for node in nodes.nodes:
        groups.setdefault(scores.of(node), []).append(node)
    if len(groups) <= 1:
        return (nodes,)
    return [nodes.view(groups[score]) for score in sorted(groups, reverse=True)]


class Picker:
    """Picks nodes for pods one after the other; each is placed where it was picked before the next."""

    __slots__ = ("_cluster", "_groups", "_last", "_shape")

    def __init__(self, cluster: Cluster, groups: Sequence[NodeSet]) -> None:
        """``groups`` are the nodes, in sets of which each is better than the next."""
        self._cluster: Final = cluster
        self._groups: Final = groups
        self._shape: Shape | None = None
        self._last: Pick | None = None

    def pick(self, task: Task) -> Pick | None:
        """The best node that has room for the pod and accepts it."""
        if task.shape is self._shape and self._last is not None and self._is_still_best(self._last, task):
            return self._last
        self._last = _pick_node(self._cluster, task, self._groups)
        self._shape = task.shape if self._is_lasting(task) else None
        return self._last

    def _is_lasting(self, task: Task) -> bool:
        """Whether the node for a pod is also the best for the next of its kind, if it fits again.

        When packing, a node only becomes better by taking a pod.
        """
        shape, settings = task.shape, self._cluster.settings
        placement = settings.gpu_placement if shape.needs_gpu else settings.cpu_placement
        return (
            placement == "binpack"
            and shape.share is None
            and not task.info.nominated_node
            and not self._cluster.predicates.depends_on_pods(task)
        )

    @staticmethod
    def _is_still_best(last: Pick, task: Task) -> bool:
        node, is_now = last
        if task.info.nominated_node or not node.fits_eventually(task.shape):
            return False
        return node.fits_now(task.shape) == is_now


def _pick_node(cluster: Cluster, task: Task, groups: Iterable[NodeSet]) -> Pick | None:
    nominated = cluster.nodes.get(task.info.nominated_node)
    if nominated is not None and any(nominated in nodes for nodes in groups):
        pick = _best(cluster, task, [nominated])
        if pick is not None:
            return pick
    shape = task.shape
    settings = cluster.settings
    placement = settings.gpu_placement if shape.needs_gpu else settings.cpu_placement
    for nodes in groups:
        walk = nodes.walk(shape, placement)
        pick = _best(cluster, task, walk) if shape.share is None else _best_shared(cluster, task, walk)
        if pick is not None:
            return pick
    return None


def _best(cluster: Cluster, task: Task, nodes: Iterable[NodeState]) -> Pick | None:
    """The first node where the pod can start, else the first where it can wait."""
    shape, predicates = task.shape, cluster.predicates
    verdicts = shape.verdicts
    is_picky = predicates.depends_on_pods(task)
    later: NodeState | None = None
    for node in nodes:
        if not node.fits_eventually(shape):
            continue
        objections = verdicts.get(node.rank)
        if objections or (objections is None and predicates.objections(task, node)):
            continue
        if node.fits_now(shape) and not (is_picky and predicates.conflict(task, node, is_now=True)):
            return Pick(node, True)
        if later is None and not (is_picky and predicates.conflict(task, node, is_now=False)):
            later = node
    return Pick(later, False) if later is not None else None


def _best_shared(cluster: Cluster, task: Task, nodes: Iterable[NodeState]) -> Pick | None:
    """The same for a part of a GPU: unless pods spread, nodes where a shared GPU has room come first."""
    share, job = task.shape.share, task.job
    assert share is not None
    assert job is not None
    spreads = cluster.settings.gpu_placement == "spread"
    with_room: list[NodeState] = []
    others: list[NodeState] = []
    for node in nodes:
        # What memory is worth in quota shows only now that the device is known.
        if node.has_gpus and (not share.memory or is_within_capacity(job, node.charge(task.shape))):
            joins = not spreads and node.gpus.has_room(share)
            (with_room if joins else others).append(node)
    return _best(cluster, task, with_room) or _best(cluster, task, others)
