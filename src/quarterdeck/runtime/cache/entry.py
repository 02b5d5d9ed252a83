"""One cached object: its bytes, and a small header that is always decoded.

The header is what the runtime itself needs for every event: names, UID, versions, labels, owners, whether
deletion has begun. The body stays JSON until somebody asks for the object (``decode`` module). Labels and
owner references are shared between objects that have the same ones, which in practice is most of them:
the pods of a ReplicaSet differ in neither.

``EntryFactory`` makes entries. It runs the transforms first, so what a transform removes is never kept,
and it reads the fields of declared path indexes in the same pass as the header.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from quarterdeck.api.codec import UNREADABLE, decode
from quarterdeck.api.frozen import EMPTY_MAP, FrozenMap
from quarterdeck.api.kind import Key
from quarterdeck.api.meta import OwnerReference
from quarterdeck.errors import SchemaError
from quarterdeck.runtime.cache.fieldpath import FieldReader, Values
from quarterdeck.runtime.cache.packing import Packing

_SHARED_LIMIT: Final = 8192
"""Distinct label sets and owner lists remembered for sharing, per informer."""

_NOTHING: Final = msgspec.Raw(b"")
_PARTIAL: Final = "PartialObjectMetadata"
"""What a metadata-only list or watch calls every object."""


class Head(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata a transform may look at; the parts it may cut stay undecoded."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    labels: msgspec.Raw = _NOTHING
    annotations: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING
    managed_fields: msgspec.Raw = _NOTHING


class Transform(Protocol):
    """Rewrites an object's JSON before it is cached; must be idempotent.

    ``rewrites_head`` says whether names, labels, owners or versions may change, in which case the header is
    decoded once more from the result.
    """

    @property
    def rewrites_head(self) -> bool: ...

    def __call__(self, raw: bytes, head: Head) -> bytes:
        """The JSON to keep."""
        ...


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A cached object. Compared by identity: two entries are two states, even of one object."""

    body: bytes
    """The JSON as it is kept: packed, if there is a packing."""
    name: str
    namespace: str
    uid: str
    version: int | str
    """The resource version; a number if it is one, which takes half the memory."""
    generation: int
    labels: FrozenMap[str, str]
    owner_references: tuple[OwnerReference, ...]
    is_deleting: bool
    """Whether the deletion timestamp is set."""
    fields: tuple[Values, ...] = ()
    """Values of the path indexes that were declared when the entry was made."""
    finalizers: tuple[str, ...] = ()
    packing: Packing | None = None

    @property
    def raw(self) -> bytes:
        """The JSON, after transforms, with ``apiVersion`` and ``kind``."""
        if self.packing is None:
            return self.body
        return self.packing.unpack(self.body, (self.uid, self.name, self.resource_version))

    @property
    def resource_version(self) -> str:
        """The version of this state."""
        return str(self.version)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)


class EntryFactory:
    """Makes entries out of the JSON of one kind's objects."""

    def __init__(
        self,
        *,
        kind: str = "",
        api_version: str = "",
        transforms: Sequence[Transform] = (),
        paths: Sequence[str] = (),
        is_packed: bool = False,
    ) -> None:
        """``kind`` and ``api_version`` complete the items of a list, which come without them."""
        self._kind: Final = kind
        self._prefix: Final = f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode() if kind else b"{"
        self._transforms: Final = tuple(transforms)
        self._labels: dict[bytes, FrozenMap[str, str]] = {}
        self._owners: dict[bytes, tuple[OwnerReference, ...]] = {}
        self._reader = self._make_reader(paths)
        self._packing: Final = Packing() if is_packed else None

    @staticmethod
    def _make_reader(paths: Sequence[str]) -> FieldReader:
        return FieldReader(paths, base=(("metadata", Head, Head()), ("kind", str, "")))

    @property
    def paths(self) -> tuple[str, ...]:
        """The index paths read into ``Entry.fields``, in order."""
        return self._reader.paths

    def add_path(self, path: str) -> int:
        """Read one more path from now on; returns its position in ``Entry.fields``."""
        paths = self._reader.paths
        if path not in paths:
            self._reader = self._make_reader((*paths, path))
        return self._reader.paths.index(path)

    def make(self, raw: bytes) -> Entry:
        """The entry of one object; raises ``SchemaError`` if it is not an object of this kind."""
        decoded, head = self._read(raw)
        for transform in self._transforms:
            raw = transform(raw, head)
            if transform.rewrites_head:
                decoded, head = self._read(raw)
        if not decoded.kind and self._kind:
            raw = self._prefix + raw[1:]
        return Entry(
            raw
            if self._packing is None
            else self._packing.pack(raw, (head.uid, head.name, head.resource_version)),
            head.name,
            sys.intern(head.namespace),
            head.uid,
            _number(head.resource_version),
            head.generation,
            self._shared_labels(head.labels),
            self._shared_owners(head.owner_references),
            head.deletion_timestamp is not None,
            self._reader.values(decoded, raw) if self._reader.paths else (),
            head.finalizers or (),
            self._packing,
        )

    def _read(self, raw: bytes) -> tuple[Any, Head]:
        reader = self._reader
        try:
            decoded = reader.decode(raw)
        except msgspec.ValidationError:
            # An index path met a field of another type; the header alone may be fine.
            decoded = self._read_alone(raw)
        except UNREADABLE as error:
            raise SchemaError(f"not JSON: {error}") from error
        head = cast("Head", decoded.metadata)
        if not head.name:
            raise SchemaError("the object has no name", "metadata.name")
        if decoded.kind and self._kind and decoded.kind not in (self._kind, _PARTIAL):
            raise SchemaError(f"expected a {self._kind}, got a {decoded.kind}", "kind")
        return decoded, head

    def _read_alone(self, raw: bytes) -> Any:
        try:
            return _alone.decode(raw)
        except UNREADABLE as error:
            raise SchemaError(str(error)) from error

    def _shared_labels(self, part: msgspec.Raw) -> FrozenMap[str, str]:
        data = bytes(part)
        known = self._labels.get(data)
        if known is None:
            pairs = (_pairs.decode(data) if data else None) or {}
            interned = {sys.intern(key): sys.intern(value) for key, value in pairs.items()}
            known = FrozenMap(interned) if interned else EMPTY_MAP
            if len(self._labels) >= _SHARED_LIMIT:
                self._labels.clear()
            self._labels[data] = known
        return known

    def _shared_owners(self, part: msgspec.Raw) -> tuple[OwnerReference, ...]:
        data = bytes(part)
        known = self._owners.get(data)
        if known is None:
            known = _owners_in(data) if data and data != b"null" else ()
            if len(self._owners) >= _SHARED_LIMIT:
                self._owners.clear()
            self._owners[data] = known
        return known


def _owners_in(data: bytes) -> tuple[OwnerReference, ...]:
    """The owners, with one text for each kind, however many objects have owners of it."""
    return tuple(
        owner.evolve(api_version=sys.intern(owner.api_version), kind=sys.intern(owner.kind))
        for owner in decode(data, tuple[OwnerReference, ...])
    )


def _number(version: str) -> int | str:
    """A version as a number, if it is written like one."""
    return int(version) if version.isascii() and version.isdigit() and version[0] != "0" else version


_pairs: Final = msgspec.json.Decoder(dict[str, str] | None)
_alone: Final = FieldReader((), base=(("metadata", Head, Head()), ("kind", str, "")))
