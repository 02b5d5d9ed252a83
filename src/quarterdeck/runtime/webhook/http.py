"""A small HTTP/1.1 server: the wire under webhooks, probes and metrics, and nothing of Kubernetes.

One protocol class parses requests with httptools (C), finds a route by path, and writes the answer. A
handler answers at once or gives back an awaitable; answers on one connection leave in the order of the
requests. Bodies above a route's limit are thrown away while they arrive, and the handler is told.

HTTP/2 is not offered: kube-apiserver itself pins webhooks to HTTP/1.1 (one h2 connection would send all
requests to one replica), and probes and scrapers speak HTTP/1.1.

TLS is a layer below (``tls``). Contexts are given, not made here; see ``quarterdeck.runtime.certificate``.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, cast

import httptools
import msgspec

from quarterdeck.runtime._logfield import get_logger
from quarterdeck.runtime.webhook.tls import ByteTransport, TlsLayer

__all__ = ["MIB", "Handler", "HttpServer", "Request", "Response", "Route", "text"]

_log: Final = get_logger(__name__)

MIB: Final = 1024 * 1024
MAX_HEAD: Final = 256 * 1024
"""Largest size of request line and headers."""
MAX_DISCARD: Final = 128 * MIB
"""A body this far beyond any limit costs the connection."""
MAX_PIPELINED: Final = 16
IDLE_TIMEOUT: Final = 120.0
"""Seconds a connection may be silent; kube-apiserver drops its own idle ones after 90."""
SWEEP_PERIOD: Final = 30.0
_LARGE: Final = 64 * 1024

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


class Request:
    """One request; header names are compared without regard to case."""

    __slots__ = ("body", "headers", "is_too_large", "method", "path", "query")

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes = b"",
        *,
        is_too_large: bool = False,
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.query: Final = query
        self.headers: Final = headers
        self.body: Final = body
        self.is_too_large: Final = is_too_large
        """The body exceeded the route's limit and was thrown away."""

    def header(self, name: bytes) -> str:
        """The first header of a (lower-case) name, or the empty string."""
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return ""


class Response:
    """An answer with its whole body."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.status: Final = status
        self.body: Final = body
        self.content_type: Final = content_type
        self.headers: Final = headers


def text(status: int, body: str) -> Response:
    """An answer in plain text."""
    return Response(
        status, body.encode(), "text/plain; charset=utf-8", (("X-Content-Type-Options", "nosniff"),)
    )


Handler: TypeAlias = Callable[[Request], Response | Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """What serves a path."""

    handler: Handler
    body_limit: int = MIB
    """Bytes; larger bodies are not kept and ``Request.is_too_large`` is set."""


Find: TypeAlias = Callable[[str], Route | None]

_NOT_FOUND: Final = text(404, "404 page not found\n")
_FAILED: Final = text(500, "500 internal server error\n")
_NO_ROUTE: Final = Route(lambda _request: _NOT_FOUND, 0)


class HttpServer:
    """Listens on one socket and serves what ``find`` finds."""

    def __init__(self, find: Find) -> None:
        self._find: Final = find
        self._listener: asyncio.AbstractServer | None = None
        self._connections: Final[set[_Connection]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks: Final[set[asyncio.Future[Response]]] = set()
        self._address = ("", 0)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port listened on; the port is the real one when 0 was asked for."""
        return self._address

    @property
    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._listener is not None and self._listener.is_serving()

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind and accept; raises ``OSError`` when the address is taken."""
        loop = asyncio.get_running_loop()

        def connection() -> _Connection:
            return _Connection(self._find, self._connections, self._tasks)

        def connect() -> asyncio.Protocol:
            return connection() if tls is None else TlsLayer(tls, connection)

        self._listener = await loop.create_server(connect, host or None, port, backlog=1024)
        name = self._listener.sockets[0].getsockname()
        self._address = (str(name[0]), int(name[1]))
        self._sweeper = loop.call_later(SWEEP_PERIOD, self._sweep)

    async def stop(self, *, drain: float = 60.0) -> None:
        """Accept nothing more, finish what is under way within ``drain`` seconds, close everything."""
        if self._listener is None:
            return
        self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._connections):
            connection.finish()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=drain)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        gone = [connection.lost for connection in self._connections]
        if gone:
            # TLS takes its time to say goodbye; a peer that does not answer is cut off.
            await asyncio.wait(gone, timeout=1.0)
        for connection in tuple(self._connections):
            connection.abort()
        self._listener = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() - IDLE_TIMEOUT
        for connection in tuple(self._connections):
            if connection.is_idle_since(deadline):
                connection.abort()
        self._sweeper = loop.call_later(SWEEP_PERIOD, self._sweep)


class _Connection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_active",
        "_body",
        "_busy",
        "_connections",
        "_draining",
        "_find",
        "_head_size",
        "_headers",
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
        self, find: Find, connections: "set[_Connection]", tasks: set[asyncio.Future[Response]]
    ) -> None:
        self._find = find
        self._connections = connections
        self._tasks = tasks
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
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse("upgrades are not supported")
        except httptools.HttpParserError as error:
            self._refuse(str(error))

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

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._grow_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
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
