"""Objects without a class: any kind as nested mappings, or just its metadata.

``DynamicObject`` wraps a decoded document. Reading goes through read-only views, so a cached one can be
handed out as it is; ``draft()`` gives a private plain dictionary to change, and
``DynamicObject(document)`` makes an object of it again::

    doc = obj.draft()
    doc["spec"]["replicas"] = 3
    await client.update(DynamicObject(doc))

``PartialObjectMetadata`` holds ``apiVersion``, ``kind`` and ``metadata`` only. It can be read, patched
and deleted, never created or updated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from quarterdeck.api.codec import decode, decode_json, encode, from_dict, to_dict
from quarterdeck.api.frozen import MapView, thaw, view
from quarterdeck.api.kind import GroupVersionKind, Key
from quarterdeck.api.meta import ObjectMeta
from quarterdeck.api.model import Model, omitempty
from quarterdeck.errors import SchemaError


class DynamicObject(Mapping[str, Any]):
    """An object of any kind, read as a mapping of its wire names.

    >>> obj = DynamicObject({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    >>> obj["metadata"]["name"], obj.gvk.kind, obj.at("data", "missing", default="-")
    ('x', 'ConfigMap', '-')
    """

    __slots__ = ("_doc", "_metadata")

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Take a private copy of ``document``."""
        self._doc: dict[str, Any] = thaw(document)
        self._metadata: ObjectMeta | None = None

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Decode JSON. Raises ``SchemaError`` when it is not an object."""
        document = decode_json(raw)
        if type(document) is not dict:
            raise SchemaError("expected an object")
        return cls.adopt(document)

    @classmethod
    def from_dict(cls, doc: Mapping[str, Any]) -> Self:
        """Same as the constructor; the name all representations share."""
        return cls(doc)

    @classmethod
    def adopt(cls, document: dict[str, Any]) -> Self:
        """Wrap a document without copying it: the caller promises not to touch it again."""
        made = cls.__new__(cls)
        made._doc = document
        made._metadata = None
        return made

    @property
    def api_version(self) -> str:
        """``apiVersion``."""
        return str(self._doc.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        """``kind``."""
        return str(self._doc.get("kind", ""))

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata, typed; decoded on first use."""
        if self._metadata is None:
            self._metadata = from_dict(self._doc.get("metadata") or {}, ObjectMeta)
        return self._metadata

    @property
    def gvk(self) -> GroupVersionKind:
        """The full name of the kind."""
        return GroupVersionKind.parse(self.api_version, self.kind)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    def at(self, *path: str | int, default: Any = None) -> Any:
        """The value at a path of wire names and list positions, or ``default``."""
        value: Any = self._doc
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return view(value)

    def draft(self) -> dict[str, Any]:
        """A private plain copy to change."""
        copy: dict[str, Any] = thaw(self._doc)
        return copy

    def to_bytes(self) -> bytes:
        """The JSON of the object."""
        return encode(self._doc)

    def to_dict(self) -> dict[str, Any]:
        """A private plain copy; same as ``draft()``."""
        return self.draft()

    def to_wire(self) -> dict[str, Any]:
        """The document itself, for encoders; callers must not change it."""
        return self._doc

    def __getitem__(self, key: str) -> Any:
        return MapView(self._doc)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._doc)

    def __len__(self) -> int:
        return len(self._doc)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DynamicObject):
            return self._doc == other._doc
        if isinstance(other, Mapping):
            return MapView(self._doc) == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a view of arbitrary JSON has no cheap hash

    def __repr__(self) -> str:
        return f"DynamicObject({self.gvk}, {self.key})"


class PartialObjectMetadata(Model, forbid_unknown_fields=False):
    """The head of an object; decodes from the full object too, skipping the rest in C."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = omitempty(ObjectMeta())

    @property
    def gvk(self) -> GroupVersionKind:
        """The full name of the kind."""
        return GroupVersionKind.parse(self.api_version, self.kind)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Decode JSON. Raises ``SchemaError``."""
        return decode(raw, cls)

    def to_bytes(self) -> bytes:
        """The JSON of the head."""
        return encode(self)

    def to_dict(self) -> dict[str, Any]:
        """A private plain document of the head."""
        document: dict[str, Any] = to_dict(self)
        return document
