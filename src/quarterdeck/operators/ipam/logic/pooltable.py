"""All pools: what the controllers know of them, ahead of any cache.

The table is told about Subnets and SubnetPools: by watch events, by lists, and by the allocator about
what it has just created. It takes each state once, by UID and resource version: what is late, or told
twice, changes nothing, and what was deleted does not come back. So the allocator's own creates are in it
before the watch brings them, and their echo is no news.

It tells a ``Listener`` what follows from a change. It belongs to one event loop: between two awaits
nobody else looks at it, which is all the locking there is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names

from .facts import Member, PoolFacts, child_of
from .neighbour import Neighbours
from .network import Network
from .poolstate import PoolState, Reservation

REBUILD_AT_ONCE: Final = 5000
"""Members up to which a pool is indexed without giving way."""
_REMEMBERED: Final = 65536
"""Deleted Subnets whose late news are recognised."""


class Listener(Protocol):
    """Who is told what follows from a change."""

    def pool_changed(self, pool: Key) -> None:
        """The status of a pool may be another one now."""
        ...

    def space_returned(self, pool: Key, network: Network | None) -> None:
        """A range of a pool may be free again; ``None`` for any range of it."""
        ...

    def contested(self, subnet: Key) -> None:
        """Something that overlaps a Subnet came or went: its phase may be another one now."""
        ...

    def pool_emptied(self, pool: Key) -> None:
        """The last member or child of a pool is gone."""
        ...

    def range_changed(self, pool: Key) -> None:
        """A pool came, went, or has another range: the phase of every member may be another one now."""
        ...


class Silent:
    """A listener that does nothing."""

    def pool_changed(self, pool: Key) -> None: ...
    def space_returned(self, pool: Key, network: Network | None) -> None: ...
    def contested(self, subnet: Key) -> None: ...
    def pool_emptied(self, pool: Key) -> None: ...
    def range_changed(self, pool: Key) -> None: ...


class PoolTable:
    """Books of all pools, by namespace and name."""

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener: Final[Listener] = listener if listener is not None else Silent()
        self._states: Final[dict[Key, PoolState]] = {}
        self._members: Final[dict[str, Member]] = {}
        """The Subnets of all pools, by UID."""
        self._gone: Final[OrderedDict[str, None]] = OrderedDict()
        self.neighbours: Final = Neighbours(
            self._states, changed=self._listener.pool_changed, returned=self._listener.space_returned
        )

    def clear(self) -> None:
        """Forget everything."""
        self.neighbours.clear()
        self._states.clear()
        self._members.clear()
        self._gone.clear()

    def state(self, pool: Key) -> PoolState | None:
        """The state of a pool, if anything is known about it."""
        return self._states.get(pool)

    def pools(self) -> Iterator[Key]:
        """Pools that exist."""
        return (key for key, state in self._states.items() if state.facts is not None)

    def member(self, uid: str) -> Member | None:
        """A Subnet that is known."""
        return self._members.get(uid)

    def members(self) -> Iterator[Member]:
        """All Subnets that are known."""
        yield from self._members.values()

    def phase(self, member: Member | None) -> str | None:
        """The phase that a Subnet should have; ``None`` while its pool is being indexed."""
        state = self._states.get(member.pool_key) if member is not None else None
        if member is None or state is None or state.facts is None:
            return names.FAILED
        if state.facts.network is None:
            return names.ALLOCATED  # outside of what, nobody can say
        if not state.is_indexed:
            return None
        return names.ALLOCATED if state.is_good(member) else names.FAILED

    def put_subnet(self, uid: str, member: Member | None) -> None:
        """A Subnet is like this; ``None`` if it names no pool (any more)."""
        if uid in self._gone:
            return
        known = self.member(uid)
        if member is None:
            if known is not None:
                self._leave(known)
            return
        if known is not None:
            if member.version and member.version <= known.version:
                return
            if _is_same(member, known):
                self._members[uid] = member
                return
            self._leave(known)
        self._join(member)

    def drop_subnet(self, uid: str) -> None:
        """A Subnet is gone, for good."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        known = self.member(uid)
        if known is not None:
            self._leave(known)

    def differs(self, uid: str, member: Member | None) -> bool:
        """Whether the table has a Subnet otherwise than this state, which it did not take for news."""
        known = self.member(uid)
        if known is None or member is None:
            return known is not member
        return not _is_same(member, known)

    def restore_subnet(self, member: Member) -> None:
        """A Subnet is like this although it was thought to be gone, or younger: the server itself said so."""
        self._gone.pop(member.uid, None)
        known = self.member(member.uid)
        if known is not None:
            self._leave(known)
        self._join(member)

    def _join(self, member: Member) -> None:
        key = member.pool_key
        state = self._open(key)
        state.add_member(member)
        self.neighbours.came(key, member)
        for rival in state.rivals(member):
            self._listener.contested(rival.key)
        self._listener.pool_changed(key)

    def _leave(self, member: Member) -> None:
        key = member.pool_key
        state = self._states[key]
        rivals = state.rivals(member)
        state.remove_member(member.uid)
        self.neighbours.left(key, member)
        for rival in rivals:
            self._listener.contested(rival.key)
        self._listener.pool_changed(key)
        self._listener.space_returned(key, member.network)
        self._close(key)

    def put_pool(self, key: Key, facts: PoolFacts, *, is_certain: bool = False) -> None:
        """A pool is like this; ``is_certain``: the server itself said so, even if the version is older."""
        state = self._open(key)
        old = state.facts
        is_late = old is not None and old.uid == facts.uid and facts.version <= old.version
        if is_late and facts.version and not is_certain:
            return
        if old is not None and old == msgspec.structs.replace(facts, version=old.version):
            state.facts = facts  # somebody wrote the status, or labels that do not matter here
            return
        if old is not None and (old.parent, old.uid) != (facts.parent, facts.uid):
            self._leave_parent(key, old)
        state.describe(facts)
        if facts.parent:
            self._join_parent(key, facts)
        if state.is_behind and len(state.members) <= REBUILD_AT_ONCE:
            for _ in state.rebuild():
                pass
        self.neighbours.look(key)
        self._listener.pool_changed(key)
        if old is None or old.network != facts.network:
            self._listener.range_changed(key)
        if old is None or _allows_more(facts, old):
            self._listener.space_returned(key, None)

    def drop_pool(self, key: Key, uid: str = "") -> None:
        """A pool is gone; with ``uid``, unless it is another one by now."""
        state = self._states.get(key)
        if state is None or state.facts is None or (uid and state.facts.uid != uid):
            return
        old = state.facts
        state.describe(None)
        self._leave_parent(key, old)
        self.neighbours.look(key)
        self._listener.pool_changed(key)
        self._listener.range_changed(key)
        self._close(key)

    def _join_parent(self, key: Key, facts: PoolFacts) -> None:
        parent = self._open(Key(key.namespace, facts.parent))
        known = parent.children.get(facts.uid)
        parent.put_child(child_of(facts))
        if known is not None and known.network != facts.network:
            self._listener.space_returned(parent.key, known.network)

    def _leave_parent(self, key: Key, facts: PoolFacts) -> None:
        parent = self._states.get(Key(key.namespace, facts.parent))
        if parent is None:
            return
        child = parent.drop_child(facts.uid)
        if child is not None:
            self._listener.space_returned(parent.key, child.network)
            self._close(parent.key)

    def reserve(self, pool: Key, reservation: Reservation) -> None:
        """Hold a block for a claim."""
        self._states[pool].reserve(reservation)
        self.neighbours.reserved(pool, reservation.holder, reservation.network, reservation.rank)

    def cancel(self, pool: Key, claim: str) -> None:
        """Give a claim's reservation back: it became a Subnet, or will not."""
        state = self._states.get(pool)
        reservation = state.cancel(claim) if state is not None else None
        if reservation is not None:
            self.neighbours.cancelled(pool, reservation.holder, reservation.network)
            self._listener.space_returned(pool, reservation.network)
            self._close(pool)

    def confirm(self, pool: Key, claim: str, member: Member) -> None:
        """A reservation has become a Subnet."""
        state = self._states.get(pool)
        reservation = state.cancel(claim) if state is not None else None
        self.put_subnet(member.uid, member)
        if reservation is not None:
            self.neighbours.cancelled(pool, reservation.holder, reservation.network)

    def _open(self, key: Key) -> PoolState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = PoolState(key, self._members)
        return state

    def _close(self, key: Key) -> None:
        state = self._states[key]
        if not state.is_used:
            self._listener.pool_emptied(key)
        if state.is_empty:
            del self._states[key]


def _is_same(one: Member, other: Member) -> bool:
    return (one.pool, one.block, one.cluster_id, one.namespace) == (
        other.pool,
        other.block,
        other.cluster_id,
        other.namespace,
    )


def _allows_more(new: PoolFacts, old: PoolFacts) -> bool:
    """Whether a claim that was refused might be granted now; deletion cannot be taken back."""

    def asked(facts: PoolFacts) -> tuple[object, ...]:
        return (facts.uid, facts.network, facts.min_size, facts.max_size, facts.default_size, facts.is_held)

    return asked(new) != asked(old)
