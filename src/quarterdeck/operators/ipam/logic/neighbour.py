"""Pools of a namespace that share addresses, and what each of them must therefore leave alone.

A pool and its child pools share addresses by intention: the parent stays out of the child's range. All
other pools should be apart, and the admission hook sees to it where it can. Where it cannot (pools that
were there before, edits at the same moment, a pool that is restored) no block may be given twice either.
So a pool gives nothing out of

- the range of an older pool that is neither above nor below it,
- a block that a Subnet of such a pool has, or that is reserved in it, whichever is older,
- a block of its parent, as far as it is strictly inside: a Subnet around the whole child holds its range,
- a *stray*: a Subnet whose pool is gone, or that is not inside its pool. Its addresses are in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from quarterdeck.api import Key

from .blockset import BlockSet
from .facts import Member, PoolFacts
from .network import Network
from .occupancy import Rank
from .poolstate import Foreign, PoolState


def is_inside(below: PoolFacts, above: str, parent_of: Callable[[str], PoolFacts | None]) -> bool:
    """Whether the pool ``above`` stays out of another one's range: it is its parent, or further up and the
    ranges between lie inside each other. Labels may go in circles.
    """
    seen = {below.name}
    facts: PoolFacts | None = below
    while facts is not None and facts.parent and facts.parent not in seen:
        if facts.parent == above:
            return True
        seen.add(facts.parent)
        middle = parent_of(facts.parent)
        if middle is None or middle.network is None or facts.network is None:
            return False
        facts = middle if middle.network.contains(facts.network) else None
    return False


class Neighbours:
    """Keeps what is foreign in every pool; the table tells it about every change."""

    def __init__(
        self,
        states: Mapping[Key, PoolState],
        *,
        changed: Callable[[Key], None],
        returned: Callable[[Key, Network], None],
    ) -> None:
        """``changed``: another status may be due; ``returned``: a block may be given again."""
        self._states: Final = states
        self._changed: Final = changed
        self._returned: Final = returned
        self._ranges: Final[dict[str, BlockSet[Key]]] = defaultdict(BlockSet)
        """Ranges of the pools of each namespace."""
        self._range_of: Final[dict[Key, Network]] = {}
        self._strays: Final[dict[str, BlockSet[str]]] = defaultdict(BlockSet)
        """UIDs of the strays of each namespace."""
        self._stray: Final[dict[str, Member]] = {}
        self._strays_of: Final[dict[Key, set[str]]] = {}
        self._behind: Final[set[Key]] = set()
        """Pools that are being indexed."""
        self._watched: Final[dict[Key, set[Key]]] = {}
        """Pools by those whose blocks they must leave alone."""
        self._around: Final[dict[Key, set[Key]]] = {}
        """The other way round."""
        self._contested: Final[dict[Key, tuple[PoolFacts, ...]]] = {}
        self._is_open = False

    def clear(self) -> None:
        """Forget everything, and keep only ranges until ``open``."""
        self._is_open = False
        self._ranges.clear()
        self._range_of.clear()
        self._strays.clear()
        self._stray.clear()
        self._strays_of.clear()
        self._behind.clear()
        self._watched.clear()
        self._around.clear()
        self._contested.clear()

    def open(self) -> None:
        """All pools and Subnets are there: until now, nearly all of them would have looked like strays."""
        if not self._is_open:
            self._is_open = True
            for pool in list(self._states):
                self.look(pool)

    def contested(self, pool: Key) -> tuple[PoolFacts, ...]:
        """The pools that overlap a pool and are neither above nor below it."""
        return self._contested.get(pool, ())

    def overlapping(self, facts: PoolFacts, namespace: str) -> PoolFacts | None:
        """A pool that a new or edited one would overlap, and that is neither above nor below it."""
        return next(self._unrelated(Key(namespace, facts.name), facts), None)

    def is_known(self, pool: Key) -> bool:
        """Whether everything is known that a pool must leave alone."""
        return self._is_open and not any(each.namespace == pool.namespace for each in self._behind)

    def came(self, pool: Key, member: Member) -> None:
        """A Subnet is in a pool now."""
        network = member.network
        if network is None or not self._is_open:
            return
        state = self._states[pool]
        if not state.is_behind and (not state.is_indexed or member.uid in state.outside):
            self._put_stray(member)
        foreign = Foreign(network, member.rank, member.text)
        for state in self._concerned(pool, member.uid, network):
            self._put(state, member.uid, foreign)

    def left(self, pool: Key, member: Member) -> None:
        """A Subnet is not in a pool any more."""
        network = member.network
        if network is None:
            return
        concerned = list(self._concerned(pool, member.uid, network))
        self._drop_stray(member.uid)
        for state in concerned:
            self._drop(state, member.uid)

    def reserved(self, pool: Key, holder: str, network: Network, rank: Rank) -> None:
        """A block of a pool is about to be given."""
        for state in self._concerned(pool, holder, network):
            self._put(state, holder, Foreign(network, rank, f"a claim on pool {pool.name}"))

    def cancelled(self, pool: Key, holder: str, network: Network) -> None:
        """A block of a pool is not about to be given any more."""
        for state in self._concerned(pool, holder, network):
            self._drop(state, holder)

    def look(self, pool: Key) -> None:
        """A pool came, went, moved or was indexed: look at it, and at all that share addresses with it."""
        state = self._states.get(pool)
        facts = state.facts if state is not None else None
        ranges = self._ranges[pool.namespace]
        before, after = self._range_of.pop(pool, None), facts.network if facts is not None else None
        concerned = {pool, *self._watched.get(pool, ())}
        for network in (before, after):
            if network is not None:
                concerned.update(key for _, key in ranges.overlapping(network))
        if before is not None and before != after:
            ranges.remove(before, pool)
        if after is not None:
            ranges.add(after, pool)
            self._range_of[pool] = after
        if not self._is_open:
            return
        self._behind.discard(pool)
        if state is not None and state.is_behind:
            self._behind.add(pool)
        concerned |= self._sort_strays(pool, state, [each for each in (before, after) if each is not None])
        for key in concerned:
            self._survey(key)

    def _sort_strays(self, pool: Key, state: PoolState | None, known: list[Network]) -> set[Key]:
        """Find out which members of a pool are strays; returns the pools, apart from those that overlap a
        known range, whom a change concerns.
        """
        members = state.members.values() if state is not None else ()
        old, new = self._strays_of.get(pool, set()), self._strays_among(state, members)
        moved = [self._stray[uid] for uid in old - new.keys()] + [new[uid] for uid in new.keys() - old]
        concerned = set[Key]()
        for member in moved:
            if member.uid in new:
                self._put_stray(member)
            else:
                self._drop_stray(member.uid)
            network = member.network
            if network is not None and not any(each.contains(network) for each in known):
                concerned.update(key for _, key in self._ranges[pool.namespace].overlapping(network))
        return concerned

    def _strays_among(self, state: PoolState | None, members: Iterable[Member]) -> dict[str, Member]:
        """Those of a pool's members that are in no range of it; none while the pool is being indexed."""
        if state is None or state.is_behind:
            return {}
        if state.is_indexed:
            members = [state.members[uid] for uid in state.outside]
        return {each.uid: each for each in members if each.network is not None}

    def _put_stray(self, member: Member) -> None:
        assert member.network is not None
        self._stray[member.uid] = member
        self._strays_of.setdefault(member.pool_key, set()).add(member.uid)
        self._strays[member.namespace].add(member.network, member.uid)

    def _drop_stray(self, uid: str) -> None:
        member = self._stray.pop(uid, None)
        if member is None or member.network is None:
            return
        self._strays[member.namespace].remove(member.network, uid)
        left = self._strays_of[member.pool_key]
        left.discard(uid)
        if not left:
            del self._strays_of[member.pool_key]

    def _concerned(self, pool: Key, holder: str, network: Network) -> Iterator[PoolState]:
        """The pools that must leave a block of another one alone."""
        is_stray = holder in self._strays_of.get(pool, ())
        watched = self._watched.get(pool, ())
        if not is_stray and not watched:
            return  # nearly always: nobody else has addresses of this pool
        for _, key in list(self._ranges[pool.namespace].overlapping(network)):
            if key != pool and (is_stray or (key in watched and not self._is_holder(pool, network, key))):
                yield self._states[key]

    def _survey(self, pool: Key) -> None:
        """Find out what a pool must leave alone."""
        state = self._states.get(pool)
        facts = state.facts if state is not None else None
        wanted: dict[str, Foreign] = {}
        around, contested = set[Key](), tuple[PoolFacts, ...]()
        if facts is not None and facts.network is not None:
            network = facts.network
            for _, key in self._ranges[pool.namespace].overlapping(network):
                other = self._states[key]
                if key == pool or other.facts is None or self._is_inside(other.facts, pool):
                    continue  # a child pool's range is guarded as such
                around.add(key)
                for holder, block, rank, text in other.holders_over(network):
                    if not self._is_holder(key, block, pool):
                        wanted[holder] = Foreign(block, rank, text)
            contested = tuple(self._unrelated(pool, facts))
            for elder in (each for each in contested if each.network and each.rank < facts.rank):
                assert elder.network is not None
                wanted[f"pool/{elder.uid}"] = Foreign(elder.network, elder.rank, f"pool {elder.name}")
            for block, uid in self._strays[pool.namespace].overlapping(network):
                stray = self._stray[uid]
                if stray.pool_key != pool:
                    wanted[uid] = Foreign(block, stray.rank, stray.text)
        self._watch(pool, around)
        self._tell_contested(pool, contested)
        if state is not None:
            for holder in [each for each in state.foreign if each not in wanted]:
                self._drop(state, holder)
            for holder, foreign in wanted.items():
                self._put(state, holder, foreign)

    def _watch(self, pool: Key, around: set[Key]) -> None:
        old = self._around.get(pool, set())
        for key in old - around:
            self._watched[key].discard(pool)
        for key in around - old:
            self._watched.setdefault(key, set()).add(pool)
        if around:
            self._around[pool] = around
        else:
            self._around.pop(pool, None)

    def _tell_contested(self, pool: Key, contested: tuple[PoolFacts, ...]) -> None:
        shown = {(each.uid, each.network) for each in self._contested.get(pool, ())}
        if contested:
            self._contested[pool] = contested
        else:
            self._contested.pop(pool, None)
        if shown != {(each.uid, each.network) for each in contested}:
            self._changed(pool)

    def _unrelated(self, pool: Key, facts: PoolFacts) -> Iterator[PoolFacts]:
        """The pools that overlap a pool and are neither above nor below it, oldest first."""
        if facts.network is None:
            return
        found = []
        for _, key in self._ranges[pool.namespace].overlapping(facts.network):
            other = self._states[key].facts
            if key == pool or other is None or self._is_inside(other, pool):
                continue
            if not is_inside(facts, key.name, lambda name: self._facts(Key(pool.namespace, name))):
                found.append(other)
        yield from sorted(found, key=lambda each: each.rank)

    def _is_inside(self, below: PoolFacts, above: Key) -> bool:
        return is_inside(below, above.name, lambda name: self._facts(Key(above.namespace, name)))

    def _is_holder(self, pool: Key, block: Network, below: Key) -> bool:
        """Whether a block of a pool is what a pool below it was made of."""
        facts = self._facts(below)
        return (
            facts is not None
            and facts.network is not None
            and block.contains(facts.network)
            and self._is_inside(facts, pool)
        )

    def _facts(self, pool: Key) -> PoolFacts | None:
        state = self._states.get(pool)
        return state.facts if state is not None else None

    def _put(self, state: PoolState, holder: str, foreign: Foreign) -> None:
        if state.foreign.get(holder) != foreign:
            state.put_foreign(holder, foreign)
            self._changed(state.key)

    def _drop(self, state: PoolState, holder: str) -> None:
        foreign = state.drop_foreign(holder)
        if foreign is not None:
            self._changed(state.key)
            self._returned(state.key, foreign.network)
