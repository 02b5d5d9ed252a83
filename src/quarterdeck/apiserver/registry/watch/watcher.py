"""Watch streams: every change after a revision, exactly once, in order, to each reader.

A stream that keeps up has nothing of its own: delivery is pushed from the commit straight into the connection
(see `fanout`), with no task per watcher, and watchers of the same form share the encoded bytes.

A stream that is behind, because it begins in the past, because its reader is slow or because a webhook has to
convert, has a task that reads the history from the store, as fast as the reader takes it, until nothing is
left. What a slow reader has not taken stays in the history; see `unsent` for the rest.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final

from quarterdeck.apiserver import status
from quarterdeck.apiserver.registry.read.reader import (
    FUTURE_WAIT,
    check_list_options,
    parse_rev,
    too_large_rev,
)
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.registry.selection import Selection
from quarterdeck.apiserver.registry.watch.fanout import Batch, Fanout
from quarterdeck.apiserver.registry.watch.unsent import Large, Unsent
from quarterdeck.apiserver.registry.watch.watchform import WatchForm, error_line
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.storage import Bucket, Compacted, Entry, Event, Store
from quarterdeck.apiserver.supervision import is_stopped
from quarterdeck.wire.http import ChunkWriter, Response, frame
from quarterdeck.wire.timeslice import TimeSlice

_log: Final = logging.getLogger("quarterdeck.apiserver")
#: bytes that are written in one go; what is longer is sent piece by piece
PIECE = 64 * 1024
#: bytes and objects of an initial state that are converted by a webhook at a time
SOME_BYTES, SOME_OBJECTS = 1024 * 1024, 500
#: a reader that takes nothing of an initial state for so many seconds is cut off: it is held in memory
PATIENCE = 60.0
BOOKMARK_PERIOD = 60.0


class Watcher:
    """Opens watch streams on the store's buckets."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fanouts: dict[Bucket, Fanout] = {}
        self._unsent = Unsent()
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
            WatchForm(request, selection),
            rev=rev,
            initial=initial,
            bookmarks=bool(request.flag("allowWatchBookmarks")),
            # a timeout that is not given is spread so that clients do not all come back at once
            timeout=float(timeout) if timeout else random.uniform(1800, 3600),  # noqa: S311
            registered=self.open_streams,
            fanout=self._fanout(request.resource.bucket),
            unsent=self._unsent,
        )
        headers = request.warnings.headers() if request.warnings else ()
        return Response(200, headers=headers, stream=stream)

    def _fanout(self, bucket: Bucket) -> Fanout:
        fanout = self._fanouts.get(bucket)
        if fanout is None:
            fanout = self._fanouts[bucket] = Fanout(bucket)
        return fanout

    def close_resources(self, gone: Collection[Resource]) -> None:
        """End the streams of resources that are no longer served, or no longer in that form."""
        for stream in [each for each in self.open_streams if each.resource in gone]:
            stream.end()


class WatchStream:
    """One watch. See http.Stream for the contract with the connection."""

    def __init__(
        self,
        store: Store,
        form: WatchForm,
        *,
        rev: int,
        initial: bool | None,
        bookmarks: bool,
        timeout: float,
        registered: set[WatchStream],
        fanout: Fanout,
        unsent: Unsent,
    ) -> None:
        self._store = store
        self._form = form
        self.resource = form.resource
        #: everything up to here was sent, or is not for this stream
        self.rev = rev
        #: what the reader knew, or was told, when the stream began
        self._began = rev
        self._initial = initial
        self._bookmarks = bookmarks
        self._timeout = timeout
        self._registered = registered
        self._fanout = fanout
        self._unsent = unsent
        self._writer: ChunkWriter | None = None
        self._timers: list[asyncio.TimerHandle] = []
        #: at work while the stream is behind; what is committed meanwhile it finds in the store
        self._task: asyncio.Task[None] | None = None

    def start(self, writer: ChunkWriter) -> None:
        self._writer = writer
        self._registered.add(self)
        if self._timeout < 0:  # over before it began
            self.end()
            return
        store = self._store
        if self._initial and self.rev > store.rev:
            self._begin(self._start_later)
            return
        if self._initial:
            self._send_initial()
        elif self.rev == 0:
            self.rev = self._began = store.rev
        else:
            try:
                store.check_kept(self.resource.bucket, self.rev)
            except Compacted as gone:
                self._expire(gone)
                return
            if self.resource.bucket.last_rev > self.rev:
                self._begin(self._catch_up)
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

    async def _start_later(self) -> None:
        if not await self._store.wait_for(self.rev, FUTURE_WAIT):
            self._fail(too_large_rev(self.rev, self._store.rev))
            return
        self._task = None
        if self._writer is not None:
            self._send_initial()
            self._subscribe()

    def _send_initial(self) -> None:
        entries = list(self.resource.bucket.scan(self._form.namespace))
        self.rev = self._began = self._store.rev
        is_short = sum([len(entry.body) for entry in entries]) <= PIECE
        if not is_short or not self._form.is_direct(entries):
            self._begin(partial(self._send_long_initial, entries))
            return
        data = b"".join([self._form.line(event) for event in self._form.additions(entries)])
        self._write(data + self._end_of_initial())

    def _end_of_initial(self) -> bytes:
        if not self._bookmarks:
            return b""
        return self._form.bookmark_line(self.rev, {"k8s.io/initial-events-end": "true"})

    async def _send_long_initial(self, entries: Sequence[Entry]) -> None:
        """Others get their turns, and the reader has begun before all is written."""
        some: list[Entry] = []
        size = 0
        for entry in entries:
            some.append(entry)
            size += len(entry.body)
            if size > SOME_BYTES or len(some) == SOME_OBJECTS:
                await self._send(self._form.additions(some), PATIENCE)
                some, size = [], 0
        await self._send(self._form.additions(some), PATIENCE)
        self._write(self._end_of_initial())
        await self._catch_up()

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """The stream is behind while this is under way."""
        self._task = asyncio.create_task(self._supervise(work), name=f"watch {self.resource.qualified}")

    async def _supervise(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Compacted as gone:
            self._expire(gone)
        except status.StatusError as error:
            self._fail(error)
        except TimeoutError:
            self.cut()
        except (Exception, asyncio.CancelledError) as error:  # supervision point: nobody waits for it
            if is_stopped(error):
                raise
            _log.exception("a watch failed", extra={"resource": self.resource.qualified})
            self.cut()

    async def _catch_up(self) -> None:
        """Send what happened since `rev`, until nothing is left."""
        turn = TimeSlice()
        while self._writer is not None:
            events, rev = self._store.some_changes(self.resource.bucket, self.rev)
            if not events and rev >= self._store.rev:
                self._task = None  # from here on `notify` sends
                return
            await self._send(self._form.picked(events))
            self.rev = rev
            await turn.end()

    async def _send(self, events: Sequence[Event], patience: float | None = None) -> None:
        """Send events as the reader takes them; TimeoutError if it does not in time."""
        form, turn = self._form, TimeSlice()
        if not form.is_direct(event.entry for event in events):
            converted = await form.converted_lines(events)
            held = sum(map(len, converted))
            for line in converted:
                await self._room(patience, held)
                self._write(line)
                held -= len(line)
            return
        lines: list[bytes] = []
        size = 0
        for event in events:
            if len(event.entry.body) > PIECE:
                await self._room(patience)
                self._write(b"".join(lines))
                lines, size = [], 0
                await self._send_large(event, patience)
                continue
            lines.append(form.line(event))
            size += len(lines[-1])
            if size > PIECE:
                await self._room(patience)
                self._write(b"".join(lines))
                lines, size = [], 0
            await turn.end()
        await self._room(patience)
        self._write(b"".join(lines))

    async def _send_large(self, event: Event, patience: float | None) -> None:
        large = self._unsent.find((self._form.key, event.rev, event.type), lambda: self._form.line(event))
        self._form.has_written()
        await self._send_rest(large, 0, patience)

    async def _send_rest(self, large: Large, start: int, patience: float | None = None) -> None:
        with self._unsent.holding(large):
            for place in range(start, len(large.data), PIECE):
                await self._room(patience)
                self._write(large.data[place : place + PIECE])

    async def _room(self, patience: float | None, held: int = 0) -> None:
        """Wait until the reader can be written to; meanwhile the stream has so many bytes for itself."""
        writer = self._writer
        if writer is None or not writer.is_full:
            return
        self._unsent.wait(self, writer.buffered() + held)
        try:
            async with asyncio.timeout(patience):
                await writer.drain()
        finally:
            self._unsent.go_on(self)

    def closed(self) -> None:
        self._writer = None
        self._registered.discard(self)
        self._fanout.remove(self)
        for timer in self._timers:
            timer.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def end(self) -> None:
        """Finish cleanly; the client resumes where it was."""
        if self._writer is not None:
            self._writer.finish()

    def cut(self) -> None:
        """Hang up on a reader that cannot be served; it resumes by its resourceVersion."""
        if self._writer is not None:
            self._writer.abort()

    def _fail(self, error: status.StatusError) -> None:
        self._write(error_line(error))
        self.end()

    def _expire(self, gone: Compacted) -> None:
        self._fail(status.expired(f"too old resource version: {self.rev} ({gone.oldest})"))

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
            self.rev = max(self.rev, self._store.rev)
            self._write(self._form.bookmark_line(self.rev))

    def notify(self, batch: Batch) -> None:
        """Committed changes of the bucket, in order; those that were sent before are left out."""
        writer = self._writer
        if writer is None or self._task is not None:
            return
        try:
            if writer.is_full or not self._form.is_direct(event.entry for event in batch.events):
                self._begin(self._catch_up)
            else:
                self._push(writer, batch)
        except Exception:  # noqa: BLE001 - supervision point: the other streams are told as well
            _log.exception("a watch failed", extra={"resource": self.resource.qualified})
            self.cut()

    def _push(self, writer: ChunkWriter, batch: Batch) -> None:
        """Write a batch at once, as far as the reader takes it."""
        events = batch.events
        if events[0].rev > self.rev:
            key = self._form.key
            data = batch.shared.get(key)
            if data is None:
                data = batch.shared[key] = self._encoded(events)
        else:
            data = self._encoded([event for event in events if event.rev > self.rev])
        self.rev = max(self.rev, events[-1].rev)
        if not data:
            return
        self._form.has_written()
        if isinstance(data, bytes):
            writer.write_framed(data)
            return
        for place in range(0, len(data.data), PIECE):
            if writer.is_full:
                self._begin(partial(self._send_rest_of_batch, data, place))
                return
            writer.write(data.data[place : place + PIECE])

    async def _send_rest_of_batch(self, large: Large, start: int) -> None:
        await self._send_rest(large, start)
        await self._catch_up()

    def _encoded(self, events: Sequence[Event]) -> bytes | Large:
        """The events this stream wants to see: as one chunk, unless they are many or large; maybe none."""
        data = b"".join([self._form.line(event) for event in self._form.picked(events)])
        if len(data) > PIECE:
            return Large(data)
        return frame(data) if data else b""

    def _write(self, data: bytes) -> None:
        if data and self._writer is not None:
            self._writer.write(data)
