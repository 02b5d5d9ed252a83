"""The five kinds, and their definitions."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, crd

from .constraint import Pack, TopologyConstraint
from .podclique import AutoScaling, PodClique, PodCliqueSpec, PodCliqueStatus
from .podcliqueset import (
    CliqueTemplate,
    HeadlessServiceConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetStatus,
    PodCliqueSetTemplate,
    PodGangStatusSummary,
    ScalingGroupConfig,
    UpdateStrategy,
)
from .podgang import (
    GangConstraint,
    GangGroup,
    GroupConstraint,
    NamespacedName,
    PackConstraint,
    PodGang,
    PodGangSpec,
    PodGangStatus,
)
from .progress import (
    CliqueUpdate,
    GroupUpdate,
    IndicesSelected,
    LastError,
    PodsSelected,
    ReplicaUpdate,
    SetUpdate,
)
from .scalinggroup import (
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueScalingGroupStatus,
)
from .sharing import ClaimTemplate, CliqueSharing, GroupFilter, GroupSharing, SetFilter, SetSharing
from .topology import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    ClusterTopologyStatus,
    SchedulerTopologyBinding,
    SchedulerTopologyStatus,
    TopologyLevel,
)

__all__ = [
    "KINDS",
    "AutoScaling",
    "ClaimTemplate",
    "CliqueSharing",
    "CliqueTemplate",
    "CliqueUpdate",
    "ClusterTopologyBinding",
    "ClusterTopologySpec",
    "ClusterTopologyStatus",
    "GangConstraint",
    "GangGroup",
    "GroupConstraint",
    "GroupFilter",
    "GroupSharing",
    "GroupUpdate",
    "HeadlessServiceConfig",
    "IndicesSelected",
    "LastError",
    "NamespacedName",
    "Pack",
    "PackConstraint",
    "PodClique",
    "PodCliqueScalingGroup",
    "PodCliqueScalingGroupSpec",
    "PodCliqueScalingGroupStatus",
    "PodCliqueSet",
    "PodCliqueSetSpec",
    "PodCliqueSetStatus",
    "PodCliqueSetTemplate",
    "PodCliqueSpec",
    "PodCliqueStatus",
    "PodGang",
    "PodGangSpec",
    "PodGangStatus",
    "PodGangStatusSummary",
    "PodsSelected",
    "ReplicaUpdate",
    "ScalingGroupConfig",
    "SchedulerTopologyBinding",
    "SchedulerTopologyStatus",
    "SetFilter",
    "SetSharing",
    "SetUpdate",
    "TopologyConstraint",
    "TopologyLevel",
    "UpdateStrategy",
    "definitions",
]

KINDS: Final[tuple[type[Resource], ...]] = (
    PodCliqueSet,
    PodClique,
    PodCliqueScalingGroup,
    PodGang,
    ClusterTopologyBinding,
)


def definitions() -> list[dict[str, Any]]:
    """The five CustomResourceDefinitions."""
    made = [crd(kind) for kind in KINDS]
    for definition in made:
        _leave_variables_to_the_webhook(definition)
    return made


def _leave_variables_to_the_webhook(schema: Any) -> None:
    """Environment variables of the same name are refused by the webhook, whose words name the container."""
    if isinstance(schema, list):
        for each in schema:
            _leave_variables_to_the_webhook(each)
    elif isinstance(schema, dict):
        variables = (schema.get("properties") or {}).get("env")
        if isinstance(variables, dict) and variables.get("x-kubernetes-list-map-keys") == ["name"]:
            del variables["x-kubernetes-list-map-keys"]
            variables["x-kubernetes-list-type"] = "atomic"
        for each in schema.values():
            _leave_variables_to_the_webhook(each)
