"""One client of an HTTP/1.1 server: requests in, answers out, one at a time.

States: waiting → (head) → reading its body → answering → waiting …, or from anywhere to closing. While a
request is answered, and while the answers before it have not been taken by the peer, nothing more is parsed:
bytes that come early wait as they are, and after the first of them the socket is not read. A body is read
only after ``Find`` has let its head pass.

How odd requests are treated follows Go's server, byte for byte where it answers itself.
"""

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, cast

from quarterdeck.wire.timeslice import TimeSlice

from .framing import Stamp, has_body, render_head, render_refusal
from .headcache import HeadCache
from .limit import KIB, LINGER, Limits
from .message import Find, Request, Response, Route, Stream
from .reader import RefusedRequest, RequestReader
from .tls import ByteTransport
from .upgrade import RawStream, Takeover
from .writer import ConnectionWriter

_SLICE: Final = 256 * KIB
"""Bodies above this are written in slices, so that one list cannot fill the memory twice."""
_PIECE: Final = 64 * KIB
"""Bytes, about, that are joined before they are sent."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Service(Protocol):
    """What the connections of a server share."""

    find: Find
    on_error: Callable[[Exception, Request], Response]
    stamp: Stamp | None
    peer_of: Callable[[ByteTransport], object]
    limits: Limits
    heads: HeadCache
    connections: "set[Connection]"
    tasks: set[asyncio.Future[Any]]
    ends_with_peer: bool


class _State(enum.Enum):
    WAITING = "for a head or the rest of it"
    BODY = "reading a body"
    ANSWERING = "a handler is at work, or its answer is not taken yet"
    TAKEN = "somebody speaks another protocol"
    CLOSING = "nothing is read any more"


class Connection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_body_kept",
        "_can_write",
        "_deadline",
        "_head",
        "_is_blocked",
        "_is_draining",
        "_is_lost",
        "_is_paused",
        "_loop",
        "_must_close",
        "_peer",
        "_pending",
        "_reader",
        "_resume",
        "_service",
        "_state",
        "_taken",
        "_transport",
        "_unsent",
        "_work",
        "_writer",
        "lost",
    )

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reader = RequestReader(service.limits, service.heads)
        self._state = _State.WAITING
        self._can_write = True
        self._is_blocked = False
        self._is_paused = False
        self._is_draining = False
        self._is_lost = False
        self._must_close = False
        self._writer: ConnectionWriter | None = None
        self._work: asyncio.Future[Response] | None = None
        self._taken: RawStream | None = None
        self._resume: asyncio.Future[None] | None = None
        self._unsent = 0
        self._pending: tuple[Request, Route | Response] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, though they do the same
        self.attach(cast("ByteTransport", transport))

    def attach(self, transport: ByteTransport) -> None:
        """The connection is ready, and through its handshake if it has one."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        transport.set_write_buffer_limits(self._service.limits.unsent)
        self._peer = self._service.peer_of(transport)
        self._deadline = self._loop.time() + self._service.limits.idle
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._service.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._state = _State.CLOSING
        self._service.connections.discard(self)
        if not self.lost.done():
            self.lost.set_result(None)
        if self._writer is not None:
            self._writer.connection_lost()
            self._writer = None
        if self._work is not None and self._service.ends_with_peer:
            self._work.cancel()
        if self._taken is not None:
            self._taken.feed_end()
        self._wake_sender()

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is _State.WAITING:
            self._reader.receive(data)
            self._read_head()
        elif state is _State.BODY:
            self._reader.receive(data)
            self._read_body()
        elif state is _State.ANSWERING:
            self._reader.receive(data)
            self._pause()
        elif self._taken is not None:
            self._taken.feed(data)

    def pause_writing(self) -> None:
        self._can_write = False
        if self._taken is not None:
            self._taken.feed_writable(False)

    def resume_writing(self) -> None:
        self._can_write = True
        if self._taken is not None:
            self._taken.feed_writable(True)
        self._wake_sender()
        if self._is_blocked:
            self._is_blocked = False
            self._answered()

    def _wake_sender(self) -> None:
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _unpause(self) -> None:
        if self._is_paused and not self._is_lost:
            self._is_paused = False
            self._transport.resume_reading()

    def is_overdue(self, now: float) -> bool:
        """Whether the peer has taken too long to send what it began, or to begin."""
        return self._deadline < now

    def finish(self) -> None:
        """Close after the answer under way; streams end cleanly at once."""
        self._is_draining = True
        if self._writer is not None:
            self._writer.finish()
        if self._taken is not None:
            self._taken.feed_end(is_lost=False)
        if self._is_blocked or self._state in (_State.WAITING, _State.BODY):
            self._close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _read_head(self) -> None:
        try:
            head = self._reader.read_head()
        except RefusedRequest as refused:
            self._refuse(refused)
            return
        if head is None:
            self._deadline = min(self._deadline, self._loop.time() + self._service.limits.head_time)
            self._unpause()
            return
        self._head = head
        request = Request(
            head.method, head.path, head.query, head.headers, b"", peer=self._peer, repeated=head.repeated
        )
        try:
            route = self._service.find(request)
        except Exception as error:  # noqa: BLE001  supervision point: one request never ends the server
            route = self._service.on_error(error, request)
        if self._reader.length == 0:
            self._serve(request, route)
        else:
            self._start_body(request, route)

    def _start_body(self, request: Request, route: Route | Response) -> None:
        self._pending = request, route
        self._body_kept = 0 if isinstance(route, Response) else route.body_limit
        self._reader.start_body(self._body_kept)
        if self._reader.length > self._body_kept + self._service.limits.discard:
            self._serve_unread()
            return
        if self._head.expects_continue:
            if isinstance(route, Response):  # a peer that asks first does not send what nobody wants
                self._serve_unread()
                return
            self._transport.write(_CONTINUE)
        self._state = _State.BODY
        self._deadline = self._loop.time() + self._service.limits.idle
        self._read_body()

    def _read_body(self) -> None:
        reader = self._reader
        try:
            is_complete = reader.read_body()
        except RefusedRequest as refused:
            self._refuse(refused)
            return
        if not is_complete:
            if reader.size > self._body_kept + self._service.limits.discard:
                self._serve_unread()
            else:
                self._deadline = self._loop.time() + self._service.limits.idle
                self._unpause()
            return
        request, route = self._take_pending()
        request.is_too_large = reader.size > self._body_kept
        request.body = reader.body()
        self._serve(request, route)

    def _serve_unread(self) -> None:
        """Answer without the body, or without the rest of it; the connection cannot be used again."""
        self._must_close = True
        request, route = self._take_pending()
        request.is_too_large = True
        self._serve(request, route)

    def _take_pending(self) -> tuple[Request, Route | Response]:
        assert self._pending is not None
        pending, self._pending = self._pending, None  # a large body is not kept until the next one
        return pending

    def _refuse(self, refused: RefusedRequest) -> None:
        """Answer what is no request."""
        if self._is_lost or self._transport.is_closing():
            return
        self._transport.write(render_refusal(refused.status, refused.why, refused.body))
        self._linger()

    def _serve(self, request: Request, route: Route | Response) -> None:
        self._state = _State.ANSWERING
        self._deadline = math.inf
        if isinstance(route, Response):
            self._respond(route, request)
            return
        try:
            result = route.handler(request)
        except Exception as error:  # noqa: BLE001  supervision point: one request never ends the server
            result = self._service.on_error(error, request)
        if isinstance(result, Response):
            self._respond(result, request)
        else:
            self._wait_for(result, request)

    def _wait_for(self, pending: Awaitable[Response], request: Request) -> None:
        def answer(task: asyncio.Future[Response]) -> None:
            self._service.tasks.discard(task)
            self._work = None
            if task.cancelled():
                self._transport.abort()
                return
            error = task.exception()
            if error is None:
                self._respond(task.result(), request)
            elif isinstance(error, Exception):
                self._respond(self._service.on_error(error, request), request)
            else:
                raise error

        task = self._work = asyncio.ensure_future(pending)
        self._service.tasks.add(task)
        task.add_done_callback(answer)

    def _respond(self, response: Response, request: Request) -> None:
        if self._is_lost:
            if response.stream is not None:
                response.stream.closed()
            return
        head = self._head
        if self._is_draining or not head.keep_alive:
            self._must_close = True
        stream = response.stream
        if stream is not None:
            self._start_stream(response, stream)
            return
        parts = response.parts
        size = sum(map(len, parts)) if parts else len(response.body)
        raw = render_head(
            response, size, stamp=self._service.stamp, close=self._must_close, is_old=head.is_old
        )
        if head.method == "HEAD" or not has_body(response.status):
            self._transport.write(raw)
        elif not parts and size <= _SLICE:
            self._transport.write(raw + response.body)
        else:
            self._transport.write(raw)
            self._send(parts or (response.body,), size)
            return
        if response.takeover is not None:
            self._hand_over(response.takeover, request)
        else:
            self._answered()

    def _send(self, parts: Sequence[bytes], size: int) -> None:
        def sent(task: asyncio.Future[None]) -> None:
            self._service.tasks.discard(task)
            if task.cancelled() or task.exception() is not None:
                self._transport.abort()
            else:
                self._answered()

        task = asyncio.ensure_future(self._send_pieces(parts, size))
        self._service.tasks.add(task)
        task.add_done_callback(sent)

    async def _send_pieces(self, parts: Sequence[bytes], size: int) -> None:
        """Join and send a few parts at a time.

        A piece is sent while it is still in the processor's cache, and its memory serves the next one. To
        join everything first costs twice as much, most of it for memory that is new and soon given back.
        """
        turn = TimeSlice()
        count = max(1, len(parts) * _PIECE // size)
        for start in range(0, len(parts), count):
            view = memoryview(b"".join(parts[start : start + count]))
            for place in range(0, len(view), _SLICE):
                if self._is_lost:
                    return
                self._transport.write(view[place : place + _SLICE])
                await self.drain()
            await turn.end()

    @property
    def can_write(self) -> bool:
        """Whether the peer has taken enough of what was written."""
        return self._can_write

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was written, or is gone."""
        while not self._can_write and not self._is_lost:
            self._resume = self._loop.create_future()
            await self._resume
            self._resume = None

    def _start_stream(self, response: Response, stream: Stream) -> None:
        is_old = self._head.is_old
        self._must_close = self._must_close or is_old  # its end is the end of the connection
        self._transport.write(
            render_head(response, None, stamp=self._service.stamp, close=self._must_close, is_old=is_old)
        )
        if self._head.method == "HEAD":
            stream.closed()
            self._answered()
            return
        self._transport.set_write_buffer_limits(self._service.limits.unsent_stream)
        writer = self._writer = ConnectionWriter(self, self._transport, stream, is_chunked=not is_old)
        stream.start(writer)

    def stream_finished(self) -> None:
        """The writer of a stream has written its end."""
        self._writer = None
        self._transport.set_write_buffer_limits(self._service.limits.unsent)
        self._answered()

    def _hand_over(self, takeover: Takeover, request: Request) -> None:
        """Let somebody else speak; the connection ends with that."""
        self._state = _State.TAKEN
        self._taken = stream = RawStream(self._transport, self._reader.take_rest())
        stream.feed_writable(self._can_write)
        self._unpause()

        def done(task: asyncio.Future[None]) -> None:
            self._service.tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if task.cancelled() or error is not None:
                self._transport.abort()
            else:
                self._close()
            if isinstance(error, Exception):
                self._service.on_error(error, request)

        task = asyncio.ensure_future(takeover(stream))
        self._service.tasks.add(task)
        task.add_done_callback(done)

    def _answered(self) -> None:
        if self._is_lost:
            return
        if self._must_close or self._is_draining:
            if self._reader.has_input or self._reader.length:
                self._linger()
            else:
                self._close()
        elif self._can_write:
            self._next()
        else:
            self._is_blocked = True  # until the peer has taken what it asked for

    def _next(self) -> None:
        """Turn to the next request."""
        if self._reader.has_input:
            # Later, not now: a peer that sends thousands at once must neither nest nor starve others.
            self._loop.call_soon(self._take_turn)
            return
        self._state = _State.WAITING
        self._deadline = self._loop.time() + self._service.limits.idle
        self._unpause()

    def _take_turn(self) -> None:
        if self._state is not _State.ANSWERING:
            return
        self._state = _State.WAITING
        if self._is_draining:
            self._close()
            return
        self._deadline = self._loop.time() + self._service.limits.idle
        self._read_head()

    def _close(self) -> None:
        self._state = _State.CLOSING
        self._is_blocked = False
        self._deadline = self._loop.time() + self._service.limits.idle
        self._transport.close()

    def _linger(self) -> None:
        """Close for a peer that may still be sending: closing at once would take the answer away from it."""
        self._state = _State.CLOSING
        self._deadline = math.inf
        self._unpause()
        self._transport.write_eof()
        self._unsent = self._transport.get_write_buffer_size()
        self._loop.call_later(LINGER, self._give_up)

    def _give_up(self) -> None:
        if self._is_lost:
            return
        unsent = self._transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:  # the peer is slow, but reads
            self._unsent = unsent
            self._loop.call_later(LINGER, self._give_up)
        else:
            self._transport.abort()
