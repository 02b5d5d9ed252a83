"""A small HTTP/1.1 server: the wire under webhooks, probes and metrics, and nothing of Kubernetes.

A connection parses requests with httptools (C), finds a route by path, and writes the answer. A handler
answers at once or gives back an awaitable; answers on one connection leave in the order of the requests.
Bodies above a route's limit are thrown away while they arrive, and the handler is told.

HTTP/2 is not offered: kube-apiserver itself pins webhooks to HTTP/1.1 (one h2 connection would send all
requests to one replica), and probes and scrapers speak HTTP/1.1.

TLS is a layer below (``tls``). Contexts are given, not made here; see ``quarterdeck.runtime.certificate``.
"""

import asyncio
import ssl
from typing import Final

from quarterdeck.runtime.webhook.connection import HeadCache, HttpConnection
from quarterdeck.runtime.webhook.message import MIB, Find, Handler, Request, Response, Route, text
from quarterdeck.runtime.webhook.tls import TlsLayer

__all__ = ["MIB", "Handler", "HttpServer", "Request", "Response", "Route", "text"]

IDLE_TIMEOUT: Final = 120.0
"""Seconds a connection may be silent; kube-apiserver drops its own idle ones after 90."""
SWEEP_PERIOD: Final = 30.0


class HttpServer:
    """Listens on one socket and serves what ``find`` finds."""

    def __init__(self, find: Find) -> None:
        self._find: Final = find
        self._listener: asyncio.AbstractServer | None = None
        self._connections: Final[set[HttpConnection]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks: Final[set[asyncio.Future[Response]]] = set()
        self._heads: Final = HeadCache()
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

        def connection() -> HttpConnection:
            return HttpConnection(self._find, self._connections, self._tasks, self._heads)

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
