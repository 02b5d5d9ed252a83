"""What is free in a pool: the set of maximal free aligned blocks, one set per prefix length.

A block of prefix ``p`` is *maximal* if it is free and its sibling is not (two free siblings are one free
block of ``p - 1``). The sets of all prefixes together describe the free space in exactly one way, so two
indexes of the same space are equal whatever their history.

- *Carve* walks from the block up to the free block around it, removes that and adds the siblings on the way.
- *Release* merges upwards while the sibling is free.
- The lowest block of a prefix comes from a heap beside its set; entries that have left the set are dropped
  when they come up, and the heap is rebuilt when most of it is stale.

Every operation costs O(pool to block) set operations, whatever the number of blocks. Memory goes with the
number of *free* blocks. Addresses are relative to nothing: plain integers of the pool's family.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from quarterdeck.errors import QuarterdeckError

from .network import Network

_STALE_LIMIT: Final = 64
"""Stale heap entries that are not worth rebuilding a heap for."""


class Occupied(QuarterdeckError, ValueError):
    """The block, or a part of it, is not free."""


class FreeSpace:
    """The free blocks of one pool; starts with everything free."""

    __slots__ = ("_free", "_heaps", "_levels", "_top", "_width", "pool")

    def __init__(self, pool: Network) -> None:
        self.pool: Final = pool
        self._width: Final = pool.width
        self._top: Final = pool.prefix
        depth = pool.width - pool.prefix + 1
        self._free: Final[list[set[int] | None]] = [None] * depth
        self._heaps: Final[list[list[int]]] = [[] for _ in range(depth)]
        self._levels = 0
        """Bit ``p - top`` is set while there is a free block of prefix ``p``."""
        self._add(pool.address, 0)

    def is_free(self, block: Network) -> bool:
        """Whether every address of a block inside the pool is free."""
        return self._holder(block.address, block.prefix - self._top) is not None

    def fits(self, prefix: int) -> bool:
        """Whether a block of this size is free."""
        depth = prefix - self._top
        return depth >= 0 and bool(self._levels & ((2 << depth) - 1))

    @property
    def is_untouched(self) -> bool:
        """Whether everything is free."""
        return self._levels == 1

    def lowest(self, prefix: int) -> Network | None:
        """The lowest free aligned block of a size."""
        depth = prefix - self._top
        levels = self._levels & ((2 << depth) - 1) if depth >= 0 else 0
        best: int | None = None
        while levels:
            level = (levels & -levels).bit_length() - 1
            levels &= levels - 1
            address = self._lowest_of(level)
            if best is None or address < best:
                best = address
        return None if best is None else Network(best, prefix, self._width)

    def best_fit(self, prefix: int) -> Network | None:
        """The lowest part of the smallest free block that a size fits into; ties go to the lowest address."""
        depth = prefix - self._top
        levels = self._levels & ((2 << depth) - 1) if depth >= 0 else 0
        if not levels:
            return None
        return Network(self._lowest_of(levels.bit_length() - 1), prefix, self._width)

    @property
    def largest(self) -> Network | None:
        """The lowest of the biggest free blocks."""
        if not self._levels:
            return None
        level = (self._levels & -self._levels).bit_length() - 1
        return Network(self._lowest_of(level), level + self._top, self._width)

    def counts(self) -> list[int]:
        """Number of maximal free blocks by prefix, beginning with the pool's own."""
        return [len(blocks) if blocks else 0 for blocks in self._free]

    def addresses(self) -> int:
        """How many addresses are free."""
        return sum(count << (self._width - self._top - depth) for depth, count in enumerate(self.counts()))

    def blocks(self) -> Iterator[Network]:
        """All maximal free blocks, the biggest first, in no order among equals."""
        for depth, blocks in enumerate(self._free):
            for address in blocks or ():
                yield Network(address, depth + self._top, self._width)

    def copy(self) -> FreeSpace:
        """An independent copy."""
        made = FreeSpace(self.pool)
        made._free[:] = [set(blocks) if blocks else None for blocks in self._free]
        made._heaps[:] = [list(heap) for heap in self._heaps]
        made._levels = self._levels
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeSpace) and self.pool == other.pool and self._sets() == other._sets()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def _sets(self) -> list[set[int]]:
        return [blocks or set() for blocks in self._free]

    def carve(self, block: Network) -> None:
        """Take a block; raises ``Occupied`` if a part of it is not free, and changes nothing then."""
        address, depth = block.address, block.prefix - self._top
        level = self._holder(address, depth)
        if level is None:
            raise Occupied(f"{block} is not free")
        bottom = self._width - self._top
        self._remove(address >> (bottom - level) << (bottom - level), level)
        add = self._add
        while level < depth:
            level += 1
            bit = 1 << (bottom - level)
            add((address & -bit) ^ bit, level)

    def release(self, block: Network) -> None:
        """Give a block back. It must be taken as a whole: checking that would cost more than the rest."""
        address, prefix, width = block
        depth = prefix - self._top
        free, bit = self._free, 1 << (width - prefix)
        while depth:
            siblings = free[depth]
            sibling = address ^ bit
            if not siblings or sibling not in siblings:
                break
            siblings.remove(sibling)
            if not siblings:
                self._levels &= ~(1 << depth)
            address &= ~bit
            bit <<= 1
            depth -= 1
        self._add(address, depth)

    def _holder(self, address: int, depth: int) -> int | None:
        """The level of the free block around a block."""
        free, bottom = self._free, self._width - self._top
        levels = self._levels & ((2 << depth) - 1)
        while levels:
            level = levels.bit_length() - 1
            shift = bottom - level
            if address >> shift << shift in free[level]:  # type: ignore[operator]  # its bit is set
                return level
            levels ^= 1 << level
        return None

    def _add(self, address: int, depth: int) -> None:
        blocks = self._free[depth]
        if blocks is None:
            blocks = self._free[depth] = set()
        blocks.add(address)
        self._levels |= 1 << depth
        heap = self._heaps[depth]
        heappush(heap, address)
        if len(heap) > 2 * len(blocks) + _STALE_LIMIT:
            heap[:] = blocks
            heapify(heap)

    def _remove(self, address: int, depth: int) -> None:
        blocks = self._free[depth]
        assert blocks is not None
        blocks.remove(address)
        if not blocks:
            self._levels &= ~(1 << depth)
            self._heaps[depth].clear()
            self._free[depth] = None

    def _lowest_of(self, depth: int) -> int:
        heap, blocks = self._heaps[depth], self._free[depth]
        assert blocks
        while heap[0] not in blocks:
            heappop(heap)
        return heap[0]
