"""Indexes: from a value to the objects that have it, without walking all of them.

``Index`` is a declaration: a name and where its values come from. Three sources, from cheap to dear: the
header (labels, owners), a field path (read in the same pass as the header, no decoding), or a function on
the decoded object (decodes every object that arrives). Ready-made ones::

    owner_uid, controller_uid            who owns it
    node_name                            spec.nodeName
    label("app"), field("spec.foo")      one label, one field

``IndexQuery`` is an index with a value, optionally in one namespace: ``owned_by(job)``, ``node_name("n1")``.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from quarterdeck.api.resource import Writable
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.fieldpath import FieldReader, Values, parse_path

T_contra = TypeVar("T_contra", contravariant=True)


class Index(Generic[T_contra]):
    """A declared index; calling it with a value makes a query.

    Give exactly one source: ``of_entry`` (a function on the header), ``path`` (a field path) or
    ``of_object`` (a function on the decoded object).
    """

    __slots__ = ("name", "of_entry", "of_object", "path")

    def __init__(
        self,
        name: str,
        of_object: Callable[[T_contra], Iterable[str]] | None = None,
        *,
        of_entry: Callable[[Entry], Iterable[str]] | None = None,
        path: str = "",
    ) -> None:
        if sum(bool(source) for source in (of_object, of_entry, path)) != 1:
            raise ValueError(f"index {name!r} needs exactly one source of values")
        if path:
            parse_path(path)
        self.name: Final = name
        self.of_object: Final = of_object
        self.of_entry: Final = of_entry
        self.path: Final = path

    def __call__(self, value: str, namespace: str = "") -> "IndexQuery[T_contra]":
        """The objects with this value, in one namespace or (empty) in all."""
        return IndexQuery(self.name, value, namespace)

    def __repr__(self) -> str:
        return f"Index({self.name!r})"


class IndexQuery(msgspec.Struct, Generic[T_contra], frozen=True):
    """A value looked up in an index of a kind."""

    index: str
    value: str
    namespace: str = ""


def _owner_uids(entry: Entry) -> list[str]:
    return [reference.uid for reference in entry.owner_references]


def _controller_uids(entry: Entry) -> list[str]:
    return [reference.uid for reference in entry.owner_references if reference.controller is True]


owner_uid: Final[Index[Writable]] = Index("owner-uid", of_entry=_owner_uids)
"""Objects by the UID of each of their owners."""

controller_uid: Final[Index[Writable]] = Index("controller-uid", of_entry=_controller_uids)
"""Objects by the UID of the owner that controls them."""


def field(path: str) -> Index[Writable]:
    """Objects by the value of a field; also what field selectors on the cache need."""
    return Index(f"field:{path}", path=path)


node_name: Final = field("spec.nodeName")
"""Pods by the node they run on."""


def label(name: str) -> Index[Writable]:
    """Objects by the value of a label."""

    def values(entry: Entry) -> tuple[str, ...]:
        value = entry.labels.get(name)
        return (value,) if value is not None else ()

    return Index(f"label:{name}", of_entry=values)


def owned_by(owner: Writable) -> IndexQuery[Writable]:
    """The objects that name ``owner`` among their owners."""
    return owner_uid(owner.metadata.uid)


def controlled_by(owner: Writable) -> IndexQuery[Writable]:
    """The objects that ``owner`` controls."""
    return controller_uid(owner.metadata.uid)


_Buckets: TypeAlias = dict[str, Entry | dict[Entry, None]]
"""value → entries; one entry is kept bare, because most values of most indexes have one."""


def _add(buckets: _Buckets, value: str, entry: Entry) -> None:
    known = buckets.get(value)
    if known is None:
        buckets[value] = entry
    elif isinstance(known, dict):
        known[entry] = None
    else:
        buckets[value] = {known: None, entry: None}


def _remove(buckets: _Buckets, value: str, entry: Entry) -> None:
    known = buckets.get(value)
    if isinstance(known, dict):
        known.pop(entry, None)
        if not known:
            del buckets[value]
    elif known is entry:
        del buckets[value]


class IndexTable:
    """The filled index of one kind: every value twice, for one namespace and for all."""

    def __init__(
        self, index: Index[Any], *, slot: int = -1, decode: Callable[[Entry], Any] | None = None
    ) -> None:
        """``slot`` is the position of a path index in ``Entry.fields``."""
        self.index: Final = index
        self._values: Final = self._source(index, slot, decode)
        self._everywhere: Final[_Buckets] = {}
        self._spaces: dict[str, _Buckets] = {}
        # A function may answer differently the second time: what it said first must be taken back.
        self._said: dict[Entry, Values] | None = {} if index.of_object is not None else None

    @staticmethod
    def _source(
        index: Index[Any], slot: int, decode: Callable[[Entry], Any] | None
    ) -> Callable[[Entry], Iterable[str]]:
        if index.of_entry is not None:
            return index.of_entry
        if index.of_object is not None:
            function, decoder = index.of_object, decode
            assert decoder is not None
            return lambda entry: tuple(dict.fromkeys(function(decoder(entry))))
        reader = FieldReader([index.path])

        def from_path(entry: Entry) -> Values:
            fields = entry.fields
            # Entries made before the index was declared have no slot for it.
            return fields[slot] if slot < len(fields) else reader.read(entry.raw)[0]

        return from_path

    def insert(self, entry: Entry) -> None:
        """Add an entry under all its values."""
        values = self._values(entry)
        if self._said is not None:
            values = self._said[entry] = tuple(values)
        for value in values:
            _add(self._everywhere, value, entry)
            if entry.namespace:
                space = self._spaces.get(entry.namespace)
                if space is None:
                    space = self._spaces[entry.namespace] = {}
                _add(space, value, entry)

    def remove(self, entry: Entry) -> None:
        """Take an entry out again; harmless if it was never in."""
        values = self._values(entry) if self._said is None else self._said.pop(entry, ())
        space = self._spaces.get(entry.namespace)
        for value in values:
            _remove(self._everywhere, value, entry)
            if space is not None:
                _remove(space, value, entry)
        if space is not None and not space:
            del self._spaces[entry.namespace]

    def get(self, value: str, namespace: str = "") -> tuple[Entry, ...]:
        """The entries with a value, in one namespace or (empty) in all."""
        known = self._known(value, namespace)
        if known is None:
            return ()
        return tuple(known) if isinstance(known, dict) else (known,)

    def count(self, value: str, namespace: str = "") -> int:
        """How many entries have a value."""
        known = self._known(value, namespace)
        if known is None:
            return 0
        return len(known) if isinstance(known, dict) else 1

    def _known(self, value: str, namespace: str) -> Entry | dict[Entry, None] | None:
        buckets = self._spaces.get(namespace) if namespace else self._everywhere
        return buckets.get(value) if buckets is not None else None

    def values(self, namespace: str = "") -> tuple[str, ...]:
        """All values that occur."""
        buckets = self._spaces.get(namespace) if namespace else self._everywhere
        return tuple(buckets) if buckets is not None else ()
