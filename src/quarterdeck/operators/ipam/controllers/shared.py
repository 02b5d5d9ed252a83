"""What the controllers share: the table of pools, who waits for space, and the queues by which
they call each other.

The table is fed on every replica (the PoolStatus controller warms up), so that a new leader and the
admission hook have it. Before a leader allocates it is brought up to date from a consistent list, see
``loading``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.index import POOL_REF
from quarterdeck.operators.ipam.logic.facts import Member, member_of, pool_facts, stored_member
from quarterdeck.operators.ipam.logic.network import Network
from quarterdeck.operators.ipam.logic.occupancy import Rank
from quarterdeck.operators.ipam.logic.poolstate import PoolState
from quarterdeck.operators.ipam.logic.pooltable import PoolTable
from quarterdeck.operators.ipam.logic.waiting import WaitingClaims
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.source import Channel

from .keysource import KeySource
from .rush import ClaimRush

LOADING_TIMEOUT: Final = 3600.0
"""Seconds for controllers to have seen everything; a million Subnets take minutes."""


def version_of(entry: Entry) -> int:
    """The version of a cached object as a number; 0 where it is none."""
    return entry.version if isinstance(entry.version, int) else 0


class SharedState:
    """One per manager. Listens to its own table."""

    def __init__(self, cache: Cache, metrics: IpamMetrics, settings: IpamSettings) -> None:
        self.settings: Final = settings
        self.metrics: Final = metrics
        self.table: Final = PoolTable(self)
        self.ready: Final = asyncio.Event()
        """Set while the table is fit to allocate from."""
        self.pools: Final = KeySource("pools")
        self.subnets: Final = KeySource("subnets", ready=self.ready)
        self.claims: Final = KeySource("claims")
        self.releases: Final = KeySource("releases", ready=self.ready)
        self.trigger: Final = Channel()
        self.rush: Final = ClaimRush()
        self.forced: Final[set[Key]] = set()
        """Pools that are to be audited."""
        self._cache: Final = cache
        self._waiting: Final[dict[Key, WaitingClaims]] = {}
        self._waits_for: Final[dict[Key, Key]] = {}
        self._users: Final[dict[str, set[Key]]] = {}
        """Claims by the UID of a Subnet that they use and perhaps do not own: its loss wakes owners only."""
        self._audited: list[Key] = []

    def open(self) -> None:
        """Begin with nothing: the feeds bring everything again."""
        self.table.clear()
        self._waiting.clear()
        self._waits_for.clear()
        self._users.clear()
        self.forced.clear()

    def take_subnet(self, subnet: Subnet) -> Member | None:
        """Take over a state of a Subnet."""
        member = member_of(subnet)
        uid = member.uid if member is not None else subnet.metadata.uid
        self.table.put_subnet(uid, member)
        return member

    def take_event(self, event: ObjectEvent[Any]) -> Member | None:
        """Take over a state of a Subnet; what the cache keeps of it is not kept twice."""
        entry = event.entry
        if event.is_initial and entry.uid:
            member = stored_member(
                entry.raw,
                uid=entry.uid,
                namespace=entry.namespace,
                name=entry.name,
                version=version_of(entry),
            )
        else:  # the object is read by reconciles, too
            member = member_of(event.object)
            if member is not None and entry.uid:
                member = msgspec.structs.replace(member, uid=entry.uid, name=entry.name)
        self.table.put_subnet(member.uid if member is not None else entry.uid, member)
        return member

    def take_pool(self, pool: SubnetPool, *, is_certain: bool = False) -> None:
        """Take over a state of a pool; ``is_certain``: it was read from the server just now."""
        self.table.put_pool(pool.key, pool_facts(pool), is_certain=is_certain)

    def expect(self, member: Member) -> None:
        """A Subnet was seen outside the cache: if the cache gets past it without it, it is gone.

        Without this a Subnet that is deleted while the watch is down, before the cache ever saw it, would
        stay in the table for good.
        """
        shard = self._cache.informer(Subnet).shard_for(member.namespace)
        if shard is None:
            return

        def look() -> None:
            entry = shard.store.get(member.namespace, member.name)
            if entry is None or entry.uid != member.uid:
                self.table.drop_subnet(member.uid)

        shard.when_version(str(member.version), look)

    def subnet_entry(self, key: Key) -> Entry | None:
        """A Subnet as the cache has it."""
        return self._cache.informer(Subnet).get(key.namespace, key.name)

    def next_audit(self) -> list[Key]:
        """The pool whose turn it is to be audited."""
        if not self._audited:
            self._audited = sorted(self.table.pools(), reverse=True)
        if not self._audited:
            return []
        key = self._audited.pop()
        self.forced.add(key)
        return [key]

    def wait_for_space(self, claim: SubnetClaim, pool: Key, wanted: int | Network) -> None:
        """A claim waits until it may fit into a pool."""
        key = claim.key
        if self._waits_for.get(key, pool) != pool:
            self.leave(key)
        self._waits_for[key] = pool
        created = str(claim.metadata.creation_timestamp or "")
        self._waiting.setdefault(pool, WaitingClaims()).wait(key, Rank(created, key.name), wanted)

    def leave(self, claim: Key) -> None:
        """A claim does not wait any more; whoever comes next is woken if it was this one's turn."""
        pool = self._waits_for.pop(claim, None)
        if pool is None:
            return
        waiting = self._waiting[pool]
        waiting.leave(claim)
        self._pass_on(pool, waiting, claim)
        if waiting.is_empty:
            del self._waiting[pool]

    def looked_at(self, claim: Key) -> None:
        """The reconcile of a claim is over; it may wait again."""
        pool = self._waits_for.get(claim)
        if pool is not None:
            self._pass_on(pool, self._waiting[pool], claim)

    def _pass_on(self, pool: Key, waiting: WaitingClaims, claim: Key) -> None:
        state = self.table.state(pool)
        for following in waiting.done(claim, state.free if state is not None else None):
            self.claims.queue(following)

    def pool_changed(self, pool: Key) -> None:
        """For the table."""
        self.pools.queue(pool)

    def space_returned(self, pool: Key, network: Network | None) -> None:
        """For the table: wake claims, the oldest first."""
        if network is None and self.ready.is_set():
            self.claims.queue_all(self._unbound(pool))
            return
        waiting, state = self._waiting.get(pool), self.table.state(pool)
        if waiting is None or state is None or state.free is None:
            return
        for claim in waiting.released(state.free, network):
            self.claims.queue(claim)

    def _unbound(self, pool: Key) -> list[Key]:
        """The claims on a pool that are not bound, oldest first."""
        decode = self._cache.informer(SubnetClaim).decoder(SubnetClaim)
        claims = [decode(entry) for entry in self._claims_on(pool)]
        waiting = [claim for claim in claims if claim.status.phase != names.BOUND]
        waiting.sort(key=lambda claim: (str(claim.metadata.creation_timestamp), claim.metadata.name))
        return [claim.key for claim in waiting]

    def _claims_on(self, pool: Key) -> Iterable[Entry]:
        table = self._cache.informer(SubnetClaim).table(POOL_REF.name)
        return table.get(pool.name, pool.namespace) if table is not None else ()

    def contested(self, subnet: Key) -> None:
        """For the table: look at a Subnet and its claims again."""
        self.metrics.overlaps.inc()
        self.subnets.queue(subnet)
        entry = self.subnet_entry(subnet)
        if entry is not None:
            self.queue_owners(entry)

    def pool_emptied(self, pool: Key) -> None:
        """For the table: a pool that waits to be deleted may go."""
        self.releases.queue(pool)

    def range_changed(self, pool: Key) -> None:
        """For the table: look at all that was cut from a pool again, in pages, behind everything else."""
        state = self.table.state(pool)
        if self.ready.is_set() and state is not None:
            self._queue_members(state)
            self.claims.queue_all([entry.key for entry in self._claims_on(pool)])

    def _queue_members(self, state: PoolState) -> None:
        self.subnets.queue_all([member.key for member in state.members.values()])

    def queue_owners(self, entry: Entry) -> None:
        """Look at the claims of a Subnet again."""
        for owner in entry.owner_references:
            if owner.kind == "SubnetClaim":
                self.claims.queue(Key(entry.namespace, owner.name))

    def use(self, member: Member, claim: Key) -> None:
        """A claim is bound to a Subnet that may be nobody's."""
        self._users.setdefault(member.uid, set()).add(claim)

    def queue_users(self, uid: str) -> None:
        """Look at the claims that use a Subnet again: it is gone, or another one now."""
        for claim in self._users.pop(uid, ()):
            self.claims.queue(claim)

    def indexed(self, state: PoolState) -> None:
        """A pool was indexed: everybody who needs that may go on."""
        self.table.neighbours.look(state.key)
        self.space_returned(state.key, None)
        self._queue_members(state)
