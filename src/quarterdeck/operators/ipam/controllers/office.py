"""What the controllers share: the ledger, who waits for space, and the bells by which they call each other.

The ledger is fed on every replica (the PoolStatus controller warms up), so that a new leader and the
admission hook have it. Before a leader allocates it is brought up to date from a consistent list, see
``loading``.
"""

from __future__ import annotations

import asyncio
from typing import Final

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.book import PoolBook
from quarterdeck.operators.ipam.logic.facts import Member, member_of, pool_facts
from quarterdeck.operators.ipam.logic.ledger import Ledger
from quarterdeck.operators.ipam.logic.network import Network
from quarterdeck.operators.ipam.logic.occupancy import Rank
from quarterdeck.operators.ipam.logic.waiting import WaitingRoom
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.runtime.cache import Cache, Entry
from quarterdeck.runtime.cache.index import Index, field, label, owner_uid
from quarterdeck.runtime.controller.source import Channel

from .bell import Bell

LOADING_TIMEOUT: Final = 3600.0
"""Seconds for controllers to have seen everything; a million Subnets take minutes."""
POOL_REF: Final = field("spec.poolRef")
"""Subnets, or claims, by their pool."""
PARENT: Final[Index[SubnetPool]] = label(names.PARENT_LABEL)
"""Child pools by their parent."""
OWNER: Final = owner_uid


class Office:
    """One per manager. Listens to its own ledger."""

    def __init__(self, cache: Cache, metrics: IpamMetrics, settings: IpamSettings) -> None:
        self.settings: Final = settings
        self.metrics: Final = metrics
        self.ledger: Final = Ledger(self)
        self.ready: Final = asyncio.Event()
        """Set while the ledger is fit to allocate from."""
        self.pools: Final = Bell("pools")
        self.subnets: Final = Bell("subnets", ready=self.ready)
        self.claims: Final = Bell("claims")
        self.releases: Final = Bell("releases", ready=self.ready)
        self.trigger: Final = Channel()
        self.forced: Final[set[Key]] = set()
        """Pools that are to be audited."""
        self._cache: Final = cache
        self._rooms: Final[dict[Key, WaitingRoom]] = {}
        self._room_of: Final[dict[Key, Key]] = {}
        self._users: Final[dict[str, set[Key]]] = {}
        """Claims by the UID of a Subnet that they use and perhaps do not own: its loss wakes owners only."""
        self._audited: list[Key] = []

    def open(self) -> None:
        """Begin with nothing: the feeds bring everything again."""
        self.ledger.clear()
        self._rooms.clear()
        self._room_of.clear()
        self._users.clear()
        self.forced.clear()

    def take_subnet(self, subnet: Subnet) -> Member | None:
        """Take over a state of a Subnet."""
        member = member_of(subnet)
        uid = member.uid if member is not None else subnet.metadata.uid
        self.ledger.put_subnet(uid, member)
        return member

    def take_pool(self, pool: SubnetPool) -> None:
        """Take over a state of a pool."""
        self.ledger.put_pool(Key(pool.metadata.namespace, pool.metadata.name), pool_facts(pool))

    def expect(self, member: Member) -> None:
        """A Subnet was seen outside the cache: if the cache gets past it without it, it is gone.

        Without this a Subnet that is deleted while the watch is down, before the cache ever saw it, would
        stay in the ledger for good.
        """
        shard = self._cache.informer(Subnet).shard_for(member.namespace)
        if shard is None:
            return

        def look() -> None:
            entry = shard.store.get(member.namespace, member.name)
            if entry is None or entry.uid != member.uid:
                self.ledger.drop_subnet(member.uid)

        shard.when_version(str(member.version), look)

    def subnet_entry(self, key: Key) -> Entry | None:
        """A Subnet as the cache has it."""
        return self._cache.informer(Subnet).get(key.namespace, key.name)

    def next_audit(self) -> list[Key]:
        """The pool whose turn it is to be audited."""
        if not self._audited:
            self._audited = sorted(self.ledger.pools(), reverse=True)
        if not self._audited:
            return []
        key = self._audited.pop()
        self.forced.add(key)
        return [key]

    def wait_for_space(self, claim: SubnetClaim, pool: Key, wanted: int | Network) -> None:
        """A claim waits until it may fit into a pool."""
        key = claim.key
        if self._room_of.get(key, pool) != pool:
            self.leave(key)
        self._room_of[key] = pool
        created = str(claim.metadata.creation_timestamp or "")
        self._rooms.setdefault(pool, WaitingRoom()).wait(key, Rank(created, key.name), wanted)

    def leave(self, claim: Key) -> None:
        """A claim does not wait any more; whoever comes next is woken if it was this one's turn."""
        pool = self._room_of.pop(claim, None)
        if pool is None:
            return
        room = self._rooms[pool]
        room.leave(claim)
        self._pass_on(pool, room, claim)
        if room.is_empty:
            del self._rooms[pool]

    def looked_at(self, claim: Key) -> None:
        """The reconcile of a claim is over; it may wait again."""
        pool = self._room_of.get(claim)
        if pool is not None:
            self._pass_on(pool, self._rooms[pool], claim)

    def _pass_on(self, pool: Key, room: WaitingRoom, claim: Key) -> None:
        book = self.ledger.book(pool)
        for following in room.done(claim, book.free if book is not None else None):
            self.claims.ring(following)

    def pool_changed(self, pool: Key) -> None:
        """For the ledger."""
        self.pools.ring(pool)

    def space_returned(self, pool: Key, network: Network | None) -> None:
        """For the ledger: wake claims, the oldest first."""
        if network is None and self.ready.is_set():
            self.claims.ring_all(self._unbound(pool))
            return
        room, book = self._rooms.get(pool), self.ledger.book(pool)
        if room is None or book is None or book.free is None:
            return
        for claim in room.released(book.free, network):
            self.claims.ring(claim)

    def _unbound(self, pool: Key) -> list[Key]:
        """The claims on a pool that are not bound, oldest first."""
        informer = self._cache.informer(SubnetClaim)
        table, decode = informer.table(POOL_REF.name), informer.decoder(SubnetClaim)
        if table is None:
            return []
        claims = [decode(entry) for entry in table.get(pool.name, pool.namespace)]
        waiting = [claim for claim in claims if claim.status.phase != names.BOUND]
        waiting.sort(key=lambda claim: (str(claim.metadata.creation_timestamp), claim.metadata.name))
        return [claim.key for claim in waiting]

    def contested(self, subnet: Key) -> None:
        """For the ledger: look at a Subnet and its claims again."""
        self.metrics.overlaps.inc()
        self.subnets.ring(subnet)
        entry = self.subnet_entry(subnet)
        if entry is not None:
            self.ring_owners(entry)

    def pool_emptied(self, pool: Key) -> None:
        """For the ledger: a pool that waits to be deleted may go."""
        self.releases.ring(pool)

    def range_changed(self, pool: Key) -> None:
        """For the ledger: look at all members of a pool again, in pages, behind everything else."""
        book = self.ledger.book(pool)
        if self.ready.is_set() and book is not None:
            self.subnets.ring_all([member.key for member in book.members.values()])

    def ring_owners(self, entry: Entry) -> None:
        """Look at the claims of a Subnet again."""
        for owner in entry.owner_references:
            if owner.kind == "SubnetClaim":
                self.claims.ring(Key(entry.namespace, owner.name))

    def use(self, member: Member, claim: Key) -> None:
        """A claim is bound to a Subnet that may be nobody's."""
        self._users.setdefault(member.uid, set()).add(claim)

    def ring_users(self, uid: str) -> None:
        """Look at the claims that use a Subnet again: it is gone, or another one now."""
        for claim in self._users.pop(uid, ()):
            self.claims.ring(claim)

    def indexed(self, book: PoolBook) -> None:
        """A pool was indexed: everybody who needs that may go on."""
        self.space_returned(book.key, None)
        self.subnets.ring_all([member.key for member in book.members.values()])
