"""What the gang schedulers read: PodGroups of two groups. Their definitions belong to the schedulers."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Map, Maybe, Model, Quantity, Resource, omitempty
from quarterdeck.api.marker import Int32
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.operators.trainer import names

from .runtime import NetworkTopology


class CoschedulingPodGroupSpec(Model):
    """How many pods start together."""

    min_member: Annotated[Maybe[int], Int32] = UNSET
    min_resources: Map[str, Quantity] = omitempty(EMPTY_MAP)
    schedule_timeout_seconds: Annotated[Maybe[int], Int32] = UNSET


class CoschedulingPodGroup(
    Resource,
    group=names.COSCHEDULING_GROUP,
    version="v1alpha1",
    kind="PodGroup",
    plural="podgroups",
    status=True,
):
    """A gang for the coscheduling plugin."""

    spec: CoschedulingPodGroupSpec = omitempty(CoschedulingPodGroupSpec())


class VolcanoPodGroupSpec(Model):
    """How many pods start together, and in which queue they wait."""

    min_member: Annotated[Maybe[int], Int32] = UNSET
    min_resources: Map[str, Quantity] = omitempty(EMPTY_MAP)
    queue: str = omitempty("")
    priority_class_name: str = omitempty("")
    network_topology: Maybe[NetworkTopology] = UNSET


class VolcanoPodGroup(
    Resource,
    group=names.VOLCANO_GROUP,
    version="v1beta1",
    kind="PodGroup",
    plural="podgroups",
    status=True,
):
    """A gang for Volcano."""

    spec: VolcanoPodGroupSpec = omitempty(VolcanoPodGroupSpec())
