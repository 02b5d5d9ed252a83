"""NodeGroup v1: the stored version, and the hub of every conversion."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Resource
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.marker import Default, Enum, Len, OneOf, Pattern, Required
from quarterdeck.operators.nodegroup.names import (
    CRD_LABELS,
    GROUP,
    MAX_NAME_LENGTH,
    NAME_PATTERN,
    NODE_TYPES,
)

from .cloud import CloudInstances
from .column import V1_COLUMNS
from .cri import Cri
from .disruption import Chaos, Disruptions
from .gpu import Gpu
from .kubelet import Kubelet
from .static import StaticInstances
from .status import Status
from .template import NodeTemplate, OperatingSystem


class Update(Model):
    """How nodes are updated."""

    max_concurrent: Annotated[Maybe[IntOrString], Default(1), Pattern(r"^[1-9][0-9]*%?$")] = UNSET
    """Nodes updated at once, as a number or a percentage."""


class Watchdog(Model):
    """A hardware or software watchdog."""

    timeout: Annotated[Maybe[str], Required(), Default("60s"), Pattern(r"^[0-9]+[smh]{1}$")] = UNSET
    """How long the cluster may be unreachable."""


class Fencing(Model):
    """What a node does to itself when it loses the cluster."""

    mode: Annotated[str, Enum("Watchdog")]
    """Watchdog: the node restarts itself."""
    watchdog: Maybe[Watchdog] = UNSET


class Spec(
    Model,
    rules=[
        OneOf(
            {
                "properties": {"nodeType": {"enum": ["CloudEphemeral"]}},
                "required": ["cloudInstances"],
                "not": {"required": ["staticInstances"]},
            },
            {
                "properties": {"nodeType": {"enum": ["Static", "CloudStatic"]}},
                "not": {"required": ["cloudInstances"]},
            },
            {
                "properties": {"nodeType": {"enum": ["CloudPermanent"]}},
                "not": {"required": ["staticInstances"]},
            },
        )
    ],
):
    """What the group should be."""

    node_type: Annotated[str, Enum(*NODE_TYPES)]
    """Where nodes come from: ordered and removed on demand, created with the cluster, or brought along."""
    cri: Maybe[Cri] = UNSET
    gpu: Maybe[Gpu] = UNSET
    cloud_instances: Maybe[CloudInstances] = UNSET
    static_instances: Maybe[StaticInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    chaos: Maybe[Chaos] = UNSET
    operating_system: Maybe[OperatingSystem] = UNSET
    disruptions: Maybe[Disruptions] = UNSET
    kubelet: Annotated[Maybe[Kubelet], Default({})] = UNSET
    update: Maybe[Update] = UNSET
    fencing: Maybe[Fencing] = UNSET
    node_drain_timeout_second: Maybe[int] = UNSET
    """Seconds a drain may take."""


class NodeGroup(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    short_names=["ng"],
    status=True,
    columns=V1_COLUMNS,
    crd_labels=CRD_LABELS,
    name_rules=[Pattern(NAME_PATTERN), Len(max=MAX_NAME_LENGTH)],
):
    """A group of nodes with the same configuration."""

    spec: Spec
    status: Maybe[Status] = UNSET
