"""The page over HTTP, on loopback, for whoever has the token.

The token is in the address that is printed; the first answer puts it into a cookie, so that it does not stay
in the address bar. Requests that name another host are refused, so that no page of the web can talk to this
one by letting its name point here. There is nothing to write to: every handler reads.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Callable
from importlib import resources
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from quarterdeck.api.k8s import Pod
from quarterdeck.client import Call
from quarterdeck.errors import ApiError, QuarterdeckError, TransportError
from quarterdeck.wire.http import ChunkWriter, Handler, HttpServer, Request, Response, Route, text

from .board import Board, Changes

_LOOPBACK: Final = "127.0.0.1"
_COOKIE: Final = "quarterdeck-dashboard"
_MOST_BUFFERED: Final = 32 * 1024 * 1024
_HEARTBEAT: Final = 5.0
"""Seconds between two signs of life, by which the page knows how old its data is."""
_LINES: Final = 1000
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


class DashboardServer:
    """Serves one board; an async context manager."""

    def __init__(
        self, board: Board, *, port: int = 0, token: str = "", listening: socket.socket | None = None
    ) -> None:
        """Port 0 picks one; a token is made unless given. ``listening`` is a socket of loopback to use."""
        self._board: Final = board
        self._port: Final = port
        self._listening: Final = listening
        self.token: Final = token or secrets.token_urlsafe(24)
        self._files: Final = _page_files()
        self._handlers: Final[dict[str, Handler]] = {
            "/stream": self._stream,
            "/explain": self._explain,
            "/log": self._log,
            "/object": self._object,
            "/history": self._history,
        }
        self._http: Final = HttpServer(self._find)

    @property
    def url(self) -> str:
        """The address to open, token included."""
        return f"{self.origin}/?token={self.token}"

    @property
    def origin(self) -> str:
        """The address without the token."""
        host, port = self._http.address
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        if self._listening is None:
            await self._http.start(_LOOPBACK, self._port)
        else:
            await self._http.start_on(self._listening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.stop(drain=0.0)

    def _find(self, request: Request) -> Route | Response:
        host, port = self._http.address
        if request.header("host") not in (f"{host}:{port}", f"localhost:{port}"):
            return text(421, "this page is served at another name\n")
        if request.method not in ("GET", "HEAD"):
            return text(405, "this page only reads\n")
        given = request.param("token")
        if request.path == "/" and given and self._is_token(given):
            cookie = f"{_COOKIE}-{port}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return Response(303, b"", "text/plain", (("Location", "/"), ("Set-Cookie", cookie), *_HEADERS))
        if not self._is_token(_cookies(request).get(f"{_COOKIE}-{port}", "")):
            return text(401, "open the address that quarterdeck printed: it has the token\n")
        if (handler := self._handlers.get(request.path)) is not None:
            return Route(handler)
        file = self._files.get("/index.html" if request.path == "/" else request.path)
        if file is None:
            return text(404, "404 page not found\n")
        return Response(200, file[1], file[0], _HEADERS)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _stream(self, request: Request) -> Response:
        stream = _EventStream(self._board)
        return Response(200, content_type="text/event-stream", headers=_HEADERS, stream=stream)

    async def _explain(self, request: Request) -> Response:
        try:
            found = await self._board.explain(request.param("namespace"), request.param("name"))
        except QuarterdeckError as error:
            return text(404, str(error))
        return Response(200, msgspec.json.encode(found), headers=_HEADERS)

    def _history(self, request: Request) -> Response:
        return Response(200, msgspec.json.encode(self._board.history.told()), headers=_HEADERS)

    async def _object(self, request: Request) -> Response:
        where = (request.param("namespace"), request.param("name"))
        try:
            found = await self._board.inspect(request.param("kind"), request.param("apiVersion"), *where)
        except ApiError as error:
            return text(error.code, str(error))
        except TransportError as error:
            return text(502, str(error))
        except QuarterdeckError as error:
            return text(404, str(error))
        return Response(200, msgspec.json.encode(found), headers=_HEADERS)

    async def _log(self, request: Request) -> Response:
        info = Pod.type_info
        previous = request.param("previous") == "true"
        query = [("tailLines", str(_LINES)), ("previous" if previous else "follow", "true")]
        if request.param("container"):
            query.append(("container", request.param("container")))
        call = Call(
            "get",
            info.gvk,
            info.gvr,
            True,
            namespace=request.param("namespace"),
            name=request.param("pod"),
            subresource="log",
            query=tuple(query),
            accept="*/*",
        )
        try:
            stream = await self._board.client.open(call)
        except ApiError as error:
            return text(error.code, str(error))
        except QuarterdeckError as error:
            return text(502, str(error))
        kind = "text/plain; charset=utf-8"
        return Response(200, content_type=kind, headers=_HEADERS, stream=_LogStream(stream))


def _page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by path, with their types."""
    found: dict[str, tuple[str, bytes]] = {}

    def add(folder: Any, path: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                add(each, f"{path}{each.name}/")
            elif (kind := _TYPES.get(each.name.rpartition(".")[2])) is not None:
                found[f"{path}{each.name}"] = (kind, each.read_bytes())

    add(resources.files(__package__) / "page", "/")
    return found


def _cookies(request: Request) -> dict[str, str]:
    pairs = (each.strip().partition("=") for each in request.header("cookie").split(";"))
    return {name: value for name, _, value in pairs}


class _EventStream:
    """Server-sent events: a browser that cannot keep up is cut off, comes back and gets everything."""

    def __init__(self, board: Board) -> None:
        self._board: Final = board
        self._end: Callable[[], None] | None = None
        self._beat: asyncio.TimerHandle | None = None

    def start(self, writer: ChunkWriter) -> None:
        self._writer = writer
        hello = {"title": self._board.title}
        writer.write(b"event: hello\ndata: " + msgspec.json.encode(hello) + b"\n\n")
        self._end = self._board.subscribe(self._tell)
        self._keep_alive()

    def closed(self) -> None:
        if self._end is not None:
            self._end()
        if self._beat is not None:
            self._beat.cancel()

    def _tell(self, changes: Changes) -> None:
        if self._writer.buffered() > _MOST_BUFFERED:
            self._writer.abort()
            return
        self._writer.write(b"data: " + msgspec.json.encode(changes) + b"\n\n")

    def _keep_alive(self) -> None:
        self._writer.write(b"event: beat\ndata: 0\n\n")
        self._beat = asyncio.get_running_loop().call_later(_HEARTBEAT, self._keep_alive)


class _LogStream:
    """The log of a container, as it grows."""

    def __init__(self, source: Any) -> None:
        self._source: Final = source
        self._task: asyncio.Task[None] | None = None

    def start(self, writer: ChunkWriter) -> None:
        self._task = asyncio.create_task(self._copy(writer), name="dashboard log")

    def closed(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _copy(self, writer: ChunkWriter) -> None:
        try:
            async with self._source as stream:
                async for chunk in stream:
                    if chunk:
                        writer.write(chunk)
        except QuarterdeckError:
            writer.abort()
            return
        writer.finish()
