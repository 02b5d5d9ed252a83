"""SubnetPoolClaim: the wish for a pool inside a pool."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import (
    UNSET,
    Column,
    Condition,
    Int64,
    Len,
    ListMap,
    Maybe,
    Model,
    Required,
    Resource,
    Seq,
    omitempty,
)
from quarterdeck.operators.ipam import names

from .constraint import LARGEST_PREFIX, SMALLEST_PREFIX


class SubnetPoolClaimSpec(Model):
    """How big a pool is wanted, and where."""

    parent_pool_ref: Annotated[str, Required(), Len(1)] = omitempty("")
    """Pool in the same namespace that the range is cut from."""
    desired_block_size: Annotated[Maybe[int], Required(), SMALLEST_PREFIX, LARGEST_PREFIX] = UNSET
    """Prefix length of the pool wanted."""


class SubnetPoolClaimStatus(Model):
    """What became of the claim."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    phase: str = omitempty("")
    """Pending, Bound or Error."""
    bound_pool_name: str = omitempty("")
    message: str = omitempty("")
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


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
