"""The way from the API server to the nodes of this machine: logs, and streams into containers.

A node listens on a Unix socket whose name follows from its own, in a folder of the server's. Nothing that is
stored says where to connect to: who may write a Node must not choose whom the server talks to. Which pod is
meant is said by its uid, so that nobody gets to another one that has taken its name meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.errors import TransportError
from quarterdeck.wire.http import ClientConnection, PulledStream, RawStream, Request, Response, relay
from quarterdeck.wire.localnode import NodeUsage, node_socket

_HEAD_SECONDS: Final = 30.0
_USAGE_SECONDS: Final = 2.0
_HEAD_LIMIT: Final = 64 * 1024
_NOT_FOR_PODS: Final = frozenset(
    {
        "accept-encoding",  # links of pages are rewritten
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "host",
        "keep-alive",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are not passed on: credentials, and those about this connection."""
_NOT_FOR_CLIENTS: Final = frozenset(
    {"connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding", "upgrade"}
)


class NodeLink:
    """Reaches nodes by their sockets; ``folder`` is set once there is one."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def reaches(self, node: str) -> bool:
        """Whether a node of this machine has that name. Blocking, but only by a look."""
        return self.folder is not None and node_socket(self.folder, node).exists()

    async def get(self, node: str, parts: tuple[str, ...], query: str) -> Response:
        """Ask a node, and pass on what it answers as it comes."""
        connection = await self._connect(node)
        path = "/" + "/".join(quote(part, safe="") for part in parts)
        head = f"GET {path}{f'?{query}' if query else ''} HTTP/1.1\r\nHost: node\r\n\r\n"
        try:
            answer = await connection.open(head.encode(), _HEAD_SECONDS)
            if answer.status >= 400:
                words = b"".join([chunk async for chunk in _chunks(connection)]).decode(errors="replace")
                raise _refusal(answer.status, words.strip())
        except TransportError as error:
            connection.abort()
            raise _unreachable(node, error) from error
        return Response(answer.status, content_type="text/plain", stream=PulledStream(_chunks(connection)))

    async def usage(self, node: str) -> NodeUsage | None:
        """What the machine and everything that runs there uses; None for nodes that do not answer."""
        if not self.reaches(node):
            return None
        try:
            connection = await self._connect(node)
            answer = await connection.exchange(b"GET /stats HTTP/1.1\r\nHost: node\r\n\r\n", _USAGE_SECONDS)
        except (status.StatusError, TransportError):
            return None
        connection.abort()
        return msgspec.json.decode(answer.body, type=NodeUsage)

    async def pass_on(self, node: str, parts: tuple[str, ...], rest: str, request: Request) -> Response:
        """A client's request to a pod; ``rest`` is the path there, as the client wrote it."""
        connection = await self._connect(node)
        path = "/" + "/".join(quote(part, safe="") for part in parts) + (rest or "/")
        lines = [f"{request.method} {path}{f'?{request.raw_query}' if request.raw_query else ''} HTTP/1.1"]
        lines += ["Host: node", f"Content-Length: {len(request.body)}"]
        lines += [f"{name}: {value}" for name, value in request.header_items() if _is_for_pods(name)]
        data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.body
        try:
            answer = await connection.exchange(data, _HEAD_SECONDS)
        except TransportError as error:
            raise _unreachable(node, error) from error
        finally:
            connection.abort()
        kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
        kept = [each for each in answer.headers if each[0].lower() not in _NOT_FOR_CLIENTS]
        return Response(answer.status, answer.body, content_type=kinds[0] if kinds else "", headers=kept)

    async def _connect(self, node: str) -> ClientConnection:
        assert self.folder is not None
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(
                lambda: ClientConnection(loop, lambda _: None), str(node_socket(self.folder, node))
            )
        except OSError as error:
            raise _unreachable(node, error) from error
        return connection

    async def dial(self, node: str, pod: str, uid: str, port: int) -> socket.socket:
        """A connection to a port of a pod, through its node: as if the pod were at the other end.

        Raises OSError. Whom it is opened to has to wait until it is spoken to: a client's TLS does that.
        """
        assert self.folder is not None
        loop = asyncio.get_running_loop()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, str(node_socket(self.folder, node)))
            path = "/".join(quote(part, safe="") for part in (pod, uid, str(port)))
            head = f"GET /dial/{path} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            await loop.sock_sendall(made, head.encode())
            answer = b""
            while b"\r\n\r\n" not in answer:
                data = await loop.sock_recv(made, _HEAD_LIMIT)
                if not data:
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
                answer += data
            if _parse_head(answer)[0] != 101:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        except BaseException:
            made.close()
            raise
        return made

    async def upgrade(self, node: str, parts: tuple[str, ...], request: Request) -> Response:
        """Let a client speak with a node in another protocol, byte by byte."""
        assert self.folder is not None
        try:
            reader, writer = await asyncio.open_unix_connection(str(node_socket(self.folder, node)))
        except OSError as error:
            raise _unreachable(node, error) from error
        path = "/" + "/".join(quote(part, safe="") for part in parts)
        target = f"{path}?{request.raw_query}" if request.raw_query else path
        lines = [f"{request.method} {target} HTTP/1.1", "Host: node"]
        lines += [f"{name}: {value}" for name, value in request.header_items() if _is_passed_on(name)]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise _unreachable(node, error) from error
        code, headers = _parse_head(head)
        if code != 101:
            length = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
            body = await reader.readexactly(min(length, _HEAD_LIMIT))
            writer.close()
            raise _refusal(code, body.decode(errors="replace").strip())

        async def talk(stream: RawStream) -> None:
            await relay(stream, reader, writer)

        kept = [(name, value) for name, value in headers if name.lower() not in ("date", "content-length")]
        return Response(101, headers=kept, takeover=talk)


def _is_for_pods(name: str) -> bool:
    return name not in _NOT_FOR_PODS and not name.startswith("impersonate-")


def _is_passed_on(name: str) -> bool:
    """Nobody's credentials go to a node."""
    if name in ("upgrade", "connection", "x-stream-protocol-version", "content-length"):
        return True
    return name.startswith("sec-websocket-")


def _parse_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = []
    for line in rest:
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.strip(), value.strip()))
    return int(first.split()[1]), headers


async def _chunks(connection: ClientConnection) -> AsyncIterator[bytes]:
    try:
        while data := await connection.read_chunk():
            yield data
    finally:
        connection.abort()


def _unreachable(node: str, error: Exception) -> status.StatusError:
    return status.internal(f"error dialing backend: node {node}: {error}")


def _refusal(code: int, words: str) -> status.StatusError:
    if code == 400:
        return status.bad_request(words)
    if code == 404:
        return status.StatusError(404, words, reason="NotFound", details={})
    return status.internal(words)
