"""NodeGroup v1alpha2."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Resource
from quarterdeck.api.marker import Enum, Len, Pattern
from quarterdeck.operators.nodegroup.names import (
    CRD_LABELS,
    GROUP,
    MAX_NAME_LENGTH,
    NAME_PATTERN,
    OLD_NODE_TYPES,
)

from .cloud import OldCloudInstances
from .column import COLUMNS
from .cri import CriV1Alpha2
from .disruption import Disruptions, OldChaos
from .kubelet import OldKubelet
from .status import OldStatus
from .template import NodeTemplate, OperatingSystem


class Spec(Model):
    """What the group should be."""

    node_type: Annotated[str, Enum(*OLD_NODE_TYPES)]
    """Where nodes come from."""
    cri: Maybe[CriV1Alpha2] = UNSET
    cloud_instances: Maybe[OldCloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    chaos: Maybe[OldChaos] = UNSET
    operating_system: Maybe[OperatingSystem] = UNSET
    disruptions: Maybe[Disruptions] = UNSET
    kubelet: Maybe[OldKubelet] = UNSET


class NodeGroup(
    Resource,
    group=GROUP,
    version="v1alpha2",
    scope="Cluster",
    short_names=["ng"],
    status=True,
    storage=False,
    columns=COLUMNS,
    crd_labels=CRD_LABELS,
    name_rules=[Pattern(NAME_PATTERN), Len(max=MAX_NAME_LENGTH)],
):
    """A group of nodes with the same configuration."""

    spec: Spec
    status: Maybe[OldStatus] = UNSET
