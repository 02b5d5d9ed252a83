"""Whom the kernel ends first when the machine's memory is short, by a kubelet's formula. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.cluster.agent.record.view import AnyContainer, is_sidecar

_GUARANTEED: Final = -997
_BEST_EFFORT: Final = 1000
_NODE_CRITICAL: Final = "system-node-critical"


def oom_score(pod: Pod, container: AnyContainer, memory: int) -> int:
    """The ``oom_score_adj`` of a container on a machine with so much memory, in bytes.

    The more of the machine's memory a container asks for, the longer it stays. What asks for nothing goes
    first, and what is guaranteed goes last.
    """
    if pod.status.qos_class == "Guaranteed" or pod.spec.priority_class_name == _NODE_CRITICAL:
        return _GUARANTEED
    if pod.status.qos_class == "BestEffort" or memory <= 0:
        return _BEST_EFFORT
    asked = _memory(container)
    if is_sidecar(container):  # no sooner than those it is there for
        asked = max(asked, min((_memory(each) for each in pod.spec.containers), default=0))
    score = 1000 - 1000 * (asked + _share(pod)) // memory
    return min(max(score, 1000 + _GUARANTEED), _BEST_EFFORT - 1)


def _share(pod: Pod) -> int:
    """A container's share of what the pod as a whole asks for beyond its containers."""
    whole = pod.spec.resources.requests.get("memory") if pod.spec.resources else None
    if whole is None:
        return 0
    containers: Sequence[Container] = [
        *pod.spec.containers,
        *(each for each in pod.spec.init_containers if is_sidecar(each)),
    ]
    return max(0, whole.value - sum(_memory(each) for each in containers)) // len(containers)


def _memory(container: AnyContainer) -> int:
    asked = container.resources.requests.get("memory")
    return asked.value if asked is not None else 0
