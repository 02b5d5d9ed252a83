"""The state of one pool: its members, child pools and reservations, and what they leave free.

Two views of the space. ``status`` is what the pool's status shows: members only (reservations are in it
too and are put aside while it is measured). Where there are addresses of the pool that it must not give
away, ``_guarded`` also has those and is what the allocator works with: the ranges of child pools, and what
belongs to other pools, see ``neighbour``. Without any the two would be the same, so there is one.

A pool whose range is new is indexed by ``rebuild``, in steps; until the last one there is no view, and
nothing can be allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api import Key
from quarterdeck.operators.ipam import names

from .facts import Child, Member, PoolFacts
from .freespace import FreeSpace
from .network import Network
from .occupancy import Occupancy, Rank

STEP: Final = 1000
"""Members indexed between two pauses of a rebuild."""
_YOUNGEST: Final = "~"
"""Sorts behind every date."""


class Reservation(msgspec.Struct, frozen=True):
    """A block that is about to become a Subnet of a claim."""

    claim: str
    """UID of the claim."""
    cluster_id: str
    network: Network
    is_foreign: bool = False
    """Made by another allocator (strict mode)."""

    @property
    def holder(self) -> str:
        return f"claim/{self.claim}"

    @property
    def rank(self) -> Rank:
        """Younger than all members."""
        return Rank(_YOUNGEST, self.claim)


class Foreign(msgspec.Struct, frozen=True):
    """Addresses of a pool that are another pool's: a block that is in use, or a range."""

    network: Network
    rank: Rank
    text: str
    """Whose they are, for people."""


class Measure(NamedTuple):
    """What members leave of a pool."""

    counts: list[int]
    """Maximal free blocks by prefix, from the pool's own."""
    free_addresses: int
    has_overlaps: bool


class Members(Mapping[str, Member]):
    """The Subnets of one pool by UID: a view of those of all pools, which are kept once."""

    __slots__ = ("_clusters", "_count", "_everybody", "_key")

    def __init__(self, key: Key, everybody: dict[str, Member]) -> None:
        self._key: Final = key
        self._everybody: Final = everybody
        self._clusters: Final[dict[str, str | list[str]]] = {}
        """UIDs by cluster ID; most clusters have one Subnet in a pool, which needs no list."""
        self._count = 0

    def __getitem__(self, uid: str) -> Member:
        member = self._everybody[uid]
        if (member.namespace, member.pool) != (self._key.namespace, self._key.name):
            raise KeyError(uid)
        return member

    def __iter__(self) -> Iterator[str]:
        for known in self._clusters.values():
            if isinstance(known, str):
                yield known
            else:
                yield from known

    def __len__(self) -> int:
        return self._count

    def of_cluster(self, cluster_id: str) -> list[Member]:
        """The members of a cluster."""
        known = self._clusters.get(cluster_id, ())
        return [self[uid] for uid in ((known,) if isinstance(known, str) else known)]

    def add(self, member: Member) -> None:
        """Count a Subnet."""
        self._everybody[member.uid] = member
        known = self._clusters.get(member.cluster_id)
        if known is None:
            self._clusters[member.cluster_id] = member.uid
        elif isinstance(known, list):
            known.append(member.uid)
        else:
            self._clusters[member.cluster_id] = [known, member.uid]
        self._count += 1

    def remove(self, uid: str) -> Member:
        """Count a Subnet no more; returns it."""
        member = self[uid]
        del self._everybody[uid]
        known = self._clusters[member.cluster_id]
        if isinstance(known, list):
            known.remove(uid)
            if len(known) == 1:
                self._clusters[member.cluster_id] = known[0]
        else:
            del self._clusters[member.cluster_id]
        self._count -= 1
        return member


class PoolState:
    """Everything about one pool; also of one that does not exist (yet, or any more) but has members."""

    def __init__(self, key: Key, everybody: dict[str, Member] | None = None) -> None:
        """``everybody``: the members of all pools, by UID, to which this one's are added."""
        self.key: Final = key
        self.facts: PoolFacts | None = None
        self.members: Final = Members(key, everybody if everybody is not None else {})
        self.children: Final[dict[str, Child]] = {}
        self.reservations: Final[dict[str, Reservation]] = {}
        self.foreign: Final[dict[str, Foreign]] = {}
        """What other pools have of this one's range, by holder."""
        self.outside: Final[set[str]] = set()
        """Members that are not entirely inside the pool, or cannot be read."""
        self.revision = 0
        """Grows with every change that the pool's status might show."""
        self.confirmed = -1
        """The revision that the stored status shows."""
        self._status: Occupancy | None = None
        self._guarded: Occupancy | None = None
        self._building: Occupancy | None = None
        self._placed: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to remember."""
        return not (self.facts or self.is_used)

    @property
    def is_used(self) -> bool:
        """Whether anything is cut from the pool, or about to be."""
        return bool(self.members or self.children or self.reservations)

    @property
    def is_indexed(self) -> bool:
        """Whether the views are there; never true of a pool without a readable range."""
        return self._status is not None

    @property
    def is_behind(self) -> bool:
        """Whether ``rebuild`` has something to do."""
        network = self.facts.network if self.facts is not None else None
        return network is not None and (self._status is None or self._status.pool != network)

    @property
    def has_news(self) -> bool:
        """Whether the stored status may be out of date."""
        return self.revision != self.confirmed

    def add_member(self, member: Member) -> None:
        """Count a Subnet."""
        self.members.add(member)
        self._place(member)
        self.revision += 1

    def remove_member(self, uid: str) -> None:
        """Count a Subnet no more."""
        member = self.members.remove(uid)
        self._displace(member)
        self.revision += 1

    def of_cluster(self, cluster_id: str) -> list[Member]:
        """The members of a cluster, oldest first."""
        return sorted(self.members.of_cluster(cluster_id), key=lambda member: member.rank)

    def rivals(self, member: Member) -> list[Member]:
        """The other members whose blocks overlap a member's."""
        if self._status is None or not self._status.has_overlaps or member.network is None:
            return []
        found = dict.fromkeys(self._status.rivals(member.uid, member.network))
        return [self.members[uid] for uid in found if uid in self.members]

    def elder(self, member: Member) -> Member | None:
        """The oldest member whose block overlaps, if it is older."""
        rivals = self.rivals(member)
        oldest = min(rivals, key=lambda rival: rival.rank, default=None)
        return oldest if oldest is not None and oldest.rank < member.rank else None

    def is_good(self, member: Member) -> bool:
        """Whether a member is where it may be: inside, and over no older one."""
        return member.uid not in self.outside and self.elder(member) is None

    @property
    def free(self) -> FreeSpace | None:
        """What the allocator may take from."""
        view = self._guarded or self._status
        return view.space if view is not None else None

    def conflict(self, network: Network, *, but: str = "") -> Network | None:
        """The range of something that overlaps a block: a member, a child pool, a reservation.

        ``but`` is a member that does not count.
        """
        view = self._guarded or self._status
        if view is None:
            return None
        return next((self._range_of(holder) for holder in view.overlapping(network) if holder != but), None)

    def holders_over(self, network: Network) -> Iterator[tuple[str, Network, Rank, str]]:
        """Who has, or is about to have, parts of a block of this pool's range: holder, block, age, text."""
        for holder in dict.fromkeys(self._status.overlapping(network) if self._status is not None else ()):
            member = self.members.get(holder)
            if member is not None and member.network is not None:
                yield holder, member.network, member.rank, member.text
            elif member is None:
                reservation = self.reservations[holder.partition("/")[2]]
                yield holder, reservation.network, reservation.rank, f"a claim on pool {self.key.name}"

    def overlapping_member(self, network: Network, *, but: str = "") -> Member | None:
        """A member whose block overlaps, other than ``but``."""
        if self._status is None:
            return None
        for holder in self._status.overlapping(network):
            if holder != but and holder in self.members:
                return self.members[holder]
        return None

    def reserve(self, reservation: Reservation) -> None:
        """Hold a block for a claim; it must be free unless it is a foreign allocator's."""
        self.reservations[reservation.claim] = reservation
        for view in self._views():
            view.add(reservation.holder, reservation.network, reservation.rank)

    def cancel(self, claim: str) -> Reservation | None:
        """Give a reservation back."""
        reservation = self.reservations.pop(claim, None)
        if reservation is not None:
            for view in self._views():
                view.remove(reservation.holder, reservation.network)
        return reservation

    def reservation_of_cluster(self, cluster_id: str) -> Reservation | None:
        """A reservation under way for a cluster."""
        return next((each for each in self.reservations.values() if each.cluster_id == cluster_id), None)

    def put_child(self, child: Child) -> None:
        """Keep the allocator out of a child pool's range."""
        known = self.children.get(child.uid)
        if known == child:
            return
        if known is not None:
            self.drop_child(child.uid)
        self.children[child.uid] = child
        if child.network is not None:
            self._guard(_child(child.uid), child.network, Rank(child.created, child.name))
        self.revision += 1

    def drop_child(self, uid: str) -> Child | None:
        """A child pool is gone."""
        child = self.children.pop(uid, None)
        if child is None:
            return None
        if child.network is not None:
            self._unguard(_child(uid), child.network)
        self.revision += 1
        return child

    def put_foreign(self, holder: str, foreign: Foreign) -> None:
        """Keep the allocator out of what belongs to another pool."""
        known = self.foreign.get(holder)
        if known == foreign:
            return
        if known is not None:
            self.drop_foreign(holder)
        self.foreign[holder] = foreign
        self._guard(holder, foreign.network, foreign.rank)
        self.revision += 1

    def drop_foreign(self, holder: str) -> Foreign | None:
        """Another pool does not have this any more."""
        foreign = self.foreign.pop(holder, None)
        if foreign is not None:
            self._unguard(holder, foreign.network)
            self.revision += 1
        return foreign

    def _guard(self, holder: str, network: Network, rank: Rank) -> None:
        if self._guarded is None and self._status is not None:
            self._guarded = self._status.copy()
        if self._guarded is not None:
            self._guarded.add(holder, network, rank)

    def _unguard(self, holder: str, network: Network) -> None:
        if not self.children and not self.foreign:
            self._guarded = None
        elif self._guarded is not None:
            self._guarded.remove(holder, network)

    def measure(self) -> Measure | None:
        """What the members leave, reservations put aside; ``None`` while there is no view."""
        view = self._status
        if view is None:
            return None
        held = list(self.reservations.values())
        for reservation in held:
            view.remove(reservation.holder, reservation.network)
        found = Measure(view.space.counts(), view.space.addresses(), view.has_overlaps)
        for reservation in held:
            view.add(reservation.holder, reservation.network, reservation.rank)
        return found

    def describe(self, facts: PoolFacts | None) -> None:
        """Take over what the pool says; a new range needs ``rebuild``."""
        old = self.facts.network if self.facts is not None else None
        new = facts.network if facts is not None else None
        self.facts = facts
        self.revision += 1
        if old != new:
            self._status = self._guarded = self._building = None
            self.outside.clear()

    def rebuild(self) -> Iterator[None]:
        """Index the members for the pool's range; give way at each step.

        Members may come and go meanwhile. Another change of the range ends it: somebody calls it again.
        """
        if self.facts is None or self.facts.network is None:
            return
        fresh = self._building = Occupancy(self.facts.network)
        placed = self._placed = set()
        self.outside.clear()
        self._status = self._guarded = None
        for count, member in enumerate(list(self.members.values()), 1):
            if member.uid not in placed and self.members.get(member.uid) is member:
                self._place(member)
            if count % STEP == 0:
                yield
                if self._building is not fresh:
                    return
        self._building, self._placed = None, set()
        for reservation in self.reservations.values():
            fresh.add(reservation.holder, reservation.network, reservation.rank)
        self._status = fresh
        for child in self.children.values():
            if child.network is not None:
                self._guard(_child(child.uid), child.network, Rank(child.created, child.name))
        for holder, foreign in self.foreign.items():
            self._guard(holder, foreign.network, foreign.rank)
        self.revision += 1

    def is_sound(self, fresh: PoolState) -> bool:
        """Whether both views equal those of a state that was built from scratch."""
        return (
            self.outside == fresh.outside
            and (self._status and self._status.space) == (fresh._status and fresh._status.space)
            and (self._guarded and self._guarded.space) == (fresh._guarded and fresh._guarded.space)
        )

    def _views(self) -> tuple[Occupancy, ...]:
        return tuple(view for view in (self._status, self._guarded) if view is not None)

    def _place(self, member: Member) -> None:
        views = (self._building,) if self._building is not None else self._views()
        if not views or self.facts is None or self.facts.network is None:
            return
        network = member.network
        if network is None or not self.facts.network.contains(network):
            self.outside.add(member.uid)
        if network is not None:
            for view in views:
                view.add(member.uid, network, member.rank, packed=member.block)
        if self._building is not None:
            self._placed.add(member.uid)

    def _displace(self, member: Member) -> None:
        self.outside.discard(member.uid)
        if self._building is not None:
            if member.uid in self._placed and member.network is not None:
                self._building.remove(member.uid, member.network)
            self._placed.discard(member.uid)
        elif member.network is not None:
            for view in self._views():
                view.remove(member.uid, member.network)

    def _range_of(self, holder: str) -> Network | None:
        if holder in self.members:
            return self.members[holder].network
        if holder in self.foreign:
            return self.foreign[holder].network
        kind, _, rest = holder.partition("/")
        if kind == "claim":
            return self.reservations[rest].network
        return self.children[rest].network


def _child(uid: str) -> str:
    return f"{names.CHILD_POOL}/{uid}"
