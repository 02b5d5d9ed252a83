"""Strict mode: every block is reserved on the pool object before its Subnet is created.

The annotation of a pool lists what allocators are about to create in it. It is written with the resource
version it was read at, so of two allocators that want a block at the same time one is refused by the API
server, reads again and sees the other's reservation. An entry may be dropped by anybody who has seen its
Subnet; the version of that Subnet is kept as ``settled``, and nobody chooses a block before having seen
everything up to there. So there is no moment at which an allocator knows neither the reservation nor the
Subnet.

What it does not prevent: Subnets that are written by hand. The admission hook does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from quarterdeck.api import Key
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic import claim as words
from quarterdeck.operators.ipam.logic.claim import Refused
from quarterdeck.operators.ipam.logic.facts import Member, version_number
from quarterdeck.operators.ipam.logic.naming import collision_name, subnet_name
from quarterdeck.operators.ipam.logic.network import InvalidCidr, parse
from quarterdeck.operators.ipam.logic.poolstate import PoolState, Reservation
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue

from .shared import SharedState

ATTEMPTS: Final = 20
CATCH_UP: Final = 10.0
"""Seconds for the cache to reach what others have settled."""
ABANDONED: Final = 300.0
"""Seconds after which an entry whose claim is gone is dropped: no reconcile lives that long."""
_POLL: Final = 0.002


class InFlight(msgspec.Struct, frozen=True, rename="camel"):
    """One reservation."""

    cidr: str
    claim: str
    """UID of the claim."""
    name: str
    """Name of the claim."""
    at: int
    """When it was made, Unix time."""


class ReservationList(msgspec.Struct, frozen=True, rename="camel"):
    """What the annotation holds."""

    in_flight: tuple[InFlight, ...] = ()
    settled: str = ""
    """Resource version up to which Subnets must have been seen."""


class StrictReservations:
    """Reserves blocks on pool objects."""

    def __init__(self, shared: SharedState, cache: Cache) -> None:
        self._shared: Final = shared
        self._cache: Final = cache
        self._locks: Final[dict[Key, asyncio.Lock]] = {}
        self._made: Final[dict[Key, tuple[Key, str, int]]] = {}
        """What was created and is not cleared away yet: claim → pool, UID, version of the Subnet."""

    async def reserve(
        self, ctx: Context[SubnetClaim], pool: Key, pick: Callable[[], Reservation]
    ) -> Reservation:
        """Pick a block and have it reserved; raises ``Refused`` as ``pick`` does."""
        async with self._locks.setdefault(pool, asyncio.Lock()):
            for _ in range(ATTEMPTS):
                obj, listed = await self._read(ctx.client, pool)
                await self._catch_up(pool, listed.settled)
                state = self._shared.table.state(pool)
                if state is None:
                    raise words.pool_missing(pool.name)
                listed = await self._without_abandoned(ctx, pool, self._without_settled(state, listed))
                self._take_over(ctx, state, listed)
                chosen = self._own(ctx, state, listed) or pick()
                if not await self._write(ctx.client, obj, self._with(ctx, listed, chosen)):
                    continue
                self._shared.table.cancel(pool, chosen.claim)
                self._shared.table.reserve(pool, chosen)
                return chosen
        raise Requeue(after=0.1, reason="busy-pool")

    def created(self, ctx: Context[SubnetClaim], pool: Key, member: Member) -> None:
        """The block that was reserved for a claim is a Subnet now."""
        self._made[ctx.key] = (pool, ctx.obj.metadata.uid, member.version)

    async def tidy(self, client: Client, claim: Key) -> bool:
        """Drop the entry of a claim whose Subnet was created; returns whether to come back for that.

        The next reservation would do it too; this is for the last one, some time later.
        """
        if claim not in self._made:
            return False
        pool, uid, _ = self._made[claim]
        async with self._locks.setdefault(pool, asyncio.Lock()):
            try:
                obj, listed = await self._read(client, pool)
            except Refused:
                listed = ReservationList()
            state = self._shared.table.state(pool)
            left = self._without_settled(state, listed) if state is not None else listed
            if left != listed and not await self._write(client, obj, left):
                return True
            if any(each.claim == uid for each in left.in_flight):
                return True
            self._made.pop(claim, None)
            return False

    async def _read(self, client: Client, pool: Key) -> tuple[SubnetPool, ReservationList]:
        try:
            obj = await client.get(SubnetPool, pool.name, pool.namespace)
        except NotFound as error:
            raise words.pool_missing(pool.name) from error
        self._shared.take_pool(obj)
        return obj, _listed(obj)

    async def _write(self, client: Client, obj: SubnetPool, listed: ReservationList) -> bool:
        text = msgspec.json.encode(listed).decode()
        head = {
            "resourceVersion": obj.metadata.resource_version,
            "annotations": {names.RESERVATIONS: text},
        }
        try:
            await client.patch(obj, MergePatch({"metadata": head}))
        except Conflict:
            return False
        return True

    async def _catch_up(self, pool: Key, version: str) -> None:
        """Wait until everything up to a version is not only in the cache but in the table."""
        informer = self._cache.informer(Subnet)
        shard = informer.shard_for(pool.namespace)
        if not version or shard is None:
            return
        try:
            async with asyncio.timeout(CATCH_UP):
                await shard.wait_version(version)
                while (now := informer.statistics()).queued or now.handling:  # noqa: ASYNC110  no event
                    await asyncio.sleep(_POLL)
        except TimeoutError as error:
            raise Requeue(after=1.0, reason="cache-behind") from error

    def _without_settled(self, state: PoolState, listed: ReservationList) -> ReservationList:
        """Without the entries whose Subnets are known, or were made here and may be gone again."""
        made = {uid: version for pool, uid, version in self._made.values() if pool == state.key}
        settled, left = version_number(listed.settled), []
        for each in listed.in_flight:
            network = parse(each.cidr)
            member = state.overlapping_member(network)
            if member is not None and member.network == network:
                settled = max(settled, member.version)
            elif each.claim in made:
                settled = max(settled, made[each.claim])
            else:
                left.append(each)
        return ReservationList(tuple(left), str(settled) if settled else "")

    def _take_over(self, ctx: Context[SubnetClaim], state: PoolState, listed: ReservationList) -> None:
        """Hold in the table what others have reserved, and nothing else of theirs."""
        foreign = {each.claim: each for each in listed.in_flight if each.claim != ctx.obj.metadata.uid}
        for claim, known in list(state.reservations.items()):
            if known.is_foreign and claim not in foreign:
                self._shared.table.cancel(state.key, claim)
        for claim, each in foreign.items():
            if claim not in state.reservations:
                network = parse(each.cidr)
                self._shared.table.reserve(state.key, Reservation(claim, "", network, is_foreign=True))

    def _own(
        self, ctx: Context[SubnetClaim], state: PoolState, listed: ReservationList
    ) -> Reservation | None:
        """What this claim has reserved already, before a crash or by another allocator, if it is of use."""
        claim, free = ctx.obj, state.free
        for each in listed.in_flight:
            if each.claim != claim.metadata.uid or not claim.spec or free is None:
                continue
            network = parse(each.cidr)
            if free.pool.contains(network) and free.is_free(network):
                return Reservation(each.claim, claim.spec.cluster_id, network)
        return None

    def _with(
        self, ctx: Context[SubnetClaim], listed: ReservationList, chosen: Reservation
    ) -> ReservationList:
        others = tuple(each for each in listed.in_flight if each.claim != chosen.claim)
        now = int(ctx.now().timestamp())
        entry = InFlight(str(chosen.network), chosen.claim, ctx.key.name, now)
        return ReservationList((*others, entry), listed.settled)

    async def _without_abandoned(
        self, ctx: Context[SubnetClaim], pool: Key, listed: ReservationList
    ) -> ReservationList:
        """Without entries that nobody will ever use: an allocator died, and the claim is gone."""
        left = [each for each in listed.in_flight if not await self._is_abandoned(ctx, pool, each)]
        return ReservationList(tuple(left), listed.settled)

    async def _is_abandoned(self, ctx: Context[SubnetClaim], pool: Key, entry: InFlight) -> bool:
        if ctx.now().timestamp() - entry.at < ABANDONED:
            return False
        try:
            claim = await ctx.client.get(SubnetClaim, entry.name, pool.namespace)
            if claim.metadata.uid == entry.claim:
                return False
        except NotFound:
            pass
        network = parse(entry.cidr)
        for name in (subnet_name(pool.name, network), collision_name(pool.name, network)):
            try:
                await ctx.client.get(Subnet, name, pool.namespace)
            except NotFound:
                continue
            return False
        return True


def _listed(pool: SubnetPool) -> ReservationList:
    """What the annotation says; what cannot be read there is nobody's reservation."""
    text = pool.metadata.annotations.get(names.RESERVATIONS, "")
    try:
        listed = msgspec.json.decode(text, type=ReservationList) if text else ReservationList()
    except msgspec.DecodeError:
        return ReservationList()
    return ReservationList(tuple(each for each in listed.in_flight if _is_cidr(each.cidr)), listed.settled)


def _is_cidr(text: str) -> bool:
    try:
        parse(text)
    except InvalidCidr:
        return False
    return True
