"""The objects of one list/watch: entries by namespace and name, and the version they are at.

The store is written by one reflector and read by everybody. Its ``version`` is that of the newest thing
the reflector has seen, a bookmark included: that is what read-your-writes compares with.

Applying changes yields deltas; deciding what a change *is* happens here and nowhere else:

- an unknown object is an addition, a known one an update; the same version again is nothing;
- a known name with another UID is a deletion (final state unknown) and an addition, never an update;
- an older version of the same object, or the deletion of an earlier incarnation, is late news and ignored;
- a list is authoritative: what it has counts, also an older version (the server was restored from a backup),
  and what is missing from it was deleted meanwhile (final state unknown).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

import msgspec

from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.version import is_newer


class Change(Enum):
    """What happened to an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"
    GENERIC = "generic"
    """Something outside the cluster happened that concerns the object; never produced by a store."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change; ``old`` is set for updates and deletions, ``new`` for additions and updates."""

    change: Change
    old: Entry | None
    new: Entry | None
    is_initial: bool = False
    """The addition belongs to the first list, or is replayed to a late handler."""
    is_unknown: bool = False
    """The final state of a deleted object was not seen; ``old`` is the last known one."""

    @property
    def entry(self) -> Entry:
        """The newest state known."""
        entry = self.new if self.new is not None else self.old
        assert entry is not None
        return entry


class Store:
    """Entries of one kind, as one reflector sees them.

    ``on_swap(old, new)`` is called for every entry that leaves and enters, before deltas are handed on:
    indexes are kept there.
    """

    def __init__(self, on_swap: Callable[[Entry | None, Entry | None], None]) -> None:
        self._spaces: dict[str, dict[str, Entry]] = {}
        self._on_swap: Final = on_swap
        self._count = 0
        self.version = ""
        self.bytes = 0

    def __len__(self) -> int:
        return self._count

    def get(self, namespace: str, name: str) -> Entry | None:
        """One entry, or ``None``."""
        space = self._spaces.get(namespace)
        return space.get(name) if space is not None else None

    def entries(self, namespace: str | None = None) -> Iterator[Entry]:
        """All entries, or those of one namespace; the store must not change while iterating."""
        if namespace is not None:
            yield from self._spaces.get(namespace, {}).values()
            return
        for space in self._spaces.values():
            yield from space.values()

    def namespaces(self) -> tuple[str, ...]:
        """Namespaces that have entries."""
        return tuple(self._spaces)

    def see(self, version: str) -> None:
        """Everything up to ``version`` has been applied (an event or a bookmark said so)."""
        if not is_newer(self.version, version):
            self.version = version

    def put(self, entry: Entry, *, is_initial: bool = False, is_listed: bool = False) -> list[Delta]:
        """Apply an addition or a modification; what a list says counts whatever the versions are."""
        old = self.get(entry.namespace, entry.name)
        if old is None:
            self._swap(None, entry)
            return [Delta(Change.ADDED, None, entry, is_initial)]
        if old.uid != entry.uid:
            self._swap(old, entry)
            return [
                Delta(Change.DELETED, old, None, is_unknown=True),
                Delta(Change.ADDED, None, entry, is_initial),
            ]
        if not is_listed and (
            old.resource_version == entry.resource_version
            or is_newer(old.resource_version, entry.resource_version)
        ):
            return []
        self._swap(old, entry)
        return [Delta(Change.UPDATED, old, entry)]

    def remove(self, entry: Entry) -> list[Delta]:
        """Apply a deletion; ``entry`` is the final state."""
        old = self.get(entry.namespace, entry.name)
        if old is None or (old.uid != entry.uid and old.uid and entry.uid):
            return []
        self._swap(old, None)
        return [Delta(Change.DELETED, entry, None)]

    def differs(self, entry: Entry) -> bool:
        """Whether a list brings news of an object; mostly it does not.

        The bodies are compared, too: after a restore another state may have the same version.
        """
        old = self.get(entry.namespace, entry.name)
        return (
            old is None
            or old.resource_version != entry.resource_version
            or old.uid != entry.uid
            or old.body != entry.body
        )

    def missing_from(self, keep: Mapping[str, Container[str]]) -> list[Entry]:
        """Entries whose namespace and name are not in ``keep``."""
        return [e for e in self.entries() if e.name not in keep.get(e.namespace, ())]

    def drop(self, entries: Iterable[Entry]) -> list[Delta]:
        """Remove entries that were deleted while nobody watched."""
        deltas = []
        for entry in entries:
            self._swap(entry, None)
            deltas.append(Delta(Change.DELETED, entry, None, is_unknown=True))
        return deltas

    def _swap(self, old: Entry | None, new: Entry | None) -> None:
        if new is not None:
            space = self._spaces.get(new.namespace)
            if space is None:
                space = self._spaces[new.namespace] = {}
            space[new.name] = new
            self.bytes += len(new.body)
        if old is not None:
            self.bytes -= len(old.body)
            if new is None:
                space = self._spaces[old.namespace]
                del space[old.name]
                if not space:
                    del self._spaces[old.namespace]
        self._count += (new is not None) - (old is not None)
        self._on_swap(old, new)
