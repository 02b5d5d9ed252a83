"""A link that other processes use: HTTPS on loopback, in front of a test cluster.

    async with Gateway(cluster, link) as gateway:
        write_kubeconfig(path, gateway.kubeconfig())

Whatever comes in goes over the ``link`` as the link's user, so that a program in any language meets the same
faults as one in this process. Only who has the gateway's token is served. Exec, attach and port-forward are
not: a link carries requests and streams of events.
"""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator
from typing import Any, Final, Self

from quarterdeck.apiserver.auth import build_kubeconfig
from quarterdeck.client import Response, Stream
from quarterdeck.client.transport import Headers
from quarterdeck.errors import TransportError
from quarterdeck.testing.cluster import TestCluster
from quarterdeck.testing.link import Link, target_of
from quarterdeck.testing.stream import failure
from quarterdeck.wire import http

_HOST: Final = "127.0.0.1"
_MOST_BODY: Final = 3 * http.MIB
_HOP: Final = frozenset({"authorization", "connection", "host", "content-length", "transfer-encoding"})
"""Headers that end here."""


class Gateway:
    """Serves a link on a socket while it is entered."""

    def __init__(self, cluster: TestCluster, link: Link) -> None:
        self.link = link
        """What requests go over; put another one here at any time."""
        self.token: Final = secrets.token_urlsafe(24)
        self._credentials: Final = cluster.server.credentials
        self._server: Final = http.HttpServer(self._find, ends_with_peer=True)
        self._route: Final = http.Route(self._serve, _MOST_BODY)

    async def __aenter__(self) -> Self:
        context = await asyncio.to_thread(self._credentials.server_context)
        await self._server.start(_HOST, 0, context)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(drain=0.0)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._server.address

    @property
    def authority(self) -> bytes:
        """The certificate (PEM) by which clients know the gateway."""
        return self._credentials.authority.certificate_pem

    def kubeconfig(self, namespace: str = "default") -> dict[str, Any]:
        """The document with which a client comes in."""
        host, port = self.address
        url = f"https://{host}:{port}"
        return build_kubeconfig(url, self._credentials.authority, self.token, namespace=namespace)

    def _find(self, request: http.Request) -> http.Route | http.Response:
        given = request.header("authorization").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return http.Response(401, failure(401, "", "Unauthorized", 0))
        return self._route

    async def _serve(self, request: http.Request) -> http.Response:
        headers = [each for each in request.header_items() if each[0] not in _HOP]
        method, path, query = request.method, request.raw_path, request.raw_query
        link = self.link
        try:
            if target_of(method, path, query).verb == "watch" or "follow=true" in query:
                stream = await link.stream(method, path, query=query, headers=headers, body=request.body)
                chunks = _chunks(stream)
                return _answer(stream.status, stream.headers, stream=http.PulledStream(chunks))
            response = await link.request(method, path, query=query, headers=headers, body=request.body)
            return _answer(response.status, response.headers, response)
        except TransportError:
            return http.Response(200, stream=_Cut())


def _answer(
    status: int, headers: Headers, response: Response | None = None, *, stream: http.Stream | None = None
) -> http.Response:
    kept = [each for each in headers if each[0].lower() not in ("content-type", *_HOP)]
    content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
    body = response.body if response is not None else b""
    return http.Response(status, body, content_type, kept, stream=stream)


async def _chunks(stream: Stream) -> AsyncIterator[bytes]:
    async with stream:
        async for chunk in stream:
            yield chunk


class _Cut:
    """A body that breaks off: how a client sees a connection that failed."""

    def start(self, writer: http.ChunkWriter) -> None:
        writer.abort()

    def closed(self) -> None:
        """Nothing is held."""
