"""One stored object and one change, in the form that is cheapest to send.

A document is kept as the text that follows `{"kind":…,"apiVersion":…,`:

    "metadata":{"resourceVersion":"42","name":…},"spec":…}

so that a GET is one concatenation, a list is one join and a watch event is one framing, with no
re-encoding. On disk the same text lacks the resourceVersion: it is the revision of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_META = b'"metadata":{'
_REV = b'"metadata":{"resourceVersion":"'
NO_LABELS: Mapping[str, str] = {}
T = TypeVar("T")


def encode_value(obj: dict[str, Any], api_version: str = "") -> bytes:
    """The stored form of a document; its resourceVersion and kind are left out.

    Its apiVersion, too, unless it is given: then it is the last thing in the text.
    """
    meta = dict(obj["metadata"])
    meta.pop("resourceVersion", None)
    document = {"metadata": meta, **obj}
    document["metadata"] = meta
    document.pop("kind", None)
    document.pop("apiVersion", None)
    if api_version:
        document["apiVersion"] = api_version
    return _encode(document)[1:]


def body_at(value: bytes, rev: int) -> bytes:
    """A stored value with the revision filled in."""
    return b'%b%d",%b' % (_REV, rev, value[len(_META) :])


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


class _Deletion(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Deletable(msgspec.Struct):
    metadata: _Deletion


_decode_labels = msgspec.json.Decoder(_Labelled).decode
_decode_deletion = msgspec.json.Decoder(_Deletable).decode


class Entry:
    """The state of one object at one revision. Immutable by convention; shared freely."""

    __slots__ = (
        "_fields",
        "_is_deleting",
        "_labels",
        "body",
        "create_rev",
        "mark",
        "name",
        "namespace",
        "rev",
        "row",
    )

    def __init__(
        self,
        namespace: str,
        name: str,
        rev: int,
        create_rev: int,
        body: bytes,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        mark: object = None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.rev = rev
        self.create_rev = create_rev
        self.body = body
        self._labels = labels
        self._fields = fields
        self._is_deleting: bool | None = None
        #: the schema this text is known to conform to, for readers that have to check (custom resources)
        self.mark = mark
        #: what a Table remembers of this state, so that the next one need not read it again
        self.row: object = None

    @property
    def labels(self) -> Mapping[str, str]:
        if self._labels is None:
            self._labels = _decode_labels(b"{" + self.body).metadata.labels or NO_LABELS
        return self._labels

    @property
    def is_deleting(self) -> bool:
        """Whether the object has a deletion timestamp."""
        if self._is_deleting is None:
            metadata = _decode_deletion(b"{" + self.body).metadata
            self._is_deleting = metadata.deletion_timestamp is not None
        return self._is_deleting

    @property
    def fields(self) -> Mapping[str, str] | None:
        """Selectable fields recorded at the write; None when the entry was loaded from disk."""
        return self._fields

    def remember_fields(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def document(self) -> dict[str, Any]:
        """A fresh document with resourceVersion, without apiVersion and kind."""
        document: dict[str, Any] = _decode(b"{" + self.body)
        return document

    def read(self, decode: Callable[[bytes], T]) -> T:
        """A part of the document, by a decoder that passes over the rest."""
        return decode(b"{" + self.body)

    def value(self) -> bytes:
        """The form on disk."""
        return _META + self.body[self.body.index(b'"', len(_REV)) + 2 :]

    def at(self, rev: int) -> Entry:
        """The same content under another revision: what a DELETED event carries."""
        return Entry(
            self.namespace,
            self.name,
            rev,
            self.create_rev,
            body_at(self.value(), rev),
            self._labels,
            self._fields,
            self.mark,
        )


class EventType(IntEnum):
    ADDED = 1
    MODIFIED = 2
    DELETED = 3


class Event:
    """One committed change: `entry` is the new state (the final one of a deletion), `prev` the one before."""

    __slots__ = ("entry", "prev", "rev", "type")

    def __init__(self, rev: int, type_: EventType, entry: Entry, prev: Entry | None) -> None:
        self.rev = rev
        self.type = type_
        self.entry = entry
        self.prev = prev
