"""``spec.cloudInstances``: machines ordered from a cloud."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.marker import Enum, Ge, Le, Pattern
from quarterdeck.operators.nodegroup.names import INSTANCE_CLASS_KINDS


class ClassReference(Model):
    """The instance class that describes the machines."""

    kind: Annotated[Maybe[str], Enum(*INSTANCE_CLASS_KINDS)] = UNSET
    """Kind of the instance class; it belongs to the cloud provider in use."""
    name: Maybe[str] = UNSET
    """Name of the instance class."""


class NotHeldResources(Model):
    """Resources of a standby node that the placeholder leaves free."""

    cpu: Annotated[Maybe[IntOrString], Pattern(r"^[0-9]+m?$")] = UNSET
    """CPU that is left free on a standby node."""
    memory: Annotated[Maybe[IntOrString], Pattern(r"^[0-9]+(\.[0-9]+)?(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)?$")] = (
        UNSET
    )
    """Memory that is left free on a standby node."""


class OldStandbyHolder(Model):
    """How much of a standby node the placeholder holds."""

    not_held_resources: Maybe[NotHeldResources] = UNSET


class StandbyHolder(OldStandbyHolder):
    """How much of a standby node the placeholder holds."""

    overprovisioning_rate: Annotated[Maybe[int], Ge(1), Le(80)] = UNSET
    """Percentage of a node's resources that the placeholder requests; 50 unless set."""


class _Instances(Model):
    class_reference: ClassReference
    zones: Maybe[Seq[str]] = UNSET
    """Zones to order machines in; all zones of the provider unless set."""
    min_per_zone: Annotated[int, Ge(0)]
    """Smallest number of machines in each zone."""
    max_per_zone: Annotated[int, Ge(0)]
    """Largest number of machines in each zone."""
    max_unavailable_per_zone: Annotated[Maybe[int], Ge(0)] = UNSET
    """How many machines of a zone may be missing during a rolling update; 0 unless set."""
    max_surge_per_zone: Annotated[Maybe[int], Ge(0)] = UNSET
    """How many machines of a zone are ordered at once during a rolling update; 1 unless set."""
    standby: Annotated[Maybe[IntOrString], Pattern(r"^[0-9]+%?$")] = UNSET
    """Number or percentage of warm spare nodes."""


class OldCloudInstances(_Instances):
    """Machines ordered from the cloud."""

    standby_holder: Maybe[OldStandbyHolder] = UNSET


class CloudInstances(_Instances):
    """Machines ordered from the cloud."""

    standby_holder: Maybe[StandbyHolder] = UNSET
    priority: Maybe[int] = UNSET
    """Which group grows first; the larger number wins."""
    quick_shutdown: Maybe[bool] = UNSET
    """Deprecated: drain for at most five minutes."""
