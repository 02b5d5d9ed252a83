"""Required affinity and anti-affinity between pods.

For every term that some pod of the cluster has, it is counted how many pods in each topology domain match it,
and for anti-affinity how many have it. Like the resources of nodes, both are counted as they are now and as
they will be once terminating pods are gone and promised pods have come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from quarterdeck.api import UNSET, LabelSelector, Selector
from quarterdeck.api.k8s import PodAffinityTerm
from quarterdeck.api.selector import Requirement
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.snapshot import PodInfo

NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

Namespaces = Mapping[str, Mapping[str, str]]


class Term(msgspec.Struct, frozen=True):
    """A term with everything resolved that depends on the pod it belongs to."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, pod: PodInfo, namespaces: Namespaces) -> bool:
        in_namespace = pod.namespace in self.namespaces or self.namespace_selector.matches(
            namespaces.get(pod.namespace) or {}
        )
        return in_namespace and self.selector.matches(pod.labels)


class _Count:
    """Pods per value of the topology key."""

    __slots__ = ("later", "now")

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.later: Counter[str] = Counter()

    def add(self, value: str, hold: Hold, sign: int) -> None:
        if hold is not Hold.COMING:
            self.now[value] += sign
        if hold is not Hold.LEAVING:
            self.later[value] += sign

    def unwanted_at(self, value: str | None, is_now: bool) -> int:
        """What starts now must get along with those that go as well as with those that come."""
        if value is None:
            return 0
        return max(self.now[value], self.later[value]) if is_now else self.later[value]

    def wanted_at(self, value: str, is_now: bool) -> int:
        """What starts now wants to join those who are there already and will stay."""
        return min(self.now[value], self.later[value]) if is_now else self.later[value]

    def total(self) -> int:
        return sum(self.now.values()) + sum(self.later.values())


def has_pod_affinity(pod: PodInfo) -> bool:
    """Whether a pod has required terms."""
    affinity = pod.constraints.affinity
    return affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)


class PodAffinities:
    """What pods demand of each other."""

    __slots__ = ("_cached", "_matching", "_namespaces", "_owning", "is_needed")

    def __init__(self, pods: Iterable[PodInfo], namespaces: Namespaces) -> None:
        self._namespaces: Final = namespaces
        self._cached: dict[str, tuple[tuple[Term, ...], tuple[Term, ...]]] = {}
        self._matching: Final[dict[Term, _Count]] = {}
        """Pods that match a term."""
        self._owning: Final[dict[Term, _Count]] = defaultdict(_Count)
        """Pods that have a term of anti-affinity."""
        for pod in pods:
            if has_pod_affinity(pod):
                for term in (*self._terms(pod)[0], *self._terms(pod)[1]):
                    self._matching.setdefault(term, _Count())
        self.is_needed: Final = bool(self._matching)
        """Whether any pod has terms at all."""

    def hold(self, pod: PodInfo, node: NodeState, hold: Hold, sign: int) -> None:
        """A pod comes to hold a node in some way (1), or stops to (-1)."""
        labels = node.info.labels
        for term, count in self._matching.items():
            value = labels.get(term.topology_key)
            if value is not None and term.matches(pod, self._namespaces):
                count.add(value, hold, sign)
        if has_pod_affinity(pod):
            for term in self._terms(pod)[1]:
                value = labels.get(term.topology_key)
                if value is not None:
                    self._owning[term].add(value, hold, sign)

    def problem(self, pod: PodInfo, node: NodeState, is_now: bool) -> str:
        """Why a pod may not run on a node beside the others; empty if it may."""
        labels = node.info.labels
        wanted, unwanted = self._terms(pod) if has_pod_affinity(pod) else ((), ())
        if not self._is_wanted(pod, wanted, labels, is_now):
            return NO_AFFINITY
        if any(self._matching[term].unwanted_at(labels.get(term.topology_key), is_now) for term in unwanted):
            return ANTI_AFFINITY
        for term, count in self._owning.items():
            if count.unwanted_at(labels.get(term.topology_key), is_now) and term.matches(
                pod, self._namespaces
            ):
                return EXISTING_ANTI_AFFINITY
        return ""

    def _is_wanted(
        self, pod: PodInfo, terms: tuple[Term, ...], labels: Mapping[str, str], is_now: bool
    ) -> bool:
        if not all(term.topology_key in labels for term in terms):
            return False
        if all(self._matching[term].wanted_at(labels[term.topology_key], is_now) for term in terms):
            return True
        # The first of a group that wants to be together has nobody to join but itself.
        is_first = not any(self._matching[term].total() for term in terms)
        return is_first and all(term.matches(pod, self._namespaces) for term in terms)

    def _terms(self, pod: PodInfo) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        known = self._cached.get(pod.uid)
        if known is None:
            affinity = pod.constraints.affinity
            assert affinity is not None
            wanted, unwanted = affinity.pod_affinity, affinity.pod_anti_affinity
            known = self._cached[pod.uid] = (
                resolve(wanted.required_during_scheduling_ignored_during_execution, pod) if wanted else (),
                resolve(unwanted.required_during_scheduling_ignored_during_execution, pod)
                if unwanted
                else (),
            )
        return known


def resolve(terms: Iterable[PodAffinityTerm], pod: PodInfo) -> tuple[Term, ...]:
    """The terms that a pod has, as they are meant."""
    return tuple(_term(each, pod) for each in terms)


def _term(term: PodAffinityTerm, pod: PodInfo) -> Term:
    keys = [Requirement(key, "in", (pod.labels[key],)) for key in term.match_label_keys if key in pod.labels]
    keys += [
        Requirement(key, "notin", (pod.labels[key],)) for key in term.mismatch_label_keys if key in pod.labels
    ]
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is UNSET:
        names = frozenset({pod.namespace})
    return Term(
        term.topology_key,
        _selector(term.label_selector or None) & Selector(keys),
        names,
        _selector(term.namespace_selector if term.namespace_selector is not UNSET else None),
    )


def _selector(selector: LabelSelector | None) -> Selector:
    return Selector.of(selector)
