"""Claims that wait for space in a pool, woken oldest first and no more of them than may succeed.

A release hands out one *baton*: the oldest claim that would fit now is woken. When its reconcile is over,
well or not, the baton goes on to the next one that fits; if none does, it ends there. So a release in
front of a million waiting claims costs as many reconciles as it can bind claims, and one.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from quarterdeck.api import Key

from .blockset import BlockSet
from .freespace import FreeSpace
from .network import Network
from .occupancy import Rank


class _Queue:
    """Claims by age; those that left are skipped when they come up."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, Key]] = []
        self._waiting: dict[Key, Rank] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, claim: Key, rank: Rank) -> None:
        if self._waiting.get(claim) != rank:
            self._waiting[claim] = rank
            heappush(self._heap, (rank, claim))

    def discard(self, claim: Key) -> None:
        self._waiting.pop(claim, None)
        if not self._waiting:
            self._heap.clear()

    def oldest(self) -> tuple[Rank, Key] | None:
        while self._heap:
            rank, claim = self._heap[0]
            if self._waiting.get(claim) == rank:
                return rank, claim
            heappop(self._heap)
        return None


class WaitingClaims:
    """The claims that wait for one pool."""

    def __init__(self) -> None:
        self._sizes: Final[dict[int, _Queue]] = {}
        self._blocks: Final[dict[Network, _Queue]] = {}
        self._block_set: Final[BlockSet[None]] = BlockSet()
        self._places: Final[dict[Key, int | Network]] = {}
        self._batons: Final[set[Key]] = set()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits or is being woken."""
        return not self._places and not self._batons

    def wait(self, claim: Key, rank: Rank, wanted: int | Network) -> None:
        """A claim waits for a block of a size, or for a certain block."""
        if self._places.get(claim) != wanted:
            self.leave(claim)
        self._places[claim] = wanted
        if isinstance(wanted, Network):
            self._blocks.setdefault(wanted, _Queue()).add(claim, rank)
            self._block_set.add(wanted, None)
        else:
            self._sizes.setdefault(wanted, _Queue()).add(claim, rank)

    def leave(self, claim: Key) -> None:
        """A claim waits no more; harmless if it did not."""
        wanted = self._places.pop(claim, None)
        if isinstance(wanted, Network):
            queue = self._blocks[wanted]
            queue.discard(claim)
            if not queue:
                del self._blocks[wanted]
                self._block_set.remove(wanted, None)
        elif wanted is not None:
            queue = self._sizes[wanted]
            queue.discard(claim)
            if not queue:
                del self._sizes[wanted]

    def released(self, free: FreeSpace, network: Network | None) -> list[Key]:
        """A range is free again (``None``: any may be): the claims to wake."""
        woken = [*self._certain(free, network)]
        oldest = self._oldest(free)
        if oldest is not None:
            woken.append(oldest)
        for claim in woken:
            self._batons.add(claim)
            self.leave(claim)
        return woken

    def done(self, claim: Key, free: FreeSpace | None) -> list[Key]:
        """The reconcile of a claim is over: whom to wake next, if it was woken by a baton."""
        if claim not in self._batons:
            return []
        self._batons.discard(claim)
        if free is None:
            return []
        following = self._oldest(free)
        if following is None:
            return []
        self._batons.add(following)
        self.leave(following)
        return [following]

    def _oldest(self, free: FreeSpace) -> Key | None:
        """The oldest claim by size that fits now."""
        fitting = [
            oldest
            for size, queue in self._sizes.items()
            if free.fits(size) and (oldest := queue.oldest()) is not None
        ]
        return min(fitting)[1] if fitting else None

    def _certain(self, free: FreeSpace, network: Network | None) -> Iterator[Key]:
        """The oldest claim for each certain block that is free now and touches the range."""
        if network is None:
            blocks = list(self._blocks)
        else:
            blocks = [block for block, _ in self._block_set.overlapping(network)]
        for block in blocks:
            oldest = self._blocks[block].oldest()
            if oldest is not None and (not free.pool.contains(block) or free.is_free(block)):
                yield oldest[1]
