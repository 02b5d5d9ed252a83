"""What can be set about the operator: ``operators: {ipam: {...}}`` of the configuration file."""

from __future__ import annotations

from typing import Literal

import msgspec

from quarterdeck.errors import ConfigError

from .logic.podrange import Family
from .logic.statuscalc import Limits


class PodRangeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Whether nodes get their pod ranges (``spec.podCIDRs``) from pools."""

    namespace: str = ""
    """Where the pools are; empty: nodes get no ranges."""
    families: tuple[Literal["IPv4", "IPv6"], ...] = ("IPv4",)
    """One range of each, in this order; a node waits until it has them all."""

    def __post_init__(self) -> None:
        if not self.families or len(set(self.families)) != len(self.families):
            raise ConfigError("podRanges.families: name IPv4, IPv6 or both, each once")

    @property
    def wanted(self) -> tuple[Family, ...]:
        """The families."""
        return tuple(Family[each] for each in self.families)


class IpamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Settings, with the values that are used unless set."""

    enable_pool_claim: bool = True
    """Serve SubnetPoolClaims."""
    strict_allocation: bool = False
    """Reserve every block on the pool object before it is used: no overlap even for a moment while two
    allocators are active; one write more per claim."""
    immutable_subnets: bool = False
    """Let the admission hook refuse changes of a Subnet's spec."""
    pool_status_workers: int = 5
    subnet_workers: int = 5
    claim_workers: int = 64
    pool_claim_workers: int = 4
    omit_cidrs_above: int = 1000
    """Members above which the status of a pool does not list them."""
    list_cidrs_again_at: int = 900
    """Members at which a list that was left out comes back."""
    status_interval: float = 0.0
    """Seconds between two writes of one pool's status; 1 is recommended above 10,000 members."""
    audit_period: float = 600.0
    """Seconds between two audits; each looks at the next pool."""
    pod_ranges: PodRangeSettings = PodRangeSettings()
    """Nodes get their pod ranges from pools; off unless a namespace is named."""
    drop_idle_child_events: bool = False
    """Do not requeue a parent for events of its child pools while its status is up to date."""

    @property
    def limits(self) -> Limits:
        """When the status of a pool lists its members."""
        return Limits(self.omit_cidrs_above, self.list_cidrs_again_at)
