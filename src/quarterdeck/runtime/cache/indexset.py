"""The indexes of one kind: filled with what is there, and kept in step with what changes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from quarterdeck.api import GroupVersionKind
from quarterdeck.errors import CacheError
from quarterdeck.runtime.cache.entry import Entry, EntryFactory
from quarterdeck.runtime.cache.index import Index, IndexTable
from quarterdeck.runtime.cache.store import Store
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.wire.timeslice import TimeSlice


class IndexSet:
    """Indexes by name; they may come and go while the stores below them change.

    An index over a function runs user code: what it raises is logged, and the object is missing in that
    index alone.
    """

    def __init__(self, gvk: GroupVersionKind, *, decode: Callable[[], Callable[[Entry], Any]]) -> None:
        """``decode`` gives what turns entries into the objects that index functions are called with."""
        self._gvk: Final = gvk
        self._decode: Final = decode
        self._log: Final = get_logger(__name__).bind(kind=str(gvk.group_kind))
        self._paths: Final[list[str]] = []
        self._factories: Final[list[EntryFactory]] = []
        self._filled: Final[dict[str, IndexTable]] = {}
        self._building: Final[dict[str, IndexTable]] = {}
        self._tables: tuple[IndexTable, ...] = ()

    def follow(self, factory: EntryFactory) -> None:
        """Have entries made with the fields that the indexes need, these and later ones."""
        self._factories.append(factory)
        for path in self._paths:
            factory.add_path(path)

    def table(self, name: str) -> IndexTable | None:
        """A filled index by name."""
        return self._filled.get(name)

    def declare(self, index: Index[Any], entries: Iterable[Entry]) -> None:
        """Keep an index, filled with these entries at once; nothing happens if it is kept already."""
        if self._knows(index):
            return
        table = self._make_table(index)
        for entry in entries:
            self._change(table.insert, table, entry)
        self._filled[index.name] = table
        self._collect()

    async def build(self, index: Index[Any], stores: Sequence[Store]) -> None:
        """Keep an index, filled from these stores bit by bit; nothing happens if it is kept already."""
        if self._knows(index):
            return
        table = self._building[index.name] = self._make_table(index)
        self._collect()
        try:
            turn = TimeSlice()
            for store in stores:
                for entry in list(store.entries()):
                    # What changed since the pass began was indexed when it changed.
                    if store.get(entry.namespace, entry.name) is entry:
                        self._change(table.insert, table, entry)
                    if turn.is_over:
                        await turn.end()
            self._filled[index.name] = table
        finally:
            del self._building[index.name]
            self._collect()

    def remove(self, name: str) -> None:
        """Stop keeping an index."""
        self._filled.pop(name, None)
        self._collect()

    def swap(self, old: Entry | None, new: Entry | None) -> None:
        """An entry left a store, another one entered it."""
        for table in self._tables:
            if old is not None:
                self._change(table.remove, table, old)
            if new is not None:
                self._change(table.insert, table, new)

    def _change(self, change: Callable[[Entry], None], table: IndexTable, entry: Entry) -> None:
        try:
            change(entry)
        except BaseException as raised:  # noqa: BLE001  supervision point: user code must not break the store
            self._say(contained(raised), table, entry)

    def _say(self, error: Exception, table: IndexTable, entry: Entry | None) -> None:
        name = str(entry.key) if entry is not None else ""
        self._log.error("index function failed", error, index=table.index.name, object=name)

    def _collect(self) -> None:
        self._tables = (*self._filled.values(), *self._building.values())

    def _knows(self, index: Index[Any]) -> bool:
        known = self._filled.get(index.name) or self._building.get(index.name)
        if known is None:
            return False
        same = known.index is index or (
            known.index.path == index.path and known.index.of_object is None and index.of_object is None
        )
        if not same:
            raise CacheError(f"index {index.name} of {self._gvk} is already declared with another function")
        return True

    def _make_table(self, index: Index[Any]) -> IndexTable:
        slot = -1
        if index.path:
            if index.path not in self._paths:
                self._paths.append(index.path)
                for factory in self._factories:
                    factory.add_path(index.path)
            slot = self._paths.index(index.path)
        return IndexTable(index, slot=slot, decode=self._decode())
