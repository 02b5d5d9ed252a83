"""One list/watch of an informer and the store it fills: the sink of a reflector.

An informer has one shard, or one per namespace it is restricted to. The shard turns what its reflector
says into deltas for the informer's handlers, and wakes those who wait for a version or for an object.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.health import Health, HealthState
from quarterdeck.runtime.cache.store import Change, Delta, Store
from quarterdeck.runtime.cache.version import is_at_least, is_comparable, is_newer
from quarterdeck.wire.timeslice import TimeSlice

Cancel: TypeAlias = Callable[[], None]


class ShardOwner(Protocol):
    """The informer, as a shard sees it."""

    def swapped(self, old: Entry | None, new: Entry | None) -> None:
        """An entry left, entered or was replaced."""
        ...

    def dispatch(self, deltas: Sequence[Delta]) -> None:
        """Hand changes to all handlers."""
        ...

    def present(self, entries: Sequence[Entry]) -> None:
        """Tell all handlers of objects that are there from the beginning."""
        ...

    def shard_listed(self, shard: "Shard", *, first: bool) -> None:
        """A shard has become complete (again)."""
        ...

    def shard_health(self, shard: "Shard", health: Health) -> None:
        """A shard is doing better or worse."""
        ...


class Shard:
    """A store, kept up to date by one reflector."""

    def __init__(self, *, namespace: str, factory: EntryFactory, owner: ShardOwner) -> None:
        self.namespace: Final = namespace
        self.store: Final = Store(self._swapped)
        self.health = Health(HealthState.STARTING)
        self.rewinds = 0
        """How often the server went back to an earlier version: it was restored from a backup."""
        self._factory: Final = factory
        self._owner: Final = owner
        self._synced: Final = asyncio.Event()
        self._number: Final = itertools.count().__next__
        self._versions: list[tuple[int, str, int]] = []
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._keys: dict[tuple[str, str], dict[int, tuple[Callable[[Entry | None], bool], Cancel]]] = {}

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the store."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._synced.wait()

    def when_version(self, version: str, callback: Callable[[], None]) -> Cancel:
        """Call back once the store has seen ``version``: at once if it has, or if nobody can tell."""
        if is_at_least(self.store.version, version) and self.store.version:
            callback()
            return _nothing
        if not is_comparable(version):
            callback()
            return _nothing
        number = self._number()
        self._callbacks[number] = callback
        heapq.heappush(self._versions, (len(version), version, number))

        def cancel() -> None:
            self._callbacks.pop(number, None)  # what is left of it in the heap goes when its version comes

        return cancel

    async def wait_version(self, version: str) -> None:
        """Wait until the store has seen ``version``; not at all if nobody can tell."""
        reached = asyncio.Event()
        cancel = self.when_version(version, reached.set)
        try:
            await reached.wait()
        finally:
            cancel()

    def when_entry(
        self,
        namespace: str,
        name: str,
        condition: Callable[[Entry | None], bool],
        callback: Callable[[], None],
    ) -> Cancel:
        """Call back once ``condition`` holds for an object's entry (``None`` while it is absent)."""
        if condition(self.store.get(namespace, name)):
            callback()
            return _nothing
        key, number = (namespace, name), self._number()
        self._keys.setdefault(key, {})[number] = (condition, callback)

        def cancel() -> None:
            waiting = self._keys.get(key)
            if waiting is not None and waiting.pop(number, None) is not None and not waiting:
                del self._keys[key]

        return cancel

    def _wake_versions(self) -> None:
        waiting = self._versions
        while waiting and is_at_least(self.store.version, waiting[0][1]):
            callback = self._callbacks.pop(heapq.heappop(waiting)[2], None)
            if callback is not None:
                callback()

    def _wake_entry(self, namespace: str, name: str, entry: Entry | None) -> None:
        waiting = self._keys.get((namespace, name))
        if waiting is None:
            return
        ready = [number for number, (condition, _) in waiting.items() if condition(entry)]
        for number in ready:
            waiting.pop(number)[1]()
        if not waiting:
            del self._keys[namespace, name]

    def _swapped(self, old: Entry | None, new: Entry | None) -> None:
        self._owner.swapped(old, new)
        if self._keys:
            entry = new if new is not None else old
            assert entry is not None
            self._wake_entry(entry.namespace, entry.name, new)

    def make(self, raw: bytes) -> Entry:
        """The entry of an object."""
        return self._factory.make(raw)

    async def replace(self, entries: Sequence[Entry], version: str) -> None:
        """A complete list; deltas for what it changes.

        The first list goes in bit by bit, since nobody reads before it is complete. A later one is compared
        bit by bit and then applied in one step, so that readers see it whole.
        """
        first = not self._synced.is_set()
        store, turn = self.store, TimeSlice()
        was_empty = len(store) == 0
        keep: dict[str, set[str]] = {}
        changed: list[Entry] = []
        added: list[Entry] = []
        deltas: list[Delta] = []
        for entry in entries:
            if not was_empty:
                keep.setdefault(entry.namespace, set()).add(entry.name)
            if first:
                found = store.put(entry, is_initial=True)
                if [delta.change for delta in found] == [Change.ADDED]:
                    added.append(entry)
                else:
                    deltas += found
            elif store.differs(entry):
                changed.append(entry)
            if turn.is_over:
                await turn.end()
        if not was_empty:
            # Deletions first: a name that moved to another object frees what the old one held.
            self._owner.dispatch(store.drop(store.missing_from(keep)))
        for entry in changed:
            deltas += store.put(entry, is_listed=True)
        if is_newer(store.version, version):
            self.rewinds += 1
        store.version = version
        self._owner.present(added)
        self._owner.dispatch(deltas)
        self._synced.set()
        self._owner.shard_listed(self, first=first)
        self._wake_versions()

    def put(self, entry: Entry) -> None:
        """An addition or modification."""
        deltas = self.store.put(entry)
        if deltas:
            self._owner.dispatch(deltas)

    def remove(self, entry: Entry) -> None:
        """A deletion."""
        deltas = self.store.remove(entry)
        if deltas:
            self._owner.dispatch(deltas)

    def see(self, version: str) -> None:
        """Everything up to ``version`` is in the store."""
        self.store.see(version)
        if self._versions:
            self._wake_versions()

    async def clear(self) -> None:
        """Every object is gone, with its final state unknown."""
        self._owner.dispatch(self.store.drop(list(self.store.entries())))

    def health_changed(self, health: Health) -> None:
        """Remember it and tell the informer."""
        self.health = health
        self._owner.shard_health(self, health)


def _nothing() -> None:
    return None
