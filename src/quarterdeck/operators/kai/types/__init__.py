"""The kinds, and their definitions."""

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
from .schedulingshard import (
    ActionConfig,
    MinRuntime,
    PlacementStrategy,
    PluginConfig,
    SchedulingShard,
    SchedulingShardSpec,
    SchedulingShardStatus,
    UsageDBConfig,
    UsageParams,
)
from .topology import Topology, TopologyLevel, TopologySpec

__all__ = [
    "KINDS",
    "ActionConfig",
    "BindRequest",
    "BindRequestSpec",
    "BindRequestStatus",
    "MinRuntime",
    "PlacementStrategy",
    "PluginConfig",
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
    "SchedulingShard",
    "SchedulingShardSpec",
    "SchedulingShardStatus",
    "SubGroup",
    "Topology",
    "TopologyConstraint",
    "TopologyLevel",
    "TopologySpec",
    "UnschedulableDetails",
    "UnschedulableExplanation",
    "UsageDBConfig",
    "UsageParams",
    "definitions",
]

KINDS: Final[tuple[type[Resource], ...]] = (PodGroup, Queue, Topology, BindRequest, SchedulingShard)


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions."""
    return [crd(kind) for kind in KINDS]
