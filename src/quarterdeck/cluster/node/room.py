"""Whether a pod finds room on its node: what a kubelet asks before it starts one. Pure.

Two schedulers may each give away the last place of a node, and who writes a node's name into a pod asks
nobody. The pod that comes second is rejected, and its controller makes another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from quarterdeck.api import Key, Quantity
from quarterdeck.api.quota import pod_requests
from quarterdeck.cluster.node.admission import Rejection

_PODS: Final = "pods"
_FIRST: Final = (_PODS, "cpu", "memory", "ephemeral-storage")
"""What is looked at first, in this order."""


def whole_amounts(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Amounts as a kubelet counts them: thousandths of processors, and units of everything else."""
    return {name: amount.milli_value if name == "cpu" else amount.value for name, amount in amounts.items()}


def amounts_wanted(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod takes of its node, its place among the pods included."""
    return {**whole_amounts(pod_requests(pod)), _PODS: 1}


def room_rejection(
    wanted: Mapping[str, int], used: Mapping[str, int], offered: Mapping[str, int]
) -> Rejection | None:
    """What is said of a pod that wants more than is left of what a node offers."""
    others = sorted(name for name in wanted if name not in _FIRST)
    for name in (*_FIRST, *others):
        asked, taken = wanted.get(name, 0), used.get(name, 0)
        # What a node does not offer at all is none of its kubelet's business.
        if asked and name in offered and taken + asked > offered[name]:
            words = f"requested: {asked}, used: {taken}, capacity: {offered[name]}"
            return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {words}")
    return None


class NodeRoom:
    """What is taken of each node, and by whom."""

    def __init__(self) -> None:
        self._held: dict[Key, tuple[str, Mapping[str, int]]] = {}
        self._used: dict[str, Counter[str]] = {}

    def knows(self, node: str) -> bool:
        """Whether the pods of a node have been counted."""
        return node in self._used

    def count(self, node: str, pods: Iterable[tuple[Key, Mapping[str, int]]]) -> None:
        """Begin with the pods that have been started on a node before."""
        self._used[node] = Counter()
        for pod, wanted in pods:
            self.take(pod, node, wanted)

    def admit(
        self, pod: Key, node: str, wanted: Mapping[str, int], offered: Mapping[str, int]
    ) -> Rejection | None:
        """Give a pod its place on a node that offers so much, or say why there is none."""
        if self.holds(pod, node):
            return None
        rejection = room_rejection(wanted, self._used[node], offered)
        if rejection is not None:
            return rejection
        self.take(pod, node, wanted)
        return None

    def holds(self, pod: Key, node: str) -> bool:
        """Whether a pod has its place on a node."""
        return pod in self._held and self._held[pod][0] == node

    def release(self, pod: Key) -> None:
        """A pod has ended or is gone."""
        node, wanted = self._held.pop(pod, ("", {}))
        if node in self._used:
            self._used[node].subtract(wanted)

    def take(self, pod: Key, node: str, wanted: Mapping[str, int]) -> None:
        """A pod has been started on a node, whether or not there is room."""
        self.release(pod)
        self._held[pod] = node, wanted
        self._used[node].update(wanted)
