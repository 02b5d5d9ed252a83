"""Sets of completion indexes, kept as intervals: a Job may have a hundred thousand of them.

The text form is that of ``status.completedIndexes``: ``0-2,4``. Two neighbours are written ``0,1``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

Interval = tuple[int, int]
"""First and last index."""


class IndexSet:
    """Intervals in ascending order that neither overlap nor touch."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._intervals: Final = tuple(_merged(sorted(intervals)))

    @classmethod
    def parse(cls, text: str, completions: int) -> IndexSet:
        """The indexes below ``completions`` that a text names; parts that make no sense are left out."""
        intervals = []
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            try:
                low, high = int(first), int(last if dash else first)
            except ValueError:
                continue
            if low < completions:
                intervals.append((low, min(high, completions - 1)))
        return cls(intervals)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        """Single indexes, in any order."""
        return cls((index, index) for index in indexes)

    def __or__(self, other: IndexSet) -> IndexSet:
        if not other._intervals:
            return self
        return IndexSet((*self._intervals, *other._intervals))

    def __contains__(self, index: int) -> bool:
        at = bisect_left(self._intervals, index, key=lambda interval: interval[1])
        return at < len(self._intervals) and self._intervals[at][0] <= index

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(self._intervals)

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self._intervals)

    def __repr__(self) -> str:
        return f"IndexSet({str(self)!r})"

    def common(self, other: IndexSet) -> int:
        """How many indexes are in both."""
        count = i = j = 0
        mine, theirs = self._intervals, other._intervals
        while i < len(mine) and j < len(theirs):
            count += max(0, min(mine[i][1], theirs[j][1]) - max(mine[i][0], theirs[j][0]) + 1)
            if mine[i][1] < theirs[j][1]:  # the one that ends first has met all it can meet
                i += 1
            else:
                j += 1
        return count

    def missing(self, completions: int) -> Iterator[int]:
        """The indexes below ``completions`` that are not in it, in ascending order."""
        candidate = 0
        for first, last in self._intervals:
            yield from range(candidate, min(first, completions))
            candidate = max(candidate, last + 1)
        yield from range(candidate, completions)


def _merged(intervals: Iterable[Interval]) -> Iterator[Interval]:
    pending: Interval | None = None
    for first, last in intervals:
        if pending is None:
            pending = (first, last)
        elif first <= pending[1] + 1:
            pending = (pending[0], max(pending[1], last))
        else:
            yield pending
            pending = (first, last)
    if pending is not None:
        yield pending


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


NO_INDEXES: Final = IndexSet()
