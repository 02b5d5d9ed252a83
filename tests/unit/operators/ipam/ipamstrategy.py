"""Small pools and blocks for property tests, and the slow way to say what is free in them."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from quarterdeck.operators.ipam.logic.facts import Member
from quarterdeck.operators.ipam.logic.network import Network, parse

POOLS = [parse("10.0.0.0/26"), parse("2001:db8::/122")]
"""64 addresses each: small enough to count one by one."""


def blocks_of(pool: Network) -> st.SearchStrategy[Network]:
    """Blocks inside a pool, of any size."""

    def at(prefix: int, index: int) -> Network:
        return Network(pool.address + (index << (pool.width - prefix)), prefix, pool.width)

    return st.integers(pool.prefix, pool.width).flatmap(
        lambda prefix: st.integers(0, (1 << (prefix - pool.prefix)) - 1).map(lambda index: at(prefix, index))
    )


def blocks_around(pool: Network) -> st.SearchStrategy[Network]:
    """Blocks inside, outside and around a pool."""
    beside = Network(pool.address - (1 << (pool.width - pool.prefix)), pool.prefix, pool.width)
    return st.one_of(
        blocks_of(pool), blocks_of(beside), st.integers(pool.prefix - 4, pool.prefix).map(pool.at)
    )


def addresses(network: Network) -> range:
    return range(network.address, network.last + 1)


def uncovered(pool: Network, blocks: Iterable[Network]) -> set[int]:
    """The addresses of a pool that no block covers."""
    free = set(addresses(pool))
    for block in blocks:
        if block.width == pool.width and block.overlaps(pool):
            free -= set(addresses(block if pool.contains(block) else pool))
    return free


def aligned(pool: Network, free: set[int], prefix: int) -> list[Network]:
    """The free aligned blocks of a size, from low to high: looked at one by one."""
    if prefix < pool.prefix:
        return []
    size = 1 << (pool.width - prefix)
    starts = range(pool.address, pool.last + 1, size)
    return [
        Network(start, prefix, pool.width) for start in starts if free.issuperset(range(start, start + size))
    ]


def member(
    uid: str,
    network: Network | None,
    *,
    pool: str = "p",
    version: int = 1,
    created: str = "2030-01-01T00:00:00Z",
) -> Member:
    return Member(
        uid=uid,
        namespace="default",
        name=f"s-{uid}",
        pool=pool,
        block=network.packed if network is not None else None,
        cluster_id=f"c-{uid}",
        created=created,
        version=version,
    )
