"""One HTTP/1.1 connection: requests in, answers out, in order.

A client that keeps its connection sends the same head again and again, byte for byte. Heads are remembered
as parsed (``HeadCache``); a small request whose head is known skips the parser, which is a third of the cost
of receiving it.
"""

import asyncio
import time
from collections import deque
from typing import Final, cast

import httptools
import msgspec

from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.webhook.message import MIB, Find, Request, Response, Route, text
from quarterdeck.runtime.webhook.tls import ByteTransport

__all__ = ["HeadCache", "HttpConnection"]

_log: Final = get_logger(__name__)

MAX_HEAD: Final = 256 * 1024
"""Largest size of request line and headers."""
MAX_DISCARD: Final = 512 * MIB
"""A body this large costs the connection, whatever its route allows."""
MAX_PIPELINED: Final = 16
_LARGE: Final = 64 * 1024

_NOT_FOUND: Final = text(404, "404 page not found\n")
_FAILED: Final = text(500, "500 internal server error\n")
_NO_ROUTE: Final = Route(lambda _request: _NOT_FOUND, 0)


class _Head(msgspec.Struct, frozen=True, gc=False):
    """A head that was parsed before."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    route: Route
    length: int
    """Size of the body; it counts only where the key still contains it."""


class HeadCache:
    """Heads of requests with a plain body on a connection that stays open.

    The length of the body is cut out of the key where it is spelled as Go and most others spell it, so that
    requests of all sizes share one entry.
    """

    __slots__ = ("_heads",)

    LIMIT: Final = 256
    LONGEST: Final = 2048
    _LENGTH: Final = b"\r\nContent-Length: "
    _NOT_PLAIN: Final = frozenset({b"transfer-encoding", b"expect", b"connection", b"upgrade"})

    def __init__(self) -> None:
        self._heads: Final[dict[bytes, _Head]] = {}

    def find(self, data: bytes) -> tuple[_Head, int] | None:
        """The head at the beginning of ``data`` and where its body begins, if ``data`` is that request."""
        raw = self.head_of(data)
        key, length = self._cut(raw)
        head = self._heads.get(key)
        if head is None:
            return None
        start = len(raw)
        return (head, start) if len(data) == start + (head.length if length < 0 else length) else None

    def keep(self, raw: bytes, head: _Head) -> None:
        """Remember a head; one with a trace id never comes again, and leaves when all are dropped."""
        if any(name.lower() in self._NOT_PLAIN for name, _ in head.headers):
            return
        if len(self._heads) >= self.LIMIT:
            self._heads.clear()
        self._heads[self._cut(raw)[0]] = head

    @classmethod
    def head_of(cls, data: bytes) -> bytes:
        """The head ``data`` begins with; empty if it is not complete, or too long to be worth it."""
        end = data.find(b"\r\n\r\n", 0, cls.LONGEST)
        return data[: end + 4] if end > 0 else b""

    @classmethod
    def _cut(cls, raw: bytes) -> tuple[bytes, int]:
        """A head without the length of its body, and that length; -1 if it is not spelled as expected."""
        start = raw.find(cls._LENGTH)
        if start < 0:
            return raw, -1
        end = raw.find(b"\r\n", start + 2)
        number = raw[start + len(cls._LENGTH) : end]
        if not number.isdigit() or len(number) > 10:
            return raw, -1
        return raw[:start] + raw[end:], int(number)


class HttpConnection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_active",
        "_body",
        "_busy",
        "_connections",
        "_draining",
        "_find",
        "_head",
        "_head_size",
        "_headers",
        "_heads",
        "_is_parsing",
        "_keep_alive",
        "_loop",
        "_parser",
        "_path",
        "_pending",
        "_query",
        "_route",
        "_size",
        "_tasks",
        "_transport",
        "_url",
        "lost",
    )

    def __init__(
        self,
        find: Find,
        connections: "set[HttpConnection]",
        tasks: set[asyncio.Future[Response]],
        heads: HeadCache,
    ) -> None:
        self._find = find
        self._connections = connections
        self._tasks = tasks
        self._heads = heads
        self._pending: deque[tuple[Route, Request, bool]] = deque()
        self._busy = False
        self._draining = False
        self._keep_alive = True
        self._reset()

    # -- transport ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.attach(cast("asyncio.Transport", transport))

    def attach(self, transport: ByteTransport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._active = self._loop.time()
        self._parser = httptools.HttpRequestParser(self)
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._pending.clear()
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._active = self._loop.time()
        if not self._is_parsing and not self._busy:
            known = self._heads.find(data)
            if known is not None and self._serve_known(*known, data):
                return
            self._head = HeadCache.head_of(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse("upgrades are not supported")
        except httptools.HttpParserError as error:
            self._refuse(str(error))

    def _serve_known(self, head: _Head, start: int, data: bytes) -> bool:
        if len(data) - start > head.route.body_limit:
            return False
        self._serve(head.route, Request(head.method, head.path, head.query, head.headers, data[start:]), True)
        return True

    def is_idle_since(self, deadline: float) -> bool:
        """Whether nothing is being answered and nothing arrived since then."""
        return not self._busy and self._active < deadline

    def finish(self) -> None:
        """Close after the answer under way."""
        self._draining = True
        if not self._busy:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # -- parser ---------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._route: Route = _NO_ROUTE
        self._head = b""
        self._is_parsing: bool = False

    def on_message_begin(self) -> None:
        self._is_parsing = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._grow_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() != b"content-length":  # the body itself says how long it is
            self._headers.append((name, value))
        self._grow_head(len(name) + len(value))

    def _grow_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > MAX_HEAD:
            raise httptools.HttpParserError("request header fields too large")

    def on_headers_complete(self) -> None:
        path, _, self._query = self._url.decode("latin-1").partition("?")
        self._path = path
        self._route = self._find(path) or _NO_ROUTE
        self._keep_alive = self._parser.should_keep_alive()
        for name, value in self._headers:
            if name.lower() == b"expect" and value.lower() == b"100-continue" and not self._busy:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size <= self._route.body_limit:
            self._body.append(body)
        else:
            self._body.clear()
            if self._size > MAX_DISCARD:
                self._transport.abort()

    def on_message_complete(self) -> None:
        body = self._body
        route = self._route
        request = Request(
            self._parser.get_method().decode("latin-1"),
            self._path,
            self._query,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            is_too_large=self._size > route.body_limit,
        )
        if self._head and self._keep_alive and route is not _NO_ROUTE:
            headers = tuple(self._headers)
            self._heads.keep(
                self._head, _Head(request.method, request.path, request.query, headers, route, self._size)
            )
        self._reset()
        if self._busy:
            self._pending.append((route, request, self._keep_alive))
            if len(self._pending) >= MAX_PIPELINED:
                self._transport.pause_reading()
        else:
            self._serve(route, request, self._keep_alive)

    # -- answering ------------------------------------------------------------------------------------

    def _serve(self, route: Route, request: Request, keep_alive: bool) -> None:
        self._busy = True
        try:
            result = route.handler(request)
        except Exception as error:  # noqa: BLE001  supervision point: one request never ends the server
            _log.error("http handler failed", error, path=request.path)
            result = _FAILED
        if isinstance(result, Response):
            self._answer(result, keep_alive)
            return
        task = asyncio.ensure_future(result)
        self._tasks.add(task)

        def done(task: asyncio.Future[Response]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                self._transport.abort()
                return
            error = task.exception()
            if error is None:
                self._answer(task.result(), keep_alive)
            elif isinstance(error, Exception):
                _log.error("http handler failed", error, path=request.path)
                self._answer(_FAILED, keep_alive)
            else:
                raise error

        task.add_done_callback(done)

    def _answer(self, response: Response, keep_alive: bool) -> None:
        self._busy = False
        transport = self._transport
        if transport.is_closing():
            return
        close = self._draining or not keep_alive
        head = _render_head(response, close=close)
        if len(response.body) < _LARGE:
            transport.write(head + response.body)
        else:
            transport.writelines([head, response.body])
        if close:
            transport.close()
            return
        self._active = self._loop.time()
        if self._pending:
            if len(self._pending) == MAX_PIPELINED:
                transport.resume_reading()
            # Later, not now: a long pipeline of answers must not nest.
            self._busy = True
            self._loop.call_soon(self._serve_pending)

    def _serve_pending(self) -> None:
        self._busy = False
        if self._pending:
            self._serve(*self._pending.popleft())

    def _refuse(self, reason: str) -> None:
        if not self._transport.is_closing():
            response = text(400, f"400 Bad Request: {reason}\n")
            self._transport.write(_render_head(response, close=True) + response.body)
            self._transport.close()


_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class _Date:
    """The ``Date`` header changes once a second; formatting it for each answer would not pay."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._line = time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(now)).encode()
        return self._line


_date: Final = _Date()
_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"


def _render_head(response: Response, *, close: bool) -> bytes:
    length = len(response.body)
    is_usual = response.status == 200 and response.content_type == "application/json"
    if is_usual and not close and not response.headers:
        return _JSON_HEAD % (_date.line(), length)
    extra = "".join([f"{name}: {value}\r\n" for name, value in response.headers])
    reason = _REASONS.get(response.status, "Status")
    return (
        f"HTTP/1.1 {response.status} {reason}\r\nContent-Type: {response.content_type}\r\n{extra}"
        f"{'Connection: close' if close else 'Connection: keep-alive'}\r\nContent-Length: {length}\r\n"
    ).encode("latin-1", "replace") + b"%s\r\n" % _date.line()
