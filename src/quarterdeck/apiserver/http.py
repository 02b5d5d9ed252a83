"""HTTP/1.1 over asyncio: the wire under the API server, and nothing of Kubernetes.

A connection parses requests with httptools, hands each to one handler and writes its answer.
Handlers answer with bytes that are ready to send, or with a `Stream` that pushes chunks for as
long as it likes (watches). A handler may return its response at once or a coroutine; answers on
one connection leave in the order of the requests.

The same `Request` and `Response` serve the in-process transport, which never touches a socket.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote

import httptools

MAX_BODY = 3 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024
#: bodies above this are written in slices, so that one list cannot fill the memory twice
_SLICE = 1024 * 1024
_IDLE_TIMEOUT = 180.0
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

_REASONS = {
    200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 301: "Moved Permanently",
    304: "Not Modified", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 406: "Not Acceptable", 409: "Conflict", 410: "Gone",
    413: "Request Entity Too Large", 415: "Unsupported Media Type", 422: "Unprocessable Entity",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    501: "Not Implemented", 503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class Request:
    """One request. Header names are lower-case; the path is decoded, the query parsed on first use."""

    __slots__ = ("_query", "body", "headers", "method", "path", "peer", "raw_path", "raw_query", "repeated")

    def __init__(
        self,
        method: str,
        raw_path: str,
        raw_query: str,
        headers: dict[str, str],
        body: bytes,
        *,
        peer: object = None,
        repeated: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.path = unquote(raw_path) if "%" in raw_path else raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.body = body
        #: who is at the other end, as the transport knows it (see server.Peer)
        self.peer = peer
        #: each value of the headers that were given more than once, in order
        self.repeated = repeated
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            self._query = parse_query(self.raw_query)
        return self._query

    def header_items(self) -> list[tuple[str, str]]:
        """Names and values with repeated headers one by one; `headers` joins those with commas."""
        joined = {name for name, _ in self.repeated}
        return [item for item in self.headers.items() if item[0] not in joined] + list(self.repeated)

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        if not self.raw_query:
            return default
        values = self.query.get(name)
        return values[0] if values else default

    def set_param(self, name: str, value: str) -> None:
        """Put a query parameter in place of what the client gave."""
        self.query[name] = [value]
        self.raw_query = self.raw_query or f"{name}="


def parse_query(text: str) -> dict[str, list[str]]:
    """The values of each parameter, in order."""
    parsed: dict[str, list[str]] = {}
    if text:
        for key, value in parse_qsl(text, keep_blank_values=True):
            parsed.setdefault(key, []).append(value)
    return parsed


class ChunkWriter(Protocol):
    """Where a stream writes."""

    def write(self, data: bytes) -> None: ...

    def write_framed(self, chunk: bytes) -> None:
        """Write what `frame` made: many streams share one framed chunk."""
        ...

    def buffered(self) -> int:
        """Bytes written that the reader has not taken yet."""
        ...

    def finish(self) -> None:
        """End the body cleanly; the connection stays usable."""
        ...

    def abort(self) -> None:
        """Cut the connection."""
        ...


class Stream(Protocol):
    """A body that is pushed. `start` is called once the head is on its way."""

    def start(self, writer: ChunkWriter) -> None: ...

    def closed(self) -> None:
        """The reader went away or the stream finished; called once."""
        ...


class Response:
    """An answer. `body` is bytes or a sequence of bytes to send one after the other."""

    __slots__ = ("body", "content_type", "headers", "status", "stream")

    def __init__(
        self,
        status: int,
        body: bytes | Sequence[bytes] = b"",
        *,
        content_type: str = "application/json",
        headers: Iterable[tuple[str, str]] = (),
        stream: Stream | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.stream = stream

    def body_bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else b"".join(self.body)


Handler = Callable[[Request], "Response | Awaitable[Response]"]

_audit_pool: list[str] = []


def audit_id() -> str:
    """A random UUID (version 4), cheaper than `uuid.uuid4` by drawing entropy in bulk."""
    if not _audit_pool:
        raw = os.urandom(16 * 64).hex()
        for start in range(0, len(raw), 32):
            part = raw[start : start + 32]
            variant = "89ab"[int(part[16], 16) & 3]
            _audit_pool.append(f"{part[:8]}-{part[8:12]}-4{part[13:16]}-{variant}{part[17:20]}-{part[20:]}")
    return _audit_pool.pop()


class _DateHeader:
    """`Date:` changes once a second; formatting it for each response would not pay."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._line = time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(now)).encode()
        return self._line


_date = _DateHeader()
_STATUS_LINES = {code: f"HTTP/1.1 {code} {text}\r\nAudit-Id: ".encode() for code, text in _REASONS.items()}
_NO_CACHE = b"\r\nCache-Control: no-cache, private\r\n"


def render_head(response: Response, length: int | None, *, close: bool) -> bytes:
    """Status line and headers; `length` None means a chunked body."""
    status = response.status
    first = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\nAudit-Id: ".encode()
    parts = [first, audit_id().encode()]
    headers = response.headers
    if headers:
        extra: list[str] = []
        cache = False
        for name, value in headers:
            extra.append(f"{name}: {value}\r\n")
            cache = cache or name == "Cache-Control"
        parts.append(b"\r\n" if cache else _NO_CACHE)
        parts.append("".join(extra).encode("utf-8", "replace"))
    else:
        parts.append(_NO_CACHE)
    if status not in (204, 304):
        parts.append(b"Content-Type: " + response.content_type.encode() + b"\r\n")
    parts.append(_date.line())
    if close:
        parts.append(b"Connection: close\r\n")
    if length is None:
        parts.append(b"Transfer-Encoding: chunked\r\n\r\n")
    else:
        parts.append(b"Content-Length: %d\r\n\r\n" % length)
    return b"".join(parts)


class HttpConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(
        self,
        handler: Handler,
        *,
        on_error: Callable[[Exception], Response],
        too_large: Callable[[], Response],
        make_peer: Callable[[asyncio.BaseTransport], object],
        connections: set[HttpConnection],
    ) -> None:
        self._handler = handler
        self._on_error = on_error
        self._too_large = too_large
        self._make_peer = make_peer
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._pending: deque[Request | Response] = deque()
        self._busy = False
        self._draining = False
        self._closed = False
        self._stream: _SocketWriter | None = None
        self._task: asyncio.Future[Any] | None = None
        self._can_write = True
        self._resume: asyncio.Future[None] | None = None
        self._keep_alive = True
        self._idle: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] | None = None
        self._reset_message()

    # -- transport callbacks ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._transport.set_write_buffer_limits(high=1024 * 1024)
        self._peer = self._make_peer(transport)
        self._connections.add(self)
        self._arm_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._connections.discard(self)
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if self._idle is not None:
            self._idle.cancel()
        if self._stream is not None:
            self._stream.connection_lost()
            self._stream = None
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # exec and friends ask to upgrade; they are answered as plain requests
        except httptools.HttpParserError as error:
            self._refuse(error)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)

    def shut_down(self) -> None:
        """Stop after the answer in progress; streams end cleanly at once."""
        self._draining = True
        if self._stream is not None:
            self._stream.finish()
        if not self._busy:
            self._transport.close()

    async def wait_closed(self, timeout: float) -> None:
        """Wait until the connection is gone; give up after `timeout` seconds."""
        if not self._closed:
            self._gone = self._loop.create_future()
            await asyncio.wait([self._gone], timeout=timeout)

    # -- parser callbacks ------------------------------------------------------------------

    def _reset_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._repeated: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._header_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._header_size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_size += len(name) + len(value)
        if self._header_size > MAX_HEADER_BYTES:
            raise httptools.HttpParserError("headers too large")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = self._headers.get(key)
        if known is None:
            self._headers[key] = text
            return
        if all(name != key for name, _ in self._repeated):
            self._repeated.append((key, known))
        self._repeated.append((key, text))
        self._headers[key] = f"{known}, {text}"

    def on_headers_complete(self) -> None:
        self._keep_alive = self._parser.should_keep_alive()
        if self._headers.get("expect", "").lower() == "100-continue" and not self._busy:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size <= MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        item: Request | Response
        if self._body_size > MAX_BODY:
            item = self._too_large()
        elif _BAD_ESCAPE.search(self._url.partition(b"?")[0]):
            self._keep_alive = False
            item = Response(400, b"400 Bad Request", content_type="text/plain; charset=utf-8")
        else:
            path, _, query = self._url.decode("latin-1").partition("?")
            body = self._body
            item = Request(
                self._parser.get_method().decode("latin-1"),
                path,
                query,
                self._headers,
                body[0] if len(body) == 1 else b"".join(body),
                peer=self._peer,
                repeated=self._repeated,
            )
        self._reset_message()
        if self._busy:
            self._pending.append(item)
            if len(self._pending) > 16:
                self._transport.pause_reading()
        else:
            self._serve(item)

    # -- answering -------------------------------------------------------------------------

    def _refuse(self, error: Exception) -> None:
        if not self._closed:
            text = str(error).encode("latin-1", "replace")
            response = Response(400, b"400 Bad Request: " + text, content_type="text/plain; charset=utf-8")
            self._transport.write(render_head(response, len(response.body), close=True))
            self._transport.write(response.body_bytes())
            self._transport.close()

    def _serve(self, item: Request | Response) -> None:
        self._busy = True
        if isinstance(item, Response):
            self._respond(item)
            return
        try:
            result = self._handler(item)
        except Exception as error:  # noqa: BLE001 - supervision point: one request never ends the server
            result = self._on_error(error)
        if isinstance(result, Response):
            self._respond(result)
        else:
            self._task = asyncio.ensure_future(result)
            self._task.add_done_callback(self._handled)

    def _handled(self, task: asyncio.Future[Response]) -> None:
        self._task = None
        if task.cancelled():
            self._transport.abort()
            return
        error = task.exception()
        if error is None:
            self._respond(task.result())
        elif isinstance(error, Exception):
            self._respond(self._on_error(error))
        else:
            raise error

    def _respond(self, response: Response) -> None:
        if self._closed:
            if response.stream is not None:
                response.stream.closed()
            return
        close = self._draining or not self._keep_alive
        if response.stream is not None:
            self._transport.write(render_head(response, None, close=close))
            writer = self._stream = _SocketWriter(self, self._transport, response.stream)
            response.stream.start(writer)
            return
        body = response.body
        if isinstance(body, bytes):
            size = len(body)
            if size <= _SLICE:
                self._transport.write(render_head(response, size, close=close) + body)
                self._answered()
                return
            body = (body,)
        size = sum(map(len, body))
        self._transport.write(render_head(response, size, close=close))
        self._task = asyncio.ensure_future(self._send_slices(body))
        self._task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Future[None]) -> None:
        self._task = None
        if task.cancelled() or task.exception() is not None:
            self._transport.abort()
        else:
            self._answered()

    async def _send_slices(self, parts: Sequence[bytes]) -> None:
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), _SLICE):
                if self._closed:
                    return
                self._transport.write(view[start : start + _SLICE])
                if not self._can_write:
                    self._resume = self._loop.create_future()
                    await self._resume
                    self._resume = None

    def stream_finished(self) -> None:
        self._stream = None
        self._answered()

    def _answered(self) -> None:
        self._busy = False
        if self._closed:
            return
        if self._draining or not self._keep_alive:
            self._transport.close()
            return
        if self._pending:
            item = self._pending.popleft()
            if not self._pending:
                self._transport.resume_reading()
            # not recursive: a client that pipelines thousands of requests must not grow the stack
            self._loop.call_soon(self._serve, item)
            self._busy = True
        else:
            self._arm_idle()

    def _arm_idle(self) -> None:
        if self._idle is None:
            self._idle = self._loop.call_later(_IDLE_TIMEOUT, self._transport.close)


class _SocketWriter:
    """Chunked transfer encoding for one stream on one connection."""

    def __init__(self, connection: HttpConnection, transport: asyncio.Transport, stream: Stream) -> None:
        self._connection = connection
        self._transport = transport
        self._stream: Stream | None = stream

    def write(self, data: bytes) -> None:
        if self._stream is not None:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def write_framed(self, chunk: bytes) -> None:
        if self._stream is not None:
            self._transport.write(chunk)

    def buffered(self) -> int:
        return self._transport.get_write_buffer_size()

    def finish(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            self._transport.write(b"0\r\n\r\n")
            stream.closed()
            self._connection.stream_finished()

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()


def frame(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
