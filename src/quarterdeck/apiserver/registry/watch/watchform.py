"""The form of a watch: which events it sees, and how each is written.

Streams with equal keys write equal bytes, and so share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.registry.answer import build_table, partial
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.registry.selection import Selection
from quarterdeck.apiserver.storage import Entry, Event, EventType

_encode = msgspec.json.Encoder().encode
_NAMES = {EventType.ADDED: b"ADDED", EventType.MODIFIED: b"MODIFIED", EventType.DELETED: b"DELETED"}


class WatchForm:
    """How one stream sees events. Only whether a Table has shown its columns changes with time."""

    def __init__(self, request: ApiRequest, selection: Selection) -> None:
        self._request = request
        self._selection = selection
        self.resource = request.resource
        self.namespace = request.info.namespace or (selection.namespace if self.resource.namespaced else "")
        self._is_table = request.output.kind == "Table"
        self._has_columns = False
        # what stands before the metadata of an object of which nothing else was asked for
        self._partial_head = _encode(partial({"metadata": 0}, request.output.version))[:-2]
        selectors = (request.param("labelSelector"), request.param("fieldSelector"))
        #: the resource itself, not its name: a definition that changed is another one
        self._key = (
            self.resource,
            request.output,
            self.namespace,
            "" if selection.is_empty else selectors,
            request.param("includeObject") if self._is_table else "",
        )

    @property
    def key(self) -> object:
        return (*self._key, self._has_columns) if self._is_table else self._key

    def has_written(self) -> None:
        """An event was written, whoever has encoded it: its Table had the columns."""
        self._has_columns = True

    def is_direct(self, entries: Iterable[Entry]) -> bool:
        """Whether the stored text of all these objects can be sent without asking a webhook."""
        resource = self.resource
        if not resource.uses_webhook:
            return True
        return all(
            resource.raw_body(entry) is not None or not resource.needs_webhook(entry) for entry in entries
        )

    def additions(self, entries: Iterable[Entry]) -> list[Event]:
        """The events of an initial state."""
        matches = self._selection.matches if not self._selection.is_empty else None
        return [
            Event(entry.rev, EventType.ADDED, entry, None)
            for entry in entries
            if matches is None or matches(entry)
        ]

    def picked(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events that this form sees, as it sees them."""
        if not self.namespace and self._selection.is_empty:
            return events
        return [chosen for event in events if (chosen := self._pick(event)) is not None]

    def _pick(self, event: Event) -> Event | None:
        """The event as this selection sees it: membership decides between added, modified and deleted."""
        entry = event.entry
        if self.namespace and entry.namespace != self.namespace:
            return None
        if self._selection.is_empty:
            return event
        prev = event.prev
        was = prev is not None and self._selection.matches(prev)
        if event.type is EventType.DELETED:
            if was or (prev is None and self._selection.matches(entry)):
                return event
            return None
        if self._selection.matches(entry):
            if was or event.type is EventType.ADDED:
                return event
            return Event(event.rev, EventType.ADDED, entry, prev)
        if was and prev is not None:
            return Event(event.rev, EventType.DELETED, prev.at(event.rev), prev)
        return None

    def line(self, event: Event) -> bytes:
        body, output = self.resource.raw_body(event.entry), self._request.output
        if body is not None and not output.kind:
            return b'{"type":"%b","object":%b%b}\n' % (_NAMES[event.type], self.resource.prefix, body)
        if body is not None and not self._is_table:
            metadata = _metadata_of(self.resource.prefix + body)
            return b'{"type":"%b","object":%b%b}}\n' % (_NAMES[event.type], self._partial_head, metadata)
        return self._document_line(_NAMES[event.type], self.resource.read(event.entry))

    async def converted_lines(self, events: Sequence[Event]) -> list[bytes]:
        """The lines of events of which a webhook has to convert some; raises StatusError."""
        objects = await self.resource.read_many([event.entry for event in events])
        return [
            self._document_line(_NAMES[event.type], obj) for event, obj in zip(events, objects, strict=True)
        ]

    def bookmark_line(self, rev: int, annotations: Json | None = None) -> bytes:
        resource = self.resource
        metadata: Json = {"resourceVersion": str(rev)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Json = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return self._document_line(b"BOOKMARK", obj)

    def _document_line(self, name: bytes, obj: Json) -> bytes:
        if self._is_table:
            version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            row_object = partial(obj)
            obj = build_table(self._request, [obj], version, columns=not self._has_columns)
            self._has_columns = True
            if name == b"BOOKMARK" and obj["rows"][0]["object"] is None:
                obj["rows"][0]["object"] = row_object  # the mark is in its annotations
        elif self._request.output.kind:
            obj = partial(self.resource.summarized(obj), self._request.output.version)
        return b'{"type":"%b","object":%b}\n' % (name, _encode(obj))


def error_line(error: status.StatusError) -> bytes:
    return _encode({"type": "ERROR", "object": error.to_status()}) + b"\n"


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Metadata).decode


def _metadata_of(raw: bytes) -> bytes:
    """The text of an object's metadata, without reading the rest of it."""
    return bytes(_decode_metadata(raw).metadata)
