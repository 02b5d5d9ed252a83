"""The status of groups and queues: what pods ask for and have, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from quarterdeck.api import Quantity
from quarterdeck.api.quantity import sum_quantities
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.types import PodGroup, PodGroupResourcesStatus, Queue, QueueStatus
from quarterdeck.scheduler.intake import pod_info
from quarterdeck.scheduler.resource import NOTHING, Resources

from .amount import resource_list

_LIVING: Final = (names.PENDING, names.RUNNING)
_COUNTED: Final = (names.RUNNING, names.SUCCEEDED, names.FAILED, names.PENDING)


class PodUse(msgspec.Struct, frozen=True):
    """What a pod counts for."""

    phase: str
    is_placed: bool
    """Runs, or has been given a node."""
    request: Resources


def pod_use(pod: Mapping[str, Any]) -> PodUse:
    """What a pod counts for."""
    info = pod_info(pod)
    share = info.gpu_share
    part = Resources(gpu=share.portion * share.devices) if share is not None else NOTHING
    is_placed = info.phase == names.RUNNING or (info.phase == names.PENDING and _is_scheduled(pod))
    return PodUse(info.phase, is_placed, info.request + part)


def _is_scheduled(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == names.POD_SCHEDULED and each.get("status") == "True" for each in conditions
    )


class GroupUse(msgspec.Struct, frozen=True):
    """What the pods of a group count for together."""

    phases: Mapping[str, int]
    requested: Resources
    allocated: Resources

    @classmethod
    def of(cls, pods: Iterable[PodUse]) -> Self:
        """The sum of some pods."""
        phases: Counter[str] = Counter()
        requested = allocated = NOTHING
        for pod in pods:
            phases[pod.phase] += 1
            if pod.phase in _LIVING:
                requested += pod.request
            if pod.is_placed:
                allocated += pod.request
        return cls(phases, requested, allocated)


def phase_of(phases: Mapping[str, int]) -> str:
    """The phase of a group: the most alive of its pods say it; a group without pods waits for some."""
    for phase in (names.RUNNING, names.PENDING, names.FAILED, names.SUCCEEDED):
        if phases.get(phase):
            return phase
    return names.PENDING


def group_status(use: GroupUse, *, is_preemptible: bool) -> dict[str, Any]:
    """The fields of a group's status that follow from its pods; ``None`` for those to be left out.

    What a group held while it was not preemptible stays as it was once it is.
    """
    allocated = _wire(resource_list(use.allocated))
    counts = {phase.lower(): use.phases.get(phase) or None for phase in _COUNTED}
    resources = {
        "allocated": allocated,
        "requested": _wire(resource_list(use.requested)),
    }
    if not is_preemptible:
        resources["allocatedNonPreemptible"] = allocated
    return {"phase": phase_of(use.phases), **counts, "resourcesStatus": resources}


def queue_status(groups: Iterable[PodGroup], children: Sequence[Queue]) -> dict[str, Any]:
    """The status of a queue from those of its groups and child queues."""
    parts: list[PodGroupResourcesStatus | QueueStatus] = [group.status.resources_status for group in groups]
    parts += [child.status for child in children]
    return {
        "allocated": _wire(sum_quantities(part.allocated for part in parts)),
        "allocatedNonPreemptible": _wire(sum_quantities(part.allocated_non_preemptible for part in parts)),
        "requested": _wire(sum_quantities(part.requested for part in parts)),
        "childQueues": sorted(child.metadata.name for child in children) or None,
    }


def _wire(amounts: Mapping[str, Quantity]) -> dict[str, str] | None:
    return {name: str(amount) for name, amount in sorted(amounts.items()) if amount} or None
