"""All objects of one resource in memory: the newest state in key order, recent changes, subscribers."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from .entry import Entry, Event, EventType
from .order import SortedNames
from .past import Past
from .subscribers import Subscribers


class _Partition:
    """The objects of one namespace."""

    __slots__ = ("entries", "names")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.names = SortedNames()

    def put(self, entry: Entry) -> None:
        is_new = entry.name not in self.entries
        self.entries[entry.name] = entry
        if is_new:
            self.names.add(entry.name)

    def remove(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            self.names.remove(name)


class Bucket:
    """All objects of one resource: newest state, recent changes, subscribers."""

    def __init__(self, group: str, resource: str, *, namespaced: bool, last_rev: int) -> None:
        self.group = group
        self.resource = resource
        self.namespaced = namespaced
        self.prefix = f"/{group}/{resource}/"
        self.count = 0
        #: revision of the newest change in this bucket
        self.last_rev = last_rev
        #: changes at or below this revision are no longer in `recent`
        self.evicted_rev = last_rev
        self.recent: deque[Event] = deque()
        #: called with each committed batch of this bucket's events
        self.subscribers = Subscribers()
        #: earlier states that lists are being continued at, by revision
        self.pasts: dict[int, Past] = {}
        self._partitions: dict[str, _Partition] = {}
        #: with the separator behind each, which decides the order of `a` and `a-b`
        self._namespaces: dict[str, str] = {}
        self._order = SortedNames()

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace or '-'}/{name}"

    def split_key(self, key: str) -> tuple[str, str]:
        namespace, _, name = key[len(self.prefix) :].partition("/")
        return ("" if namespace == "-" else namespace), name

    def get(self, namespace: str, name: str) -> Entry | None:
        partition = self._partitions.get(namespace)
        return None if partition is None else partition.entries.get(name)

    def scan(self, namespace: str = "", after: tuple[str, str] | None = None) -> Iterator[Entry]:
        """Entries in key order, of one namespace or of all, strictly behind `after`."""
        return chain.from_iterable(self._blocks(namespace, after))

    def _blocks(self, namespace: str, after: tuple[str, str] | None) -> Iterator[Iterable[Entry]]:
        """The same, many at a time."""
        if namespace or not self.namespaced:
            yield from self._blocks_of(namespace, after)
            return
        if after is not None:
            yield from self._blocks_of(after[0], after)
        for block in self._order.after(None if after is None else after[0] + "/"):
            for current in block:
                yield from self._blocks_of(self._namespaces[current], None)

    def _blocks_of(self, namespace: str, after: tuple[str, str] | None) -> Iterator[Iterable[Entry]]:
        partition = self._partitions.get(namespace)
        if partition is None or (after is not None and namespace + "/" < after[0] + "/"):
            return
        start = after[1] if after is not None and namespace == after[0] else None
        for names in partition.names.after(start):
            yield map(partition.entries.__getitem__, names)

    def count_after(self, namespace: str, after: tuple[str, str]) -> int:
        """How many entries of one namespace, or of all, lie strictly behind a place."""
        if namespace or not self.namespaced:
            return self._count_one(namespace, after)
        count = self._count_one(after[0], after)
        for block in self._order.after(after[0] + "/"):
            count += sum(len(self._partitions[self._namespaces[each]].entries) for each in block)
        return count

    def _count_one(self, namespace: str, after: tuple[str, str]) -> int:
        partition = self._partitions.get(namespace)
        if partition is None or namespace + "/" < after[0] + "/":
            return 0
        return partition.names.count_after(after[1] if namespace == after[0] else None)

    def load(self, entry: Entry) -> None:
        self._partition(entry.namespace).put(entry)
        self.count += 1
        if entry.rev > self.last_rev:
            self.last_rev = entry.rev

    def _partition(self, namespace: str) -> _Partition:
        partition = self._partitions.get(namespace)
        if partition is None:
            partition = self._partitions[namespace] = _Partition()
            self._namespaces[namespace + "/"] = namespace
            self._order.add(namespace + "/")
        return partition

    def apply(self, event: Event) -> None:
        entry = event.entry
        if event.type is EventType.DELETED:
            partition = self._partitions[entry.namespace]
            partition.remove(entry.name)
            self.count -= 1
            if not partition.entries:
                del self._partitions[entry.namespace]
                del self._namespaces[entry.namespace + "/"]
                self._order.remove(entry.namespace + "/")
        else:
            self._partition(entry.namespace).put(entry)
            if event.type is EventType.ADDED:
                self.count += 1
        self.last_rev = event.rev
        self.recent.append(event)

    def events_after(self, rev: int) -> list[Event]:
        """Changes with a higher revision, from memory; valid only when rev >= evicted_rev."""
        events: list[Event] = []
        for event in reversed(self.recent):
            if event.rev <= rev:
                break
            events.append(event)
        events.reverse()
        return events

    def some_after(self, rev: int, most: int) -> list[Event]:
        """The first of these changes, as many as `most` bytes hold, but at least one if there is any."""
        recent = self.recent
        events: list[Event] = []
        size = 0
        for place in range(bisect_right(recent, rev, key=_revision), len(recent)):
            event = recent[place]
            events.append(event)
            size += len(event.entry.body)
            if size > most:
                break
        return events


def _revision(event: Event) -> int:
    return event.rev
