"""A bucket as it was at an earlier revision: what changed since, laid over what is there now.

Pages of a list continue at the revision of the first one, while others write. Each costs its length, and the
changes since the page before; neither the number of objects nor that of all changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import TYPE_CHECKING

from .entry import Entry, Event, EventType
from .order import SortedNames

if TYPE_CHECKING:
    from .bucket import Bucket

#: behind every name of a namespace
_END = "\U0010ffff"
Place = tuple[str, str]


class Past:
    """The state of a bucket at `rev`; it has taken in the changes up to `seen`."""

    def __init__(self, bucket: Bucket, rev: int) -> None:
        self._bucket = bucket
        self.rev = rev
        self.seen = rev
        #: of what has changed since: the state at `rev`, None where nothing was
        self._before: dict[Place, Entry | None] = {}
        #: what was there and is not, and what is there and was not, in key order
        self._gone = _Places()
        self._new = _Places()

    def take_in(self, changes: Iterable[tuple[Place, Entry | None]]) -> None:
        """All changes of the bucket since `seen`, oldest first, each with the state before it."""
        touched = set()
        for place, before in changes:
            self._before.setdefault(place, before)
            touched.add(place)
        for place in touched:
            was, is_there = self._before[place] is not None, self._bucket.get(*place) is not None
            self._gone.keep(place, was and not is_there)
            self._new.keep(place, is_there and not was)
        self.seen = self._bucket.last_rev

    def scan(self, namespace: str = "", after: Place | None = None) -> Iterator[Entry]:
        """Entries in key order, of one namespace or of all, strictly behind `after`."""
        return merge(self._kept(namespace, after), self._lost(namespace, after), key=_key)

    def count_after(self, namespace: str, after: Place) -> int:
        """How many entries of one namespace, or of all, lie strictly behind a place."""
        count = self._bucket.count_after(namespace, after)
        return count + self._gone.count_after(namespace, after) - self._new.count_after(namespace, after)

    def _kept(self, namespace: str, after: Place | None) -> Iterator[Entry]:
        before = self._before
        for entry in self._bucket.scan(namespace, after):
            place = (entry.namespace, entry.name)
            if place not in before:
                yield entry
            elif (earlier := before[place]) is not None:
                yield earlier

    def _lost(self, namespace: str, after: Place | None) -> Iterator[Entry]:
        for place in self._gone.after(namespace, after):
            entry = self._before[place]
            if entry is not None:
                yield entry


class _Places:
    """A set of places in key order."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._order = SortedNames()

    def keep(self, place: Place, is_in: bool) -> None:
        key = "/".join(place)
        if is_in and key not in self._places:
            self._places[key] = place
            self._order.add(key)
        elif not is_in and self._places.pop(key, None) is not None:
            self._order.remove(key)

    def after(self, namespace: str, after: Place | None) -> Iterator[Place]:
        start, end = _span(namespace, after)
        for keys in self._order.after(start):
            for key in keys:
                if key > end:
                    return
                yield self._places[key]

    def count_after(self, namespace: str, after: Place) -> int:
        start, end = _span(namespace, after)
        return self._order.count_after(start) - self._order.count_after(max(start, end))


def _span(namespace: str, after: Place | None) -> tuple[str, str]:
    """The keys between which places of one namespace, or of all, lie behind `after`."""
    start = "" if after is None else "/".join(after)
    if not namespace:
        return start, _END
    return max(start, namespace + "/"), f"{namespace}/{_END}"


def state_before(event: Event) -> tuple[Place, Entry | None]:
    """The place of a change and what was there before it."""
    entry = event.entry
    return (entry.namespace, entry.name), None if event.type is EventType.ADDED else event.prev


def _key(entry: Entry) -> Place:
    return entry.namespace + "/", entry.name
