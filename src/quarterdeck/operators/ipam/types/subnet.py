"""Subnet: a block of a pool that belongs to a cluster."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Maybe, Model, Resource, omitempty
from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Len, Required
from quarterdeck.operators.ipam import names

from .constraint import CIDR, CLUSTER_ID


class ClaimReference(Model):
    """The claim that a Subnet was made for."""

    name: str = omitempty("")
    uid: str = omitempty("")


class SubnetSpec(Model):
    """Which block of which pool, and the cluster it belongs to."""

    pool_ref: Annotated[str, Required(), Len(1)] = omitempty("")
    """Pool in the same namespace."""
    cidr: Annotated[str, CIDR, Required()] = omitempty("")
    """The block."""
    cluster_id: Annotated[str, Required(), Len(1), CLUSTER_ID] = omitempty("")
    """The cluster that the block belongs to."""
    claim_ref: Maybe[ClaimReference] = UNSET
    """Claim for which the allocator created this Subnet."""


class SubnetStatus(Model):
    """Whether the block is good."""

    phase: str = omitempty("")
    """Allocated, or Failed: no such pool, outside of it, or overlapping an older Subnet."""
    allocated_at: OptionalTime = UNSET
    """When the phase was Allocated for the first time."""


class Subnet(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    short_names=["subnet"],
    columns=[
        Column("CIDR", ".spec.cidr"),
        Column("ClusterID", ".spec.clusterID"),
        Column("Pool", ".spec.poolRef"),
        Column("Phase", ".status.phase"),
        Column.age(),
    ],
):
    """A block of addresses, cut from a pool for a cluster."""

    spec: Maybe[SubnetSpec] = UNSET
    status: SubnetStatus = omitempty(SubnetStatus())

    @property
    def pool_ref(self) -> str:
        """Name of its pool; empty without one."""
        return self.spec.pool_ref if self.spec else ""
