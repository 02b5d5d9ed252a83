"""``status`` of a group."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq
from quarterdeck.api.marker import Enum, Format


class LastOperation(Model):
    """The last operation of a machine controller."""

    description: Maybe[str] = UNSET
    last_update_time: Maybe[str] = UNSET
    """When this happened."""
    state: Maybe[str] = UNSET
    """The result."""
    type: Maybe[str] = UNSET


class MachineFailure(Model):
    """A machine that could not be ordered."""

    name: Maybe[str] = UNSET
    provider_id: Maybe[str] = UNSET
    """The machine, as its cloud calls it."""
    owner_ref: Maybe[str] = UNSET
    """Who ordered it."""
    last_operation: Maybe[LastOperation] = UNSET


class ConditionSummary(Model):
    """The conditions in one line."""

    status_message: Maybe[str] = UNSET
    """What is wrong, if anything is."""
    ready: Annotated[Maybe[str], Enum("True", "False")] = UNSET
    """Whether the group is in the desired state."""


class OldStatus(Model):
    """What the group is."""

    engine: Annotated[Maybe[str], Enum("None", "MCM", "CAPI")] = UNSET
    """Who orders machines."""
    ready: Maybe[int] = UNSET
    """Nodes that are Ready."""
    nodes: Maybe[int] = UNSET
    """Nodes of the group."""
    instances: Maybe[int] = UNSET
    """Machines of the group, with or without a node."""
    desired: Maybe[int] = UNSET
    """Machines wanted."""
    min: Maybe[int] = UNSET
    """Smallest number of machines in all zones."""
    max: Maybe[int] = UNSET
    """Largest number of machines in all zones."""
    up_to_date: Maybe[int] = UNSET
    """Nodes with the newest configuration."""
    standby: Maybe[int] = UNSET
    """Warm spare nodes."""
    error: Maybe[str] = UNSET
    """Why the group cannot get machines."""
    kubernetes_version: Maybe[str] = UNSET
    """Version of the kubelets."""
    last_machine_failures: Maybe[Seq[MachineFailure]] = UNSET
    condition_summary: Maybe[ConditionSummary] = UNSET


class GroupCondition(Model):
    """One aspect of the group's state."""

    type: str
    status: str
    last_transition_time: Annotated[Maybe[str], Format("date-time")] = UNSET
    message: Maybe[str] = UNSET


class Checkpoint(Model):
    """Which configuration was observed, and when."""

    last_timestamp: Maybe[str] = UNSET
    """When."""
    check_sum: Maybe[str] = UNSET
    """Which configuration, as a checksum."""


class Deckhouse(Model):
    """How far the module has got with processing the group."""

    synced: Maybe[str] = UNSET
    """Whether the newest configuration was processed."""
    observed: Maybe[Checkpoint] = UNSET
    processed: Maybe[Checkpoint] = UNSET


class Status(OldStatus):
    """What the group is."""

    conditions: Maybe[Seq[GroupCondition]] = UNSET
    deckhouse: Maybe[Deckhouse] = UNSET
