"""What to do about a set of equal pods, and what to say about it: pure, apart from the controller.

Order and names are those of kube-controller-manager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from math import log2
from typing import Final, NamedTuple

from quarterdeck.api import Selector
from quarterdeck.cluster.podset.claim import Selecting
from quarterdeck.cluster.podset.podview import PodView

_PHASE_ORDER: Final = {"Unknown": 1, "Running": 2}
_NANOSECONDS: Final = 1e9


class Counts(NamedTuple):
    """The pods of a set in numbers."""

    replicas: int
    fully_labeled: int
    ready: int
    available: int


def count(
    active: Sequence[PodView], template_labels: Mapping[str, str], min_ready_seconds: int, now: float
) -> Counts:
    """Count active pods; fully labelled ones have every label of the template."""
    is_labeled = Selecting(Selector.of(template_labels))
    ready = [pod for pod in active if pod.is_ready]
    return Counts(
        len(active),
        sum(1 for pod in active if is_labeled(pod.entry)),
        len(ready),
        sum(1 for pod in ready if pod.is_available(min_ready_seconds, now)),
    )


def failure_reason(active: int, wanted: int) -> str:
    """Why pods could not be made or removed."""
    if active < wanted:
        return "FailedCreate"
    return "FailedDelete" if active > wanted else ""


def pods_to_remove(
    active: Sequence[PodView], related: Iterable[PodView], number: int, now: float
) -> list[PodView]:
    """The pods that are missed least.

    ``related`` are the pods of all sets with the same owner: a pod with more of them on its node goes first.
    """
    if number >= len(active):
        return list(active)
    crowd = Counter(pod.node_name for pod in related if pod.is_active)
    order = _RemovalOrder(crowd, now)
    return sorted(active, key=cmp_to_key(order.compare))[:number]


class _RemovalOrder:
    """Compares pods; times are compared by the power of two of their age, and then by chance (the UID)."""

    def __init__(self, crowd: Mapping[str, int], now: float) -> None:
        self._crowd: Final = crowd
        self._now: Final = now
        self._ranks: dict[str, tuple[object, ...]] = {}

    def compare(self, left: PodView, right: PodView) -> int:
        """Negative if ``left`` goes first."""
        mine, theirs = self._rank(left), self._rank(right)
        if mine != theirs:
            return -1 if mine < theirs else 1
        if left.is_ready and right.is_ready and left.ready_since != right.ready_since:
            return self._by_age(left, right, left.ready_since, right.ready_since)
        if left.most_restarts != right.most_restarts:
            return -1 if left.most_restarts > right.most_restarts else 1
        if left.created != right.created:
            return self._by_age(left, right, left.created, right.created)
        return 0

    def _rank(self, pod: PodView) -> tuple[object, ...]:
        rank = self._ranks.get(pod.uid)
        if rank is None:
            rank = self._ranks[pod.uid] = (
                bool(pod.node_name),
                _PHASE_ORDER.get(pod.phase, 0),
                pod.is_ready,
                pod.deletion_cost,
                -self._crowd.get(pod.node_name, 0),
            )
        return rank

    def _by_age(self, left: PodView, right: PodView, mine: float, theirs: float) -> int:
        if not mine or not theirs:
            return -1 if not mine else 1
        difference = self._power(mine) - self._power(theirs)
        if difference:
            return -1 if difference < 0 else 1
        return -1 if left.uid < right.uid else 1

    def _power(self, time: float) -> int:
        age = (self._now - time) * _NANOSECONDS
        return int(log2(age)) if age > 0 else -1
