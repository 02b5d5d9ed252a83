"""Indexes kept over cached kinds."""

from __future__ import annotations

from typing import Final

from quarterdeck.operators.ipam import names
from quarterdeck.runtime.cache import Entry, Index, field, label, owner_uid

from .types import SubnetClaim, SubnetPool

POOL_REF: Final[Index[SubnetClaim]] = field("spec.poolRef")
"""Claims by their pool."""
PARENT: Final[Index[SubnetPool]] = label(names.PARENT_LABEL)
"""Child pools by their parent."""
OWNER: Final = owner_uid
POD_RANGES: Final = "yes"


def _pod_ranges(entry: Entry) -> tuple[str, ...]:
    return (POD_RANGES,) if names.POD_RANGES_LABEL in entry.labels else ()


RANGE_POOLS: Final[Index[SubnetPool]] = Index("pod-ranges", of_entry=_pod_ranges)
"""Pools that Nodes get ranges of, all under the value ``POD_RANGES``."""
