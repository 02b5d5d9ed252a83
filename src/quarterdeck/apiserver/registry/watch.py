"""Watch streams: every change after a revision, exactly once, in order, to each reader.

Delivery is pushed from the commit straight into the connection (see `fanout`); there is no task per
watcher. Watchers of the same form share the encoded bytes of a batch, chunk framing included.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Bucket, Compacted, Entry, Event, EventType, Store
from quarterdeck.wire.http import ChunkWriter, Response, frame

from .answer import build_table, partial
from .fanout import Batch, Fanout
from .read import FUTURE_WAIT, check_list_options, parse_rev, too_large_rev
from .request import ApiRequest
from .selection import Selection

Json = dict[str, Any]
_encode = msgspec.json.Encoder().encode
#: a reader that is this far behind is cut off; it resumes by resourceVersion
MAX_BUFFERED = 8 * 1024 * 1024
#: objects of an initial state that are sent in one go, and in one piece of a longer one
AT_ONCE, PIECE = 2000, 500
#: bytes of such pieces that may wait for the reader, and seconds between two looks at them
PIECES_BUFFERED, BUFFER_PERIOD = 2 * 1024 * 1024, 0.002
#: a reader that takes nothing for so many seconds, or for which so many events wait meanwhile, is cut off
PIECE_PATIENCE, MOST_PENDING = 60.0, 100_000
BOOKMARK_PERIOD = 60.0
_NAMES = {EventType.ADDED: b"ADDED", EventType.MODIFIED: b"MODIFIED", EventType.DELETED: b"DELETED"}


class Watcher:
    """Opens watch streams on the store's buckets."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fanouts: dict[Bucket, Fanout] = {}
        self.open_streams: set[WatchStream] = set()

    def watch(self, request: ApiRequest) -> Response:
        version = request.param("resourceVersion")
        initial = request.flag("sendInitialEvents")
        match = request.param("resourceVersionMatch")
        if initial is None and not match and version in ("", "0"):
            initial, match = True, "NotOlderThan"  # a watch from anywhere starts with what is there
        check_list_options(version, match, request.param("continue"), initial, is_watch=True)
        rev = parse_rev(version) if version else 0
        selection = Selection(
            request.resource, request.param("labelSelector"), request.param("fieldSelector")
        )
        request.integer("limit")  # of no effect, but it has to be a number
        timeout = request.integer("timeoutSeconds")
        stream = WatchStream(
            self._store,
            request,
            selection,
            rev=rev,
            initial=initial,
            bookmarks=bool(request.flag("allowWatchBookmarks")),
            # a timeout that is not given is spread so that clients do not all come back at once
            timeout=float(timeout) if timeout else random.uniform(1800, 3600),  # noqa: S311
            registered=self.open_streams,
            fanout=self._fanout(request.resource.bucket),
        )
        headers = request.warnings.headers() if request.warnings else ()
        return Response(200, headers=headers, stream=stream)

    def _fanout(self, bucket: Bucket) -> Fanout:
        fanout = self._fanouts.get(bucket)
        if fanout is None:
            fanout = self._fanouts[bucket] = Fanout(bucket)
        return fanout

    def close_resource(self, resource: Resource) -> None:
        """End the streams of a resource version that is no longer served."""
        # By name: a definition that changed meanwhile is another object, and its old streams go on.
        gone = (resource.api_version, resource.plural)
        streams = [
            each for each in self.open_streams if (each.resource.api_version, each.resource.plural) == gone
        ]
        for stream in streams:
            stream.end()


class WatchStream:
    """One watch. See http.Stream for the contract with the connection."""

    def __init__(
        self,
        store: Store,
        request: ApiRequest,
        selection: Selection,
        *,
        rev: int,
        initial: bool | None,
        bookmarks: bool,
        timeout: float,
        registered: set[WatchStream],
        fanout: Fanout,
    ) -> None:
        self._store = store
        self._request = request
        self.resource = request.resource
        self._namespace = request.info.namespace or (selection.namespace if self.resource.namespaced else "")
        self._selection = selection
        self._rev = rev
        #: what the reader knew, or was told, when the stream began
        self._began = rev
        self._initial = initial
        self._bookmarks = bookmarks
        self._timeout = timeout
        self._registered = registered
        self._fanout = fanout
        self._writer: ChunkWriter | None = None
        self._timers: list[asyncio.TimerHandle] = []
        #: sends what cannot be sent at once; events wait for it in `_pending`
        self._task: asyncio.Task[None] | None = None
        self._pending: list[Event] = []
        self._columns_sent = False
        # what stands before the metadata of an object of which nothing else was asked for
        self._partial_head = _encode(partial({"metadata": 0}, request.output.version))[:-2]
        self._buffer_limit = MAX_BUFFERED
        #: streams with an equal form share encoded batches; None: this one sees events in its own way
        self._form: object = (self.resource.api_version, request.output.kind, self._namespace)
        if request.output.kind == "Table" or not selection.is_empty:
            self._form = None  # rows of a Table carry ages, and the first event carries columns

    def start(self, writer: ChunkWriter) -> None:
        self._writer = writer
        self._registered.add(self)
        if self._timeout < 0:  # over before it began
            self.end()
            return
        bucket = self.resource.bucket
        store = self._store
        if self._initial:
            if self._rev > store.rev:
                self._task = asyncio.ensure_future(self._start_later())
                return
            self._send_initial()
        elif self._rev == 0:
            self._rev = self._began = store.rev
        else:
            try:
                missed = store.changes_after(bucket, self._rev)
            except Compacted as gone:
                self._fail(status.expired(f"too old resource version: {self._rev} ({gone.oldest})"))
                return
            if missed:
                self.notify(Batch(missed))
        self._subscribe()

    def _subscribe(self) -> None:
        if self._writer is None:
            return
        self._fanout.add(self, self.notify)
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._timeout, self.end))
        if self._bookmarks:
            if self._timeout > 2:
                self._timers.append(loop.call_later(self._timeout - 1.5, self._bookmark_at_end))
            self._timers.append(loop.call_later(BOOKMARK_PERIOD, self._bookmark_again))

    def _send_initial(self) -> None:
        entries = list(self.resource.bucket.scan(self._namespace))
        self._rev = self._began = self._store.rev
        if len(entries) > AT_ONCE or not self._is_direct(entries):
            self._task = asyncio.ensure_future(self._send_in_pieces(entries))
            return
        data = b"".join([self._line(event) for event in self._additions(entries)])
        if data:
            self._buffer_limit += len(data)  # what there is already is no sign of a slow reader
            self._write(data)
        self._write_end_of_initial()

    def _additions(self, entries: Sequence[Entry]) -> list[Event]:
        matches = self._selection.matches if not self._selection.is_empty else None
        return [
            Event(entry.rev, EventType.ADDED, entry, None)
            for entry in entries
            if matches is None or matches(entry)
        ]

    def _write_end_of_initial(self) -> None:
        if self._bookmarks:
            self._write(self._bookmark_line({"k8s.io/initial-events-end": "true"}))

    async def _send_in_pieces(self, entries: Sequence[Entry]) -> None:
        """A long initial state: others get their turns, and the reader has begun before all is written."""
        for start in range(0, len(entries), PIECE):
            await self._reader_keeps_up()
            if not await self._send_events(self._additions(entries[start : start + PIECE])):
                return
            await asyncio.sleep(0)
        self._write_end_of_initial()
        await self._send_pending()

    async def _reader_keeps_up(self) -> None:
        """Wait until there is room for a piece; a reader that takes nothing is cut off."""
        loop = asyncio.get_running_loop()
        least, since = math.inf, loop.time()
        while self._writer is not None and (left := self._writer.buffered()) > PIECES_BUFFERED:
            if left < least:
                least, since = left, loop.time()
            elif loop.time() > since + PIECE_PATIENCE:
                self._writer.abort()
            await asyncio.sleep(BUFFER_PERIOD)

    async def _start_later(self) -> None:
        if not await self._store.wait_for(self._rev, FUTURE_WAIT):
            self._fail(too_large_rev(self._rev, self._store.rev))
            return
        self._task = None
        if self._writer is not None:
            self._send_initial()
            self._subscribe()

    def closed(self) -> None:
        self._writer = None
        self._registered.discard(self)
        self._fanout.remove(self)
        for timer in self._timers:
            timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Finish cleanly; the client resumes where it was."""
        if self._writer is not None:
            self._writer.finish()

    def _fail(self, error: status.StatusError) -> None:
        if self._writer is not None:
            self._write(_encode({"type": "ERROR", "object": error.to_status()}) + b"\n")
            self._writer.finish()

    def _bookmark_again(self) -> None:
        self._bookmark()
        if self._writer is not None:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(BOOKMARK_PERIOD, self._bookmark_again))
            self._timers = [timer for timer in self._timers if not timer.cancelled()]

    def _bookmark_at_end(self) -> None:
        """A last one lets the next watch begin there; after nothing but silence it would tell nothing."""
        if self.resource.bucket.last_rev > self._began:
            self._bookmark()

    def _bookmark(self) -> None:
        self._fanout.flush()
        if self._writer is not None and self._task is None:
            self._rev = max(self._rev, self._store.rev)
            self._write(self._bookmark_line(None))

    def _bookmark_line(self, annotations: Json | None) -> bytes:
        resource = self.resource
        metadata: Json = {"resourceVersion": str(self._rev)}
        if annotations:
            metadata["annotations"] = annotations
        obj: Json = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return self._document_line(b"BOOKMARK", obj)

    def notify(self, batch: Batch) -> None:
        """Committed changes of the bucket, in order; those that were sent before are left out."""
        if self._writer is None:
            return
        events = batch.events
        if self._task is not None or not self._is_direct(event.entry for event in events):
            self._send_later(events)
            return
        is_new = events[0].rev > self._rev
        fresh = events if is_new else [event for event in events if event.rev > self._rev]
        self._rev = max(self._rev, events[-1].rev)
        if self._form is None or not is_new:
            self._write_framed(self._framed(fresh))
            return
        data = batch.shared.get(self._form)
        if data is None:
            data = batch.shared[self._form] = self._framed(fresh)
        self._write_framed(data)

    def _send_later(self, events: Sequence[Event]) -> None:
        self._pending.extend(event for event in events if event.rev > self._rev)
        if len(self._pending) > MOST_PENDING and self._writer is not None:
            self._writer.abort()
        if self._task is None and self._pending:
            self._task = asyncio.ensure_future(self._send_pending())

    def _is_direct(self, entries: Iterable[Entry]) -> bool:
        """Whether the stored text of all these objects can be sent without asking a webhook."""
        resource = self.resource
        if not resource.uses_webhook:
            return True
        return all(
            resource.raw_body(entry) is not None or not resource.needs_webhook(entry) for entry in entries
        )

    async def _send_pending(self) -> None:
        """Send the events that wait, in order, until there are none."""
        while self._pending and self._writer is not None:
            events, self._pending = self._pending, []
            chosen = [picked for event in events if (picked := self._pick(event)) is not None]
            if not await self._send_events(chosen):
                break
            self._rev = max(self._rev, events[-1].rev)
        self._task = None

    async def _send_events(self, events: Sequence[Event]) -> bool:
        """Send events that this selection sees, after a webhook has converted them if one has to.

        Returns whether the stream goes on.
        """
        if self._is_direct(event.entry for event in events):
            data = b"".join([self._line(event) for event in events])
        else:
            try:
                objects = await self.resource.read_many([event.entry for event in events])
            except status.StatusError as error:
                self._fail(error)
                return False
            data = b"".join(
                [
                    self._document_line(_NAMES[event.type], obj)
                    for event, obj in zip(events, objects, strict=True)
                ]
            )
        if data:
            self._write(data)
        return self._writer is not None

    def _pick(self, event: Event) -> Event | None:
        """The event as this selection sees it: membership decides between added, modified and deleted."""
        entry = event.entry
        if self._namespace and entry.namespace != self._namespace:
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

    def _framed(self, events: Sequence[Event]) -> bytes:
        """The events this stream wants to see, as one chunk; nothing if there are none."""
        picked: Sequence[Event] = events
        if self._namespace or not self._selection.is_empty:
            picked = [chosen for event in events if (chosen := self._pick(event)) is not None]
        return frame(b"".join([self._line(event) for event in picked])) if picked else b""

    def _line(self, event: Event) -> bytes:
        body, output = self.resource.raw_body(event.entry), self._request.output
        if body is not None and not output.kind:
            return b'{"type":"%b","object":%b%b}\n' % (_NAMES[event.type], self.resource.prefix, body)
        if body is not None and output.kind != "Table":
            metadata = _metadata_of(self.resource.prefix + body)
            return b'{"type":"%b","object":%b%b}}\n' % (_NAMES[event.type], self._partial_head, metadata)
        return self._document_line(_NAMES[event.type], self.resource.read(event.entry))

    def _document_line(self, name: bytes, obj: Json) -> bytes:
        kind = self._request.output.kind
        if kind == "Table":
            columns, self._columns_sent = not self._columns_sent, True
            version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            row_object = partial(obj)
            obj = build_table(self._request, [obj], version, columns=columns)
            if name == b"BOOKMARK" and obj["rows"][0]["object"] is None:
                obj["rows"][0]["object"] = row_object  # the mark is in its annotations
        elif kind:
            obj = partial(obj, self._request.output.version)
        return b'{"type":"%b","object":%b}\n' % (name, _encode(obj))

    def _write_framed(self, data: bytes) -> None:
        if data and self._can_write():
            assert self._writer is not None
            self._writer.write_framed(data)

    def _write(self, data: bytes) -> None:
        if self._can_write():
            assert self._writer is not None
            self._writer.write(data)

    def _can_write(self) -> bool:
        """Whether the reader is there and keeps up; one that does not is cut off."""
        writer = self._writer
        if writer is None:
            return False
        if writer.buffered() > self._buffer_limit:
            writer.abort()
            return False
        return True


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_Metadata).decode


def _metadata_of(raw: bytes) -> bytes:
    """The text of an object's metadata, without reading the rest of it."""
    return bytes(_decode_metadata(raw).metadata)
