"""The status of a pool, from what its members leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import Condition, Time
from quarterdeck.api.condition import Conditions, ConditionStatus
from quarterdeck.operators.ipam import names

from .facts import Member, PoolFacts
from .network import IPV4, Network, parse
from .occupancy import Occupancy, Rank
from .poolstate import PoolState

LARGEST_COUNT: Final = 2**63 - 1
_IPV4_SIZES: Final = range(16, 29)


class Limits(msgspec.Struct, frozen=True):
    """How many members a pool may have and still list them in its status."""

    omit_above: int = 1000
    return_at: int = 900
    """A list that was left out comes back at this number, not before."""


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the status of a pool should say."""

    generation: int
    allocated: int
    free: Mapping[str, int] | None
    """``None`` if the range of the pool cannot be read."""
    cidrs: Mapping[str, str] | None
    """``None`` if there are too many."""
    conditions: tuple[Condition, ...]
    free_addresses: int = 0
    addresses: int = 0


def pool_status(
    state: PoolState,
    present: Iterable[Condition],
    *,
    now: Time,
    has_parent: bool,
    limits: Limits,
    overlapping: Sequence[PoolFacts] = (),
    held_by: str = "",
) -> PoolStatus:
    """The status of an existing pool; ``present`` are its conditions as they are now.

    ``overlapping`` are pools that share addresses with it and should not; ``held_by`` says what a pool that
    is being deleted waits for.
    """
    facts = state.facts
    assert facts is not None
    conditions = Conditions(present)
    omitted = _is_omitted(len(state.members), conditions, limits)
    measure = state.measure()
    network = facts.network
    edit = _Edit(conditions, now, facts.generation)
    _judge_readiness(edit, facts, has_parent=has_parent)
    if measure is None or network is None:
        for kind in (names.EXHAUSTED, names.CONSISTENT):
            conditions.remove(kind)
    else:
        _judge_space(edit, full=not measure.free_addresses)
        _judge_consistency(edit, state, overlapping, overlaps=measure.has_overlaps)
    if held_by:
        edit.set(names.DELETION_BLOCKED, True, "BlocksInUse", held_by)
    else:
        conditions.remove(names.DELETION_BLOCKED)
    if omitted:
        text = f"more than {limits.omit_above} Subnets are not listed here"
        edit.set(names.CIDRS_OMITTED, True, "TooManyAllocations", text)
    else:
        conditions.remove(names.CIDRS_OMITTED)
    return PoolStatus(
        generation=facts.generation,
        allocated=len(state.members),
        free=None if measure is None or network is None else _free(measure.counts, facts, network),
        cidrs=None if omitted else allocated_cidrs(state.members.values()),
        conditions=conditions.frozen(),
        free_addresses=measure.free_addresses if measure is not None else 0,
        addresses=1 << (network.width - network.prefix) if network is not None else 0,
    )


def calculate(
    cidr: str, members: Iterable[tuple[str, str]], children: Iterable[str] = ()
) -> tuple[int, dict[str, int], dict[str, str]]:
    """Count, free blocks by size and CIDRs of a pool, from scratch.

    ``members`` are CIDRs with cluster IDs, oldest first. The controllers leave ``children`` out: ranges of
    child pools are not shown in the status of their parent.
    """
    pool = parse(cidr)
    entries = [*members, *((child, names.CHILD_POOL) for child in children)]
    view = Occupancy(pool)
    listed: dict[str, str] = {}
    for number, (text, cluster_id) in enumerate(entries):
        network = parse(text)
        view.add(str(number), network, Rank("", f"{number:012}"))
        listed.setdefault(str(network), cluster_id)
    return len(entries), free_by_size(view.space.counts(), pool), listed


def free_by_size(counts: list[int], pool: Network, extra: Iterable[int] = ()) -> dict[str, int]:
    """Free aligned blocks by prefix length, from the numbers of maximal ones.

    ``extra`` are sizes that an IPv6 pool shows beyond the usual ones.
    """
    if pool.width == IPV4:
        sizes: Iterable[int] = _IPV4_SIZES
    else:
        usual = range(-(-pool.prefix // 4) * 4, pool.width + 1, 4)
        sizes = sorted({pool.prefix, *usual, *(size for size in extra if size >= pool.prefix)})
    found: dict[str, int] = {}
    total, prefix = 0, pool.prefix - 1
    for size in sizes:
        while prefix < size:
            prefix += 1
            total = 2 * total + counts[prefix - pool.prefix]
        found[str(size)] = min(total, LARGEST_COUNT) if size >= pool.prefix else 0
    if pool.width == IPV4:
        found["/24"] = found["24"]
    return found


def allocated_cidrs(members: Iterable[Member]) -> dict[str, str]:
    """CIDR to cluster ID; of several Subnets with one CIDR the oldest counts."""
    found: dict[Network, Member] = {}
    for member in members:
        if member.network is None:
            continue
        known = found.get(member.network)
        if known is None or member.rank < known.rank:
            found[member.network] = member
    return {str(network): member.cluster_id for network, member in found.items()}


def normalize_size_key(key: str) -> str:
    """A key of ``freeCountBySize`` without its leading slash; raises ``ValueError``.

    >>> normalize_size_key("/24")
    '24'
    """
    bare = key.removeprefix("/")
    if not (bare.isascii() and bare.isdigit()):
        raise ValueError(f"invalid block size key format: {key}")
    return bare


class _Edit:
    """Sets conditions of one generation."""

    def __init__(self, conditions: Conditions, now: Time, generation: int) -> None:
        self._conditions: Final = conditions
        self._now: Final = now
        self._generation: Final = generation

    def set(self, kind: str, status: ConditionStatus | bool, reason: str, message: str) -> None:
        self._conditions.set(
            kind,
            status,
            reason=reason,
            message=message,
            now=self._now,
            observed_generation=self._generation,
        )


def _judge_readiness(edit: _Edit, facts: PoolFacts, *, has_parent: bool) -> None:
    if facts.network is None:
        edit.set(names.READY, False, "Error", facts.problem)
    elif not has_parent:
        edit.set(names.READY, False, "WaitingParent", f"there is no pool {facts.parent}")
    else:
        edit.set(names.READY, True, "CIDRAssigned", f"the pool manages {facts.network}")


def _judge_space(edit: _Edit, *, full: bool) -> None:
    if full:
        edit.set(names.EXHAUSTED, True, "NoFreeBlocks", "not one address is free")
    else:
        edit.set(names.EXHAUSTED, False, "FreeBlocksAvailable", "")


def _judge_consistency(
    edit: _Edit, state: PoolState, overlapping: Sequence[PoolFacts], *, overlaps: bool
) -> None:
    assert state.facts is not None
    if overlapping:
        words = [_overlap(state.facts, each) for each in overlapping]
        edit.set(names.CONSISTENT, False, "OverlappingPools", shortened(words))
    elif overlaps:
        edit.set(names.CONSISTENT, False, "OverlappingSubnets", "Subnets of this pool overlap each other")
    elif state.outside:
        text = f"{len(state.outside)} Subnets are outside of the pool"
        edit.set(names.CONSISTENT, False, "SubnetsOutsidePool", text)
    elif state.foreign:
        words = [f"{each.network} is in use by {each.text}" for each in state.foreign.values()]
        edit.set(names.CONSISTENT, False, "BlocksOfOthers", shortened(sorted(words)))
    else:
        edit.set(names.CONSISTENT, True, "OK", "")


def _overlap(pool: PoolFacts, other: PoolFacts) -> str:
    says = f"pool {other.name} ({other.network}) overlaps this one, "
    if other.rank < pool.rank:
        return f"{says}is older, and keeps what they share"
    return f"{says}is younger, and gives nothing out of what they share"


def shortened(words: Sequence[str], limit: int = 10) -> str:
    """A list in a message: the first few, and how many more there are.

    >>> shortened(["a", "b", "c"], 2)
    'a; b; and 1 more'
    """
    more = [f"and {len(words) - limit} more"] if len(words) > limit else []
    return "; ".join([*words[:limit], *more])


def _is_omitted(count: int, conditions: Conditions, limits: Limits) -> bool:
    limit = limits.return_at if conditions.is_true(names.CIDRS_OMITTED) else limits.omit_above
    return count > limit


def _free(counts: list[int], facts: PoolFacts, network: Network) -> dict[str, int]:
    chosen = (facts.min_size, facts.max_size, facts.default_size)
    return free_by_size(counts, network, [size for size in chosen if size])
