"""What state a pod is in, as far as cliques care."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names


def _condition(pod: Pod, type: str) -> tuple[str, str]:
    for condition in pod.status.conditions:
        if condition.type == type:
            return condition.status, condition.reason
    return "", ""


def is_scheduled(pod: Pod) -> bool:
    """It has a node."""
    return _condition(pod, "PodScheduled")[0] == "True"


def is_gated(pod: Pod) -> bool:
    """The scheduler may not look at it yet."""
    return bool(pod.spec.scheduling_gates) and _condition(pod, "PodScheduled") == ("False", "SchedulingGated")


def has_our_gate(pod: Pod) -> bool:
    """It waits for its gang."""
    return any(gate.name == names.GATE for gate in pod.spec.scheduling_gates)


def is_ready(pod: Pod) -> bool:
    """It works."""
    return _condition(pod, "Ready")[0] == "True"


def has_failed(pod: Pod) -> bool:
    """One of its containers ended with an error before."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(
        each.last_state.terminated and (each.last_state.terminated.exit_code or 0) != 0 for each in statuses
    )


def is_started_not_ready(pod: Pod) -> bool:
    """One of its containers runs and is not ready."""
    return any(each.started is True and each.ready is not True for each in pod.status.container_statuses)


def is_active(pod: Pod) -> bool:
    """It is not on its way out, and has not ended."""
    return not pod.metadata.is_deleting and pod.status.phase not in ("Succeeded", "Failed")


def template_hash(pod: Pod) -> str:
    """The template that it was made from."""
    return pod.metadata.labels.get(names.TEMPLATE_HASH, "")


class PodCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of a PodClique are in which state."""

    existing: int = 0
    """Not terminating."""
    scheduled: int = 0
    gated: int = 0
    ready: int = 0
    failed: int = 0
    """Not ready, with an error before."""
    started_not_ready: int = 0


def count_pods(pods: Iterable[Pod]) -> PodCount:
    """Count; pods that are terminating still count as scheduled and ready while they are."""
    existing = scheduled = gated = ready = failed = started = 0
    for pod in pods:
        existing += not pod.metadata.is_deleting
        scheduled += is_scheduled(pod)
        gated += is_gated(pod)
        if is_ready(pod):
            ready += 1
        elif has_failed(pod):
            failed += 1
        elif is_started_not_ready(pod):
            started += 1
    return PodCount(
        existing=existing,
        scheduled=scheduled,
        gated=gated,
        ready=ready,
        failed=failed,
        started_not_ready=started,
    )
