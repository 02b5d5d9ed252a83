"""Preferred affinity between pods: whom a pod would rather have near, and whom far away. Pure.

As kube-scheduler counts it: a domain gains the weight of a pod's own wish for every pod there that it is
about, and the weight of every wish there that is about the pod; wishes to be apart count against it, and
somebody there who requires company of the pod's kind counts as a wish of weight 1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from quarterdeck.api import value_or
from quarterdeck.scheduler.model.affinity import Term, resolve
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.snapshot import PodInfo

_Wish = tuple[int, Term]
"""A weight, less than nothing for being apart, and whom it is about."""


class Neighbours:
    """What pods would like of each other."""

    def __init__(self, pods: Iterable[PodInfo], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """``pods`` are all with affinity, those with a node and those without."""
        self._namespaces: Final = namespaces
        self._wishes: Final[dict[str, tuple[_Wish, ...]]] = {}
        self._owned: Final[dict[str, tuple[_Wish, ...]]] = {}
        """Wishes together with what pods require of others, by the UID of who has them."""
        self._about: Final[dict[Term, Counter[str]]] = {}
        """Pods that the wishes of those who wait are about, by domain."""
        self._held: Final[dict[Term, Counter[str]]] = defaultdict(Counter)
        """Weights of the wishes of those who have a node, by domain."""
        for pod in pods:
            wishes = _wishes(pod)
            self._wishes[pod.uid] = wishes
            self._owned[pod.uid] = (*wishes, *((1, each) for each in _demands(pod)))
            if not pod.node:
                self._about.update((term, Counter()) for _, term in wishes)
        self.is_needed: Final = any(self._owned.values())
        """Whether anybody wishes anything."""

    def hold(self, pod: PodInfo, node: NodeState, sign: int) -> None:
        """A pod comes to a node (1) or leaves it (-1)."""
        labels = node.info.labels
        for term, counts in self._about.items():
            value = labels.get(term.topology_key)
            if value is not None and term.matches(pod, self._namespaces):
                counts[value] += sign
        for weight, term in self._owned.get(pod.uid, ()):
            value = labels.get(term.topology_key)
            if value is not None:
                self._held[term][value] += sign * weight

    def scores(self, pod: PodInfo) -> Callable[[NodeState], int] | None:
        """How welcome a pod is on nodes, in weights; none if it is the same everywhere."""
        tables = [
            (term.topology_key, weight, self._about[term]) for weight, term in self._wishes.get(pod.uid, ())
        ]
        tables += [
            (term.topology_key, 1, counts)
            for term, counts in self._held.items()
            if term.matches(pod, self._namespaces)
        ]
        if not any(counts for _, _, counts in tables):
            return None

        def score(node: NodeState) -> int:
            labels = node.info.labels
            return sum(
                weight * counts[labels.get(key, "")] for key, weight, counts in tables if key in labels
            )

        return score


def _wishes(pod: PodInfo) -> tuple[_Wish, ...]:
    affinity = pod.constraints.affinity
    assert affinity is not None
    found: list[_Wish] = []
    for terms, sign in ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1)):
        preferred = terms.preferred_during_scheduling_ignored_during_execution if terms else ()
        for each in preferred:
            (term,) = resolve([each.pod_affinity_term], pod)
            found.append((sign * value_or(each.weight, 0), term))
    return tuple(found)


def _demands(pod: PodInfo) -> tuple[Term, ...]:
    """The company that a pod requires."""
    affinity = pod.constraints.affinity
    if affinity is None or not affinity.pod_affinity:
        return ()
    return resolve(affinity.pod_affinity.required_during_scheduling_ignored_during_execution, pod)
