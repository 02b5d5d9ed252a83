"""PodGang: what schedulers read."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Atomic, Enum, Int32, ListMap, Required
from quarterdeck.operators.grove import names


class NamespacedName(Model):
    """An object."""

    namespace: Annotated[str, Required()] = ""
    name: Annotated[str, Required()] = ""


class PackConstraint(Model):
    """How near, in keys of node labels."""

    required: str = omitempty("")
    """Topology level that must hold all pods."""
    preferred: str = omitempty("")
    """Topology level that should hold all pods."""


class GangConstraint(Model):
    """Where pods should be near each other."""

    pack_constraint: Maybe[PackConstraint] = UNSET


class GangGroup(Model):
    """The pods of one clique."""

    name: Annotated[str, Required()] = ""
    """Name of the group in the gang."""
    pod_references: Annotated[Seq[NamespacedName], Required(), Atomic()] = ()
    min_replicas: Annotated[int, Int32, Required()] = 0
    """Pods that must be placed for the gang to start."""
    topology_constraint: Maybe[GangConstraint] = UNSET


class GroupConstraint(Model):
    """Groups that should be near each other."""

    name: Annotated[str, Required()] = ""
    pod_group_names: Annotated[Seq[str], Required(), Atomic()] = ()
    """The groups that are kept together."""
    topology_constraint: Maybe[GangConstraint] = UNSET


class PodGangSpec(Model):
    """Groups of pods that start together."""

    podgroups: Annotated[Seq[GangGroup], Required(), ListMap("name")] = ()
    topology_constraint: Maybe[GangConstraint] = UNSET
    topology_constraint_group_configs: Annotated[Seq[GroupConstraint], ListMap("name")] = omitempty(())
    priority_class_name: str = omitempty("")
    """PriorityClass of the gang."""
    reuse_reservation_ref: Maybe[NamespacedName] = UNSET


class PodGangStatus(Model):
    """State of the gang."""

    phase: Annotated[str, Enum("Pending", "Starting", "Running")] = omitempty("")
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    placement_score: Maybe[float] = UNSET
    """How good the placement is, 0 to 1, as the scheduler says."""


class PodGang(
    Resource,
    group=names.SCHEDULER_GROUP,
    version=names.VERSION,
    short_names=["pg"],
    status=True,
    columns=[Column("Phase", ".status.phase"), Column.age()],
):
    """Groups of pods that start together or not at all."""

    spec: Annotated[PodGangSpec, Required()] = PodGangSpec()
    status: PodGangStatus = omitempty(PodGangStatus())
