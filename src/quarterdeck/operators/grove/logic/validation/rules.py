"""What the operator allows, as its configuration says."""

from __future__ import annotations

import msgspec

TEMPLATE = "spec.template"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator allows."""

    default_scheduler: str
    """Whose pods name no scheduler."""
    enabled_schedulers: frozenset[str]
    has_topology: bool = False
    """Topology-aware scheduling is on."""
    has_default_topology: bool = False
    """Levels are in the configuration: a constraint need not name its topology, and may use old words."""
    has_mnnvl: bool = False
