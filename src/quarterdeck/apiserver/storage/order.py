"""Names in byte order, for pages that cost what they hold.

Objects are written more often than their list is read, so a change is only noted; the next reader, or the
change that makes them many, puts all in place. Names are kept in blocks of bounded size: putting one in
place, finding a name and counting what lies behind it cost next to nothing, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

_BLOCK = 1000


class SortedNames:
    """A set of names in order."""

    __slots__ = ("_added", "_blocks", "_firsts", "_removed")

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        #: the first name of each block
        self._firsts: list[str] = []
        self._added: set[str] = set()
        self._removed: set[str] = set()

    def add(self, name: str) -> None:
        """Take in a name that is not there."""
        self._note(name, self._added, self._removed)

    def remove(self, name: str) -> None:
        """Drop a name that is there."""
        self._note(name, self._removed, self._added)

    def after(self, name: str | None) -> Iterator[list[str]]:
        """Lists of names that follow each other, strictly behind `name`, or all of them."""
        self._settle()
        first = 0 if name is None else self._block_of(name)
        for index, block in enumerate(self._blocks[first:]):
            # copies: whoever reads on between changes sees a block as it was
            yield block[bisect_right(block, name) :] if name is not None and index == 0 else block[:]

    def count_after(self, name: str | None) -> int:
        """How many names lie strictly behind `name`, or are there at all."""
        self._settle()
        blocks = self._blocks
        if name is None or not blocks:
            return sum(map(len, blocks))
        index = self._block_of(name)
        behind = len(blocks[index]) - bisect_right(blocks[index], name)
        return behind + sum(map(len, islice(blocks, index + 1, None)))

    def _note(self, name: str, here: set[str], there: set[str]) -> None:
        if name in there:
            there.discard(name)
            return
        here.add(name)
        if len(here) == _BLOCK:
            self._settle()

    def _settle(self) -> None:
        for name in self._removed:
            self._take_out(name)
        self._removed.clear()
        for name in sorted(self._added):
            self._put_in(name)
        self._added.clear()

    def _block_of(self, name: str) -> int:
        return max(bisect_right(self._firsts, name) - 1, 0)

    def _put_in(self, name: str) -> None:
        if not self._blocks:
            self._blocks.append([name])
            self._firsts.append(name)
            return
        index = self._block_of(name)
        block = self._blocks[index]
        insort(block, name)
        self._firsts[index] = block[0]
        if len(block) > 2 * _BLOCK:
            self._blocks.insert(index + 1, block[_BLOCK:])
            self._firsts.insert(index + 1, block[_BLOCK])
            del block[_BLOCK:]

    def _take_out(self, name: str) -> None:
        index = self._block_of(name)
        block = self._blocks[index]
        del block[bisect_left(block, name)]
        if block:
            self._firsts[index] = block[0]
        else:
            del self._blocks[index], self._firsts[index]
