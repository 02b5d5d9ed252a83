"""Topology spread constraints: how many pods of a kind each domain (a zone, a host) has, and may have. Pure.

A table holds the counts of one constraint of one shape of pods; it is filled when the first pod asks, and
follows what is placed from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api import LabelSelector, Selector, from_dict
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.snapshot import PodInfo

_NOT_MATCHED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{_NOT_MATCHED} (missing required label)"
_HONOR: Final = "Honor"

IsSelected = Callable[[NodeState], bool]


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One entry of ``spec.topologySpreadConstraints``."""

    topology_key: str
    max_skew: int
    is_hard: bool
    """Whether a node that breaks it will not do; otherwise it is only less welcome."""
    selector: str
    """Of the pods that are counted, as text; empty counts none."""
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether only nodes count that the pod's node selector and affinity accept."""
    honors_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""


def spread_constraints(pod: Mapping[str, Any]) -> tuple[SpreadConstraint, ...]:
    """The constraints of a pod document."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    found = []
    for each in (pod.get("spec") or {}).get("topologySpreadConstraints") or ():
        given = each.get("labelSelector")
        text = str(Selector.of(from_dict(given, LabelSelector))) if given else ""
        wanted = [f"{key}={labels[key]}" for key in each.get("matchLabelKeys") or () if key in labels]
        found.append(
            SpreadConstraint(
                topology_key=each["topologyKey"],
                max_skew=each["maxSkew"],
                is_hard=each.get("whenUnsatisfiable") != "ScheduleAnyway",
                selector=",".join([*([text] if text else []), *wanted]),
                min_domains=each.get("minDomains") or 1,
                honors_affinity=each.get("nodeAffinityPolicy", _HONOR) == _HONOR,
                honors_taints=each.get("nodeTaintsPolicy") == _HONOR,
            )
        )
    return tuple(found)


class _Table:
    """The counts of one constraint."""

    def __init__(self, namespace: str, constraint: SpreadConstraint, nodes: Iterable[NodeState]) -> None:
        self.constraint: Final = constraint
        self._namespace: Final = namespace
        self._selector: Final = Selector.of(constraint.selector) if constraint.selector else None
        self._domains: Final = {node.name: node.info.labels[constraint.topology_key] for node in nodes}
        self.counts: Final[Counter[str]] = Counter(dict.fromkeys(self._domains.values(), 0))

    def add(self, pod: PodInfo, node: str) -> None:
        domain = self._domains.get(node)
        if domain is not None and not pod.is_deleted and self.matches(pod):
            self.counts[domain] += 1

    def matches(self, pod: PodInfo) -> bool:
        return (
            self._selector is not None
            and pod.namespace == self._namespace
            and self._selector.matches(pod.labels)
        )

    def least(self) -> int:
        """The count of the emptiest domain; none as long as there are too few domains."""
        if not self.counts or len(self.counts) < self.constraint.min_domains:
            return 0
        return min(self.counts.values())


class Spread:
    """The spread of all pods in one round."""

    def __init__(self, nodes: Sequence[NodeState], placed: Sequence[PodInfo]) -> None:
        self._nodes: Final = nodes
        self._placed: Final = placed
        self._moved: Final[list[tuple[PodInfo, str]]] = []
        """Placed in this round."""
        self._tables: Final[dict[tuple[object, str, SpreadConstraint], _Table]] = {}

    def placed(self, pod: PodInfo, node: str) -> None:
        """A pod got a node."""
        self._moved.append((pod, node))
        for table in self._tables.values():
            table.add(pod, node)

    def judge(
        self,
        pod: PodInfo,
        constraints: Sequence[SpreadConstraint],
        shape: object,
        is_selected: IsSelected,
        is_tolerated: IsSelected,
    ) -> Callable[[NodeState], str]:
        """What says of a node why a pod may not go there; ``shape`` stands for its demands on nodes."""
        rules = []
        for constraint in constraints:
            if constraint.is_hard:
                table = self._table(pod, constraint, constraints, shape, is_selected, is_tolerated)
                most = constraint.max_skew + table.least() - (1 if table.matches(pod) else 0)
                rules.append((constraint.topology_key, table.counts, most))

        def problem(node: NodeState) -> str:
            for key, counts, most in rules:
                domain = node.info.labels.get(key)
                if domain is None:
                    return NO_LABEL
                if counts[domain] > most:
                    return _NOT_MATCHED
            return ""

        return problem

    def scores(
        self,
        pod: PodInfo,
        constraints: Sequence[SpreadConstraint],
        shape: object,
        is_selected: IsSelected,
        is_tolerated: IsSelected,
    ) -> Callable[[NodeState], float]:
        """How welcome a pod is on nodes, from 0 to 1, by the constraints that are wishes."""
        wishes = [
            (each.topology_key, self._table(pod, each, constraints, shape, is_selected, is_tolerated).counts)
            for each in constraints
            if not each.is_hard
        ]

        def score(node: NodeState) -> float:
            total = 0.0
            for key, counts in wishes:
                domain = node.info.labels.get(key)
                highest = max(counts.values(), default=0)
                if domain is not None:
                    total += 1.0 - counts[domain] / (highest + 1)
            return total / len(wishes) if wishes else 0.0

        return score

    def _table(
        self,
        pod: PodInfo,
        constraint: SpreadConstraint,
        constraints: Sequence[SpreadConstraint],
        shape: object,
        is_selected: IsSelected,
        is_tolerated: IsSelected,
    ) -> _Table:
        key = (shape, pod.namespace, constraint)
        table = self._tables.get(key)
        if table is None:
            wanted = {each.topology_key for each in constraints if each.is_hard == constraint.is_hard}
            nodes = [
                node
                for node in self._nodes
                if wanted <= node.info.labels.keys()
                and (not constraint.honors_affinity or is_selected(node))
                and (not constraint.honors_taints or is_tolerated(node))
            ]
            table = self._tables[key] = _Table(pod.namespace, constraint, nodes)
            for each in self._placed:
                table.add(each, each.node)
            for other, name in self._moved:
                table.add(other, name)
        return table
