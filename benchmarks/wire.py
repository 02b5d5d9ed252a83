"""A bare HTTP/1.1 client over TLS for benchmarks: cheap enough not to be what is measured."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Json = dict[str, Any]


class Target(NamedTuple):
    """Where a server listens and how to prove who we are."""

    host: str
    port: int
    context: ssl.SSLContext


def target(kubeconfig: Path) -> Target:
    document = yaml.safe_load(kubeconfig.read_text())
    context = _named(document, "context", document["current-context"])
    cluster = _named(document, "cluster", context["cluster"])
    user = _named(document, "user", context["user"])
    host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    security = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory, "crt"), Path(directory, "key")
        certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
        key.write_bytes(base64.b64decode(user["client-key-data"]))
        security.load_cert_chain(certificate, key)
    return Target(host, int(port), security)


def _named(kubeconfig: Json, kind: str, name: str) -> Json:
    """The cluster, user or context of that name."""
    found: Json = next(each[kind] for each in kubeconfig[f"{kind}s"] if each["name"] == name)
    return found


def render(method: str, path: str, body: bytes = b"", accept: str = "application/json") -> bytes:
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench/1\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class RequestError(Exception):
    """The server answered with something other than 2xx."""


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is complete."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[int]) -> None:
        self._requests = requests
        self._done = done
        self._head = b""
        self._missing = -1
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(self._received)
            return
        self._transport.write(request)  # type: ignore[attr-defined]  # a write transport

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._missing < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._head[:end].lower()
            if not head.startswith(b"http/1.1 2"):
                self._fail(self._head[:600].decode(errors="replace"))
                return
            length = head.find(b"content-length: ")
            if length < 0:
                self._chunked(end)
                return
            size = int(head[length + 16 :].split(b"\r\n", 1)[0])
            self._missing = size - (len(self._head) - end - 4)
            self._head = b""
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self._missing = -1
            self._next()

    def _chunked(self, end: int) -> None:
        """Large lists of the real server come chunked; the end mark is all that matters."""
        if self._head.endswith(b"0\r\n\r\n"):
            self._head = b""
            self._next()
        else:  # keep only what is needed to see the end mark
            self._head = self._head[: end + 4] + self._head[max(end + 4, len(self._head) - 8) :]

    def _fail(self, text: str) -> None:
        if not self._done.done():
            self._done.set_exception(RequestError(text))
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(RequestError(f"connection lost: {exc}"))


async def load(server: Target, requests: Iterator[bytes], connections: int) -> None:
    """Send all requests over keep-alive connections, each busy until none is left."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = []
    for _ in range(connections):
        done: asyncio.Future[int] = loop.create_future()
        waiting.append(done)
        await loop.create_connection(
            lambda done=done: _Connection(requests, done),  # type: ignore[misc]  # bound per round
            server.host,
            server.port,
            ssl=server.context,
        )
    await asyncio.gather(*waiting)


async def fetch(server: Target, path: str) -> bytes:
    """One GET on a connection of its own; the body of the answer."""
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context)
    writer.write(render("GET", path))
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
    body = await reader.readexactly(length)
    writer.close()
    return body


async def paced(server: Target, requests: Iterator[bytes], *, rate: float, connections: int) -> None:
    """Send requests at a steady rate, each on the next idle connection."""
    loop = asyncio.get_running_loop()
    start = loop.time()

    async def one(offset: int) -> None:
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context)
        number = offset
        while True:
            await asyncio.sleep(max(0.0, start + number / rate - loop.time()))
            request = next(requests, None)
            if request is None:
                writer.close()
                return
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 2"):
                raise RequestError(head.decode(errors="replace"))
            length = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            number += connections

    await asyncio.gather(*(one(each) for each in range(connections)))


class Lines(asyncio.Protocol):
    """A watch stream: calls back for each complete line."""

    def __init__(self, request: bytes, on_line: Callable[[bytes], None]) -> None:
        self._request = request
        self._on_line = on_line
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]  # a write transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"type"'):
                self._on_line(line)


_CPU_CLOCK = 2
"""CPUCLOCK_SCHED: what the scheduler counted."""


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of processes so far, to the microsecond.

    /proc counts ticks of 10 ms, which says nothing about a single answer. Linux has a clock for every
    process, whose number is made of the process's.
    """
    return sum(time.clock_gettime(~pid << 3 | _CPU_CLOCK) for pid in pids)


def resident_bytes(pids: list[int]) -> int:
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total
