"""Requests without sockets: the same handlers, the same semantics, no TLS and no HTTP.

`LocalServer` is what `quarterdeck.client.InProcessTransport` talks to. Every request still passes
authorization, admission, validation and storage; only the wire is left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from quarterdeck.wire.http import Request, Response, unframe
from quarterdeck.wire.http import Stream as PushedStream

from .app import App, Peer
from .auth import UserInfo

Headers = Sequence[tuple[str, str]]
_HEADERS_KEPT = 256
#: bytes that wait for a reader before the server waits for it
_MOST_BUFFERED = 256 * 1024


class LocalServer:
    """The server as seen by one user of this process."""

    def __init__(self, app: App, user: UserInfo) -> None:
        self._app = app
        self._peer = Peer(user=user.authenticated())
        self._named: dict[Headers, tuple[dict[str, str], Headers]] = {}

    async def exchange(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """One request; answers (status, headers, body)."""
        response = await self._respond(method, path, query, headers, body)
        if response.stream is not None:
            reader = StreamReader(response.stream)
            return response.status, _headers(response), b"".join([chunk async for chunk in reader])
        return response.status, _headers(response), b"" if method == "HEAD" else response.body_bytes()

    async def open(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], StreamReader]:
        """One request whose body is read as it comes."""
        response = await self._respond(method, path, query, headers, body)
        if response.stream is not None:
            return response.status, _headers(response), StreamReader(response.stream)
        return response.status, _headers(response), StreamReader(None, response.body_bytes())

    async def _respond(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Response:
        named, repeated = self._by_name(headers)
        request = Request(method, path, query, named, body, peer=self._peer, repeated=repeated)
        try:
            result = self._app(request)
            return result if isinstance(result, Response) else await result
        except Exception as error:  # noqa: BLE001 - the same supervision point as a connection's
            return self._app.on_error(error, request)

    def _by_name(self, headers: Headers) -> tuple[dict[str, str], Headers]:
        """The headers as `Request` wants them; a client sends the same few tuples again and again."""
        key = tuple(headers)
        known = self._named.get(key)
        if known is None:
            lower = tuple((name.lower(), value) for name, value in headers)
            named = dict(lower)
            known = named, lower if len(named) < len(lower) else ()
            if len(self._named) < _HEADERS_KEPT:
                self._named[key] = known
        return known


def _headers(response: Response) -> list[tuple[str, str]]:
    return [("Content-Type", response.content_type), *response.headers]


class StreamReader:
    """The receiving end of a pushed body; an async iterator of chunks."""

    def __init__(self, stream: PushedStream | None, data: bytes = b"") -> None:
        self._chunks: deque[bytes] = deque([data] if data else [])
        self._buffered = len(data)
        self._stream = stream
        self._ended = stream is None
        self._failed = False
        self._wake: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None
        if stream is not None:
            stream.start(self)

    def write(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)
        self._notify()

    def write_framed(self, chunk: bytes) -> None:
        self.write(unframe(chunk))

    def buffered(self) -> int:
        return self._buffered

    @property
    def is_full(self) -> bool:
        return self._buffered > _MOST_BUFFERED

    async def drain(self) -> None:
        while self.is_full and not self._ended:
            self._taken = asyncio.get_running_loop().create_future()
            await self._taken
            self._taken = None

    def finish(self) -> None:
        self._end()

    def abort(self) -> None:
        self._failed = True
        self._end()

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        self._ended = True
        if stream is not None:
            stream.closed()
        self._notify()
        self._let_write()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._ended:
                if self._failed:
                    raise ConnectionResetError("the server cut a stream that was not read fast enough")
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
            self._wake = None
        if len(self._chunks) == 1:
            data = self._chunks.popleft()
        else:
            data = b"".join(self._chunks)
            self._chunks.clear()
        self._buffered -= len(data)
        self._let_write()
        return data

    def _let_write(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    async def aclose(self) -> None:
        self._chunks.clear()
        self._end()
