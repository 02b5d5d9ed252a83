"""HTTP/1.1 over sockets, made for one API server and little CPU.

No HTTP library: a request is one formatted string and one write, an answer is parsed in C, and
connections are kept alive in a last-in-first-out pool, so that the warm ones are used. A streamed
exchange takes a connection of its own for as long as it lasts. TCP keep-alive finds peers that vanished
(30 s idle, then 3 probes 10 s apart).

What it retries, and why that is safe: a request on a reused connection that the peer had already closed
is sent again on a fresh one if its method may be repeated; and a 401 is answered once with refreshed
credentials. Everything else is for the layer above.
"""

import asyncio
import base64
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from quarterdeck.client.credential import Anonymous, Credential
from quarterdeck.client.tls import TlsOptions, make_context
from quarterdeck.client.transport import Headers, Response, Stream
from quarterdeck.errors import ConfigError, ConnectError, TransportError
from quarterdeck.wire.http import Answer, ClientConnection, StaleConnection

T = TypeVar("T")

_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_KEEPALIVE_IDLE: Final = 30
_KEEPALIVE_INTERVAL: Final = 10
_KEEPALIVE_PROBES: Final = 3
_MAX_RENDERED: Final = 512


class HttpTransport:
    """A transport to one server; implements ``Transport``."""

    def __init__(
        self,
        server: str,
        *,
        tls: TlsOptions | None = None,
        credential: Credential | None = None,
        proxy: str = "",
        socket_path: str = "",
        timeout: float | None = 60.0,
        connect_timeout: float = 10.0,
        max_idle: int = 72,
        on_resolved: Callable[[str, float], None] | None = None,
    ) -> None:
        """Prepare a transport; nothing is dialled yet.

        ``server`` is a URL (``https://host:6443``, a path prefix is kept); ``proxy`` an ``http://`` URL of
        a proxy that understands CONNECT. With ``socket_path`` a Unix socket is dialled, without TLS, and the
        URL only names the host. ``timeout`` is the default for whole exchanges, seconds.
        ``on_resolved`` is told the host and the seconds of each look-up of its name.
        """
        url = urlsplit(server if "://" in server else f"https://{server}")
        try:
            port = url.port
        except ValueError as error:
            raise ConfigError(f"server {server!r}: {error}") from error
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigError(f"server {server!r} is not an http or https URL")
        self._secure = url.scheme == "https"
        self._host = url.hostname
        self._port = port or (443 if self._secure else 80)
        self._prefix = url.path.rstrip("/")
        self.host: Final = url.netloc.rpartition("@")[2]
        self._tls_options = tls if tls is not None else TlsOptions()
        self._credential = credential if credential is not None else Anonymous()
        self._proxy = _parse_proxy(proxy)
        self._socket_path = socket_path
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._on_resolved = on_resolved
        self._context: ssl.SSLContext | None = None
        self._context_key: object = None
        self._idle: list[ClientConnection] = []
        self._active: set[ClientConnection] = set()
        self._rendered: dict[Headers, str] = {}
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """One exchange; see ``Transport.request``."""
        limit = timeout if timeout is not None else self._timeout
        for attempt in (0, 1):
            auth = await self._credential.headers()
            data = self._render(method, path, query, headers, auth, body)
            status, answered, content = await self._exchange(method, data, limit)
            if status == 401 and attempt == 0 and await self._credential.refresh():
                continue
            return Response(status, content, answered)
        raise AssertionError("unreachable")

    async def _exchange(self, method: str, data: bytes, timeout: float | None) -> Answer:
        while True:
            connection = self._take() or await self._connect()
            try:
                answer = await connection.exchange(data, timeout)
            except StaleConnection:
                # Nobody answered on a connection that had gone cold: safe to repeat what may be repeated.
                self._active.discard(connection)
                if method not in _IDEMPOTENT:
                    raise
            except BaseException:
                self._active.discard(connection)
                raise
            else:
                if connection.closed:
                    self._active.discard(connection)
                return answer

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        """Open a streamed exchange; see ``Transport.stream``."""
        limit = timeout if timeout is not None else self._timeout
        refreshed = False
        while True:
            auth = await self._credential.headers()
            data = self._render(method, path, query, headers, auth, body)
            connection = self._take() or await self._connect()
            try:
                head = await connection.open(data, limit)
            except StaleConnection:
                self._active.discard(connection)
                continue
            except BaseException:
                self._active.discard(connection)
                raise
            if head.status == 401 and not refreshed and await self._credential.refresh():
                refreshed = True
                self._finish(connection)
                continue
            close = functools.partial(self._end_stream, connection)
            return Stream(head.status, _Chunks(connection), head.headers, close, connection.gather)

    async def _end_stream(self, connection: ClientConnection) -> None:
        self._finish(connection)

    def _finish(self, connection: ClientConnection) -> None:
        if connection not in self._active:
            return
        self._active.discard(connection)
        if connection.is_complete:
            connection.release()
        else:
            connection.abort()

    async def aclose(self) -> None:
        """Close every connection; running exchanges fail with ``StreamClosed``."""
        self._closed = True
        for connection in (*self._idle, *self._active):
            connection.abort()
        self._idle.clear()
        self._active.clear()
        await self._credential.aclose()
        await asyncio.sleep(0)  # let the event loop see the sockets close

    def _render(
        self, method: str, path: str, query: str, headers: Headers, auth: Headers, body: bytes
    ) -> bytes:
        target = f"{self._prefix}{path}?{query}" if query else f"{self._prefix}{path}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(f"path {path!r} or query {query!r} is not percent-encoded")
        fields = self._fields(headers)
        if auth:
            fields += self._fields(auth)
        length = f"content-length: {len(body)}\r\n" if body or method in ("POST", "PUT", "PATCH") else ""
        head = f"{method} {target} HTTP/1.1\r\nhost: {self.host}\r\n{fields}{length}\r\n"
        return head.encode("latin-1") + body

    def _fields(self, headers: Headers) -> str:
        key = headers if isinstance(headers, tuple) else tuple(headers)
        text = self._rendered.get(key)
        if text is None:
            for name, value in key:
                if not (name + value).isprintable():
                    raise ValueError(f"header {name!r} has a control character in its value")
            text = "".join(f"{name}: {value}\r\n" for name, value in key)
            if len(self._rendered) >= _MAX_RENDERED:
                self._rendered.clear()
            self._rendered[key] = text
        return text

    def _take(self) -> ClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                self._active.add(connection)
                return connection
        return None

    def _put(self, connection: ClientConnection) -> None:
        self._active.discard(connection)
        if self._closed or len(self._idle) >= self._max_idle:
            connection.close()
        else:
            self._idle.append(connection)

    async def _connect(self) -> ClientConnection:
        if self._closed:
            raise ConnectError("the transport is closed")
        loop = asyncio.get_running_loop()
        connection = ClientConnection(loop, self._put)
        where = self._socket_path or f"{self._host}:{self._port}"
        try:
            context = await self._tls_context()
            async with asyncio.timeout(self._connect_timeout):
                if self._proxy is not None:
                    await self._dial_proxy(loop, connection, context)
                else:
                    await self._dial(loop, connection, context)
        except TimeoutError as error:
            raise ConnectError(f"cannot connect to {where} within {self._connect_timeout:g}s") from error
        except (OSError, ssl.SSLError) as error:
            raise ConnectError(f"cannot connect to {where}: {error}") from error
        self._active.add(connection)
        return connection

    async def _dial(
        self, loop: asyncio.AbstractEventLoop, connection: ClientConnection, context: ssl.SSLContext | None
    ) -> None:
        if self._socket_path:
            await loop.create_unix_connection(lambda: connection, self._socket_path)
            return
        name = (self._tls_options.server_name or self._host) if context else None
        transport, _ = await self._reach(
            self._host,
            lambda host: loop.create_connection(
                lambda: connection, host, self._port, ssl=context, server_hostname=name
            ),
        )
        _keep_alive(transport)

    async def _reach(self, host: str, dial: Callable[[str], Awaitable[T]]) -> T:
        """Dial a host; if somebody wants to know how long its name takes, address by address."""
        if self._on_resolved is None or _is_address(host):
            return await dial(host)
        started = perf_counter()
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        self._on_resolved(host, perf_counter() - started)
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        for address in addresses[:-1]:
            with suppress(OSError):
                return await dial(address)
        return await dial(addresses[-1])

    async def _dial_proxy(
        self, loop: asyncio.AbstractEventLoop, connection: ClientConnection, context: ssl.SSLContext | None
    ) -> None:
        assert self._proxy is not None
        host, port, auth = self._proxy
        tunnel = _Tunnel(loop)
        transport, _ = await self._reach(
            host, lambda address: loop.create_connection(lambda: tunnel, address, port)
        )
        _keep_alive(transport)
        try:
            authority = f"{self._host}:{self._port}"
            transport.write(
                f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{auth}\r\n".encode("latin-1")
            )
            await tunnel.ready
            if context is None:
                transport.set_protocol(connection)
                connection.connection_made(transport)
                return
            name = self._tls_options.server_name or self._host
            secured = await loop.start_tls(transport, connection, context, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        if secured is None:
            raise ConnectError(f"the proxy {host}:{port} closed the connection")
        connection.connection_made(secured)

    async def _tls_context(self) -> ssl.SSLContext | None:
        if not self._secure:
            return None
        options = await self._credential.tls(self._tls_options)
        key: object = options
        if options.ca_file:
            # The CA of a cluster may be rotated in place; new connections follow the file.
            key = (options, await asyncio.to_thread(_stamp, options.ca_file))
        if self._context is None or key != self._context_key:
            self._context = await asyncio.to_thread(make_context, options)
            self._context_key = key
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        return self._context


class _Chunks:
    """The body of a stream; a plain iterator, so that leaving it early leaves no generator behind."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._connection.read_chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        option = getattr(socket, name, None)  # macOS names some of them differently
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_ino, stat.st_size)


def _parse_proxy(proxy: str) -> tuple[str, int, str] | None:
    if not proxy:
        return None
    url = urlsplit(proxy)
    if url.scheme != "http" or not url.hostname:
        raise ConfigError(f"proxy-url {proxy!r} is not supported: use an http:// proxy")
    auth = ""
    if url.username is not None:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
        auth = f"proxy-authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    return url.hostname, url.port or 80, auth


class _Tunnel(asyncio.Protocol):
    """Waits for the proxy's answer to CONNECT."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ready: asyncio.Future[None] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" not in self._head or self.ready.done():
            return
        line = self._head.split(b"\r\n", 1)[0].decode("latin-1")
        parts = line.split(" ", 2)
        if len(parts) >= 2 and parts[1].startswith("2"):
            self.ready.set_result(None)
        else:
            self.ready.set_exception(ConnectError(f"the proxy refused the connection: {line}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(TransportError(f"the proxy closed the connection: {error}"))
