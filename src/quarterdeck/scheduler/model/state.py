"""States of pods and what they count for."""

from __future__ import annotations

from typing import Final

from quarterdeck.scheduler.decision import PodState
from quarterdeck.scheduler.snapshot import PodInfo

ACTIVE: Final = frozenset(
    {PodState.ALLOCATED, PodState.PIPELINED, PodState.BINDING, PodState.BOUND, PodState.RUNNING}
)
"""Has a node, or the promise of one, and is not on its way out."""

USED: Final = ACTIVE | {PodState.RELEASING}
"""The same and those that still occupy their node."""

ALIVE: Final = ACTIVE | {PodState.PENDING, PodState.GATED}
"""May still do its work."""

HOLDING: Final = ACTIVE - {PodState.PIPELINED}
"""Holds quota of its queue in a snapshot."""

_BY_PHASE: Final = {
    "Running": PodState.RUNNING,
    "Succeeded": PodState.SUCCEEDED,
    "Failed": PodState.FAILED,
}


def state_of(pod: PodInfo, has_bind_request: bool) -> PodState:
    """The state of a pod as the API shows it."""
    if pod.phase in ("Pending", "Running") and pod.is_deleted:
        return PodState.RELEASING
    if pod.phase != "Pending":
        return _BY_PHASE.get(pod.phase, PodState.UNKNOWN)
    if pod.node:
        return PodState.BOUND
    if has_bind_request:
        return PodState.BINDING
    return PodState.GATED if pod.is_gated else PodState.PENDING
