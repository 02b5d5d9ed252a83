"""The four kinds, and their definitions."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, crd

from .bindrequest import (
    BindRequest,
    BindRequestSpec,
    BindRequestStatus,
    ReceivedGPU,
    ResourceClaimAllocation,
)
from .podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from .podgroupstatus import (
    PodGroupResourcesStatus,
    PodGroupStatus,
    QueueDetails,
    SchedulingCondition,
    UnschedulableDetails,
    UnschedulableExplanation,
)
from .queue import Queue, QueueCondition, QueueResource, QueueResources, QueueSpec, QueueStatus
from .topology import Topology, TopologyLevel, TopologySpec

__all__ = [
    "KINDS",
    "BindRequest",
    "BindRequestSpec",
    "BindRequestStatus",
    "PodGroup",
    "PodGroupResourcesStatus",
    "PodGroupSpec",
    "PodGroupStatus",
    "Queue",
    "QueueCondition",
    "QueueDetails",
    "QueueResource",
    "QueueResources",
    "QueueSpec",
    "QueueStatus",
    "ReceivedGPU",
    "ResourceClaimAllocation",
    "SchedulingCondition",
    "SubGroup",
    "Topology",
    "TopologyConstraint",
    "TopologyLevel",
    "TopologySpec",
    "UnschedulableDetails",
    "UnschedulableExplanation",
    "definitions",
]

KINDS: Final[tuple[type[Resource], ...]] = (PodGroup, Queue, Topology, BindRequest)


def definitions() -> list[dict[str, Any]]:
    """The four CustomResourceDefinitions."""
    return [crd(kind) for kind in KINDS]
