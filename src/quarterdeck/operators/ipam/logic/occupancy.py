"""Who covers what in one pool, also where blocks overlap.

Most blocks lie alone: such a block is carved out of the free space and has one owner. A block that arrives
where others are becomes a *shadow*: it owns the pieces that were still free, possibly none. When an owner
goes, its pieces go to the shadows that cover them, the oldest first, and only what nobody covers becomes
free. So the free space is always exactly the pool without the union of all blocks, whatever the order of
arrivals and departures, and a departure costs nothing beyond its own block unless shadows are around.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from .blockset import BlockSet
from .freespace import FreeSpace
from .network import Network


class Rank(NamedTuple):
    """Age of a block's holder: the smaller, the older."""

    created: str
    """Creation date, RFC 3339 (sorts as text)."""
    name: str


class _Shadow:
    __slots__ = ("block", "pieces", "rank")

    def __init__(self, block: Network, rank: Rank) -> None:
        self.block: Final = block
        self.rank: Final = rank
        self.pieces: Final[set[Network]] = set()

    def copy(self) -> _Shadow:
        made = _Shadow(self.block, self.rank)
        made.pieces.update(self.pieces)
        return made


class Occupancy:
    """Blocks of one pool by holder; a holder has one block."""

    def __init__(self, pool: Network, *, space: FreeSpace | None = None) -> None:
        self.space: Final = space if space is not None else FreeSpace(pool)
        self._owners: Final[dict[int, str]] = {}
        """Carved pieces, packed, and who owns each."""
        self._shadows: Final[dict[str, _Shadow]] = {}
        self._shadow_blocks: Final[BlockSet[str]] = BlockSet()

    @property
    def pool(self) -> Network:
        """The range of the pool."""
        return self.space.pool

    @property
    def has_overlaps(self) -> bool:
        """Whether any two blocks overlap."""
        return bool(self._shadows)

    def add(self, holder: str, network: Network, rank: Rank, *, packed: int | None = None) -> bool:
        """Cover a block, as far as it is inside the pool; returns whether the holder has it for itself.

        ``packed`` is the network's number where somebody keeps it already: it need not be kept twice.
        """
        block = self._clipped(network)
        if block is None:
            return True
        if self.space.is_free(block):
            self.space.carve(block)
            self._owners[packed if packed is not None and block is network else block.packed] = holder
            return True
        shadow = self._shadows[holder] = _Shadow(block, rank)
        self._shadow_blocks.add(block, holder)
        self._take_free(holder, shadow)
        return False

    def remove(self, holder: str, network: Network) -> None:
        """Uncover the block that a holder had added."""
        block = self._clipped(network)
        if block is None:
            return
        shadow = self._shadows.pop(holder, None)
        if shadow is not None:
            self._shadow_blocks.remove(shadow.block, holder)
        pieces = (block,) if shadow is None else shadow.pieces
        for piece in pieces:
            del self._owners[piece.packed]
            self.space.release(piece)
        if self._shadows and pieces:
            self._inherit(block)

    def rivals(self, holder: str, network: Network) -> Iterator[str]:
        """The other holders whose blocks overlap this one; a holder may come up more than once."""
        block = self._clipped(network)
        if block is None or not self._shadows:
            return
        for other in self._overlapping(block):
            if other != holder:
                yield other

    def overlapping(self, network: Network) -> Iterator[str]:
        """The holders whose blocks overlap a block."""
        block = self._clipped(network)
        if block is not None and not self.space.is_free(block):
            yield from self._overlapping(block)

    def copy(self) -> Occupancy:
        """An independent copy, at the speed of copying sets."""
        made = Occupancy(self.pool, space=self.space.copy())
        made._owners.update(self._owners)
        for holder, shadow in self._shadows.items():
            made._shadows[holder] = shadow.copy()
            made._shadow_blocks.add(shadow.block, holder)
        return made

    def _clipped(self, network: Network) -> Network | None:
        pool = self.space.pool
        if pool.contains(network):
            return network
        return pool if network.contains(pool) else None

    def _overlapping(self, block: Network) -> Iterator[str]:
        around = self._owner_around(block)
        if around is not None:
            yield around
        else:
            for piece in self._pieces(block):
                yield self._owners[piece.packed]
        for _, shadow in self._shadow_blocks.overlapping(block):
            yield shadow

    def _pieces(self, block: Network) -> Iterator[Network]:
        """The owned pieces at or inside a block that no piece is around of."""
        if block.packed in self._owners:
            yield block
        elif block.prefix < block.width and not self.space.is_free(block):
            low, high = _halves(block)
            yield from self._pieces(low)
            yield from self._pieces(high)

    def _free_parts(self, block: Network) -> Iterator[Network]:
        """The free parts of a block; descends only where something is taken and something may be free."""
        if self.space.is_free(block):
            yield block
        elif block.prefix < block.width and block.packed not in self._owners:
            low, high = _halves(block)
            yield from self._free_parts(low)
            yield from self._free_parts(high)

    def _take_free(self, holder: str, shadow: _Shadow) -> None:
        if self._owner_around(shadow.block) is not None:
            return
        for piece in list(self._free_parts(shadow.block)):
            self.space.carve(piece)
            self._owners[piece.packed] = holder
            shadow.pieces.add(piece)

    def _owner_around(self, block: Network) -> str | None:
        """Who owns a piece that covers all of the block."""
        for prefix in range(self.pool.prefix, block.prefix + 1):
            owner = self._owners.get(block.at(prefix).packed)
            if owner is not None:
                return owner
        return None

    def _inherit(self, block: Network) -> None:
        heirs = {holder: self._shadows[holder] for _, holder in self._shadow_blocks.overlapping(block)}
        for holder, shadow in sorted(heirs.items(), key=lambda heir: heir[1].rank):
            self._take_free(holder, shadow)
            if sum(1 << (piece.width - piece.prefix) for piece in shadow.pieces) == 1 << (
                shadow.block.width - shadow.block.prefix
            ):
                self._settle(holder, shadow)

    def _settle(self, holder: str, shadow: _Shadow) -> None:
        """A shadow that owns all of its block is an owner like any other."""
        for piece in shadow.pieces:
            del self._owners[piece.packed]
            self.space.release(piece)
        self.space.carve(shadow.block)
        self._owners[shadow.block.packed] = holder
        del self._shadows[holder]
        self._shadow_blocks.remove(shadow.block, holder)


def _halves(block: Network) -> tuple[Network, Network]:
    prefix = block.prefix + 1
    return (
        Network(block.address, prefix, block.width),
        Network(block.address | 1 << (block.width - prefix), prefix, block.width),
    )
