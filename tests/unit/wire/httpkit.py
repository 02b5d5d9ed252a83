"""Peers for the tests of the HTTP core: a server of a few routes, and a client that sends any bytes."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quarterdeck.wire.http import HttpServer, Limits, Request, Response, Route, text


def echo(request: Request) -> Response:
    """What arrived, in one line."""
    parts = [request.method, request.path, request.raw_query, str(len(request.body))]
    return text(200, "|".join([*parts, str(request.is_too_large)]))


@asynccontextmanager
async def serving(
    *, tls: ssl.SSLContext | None = None, limits: Limits | None = None, **routes: Route | Response
) -> AsyncIterator[HttpServer]:
    """A server of routes by name; without any it serves ``echo`` for bodies up to 1000 bytes."""
    known = {f"/{name}": route for name, route in routes.items()} or {"/echo": Route(echo, 1000)}
    missing = text(404, "404 page not found\n")
    server = HttpServer(lambda request: known.get(request.path, missing), limits=limits)
    await server.start("127.0.0.1", 0, tls)
    try:
        yield server
    finally:
        await server.stop(drain=1.0)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    version: str


class Peer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *pieces: bytes) -> None:
        self.writer.write(b"".join(pieces))

    async def send_apart(self, *pieces: bytes) -> None:
        """Send pieces so that they are not read at once."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.01)

    async def answer(self, *, has_body: bool = True) -> Answer:
        """The next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        body = b""
        if has_body and "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif has_body and headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        return Answer(int(line.split()[1]), headers, body, line.split()[0])

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        received = bytearray()
        try:
            while part := await self.reader.read(65536):
                received += part
        except ConnectionError:
            pass
        return bytes(received)

    async def close(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def peer(server: HttpServer, context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    name = "localhost" if context is not None else None
    reader, writer = await asyncio.open_connection(*server.address, ssl=context, server_hostname=name)
    connected = Peer(reader, writer)
    try:
        yield connected
    finally:
        await connected.close()


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  any condition
            await asyncio.sleep(0.005)


class Contexts(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


@cache
def _pair() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def contexts(directory: Path) -> Contexts:
    """TLS for ``localhost``, and a client that trusts it."""
    certificate, key = _pair()
    path = directory / "pair.pem"
    path.write_bytes(certificate + key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return Contexts(server, ssl.create_default_context(cadata=certificate.decode()))
