"""One change of one object, as predicates and handlers see it.

The header of the object (names, labels, owners, versions) costs nothing to look at; ``object`` and
``old_object`` decode the body when they are first read. A predicate that only compares generations never
pays for a body.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from quarterdeck.api import Key, Writable
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.cache.version import is_newer

T = TypeVar("T")


class ObjectEvent(Generic[T]):
    """A change: ``old`` is set for updates and deletions, ``new`` for everything but deletions."""

    __slots__ = ("_decode", "change", "cluster", "is_initial", "is_unknown", "new", "old")

    def __init__(self, delta: Delta, decode: Callable[[Entry], T], *, cluster: str = "") -> None:
        self.change: Final = delta.change
        self.old: Final = delta.old
        self.new: Final = delta.new
        self.is_initial: Final = delta.is_initial
        self.is_unknown: Final = delta.is_unknown
        self.cluster: Final = cluster
        self._decode: Final = decode

    @property
    def entry(self) -> Entry:
        """The newest state known."""
        entry = self.new if self.new is not None else self.old
        assert entry is not None
        return entry

    @property
    def key(self) -> Key:
        """Which object."""
        entry = self.entry
        return Key(entry.namespace, entry.name, self.cluster)

    @property
    def is_resync(self) -> bool:
        """An update that changed nothing: a resync, or a re-list of what was known."""
        old, new = self.old, self.new
        return old is not None and new is not None and old.resource_version == new.resource_version

    @property
    def is_rewound(self) -> bool:
        """An update to an older state: the server went back to a backup, what was written since is lost."""
        old, new = self.old, self.new
        return old is not None and new is not None and is_newer(old.resource_version, new.resource_version)

    @property
    def object(self) -> T:
        """The newest state, decoded."""
        return self._decode(self.entry)

    @property
    def old_object(self) -> T | None:
        """The state before, decoded."""
        return self._decode(self.old) if self.old is not None else None

    def __repr__(self) -> str:
        return f"ObjectEvent({self.change.value}, {self.key})"


_factory: Final = EntryFactory()


def generic_event(obj: Writable, *, cluster: str = "") -> ObjectEvent[Writable]:
    """An event about an object that came from outside the cluster."""
    entry = _factory.make(obj.to_bytes())
    return ObjectEvent(Delta(Change.GENERIC, None, entry), lambda _: obj, cluster=cluster)
