"""Constraints that several kinds share."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.marker import Format, Ge, Le, Pattern

CIDR: Final = Format("cidr")
CLUSTER_ID: Final = Pattern(r"^[a-z0-9.-]{1,63}$")
SMALLEST_PREFIX: Final = Ge(16)
LARGEST_PREFIX: Final = Le(128)
"""Upstream ends at 28, which leaves no size for IPv6; a rule of the pool keeps 28 for IPv4."""
