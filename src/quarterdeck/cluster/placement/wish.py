"""What pods would rather have: nodes they prefer, and nodes that do not warn them off. Pure.

Weights are kube-scheduler's: 2 for preferred node affinity, 3 for taints with the effect PreferNoSchedule,
beside 1 for each kind of room a node has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import value_or
from quarterdeck.api.k8s import NodeSelector, Taint
from quarterdeck.api.nodeselector import selects_node
from quarterdeck.api.toleration import tolerates
from quarterdeck.cluster.nodetaint import NodeTaint
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Shape

_AFFINITY_WEIGHT: Final = 2.0
_TAINT_WEIGHT: Final = 3.0
_SOFT: Final = "PreferNoSchedule"


def _is_tolerated(shape: Shape, taint: Taint) -> bool:
    plain = NodeTaint(taint.key, taint.value, taint.effect)
    return any(tolerates(each, plain) for each in shape.constraints.tolerations)


class Wishes:
    """Scores of nodes that depend on neither room nor other pods."""

    def __init__(self, nodes: Sequence[NodeState]) -> None:
        self._nodes: Final = nodes
        self._has_soft_taints: Final = any(
            taint.effect == _SOFT for node in nodes for taint in node.info.taints
        )
        self._known: dict[Shape, list[float] | None] = {}

    def score(self, shape: Shape, node: NodeState) -> float:
        """How much a pod of a shape would like a node."""
        if shape not in self._known:
            self._known[shape] = self._scores(shape)
        scores = self._known[shape]
        return 0.0 if scores is None else scores[node.rank]

    def _scores(self, shape: Shape) -> list[float] | None:
        affinity = shape.constraints.affinity
        wanted = affinity.node_affinity if affinity is not None else None
        terms = wanted.preferred_during_scheduling_ignored_during_execution if wanted else ()
        if not terms and not self._has_soft_taints:
            return None
        selectors = [
            (value_or(each.weight, 0), NodeSelector(node_selector_terms=(each.preference,))) for each in terms
        ]
        liked = [
            sum(
                weight
                for weight, selector in selectors
                if selects_node(selector, node.info.name, node.info.labels)
            )
            for node in self._nodes
        ]
        feared = [
            sum(taint.effect == _SOFT and not _is_tolerated(shape, taint) for taint in node.info.taints)
            for node in self._nodes
        ]
        most_liked, most_feared = max(liked, default=0) or 1, max(feared, default=0) or 1
        return [
            _AFFINITY_WEIGHT * good / most_liked + _TAINT_WEIGHT * (1 - bad / most_feared)
            for good, bad in zip(liked, feared, strict=True)
        ]
