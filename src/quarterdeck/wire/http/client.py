"""One HTTP/1.1 connection of a client: an asyncio protocol around a C parser.

A connection serves one exchange at a time. A plain exchange collects the whole answer and resolves one
future; a streamed one resolves at the end of the headers and then hands out whatever has arrived in one
piece, pausing the socket when its reader falls behind, or when its reader would rather have more at a time.
Nothing here knows about pools, retries or credentials.

States: idle → sent → (headers) → body → idle, or closed from anywhere. Bytes that arrive while idle mean
the peer is confused: the connection is closed.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, cast

import httptools

from quarterdeck.errors import ProtocolError, ReadTimeout, StreamClosed, TransportError

from .limit import MIB

_HIGH_WATER: Final = 4 * 1024 * 1024
_ENOUGH: Final = 64 * 1024
"""A chunk of this size is worth being woken for."""
_MAX_HEAD: Final = 10 * MIB
"""Bytes of status line and headers, as Go's client has it."""


class Answer(NamedTuple):
    """Status, headers and body; the body of a streamed answer is empty here."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class StaleConnection(StreamClosed):
    """A reused connection was closed by the peer before it answered anything.

    The usual cause is an idle timeout of the peer that crossed our request on the wire.
    """


class ClientConnection(asyncio.Protocol):
    """A connection to the server, possibly through TLS and a proxy."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_idle: Callable[["ClientConnection"], None],
        *,
        max_answer: int | None = None,
    ) -> None:
        """``on_idle`` is told when an exchange is over and the connection can be used again.

        An answer that is collected and has a body of more than ``max_answer`` bytes is a ``ProtocolError``.
        """
        self._loop = loop
        self._on_idle = on_idle
        self._max_answer = max_answer
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._answered = False
        self._head_size = 0
        self._is_bodiless = False
        self._complete = False
        self._streaming = False
        self._error: TransportError | None = None
        self._chunk_waiter: asyncio.Future[None] | None = None
        self._buffered = 0
        self._paused = False
        self._pace = 0.0
        self._last_size = 0
        self.has_head = False
        """Whether status and headers of the answer under way have arrived."""
        self.used = False
        self.closed = False

    async def exchange(self, data: bytes, timeout: float | None) -> Answer:
        """Send a request and wait for the whole answer."""
        return await self._send(data, timeout, streaming=False)

    async def open(self, data: bytes, timeout: float | None) -> Answer:
        """Send a request and wait for status and headers; read the body with ``read_chunk``."""
        return await self._send(data, timeout, streaming=True)

    async def _send(self, data: bytes, timeout: float | None, *, streaming: bool) -> Answer:
        transport = self._transport
        if transport is None or self.closed:
            raise StaleConnection("the connection is closed")
        self._headers = []
        self._body = []
        self._answered = self.has_head = self._complete = False
        self._head_size = 0
        self._is_bodiless = data.startswith(b"HEAD ")
        self._streaming = streaming
        self._pace = 0.0
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        # Local on purpose: by the time this coroutine runs on, the connection may serve somebody else.
        timer = self._loop.call_later(timeout, self._expire, timeout) if timeout is not None else None
        transport.write(data)
        try:
            return await waiter
        except asyncio.CancelledError:
            if self._waiter is waiter:
                self.abort()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def gather(self, pace: float) -> None:
        """Hand out small chunks of the streamed body no more often than every ``pace`` seconds."""
        if pace == self._pace:
            return
        self._pace = pace
        # While paused, a TLS transport goes on reading up to a limit: here, nothing.
        limit = getattr(self._transport, "set_read_buffer_limits", None)
        if limit is not None:
            limit(1, 0)

    async def _let_gather(self) -> None:
        """Leave the socket alone for a moment: whatever arrives meanwhile is read in one go."""
        transport = self._transport
        if transport is None or self._body or self._complete or self.closed:
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(self._pace)
        finally:
            if not self.closed:
                transport.resume_reading()

    async def read_chunk(self) -> bytes:
        """What has arrived of the streamed body; empty at its end. Raises ``StreamClosed``."""
        if self._pace and self._last_size < _ENOUGH:
            await self._let_gather()
        while True:
            if self._body:
                data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body = []
                self._buffered = 0
                self._last_size = len(data)
                if self._paused and self._transport is not None:
                    self._paused = False
                    self._transport.resume_reading()
                return data
            if self._complete:
                return b""
            if self._error is not None:
                raise self._error
            if self.closed:
                raise StreamClosed("the connection closed in the middle of the stream")
            self._chunk_waiter = self._loop.create_future()
            try:
                await self._chunk_waiter
            finally:
                self._chunk_waiter = None

    def abort(self) -> None:
        """Drop the connection at once."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close an idle connection."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def _expire(self, timeout: float) -> None:
        self._break_off(ReadTimeout(f"no answer within {timeout:g}s"))

    def _break_off(self, error: TransportError) -> None:
        self._fail(error)
        self.abort()

    def _fail(self, error: TransportError) -> None:
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._wake()

    def _wake(self) -> None:
        if self._chunk_waiter is not None and not self._chunk_waiter.done():
            self._chunk_waiter.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            failure = ProtocolError(f"not an HTTP answer: {error}")
            failure.__cause__ = error
            self._break_off(failure)
            return
        if not self.has_head:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._break_off(ProtocolError(f"the head of the answer exceeds {_MAX_HEAD} bytes"))
                return
        if self._streaming and (self._body or self._complete):
            if self._buffered > _HIGH_WATER and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._waiter is None or self._complete:
            return
        if error is None and self.has_head and self._ends_with_connection():
            self.on_message_complete()
            self._wake()
            return
        why = f": {error}" if error is not None else ""
        if self._answered or not self.used:
            failure = StreamClosed(f"the connection closed before the answer was complete{why}")
        else:
            failure = StaleConnection(f"the idle connection was closed by the server{why}")
        failure.__cause__ = error
        self._fail(failure)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._answered = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if self.has_head:
            return  # a trailer is no header
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        self.has_head = True
        if self._streaming and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(Answer(status, self._headers, b""))
        if self._is_bodiless:
            # The parser would wait for the body that the headers speak of; it is of no use any more.
            self.closed = True
            self.on_message_complete()

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        self._body.append(data)
        self._buffered += len(data)
        if not self._streaming and self._max_answer is not None and self._buffered > self._max_answer:
            self._body.clear()
            self._break_off(ProtocolError(f"the answer is larger than {self._max_answer} bytes"))

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if not self.has_head:
            return  # 100 Continue and its kin: the answer is still to come
        self._complete = True
        self.used = True
        waiter, keep = self._waiter, self._parser.should_keep_alive()
        if not self._streaming:
            body = self._body
            self._body = []
            self._buffered = 0
            if waiter is not None and not waiter.done():
                data = body[0] if len(body) == 1 else b"".join(body)
                waiter.set_result(Answer(self._parser.get_status_code(), self._headers, data))
        if not keep or self.closed:
            self.close()
        elif not self._streaming:
            self.release()

    def _ends_with_connection(self) -> bool:
        return not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in self._headers)

    def release(self) -> None:
        """Give the connection back for the next exchange."""
        self._waiter = None
        self._streaming = False
        if not self.closed:
            self._on_idle(self)

    @property
    def is_complete(self) -> bool:
        """Whether the last answer arrived to its end."""
        return self._complete
