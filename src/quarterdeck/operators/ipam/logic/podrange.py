"""Which pool a node gets its pod range from.

The pools are those of one namespace that say so by a label: it names the zone whose nodes they serve, or is
empty for the zones that have no pool of their own. Where several would do, the first by name is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.types import SubnetPool

from .facts import pool_facts
from .network import IPV4, IPV6, InvalidCidr, Network, parse


class Family(Enum):
    """A family of addresses; the value is their width."""

    IPv4 = IPV4
    IPv6 = IPV6


class NoPool(QuarterdeckError):
    """There is no pool for a node; the message says what is missing."""


class RangePool(msgspec.Struct, frozen=True, order=True):
    """A pool that nodes get ranges from."""

    name: str
    zone: str
    """Zone of its nodes; empty for all that have no pool of their own."""
    network: Network
    size: int
    """Prefix length of a node's range."""


def range_pools(pools: Sequence[SubnetPool]) -> list[RangePool]:
    """The pools with the label, by name; without those that are on their way out or have no range."""
    found = []
    for pool in pools:
        zone, facts = pool.metadata.labels.get(names.POD_RANGES_LABEL), pool_facts(pool)
        if zone is not None and facts.network is not None and not facts.is_deleting:
            found.append(RangePool(facts.name, zone, facts.network, facts.usual_size))
    return sorted(found)


def choose_pool(pools: Sequence[RangePool], zone: str, family: Family) -> RangePool:
    """The pool for a node of a zone; raises ``NoPool``."""
    fitting = [pool for pool in pools if pool.network.width == family.value]
    of_zone = [pool for pool in fitting if pool.zone == zone]
    chosen = next(iter(of_zone or [pool for pool in fitting if not pool.zone]), None)
    if chosen is None:
        place = f"zone {zone}" if zone else "nodes without a zone"
        raise NoPool(f"no {family.name} SubnetPool is labelled {names.POD_RANGES_LABEL}={zone} for {place}")
    for other in fitting:
        if other.name != chosen.name and other.network.overlaps(chosen.network):
            ranges = f"{chosen.name} ({chosen.network}) and {other.name} ({other.network})"
            raise NoPool(f"the SubnetPools {ranges} overlap: nodes of both would share addresses")
    return chosen


def pool_around(pools: Sequence[RangePool], network: Network) -> RangePool | None:
    """The pool that a range, which a node has already, is a part of."""
    return next((pool for pool in pools if pool.network.contains(network)), None)


def range_of_family(ranges: Sequence[str], family: Family) -> Network | None:
    """The range of a family among those of a node."""
    for text in ranges:
        try:
            network = parse(text)
        except InvalidCidr:
            continue
        if network.width == family.value:
            return network
    return None
