"""SubnetClaim: the wish for a block of a pool."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Maybe, Model, Resource, omitempty
from quarterdeck.api.marker import Cel, Len, Required
from quarterdeck.operators.ipam import names

from .claimstatus import ClaimStatus
from .constraint import CIDR, CLUSTER_ID, LARGEST_PREFIX, SMALLEST_PREFIX


class SubnetClaimSpec(
    Model,
    rules=[
        Cel(
            "(has(self.blockSize) || has(self.requestedCIDR))",
            message="either blockSize or requestedCIDR must be set",
        ),
        Cel(
            "!(has(self.blockSize) && has(self.requestedCIDR))",
            message="blockSize and requestedCIDR are mutually exclusive",
        ),
    ],
):
    """What is wanted, from where, for whom."""

    pool_ref: Annotated[str, Required(), Len(1)] = omitempty("")
    """Pool in the same namespace."""
    cluster_id: Annotated[str, Required(), Len(1), CLUSTER_ID] = omitempty("")
    """Claims of one cluster on one pool share one Subnet."""
    block_size: Annotated[Maybe[int], SMALLEST_PREFIX, LARGEST_PREFIX] = UNSET
    """Prefix length of the block wanted."""
    requested_cidr: Annotated[Maybe[str], CIDR] = UNSET
    """The exact block wanted."""


class SubnetClaimStatus(ClaimStatus):
    """The state of the claim."""

    allocated_cidr: str = omitempty("")
    """The block that the claim got."""


class SubnetClaim(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    short_names=["subnetclaim"],
    columns=[
        Column("Phase", ".status.phase"),
        Column("ClusterID", ".spec.clusterID"),
        Column("Pool", ".spec.poolRef"),
        Column("Allocated", ".status.allocatedCIDR"),
        Column.age(),
    ],
):
    """The wish of a cluster for a block of a pool."""

    spec: Maybe[SubnetClaimSpec] = UNSET
    status: SubnetClaimStatus = omitempty(SubnetClaimStatus())
