"""A few blocks with names, asked which of them overlap a block.

Every block is counted at all blocks around it, so a question costs O(prefix length) and what it finds. That
takes O(prefix length) memory per block: this is for the exceptions of a pool (overlapping members, waiting
requests), not for its members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from .network import Network

T = TypeVar("T")


class BlockSet(Generic[T]):
    """Names by block; a name may stand at several blocks, a block may have several names."""

    def __init__(self) -> None:
        self._names: Final[dict[Network, dict[T, None]]] = {}
        self._below: Final[dict[Network, int]] = {}
        """How many (block, name) pairs are at or inside a block."""

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, block: Network, name: T) -> None:
        """Put a name at a block."""
        names = self._names.setdefault(block, {})
        if name in names:
            return
        names[name] = None
        for around in _around(block):
            self._below[around] = self._below.get(around, 0) + 1

    def remove(self, block: Network, name: T) -> None:
        """Take a name away; harmless if it is not there."""
        names = self._names.get(block)
        if names is None or name not in names:
            return
        del names[name]
        if not names:
            del self._names[block]
        for around in _around(block):
            left = self._below[around] - 1
            if left:
                self._below[around] = left
            else:
                del self._below[around]

    def overlapping(self, block: Network) -> Iterator[tuple[Network, T]]:
        """Blocks with their names that overlap a block; must not change while iterating."""
        if not self._names:
            return
        for prefix in range(block.prefix):
            around = block.at(prefix)
            for name in self._names.get(around, ()):
                yield around, name
        yield from self._inside(block)

    def _inside(self, block: Network) -> Iterator[tuple[Network, T]]:
        if block not in self._below:
            return
        for name in self._names.get(block, ()):
            yield block, name
        if block.prefix < block.width:
            low = Network(block.address, block.prefix + 1, block.width)
            yield from self._inside(low)
            yield from self._inside(Network(low.last + 1, low.prefix, low.width))


def _around(block: Network) -> Iterator[Network]:
    for prefix in range(block.prefix, -1, -1):
        yield block.at(prefix)
