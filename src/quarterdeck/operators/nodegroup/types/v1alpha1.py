"""NodeGroup v1alpha1: the oldest version."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Resource, Seq
from quarterdeck.api.marker import Enum, Len, Pattern
from quarterdeck.operators.nodegroup.names import (
    CRD_LABELS,
    GROUP,
    KUBERNETES_VERSIONS,
    MAX_NAME_LENGTH,
    NAME_PATTERN,
    OLD_NODE_TYPES,
)

from .cloud import OldCloudInstances
from .column import COLUMNS
from .cri import CriV1Alpha1, Docker
from .disruption import Disruptions, OldChaos
from .kubelet import OldKubelet
from .status import OldStatus
from .template import NodeTemplate, OperatingSystem


class StaticNetwork(Model):
    """Networks of static nodes."""

    internal_network_cidrs: Maybe[Seq[str]] = UNSET
    """Networks that nodes reach each other by."""


class Spec(Model):
    """What the group should be."""

    node_type: Annotated[str, Enum(*OLD_NODE_TYPES)]
    """Where nodes come from."""
    kubernetes_version: Annotated[Maybe[str], Enum(*KUBERNETES_VERSIONS)] = UNSET
    """Version of the kubelets."""
    static: Maybe[StaticNetwork] = UNSET
    docker: Maybe[Docker] = UNSET
    cri: Maybe[CriV1Alpha1] = UNSET
    cloud_instances: Maybe[OldCloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    chaos: Maybe[OldChaos] = UNSET
    operating_system: Maybe[OperatingSystem] = UNSET
    disruptions: Maybe[Disruptions] = UNSET
    kubelet: Maybe[OldKubelet] = UNSET


class NodeGroup(
    Resource,
    group=GROUP,
    version="v1alpha1",
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
