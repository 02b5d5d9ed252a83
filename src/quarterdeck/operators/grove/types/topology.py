"""ClusterTopologyBinding: which domains a cluster has, and the node labels they stand for."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Int64, Len, ListMap, Pattern, Required
from quarterdeck.operators.grove import names

from .constraint import DOMAIN


class TopologyLevel(Model):
    """A domain, and the node label whose value tells one such domain from another."""

    domain: Annotated[str, Required(), *DOMAIN] = ""
    """What the level is called: zone, rack, host and so on."""
    key: Annotated[str, Required(), Len(1, 63), Pattern(names.LEVEL_KEY_PATTERN)] = ""
    """Node label whose value names the domain."""


class SchedulerTopologyBinding(Model):
    """A scheduler's topology object that somebody else manages."""

    scheduler_name: Annotated[str, Required()] = ""
    topology_reference: Annotated[str, Required()] = ""
    """Name of the scheduler's own topology object."""


class ClusterTopologySpec(Model):
    """The levels, the widest first."""

    levels: Annotated[Seq[TopologyLevel], Required(), Len(1)] = ()
    scheduler_topology_bindings: Seq[SchedulerTopologyBinding] = omitempty(())


class SchedulerTopologyStatus(Model):
    """Whether the topology of a scheduler is the same."""

    scheduler_name: Annotated[str, Required()] = ""
    topology_reference: str = omitempty("")
    """Name of the scheduler's own topology object."""
    in_sync: Annotated[bool, Required()] = False
    """Whether the scheduler's object has the same levels."""
    scheduler_backend_topology_observed_generation: Annotated[Maybe[int], Int64] = UNSET
    """Generation of the scheduler's object that was compared."""
    message: str = omitempty("")


class ClusterTopologyStatus(Model):
    """State of the topology."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
    scheduler_topology_statuses: Annotated[Seq[SchedulerTopologyStatus], ListMap("schedulerName")] = (
        omitempty(())
    )


class ClusterTopologyBinding(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    scope="Cluster",
    short_names=["ct"],
    status=True,
    columns=[Column("Domains", ".spec.levels[*].domain"), Column.age()],
):
    """The topology of the cluster."""

    spec: Annotated[ClusterTopologySpec, Required()] = ClusterTopologySpec()
    status: ClusterTopologyStatus = omitempty(ClusterTopologyStatus())
