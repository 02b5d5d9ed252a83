"""SubnetPoolClaim: the wish for a pool inside a pool."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Maybe, Model, Resource, omitempty
from quarterdeck.api.marker import Len, Required
from quarterdeck.operators.ipam import names

from .claimstatus import ClaimStatus
from .constraint import LARGEST_PREFIX, SMALLEST_PREFIX


class SubnetPoolClaimSpec(Model):
    """How big a pool is wanted, and where."""

    parent_pool_ref: Annotated[str, Required(), Len(1)] = omitempty("")
    """Pool in the same namespace that the range is taken from."""
    desired_block_size: Annotated[Maybe[int], Required(), SMALLEST_PREFIX, LARGEST_PREFIX] = UNSET
    """Prefix length of the pool wanted."""


class SubnetPoolClaimStatus(ClaimStatus):
    """The state of the claim."""

    bound_pool_name: str = omitempty("")
    """The pool that was made for the claim."""


class SubnetPoolClaim(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    short_names=["subnetpc"],
    columns=[
        Column("Phase", ".status.phase"),
        Column("Parent", ".spec.parentPoolRef"),
        Column("BoundPool", ".status.boundPoolName"),
        Column.age(),
    ],
):
    """The wish for a pool that is cut from another pool."""

    spec: Maybe[SubnetPoolClaimSpec] = UNSET
    status: SubnetPoolClaimStatus = omitempty(SubnetPoolClaimStatus())
