"""Which pod has to go when the machine runs short, and in which words. Pure; the rules are a kubelet's.

A threshold is what must be left of something: a quantity, or a share of all there is. Below it the node has
a condition, takes no pods that would make it worse, and ends one pod after the other until it is met again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from quarterdeck.api import Quantity, to_dict, value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.api.quota.pod import pod_limits, pod_requests
from quarterdeck.api.toleration import tolerates
from quarterdeck.cluster.node.admission import Rejection
from quarterdeck.cluster.nodetaint import NodeTaint


class Signal(NamedTuple):
    """Something that can run short."""

    condition: str
    """The node's, while it does."""
    resource: str
    """What pods have too much of then."""


SIGNALS: Final[Mapping[str, Signal]] = {
    "memory.available": Signal("MemoryPressure", "memory"),
    "nodefs.available": Signal("DiskPressure", "ephemeral-storage"),
    "nodefs.inodesFree": Signal("DiskPressure", "inodes"),
    "pid.available": Signal("PIDPressure", "pids"),
}
"""In the order in which they are dealt with."""
DEFAULT_THRESHOLDS: Final[Mapping[str, str]] = {
    "memory.available": "100Mi",
    "nodefs.available": "256Mi",
    "nodefs.inodesFree": "1%",
    "pid.available": "5%",
}
"""The disk is not the node's alone: a person's is often nearly full, and pods shall run all the same."""
_STORAGE: Final = "ephemeral-storage"
_CRITICAL: Final = 2_000_000_000
"""Pods of this priority, the system's own, stay."""
_MEMORY_TAINT: Final = NodeTaint("node.kubernetes.io/memory-pressure", "", "NoSchedule")
_SHARE: Final = re.compile(r"\d+(\.\d+)?%")


class Supply(NamedTuple):
    """What is left of something, and all there is."""

    available: int
    capacity: int


class Shortage(NamedTuple):
    """A threshold that is not met."""

    signal: str
    threshold: int
    available: int


class PodUse(NamedTuple):
    """What a pod has of something that runs short."""

    pod: Pod
    containers: Mapping[str, int]
    beside: int = 0
    """What belongs to no container: volumes."""

    @property
    def total(self) -> int:
        return sum(self.containers.values()) + self.beside


def is_threshold(text: str) -> bool:
    """Whether a text is a quantity or a percentage."""
    if _SHARE.fullmatch(text):
        return float(text[:-1]) <= 100
    try:
        return Quantity(text).value >= 0
    except ValueError:
        return False


def shortages(thresholds: Mapping[str, str], supplies: Mapping[str, Supply]) -> list[Shortage]:
    """What there is too little of."""
    found = []
    for signal in SIGNALS:
        text, supply = thresholds.get(signal, ""), supplies.get(signal)
        if not text or supply is None:
            continue
        least = int(supply.capacity * float(text[:-1]) / 100) if text.endswith("%") else Quantity(text).value
        if supply.available < least:
            found.append(Shortage(signal, least, supply.available))
    return found


def _is_critical(pod: Pod) -> bool:
    return value_or(pod.spec.priority, 0) >= _CRITICAL


def first_to_go(resource: str, uses: Iterable[PodUse]) -> PodUse | None:
    """The pod to end: one beyond its requests before others, then by priority, then by excess."""

    def order(use: PodUse) -> tuple[bool, int, int]:
        amount = pod_requests(to_dict(use.pod)).get(resource)
        excess = use.total - (amount.value if amount is not None else 0)
        # Nobody requests processes: priority alone goes before their number.
        is_within = resource != "pids" and excess <= 0
        return is_within, value_or(use.pod.spec.priority, 0), -excess

    return min((each for each in uses if not _is_critical(each.pod)), key=order, default=None)


def eviction_text(shortage: Shortage, use: PodUse) -> str:
    """Why a pod was ended."""
    resource = SIGNALS[shortage.signal].resource
    quantity = Quantity.of_bytes if resource in ("memory", _STORAGE) else Quantity
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {quantity(shortage.threshold)}, available: {quantity(shortage.available)}. "
    for container in (*use.pod.spec.containers, *use.pod.spec.init_containers):
        used, wanted = use.containers.get(container.name, 0), container.resources.requests.get(resource)
        if resource in ("memory", _STORAGE) and used > (wanted.value if wanted is not None else 0):
            text += (
                f"Container {container.name} was using {quantity(used)}, request is {wanted or 0}, "
                f"has larger consumption of {resource}. "
            )
    return text


def rejection(pod: Pod, conditions: Sequence[str]) -> Rejection | None:
    """Why a node with these conditions does not take a pod; None if it does."""
    if not conditions or _is_critical(pod):
        return None
    if list(conditions) == ["MemoryPressure"] and (
        pod.status.qos_class != "BestEffort"
        or any(tolerates(each, _MEMORY_TAINT) for each in pod.spec.tolerations)
    ):
        return None
    return Rejection("Evicted", f"The node had condition: [{' '.join(conditions)}]. ")


def storage_excess(use: PodUse) -> str:
    """Why a pod has more on disk than its limits allow; empty if it has not."""
    total = pod_limits(to_dict(use.pod)).get(_STORAGE)
    if total is not None and use.total > total.value:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    for container in (*use.pod.spec.containers, *use.pod.spec.init_containers):
        limit = container.resources.limits.get(_STORAGE)
        if limit is not None and use.containers.get(container.name, 0) > limit.value:
            return f'Container {container.name} exceeded its local ephemeral storage limit "{limit}". '
    return ""
