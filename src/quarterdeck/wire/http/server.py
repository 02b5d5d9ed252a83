"""An HTTP/1.1 server on one socket, with or without TLS, and nothing of Kubernetes.

HTTP/2 is not offered: webhooks are pinned to HTTP/1.1 by kube-apiserver itself (one h2 connection would send
all requests to one replica), probes and scrapers speak HTTP/1.1, and so does every client of an API server.
TLS contexts are given, not made here.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .connection import Connection
from .framing import Stamp
from .headcache import HeadCache
from .limit import Limits
from .message import Find, Request, Response, text
from .tls import ByteTransport, TlsLayer

SWEEP_PERIOD: Final = 15.0
_GOODBYE: Final = 1.0
"""Seconds for a peer to notice that we hang up: TLS takes its time."""
_log: Final = logging.getLogger("quarterdeck.wire")


def log_error(error: Exception, request: Request) -> Response:
    """What a handler raised goes to the log, and nothing of it to the peer."""
    _log.error("http handler of %s failed", request.path, exc_info=error)
    return text(500, "500 internal server error\n")


def _no_peer(_transport: ByteTransport) -> object:
    return None


class HttpServer:
    """Listens on one socket and serves what ``find`` finds."""

    def __init__(
        self,
        find: Find,
        *,
        limits: Limits | None = None,
        on_error: Callable[[Exception, Request], Response] = log_error,
        stamp: Stamp | None = None,
        peer_of: Callable[[ByteTransport], object] = _no_peer,
        ends_with_peer: bool = False,
    ) -> None:
        """``on_error`` answers for handlers that raise; ``peer_of`` makes ``Request.peer`` of a transport.

        With ``ends_with_peer`` a handler that is at work is cancelled when its peer has gone.
        """
        self.find: Find = find
        self.limits: Limits = limits if limits is not None else Limits()
        self.on_error: Callable[[Exception, Request], Response] = on_error
        self.stamp: Stamp | None = stamp
        self.peer_of: Callable[[ByteTransport], object] = peer_of
        self.ends_with_peer: bool = ends_with_peer
        self.heads: HeadCache = HeadCache()
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Future[Any]] = set()
        self._listener: asyncio.AbstractServer | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._address = ("", 0)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port listened on; the port is the real one when 0 was asked for."""
        return self._address

    @property
    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._listener is not None and self._listener.is_serving()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind and accept; raises ``OSError`` when the address is taken."""
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            return Connection(self) if tls is None else TlsLayer(tls, lambda: Connection(self))

        self._listen(await loop.create_server(connect, host or None, port, backlog=1024))

    async def start_on(self, listening: socket.socket) -> None:
        """Accept, without TLS, on a socket that somebody else has bound."""
        loop = asyncio.get_running_loop()
        self._listen(await loop.create_server(lambda: Connection(self), sock=listening, backlog=1024))

    def _listen(self, listener: asyncio.Server) -> None:
        name = listener.sockets[0].getsockname()
        self._address = (str(name[0]), int(name[1]))
        self._accept(listener)

    async def start_at_path(self, path: Path) -> None:
        """Accept on a Unix socket instead, without TLS: the file system says who may open it."""
        loop = asyncio.get_running_loop()
        self._accept(await loop.create_unix_server(lambda: Connection(self), str(path), backlog=1024))

    def _accept(self, listener: asyncio.AbstractServer) -> None:
        self._listener = listener
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_PERIOD, self._sweep)

    async def stop(self, *, drain: float = 60.0) -> None:
        """Accept nothing more, finish what is under way within ``drain`` seconds, close everything."""
        if self._listener is None:
            return
        self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self.connections):
            connection.finish()
        if self.tasks:
            await asyncio.wait(tuple(self.tasks), timeout=drain)
        for task in tuple(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(tuple(self.tasks))
        gone = [connection.lost for connection in self.connections]
        if gone:
            await asyncio.wait(gone, timeout=_GOODBYE)
        for connection in tuple(self.connections):
            connection.abort()
        self._listener = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self.connections):
            if connection.is_overdue(now):
                connection.abort()
        self._sweeper = loop.call_later(SWEEP_PERIOD, self._sweep)
