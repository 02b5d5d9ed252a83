"""Pools as a tree, with what is used, the largest free block and a map of the space: lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from .network import Network
from .occupancy import Occupancy, Rank


class Symbols(msgspec.Struct, frozen=True):
    """What a map is drawn with."""

    shares: str
    """From free to full."""
    child: str
    """Free, but inside a child pool."""
    branch: str
    last: str
    down: str


BLOCKS: Final = Symbols("·░▒▓█", "○", "├─ ", "└─ ", "│  ")
ASCII: Final = Symbols(".-+x#", "o", "|- ", "`- ", "|  ")


class PoolView(msgspec.Struct, frozen=True):
    """One pool, as far as the tree shows it."""

    name: str
    network: Network | None
    cidr: str
    """As written."""
    parent: str
    strategy: str
    members: Sequence[Network | None]


def draw(pools: Iterable[PoolView], *, width: int = 64, symbols: Symbols = BLOCKS) -> Iterator[str]:
    """The lines of a namespace's pools; ``width`` is the length of a map, 0 for none."""
    known = {pool.name: pool for pool in pools}
    children: dict[str, list[PoolView]] = {}
    for pool in known.values():
        above = pool.parent if pool.parent in known and not _is_below(pool, known) else ""
        children.setdefault(above, []).append(pool)
    yield from _draw(children, "", "", width, symbols)


def _is_below(pool: PoolView, known: Mapping[str, PoolView]) -> bool:
    """Whether following parents leads back to the pool: labels can say anything."""
    seen, above = {pool.name}, pool.parent
    while above in known:
        if above in seen:
            return True
        seen.add(above)
        above = known[above].parent
    return False


def _draw(
    children: Mapping[str, list[PoolView]], name: str, indent: str, width: int, symbols: Symbols
) -> Iterator[str]:
    below = sorted(
        children.get(name, ()),
        key=lambda pool: (pool.network or Network(0, 0, 0), pool.name),
    )
    for number, pool in enumerate(below):
        is_last = number == len(below) - 1
        lead = (symbols.last if is_last else symbols.branch) if name else ""
        inner = indent + (("   " if is_last else symbols.down) if name else "")
        grandchildren = children.get(pool.name, [])
        view = _view(pool)
        yield f"{indent}{lead}{_headline(pool, view)}"
        if view is not None and width:
            more = symbols.down if grandchildren else "   "
            yield f"{inner}{more}{_map(pool, view, grandchildren, width, symbols)}"
        yield from _draw(children, pool.name, inner, width, symbols)


def _view(pool: PoolView) -> Occupancy | None:
    if pool.network is None:
        return None
    view = Occupancy(pool.network)
    for number, network in enumerate(pool.members):
        if network is not None:
            view.add(str(number), network, Rank("", f"{number:09}"))
    return view


def _headline(pool: PoolView, view: Occupancy | None) -> str:
    if view is None:
        return f"{pool.name}  {pool.cidr or '-'}  (this is no CIDR)"
    total = 1 << (view.pool.width - view.pool.prefix)
    used = (total - view.space.addresses()) / total
    count = f"{len(pool.members)} subnet{'s' if len(pool.members) != 1 else ''}"
    largest = view.space.largest
    free = f"largest free {largest}" if largest is not None else "full"
    overlaps = "  OVERLAPPING" if view.has_overlaps else ""
    return f"{pool.name}  {view.pool}  {pool.strategy}  {count}  {used:.1%} used  {free}{overlaps}"


def _map(pool: PoolView, view: Occupancy, children: Sequence[PoolView], width: int, symbols: Symbols) -> str:
    """One sign for each equal part of the range; a power of two of them, so that parts are blocks."""
    space = view.pool
    bits = min(width.bit_length() - 1, space.width - space.prefix)
    prefix = space.prefix + bits
    size = 1 << (space.width - prefix)
    free = [0] * (1 << bits)
    for block in view.space.blocks():
        first = (block.address - space.address) // size
        if block.prefix >= prefix:
            free[first] += 1 << (block.width - block.prefix)
        else:
            for cell in range(first, first + (1 << (prefix - block.prefix))):
                free[cell] = size
    drawn = []
    for cell, left in enumerate(free):
        part = Network(space.address + cell * size, prefix, space.width)
        if left == size and any(
            child.network is not None and child.network.overlaps(part) for child in children
        ):
            drawn.append(symbols.child)
        else:
            drawn.append(_share(size - left, size, symbols.shares))
    return f"{''.join(drawn)}  {len(drawn)} × /{prefix}"


def _share(taken: int, size: int, shares: str) -> str:
    """The sign of a share: the first only for nothing, the last only for everything."""
    if not taken:
        return shares[0]
    if taken == size:
        return shares[-1]
    between = shares[1:-1]
    return between[taken * len(between) // size]
