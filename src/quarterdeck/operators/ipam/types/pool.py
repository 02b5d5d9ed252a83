"""SubnetPool: a range that Subnets are cut from."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Column, Condition, Map, Maybe, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Cel, Default, Enum, Int64, ListMap, Required
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.operators.ipam import names

from .constraint import CIDR, LARGEST_PREFIX, SMALLEST_PREFIX


class SubnetPoolSpec(
    Model,
    rules=[
        Cel(
            "self.cidr.contains(':') || ((!has(self.defaultBlockSize) || self.defaultBlockSize <= 28)"
            " && (!has(self.minBlockSize) || self.minBlockSize <= 28)"
            " && (!has(self.maxBlockSize) || self.maxBlockSize <= 28))",
            message="block sizes of an IPv4 pool must be between 16 and 28",
        )
    ],
):
    """The range and how it is divided."""

    cidr: Annotated[str, CIDR, Required()] = omitempty("")
    """Range managed by the pool; bits beyond the prefix are ignored."""
    default_block_size: Annotated[Maybe[int], SMALLEST_PREFIX, LARGEST_PREFIX, Default(24)] = UNSET
    """Prefix length for claims that name neither a size nor a CIDR."""
    min_block_size: Annotated[Maybe[int], SMALLEST_PREFIX, LARGEST_PREFIX] = UNSET
    """Shortest prefix (the biggest block) that may be claimed; no limit unless set."""
    max_block_size: Annotated[Maybe[int], SMALLEST_PREFIX, LARGEST_PREFIX] = UNSET
    """Longest prefix (the smallest block) that may be claimed; no limit unless set."""
    strategy: Annotated[Maybe[str], Enum(names.LINEAR, names.BUDDY), Default(names.LINEAR)] = UNSET
    """Linear takes the lowest free block, Buddy the one that breaks up the least."""


class SubnetPoolStatus(Model):
    """What the Subnets of the pool leave free."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    """Generation of the pool that this status was computed for."""
    allocated_count: Maybe[int] = UNSET
    """Number of Subnets that name this pool."""
    free_count_by_size: Map[str, Annotated[int, Int64]] = omitempty(EMPTY_MAP)
    """Prefix length to number of free aligned blocks."""
    allocated_cidrs: Map[str, str] = omitempty(EMPTY_MAP)
    """CIDR to cluster ID; left out when there are too many, see the conditions."""
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class SubnetPool(
    Resource,
    group=names.GROUP,
    version=names.VERSION,
    status=True,
    short_names=["subnetpool"],
    columns=[
        Column("CIDR", ".spec.cidr"),
        Column("Strategy", ".spec.strategy"),
        Column("Allocated", ".status.allocatedCount", "integer"),
        Column.age(),
    ],
):
    """A range of addresses that Subnets are cut from."""

    spec: Maybe[SubnetPoolSpec] = UNSET
    status: SubnetPoolStatus = omitempty(SubnetPoolStatus())

    @property
    def parent(self) -> str:
        """Name of the parent pool; empty if it has none."""
        return self.metadata.labels.get(names.PARENT_LABEL, "")
