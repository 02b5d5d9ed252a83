"""A transport without sockets, to a server in the same process.

It is for tests and for `quarterdeck up`: authentication, admission, validation and storage are those of the
server; only TLS and HTTP are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from quarterdeck.client.transport import Headers, Response, Stream
from quarterdeck.errors import ReadTimeout, StreamClosed


class LocalStream(Protocol):
    """A body that arrives over time."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class LocalServer(Protocol):
    """What a server in this process offers; `ApiServer.local()` of the embedded server is one."""

    async def exchange(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]: ...

    async def open(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], LocalStream]: ...


class InProcessTransport:
    """Carries requests straight to a server object."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server

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
        if timeout is None:
            status, answered, content = await self._server.exchange(method, path, query, headers, body)
        else:
            try:
                async with asyncio.timeout(timeout):
                    status, answered, content = await self._server.exchange(
                        method, path, query, headers, body
                    )
            except TimeoutError as error:
                raise ReadTimeout(f"no answer to {method} {path} within {timeout:g} s") from error
        return Response(status, content, answered)

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
        status, answered, reader = await self._server.open(method, path, query, headers, body)
        return Stream(status, _chunks(reader), answered, reader.aclose)

    async def aclose(self) -> None:
        """Nothing is held between exchanges."""


async def _chunks(reader: LocalStream) -> AsyncIterator[bytes]:
    try:
        async for chunk in reader:
            yield chunk
    except ConnectionError as error:
        raise StreamClosed(str(error)) from error
