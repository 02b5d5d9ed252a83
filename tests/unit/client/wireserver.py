"""Peers for the tests of this folder: a scripted HTTP server and a transport made of a function."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quarterdeck.client import Client, Response, Stream
from quarterdeck.client.transport import Headers


class Seen(msgspec.Struct):
    """One request as the server saw it."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[bool | None]]
"""Writes the answer; returns ``False`` to end the connection."""


class WireServer:
    """Speaks just enough HTTP to be told what to do byte by byte."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.connections = 0
        self._arrived = asyncio.Condition()
        self.url = ""
        self.port = 0

    async def requests(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.seen) >= count)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while head := await _read_head(reader):
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ", 2)
                headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines[1:] if line)]
                length = next((int(v) for k, v in headers if k.lower() == "content-length"), 0)
                body = await reader.readexactly(length) if length else b""
                path, _, query = target.partition("?")
                seen = Seen(method, path, query, headers, body, number)
                self.seen.append(seen)
                async with self._arrived:
                    self._arrived.notify_all()
                if await self.answer(seen, writer) is False:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            writer.close()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def reply(status: int = 200, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def always(status: int = 200, body: bytes = b"{}", *headers: str) -> Answer:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(status, body, *headers))

    return answer


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[WireServer]:
    wire = WireServer(answer)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await wire.handle(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    wire.port = server.sockets[0].getsockname()[1]
    wire.url = f"{'https' if tls else 'http'}://127.0.0.1:{wire.port}"
    try:
        yield wire
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


class Authority:
    """A throw-away certificate authority with files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test ca")])
        self._cert = self._sign(name, name, self._key.public_key(), ca=True)
        self.file = folder / f"ca-{id(self)}.pem"
        self.pem = self._cert.public_bytes(serialization.Encoding.PEM).decode()
        self.file.write_text(self.pem)

    def _sign(
        self, subject: x509.Name, issuer: x509.Name, public: Any, *, ca: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("api.test"),
        ]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, name: str) -> tuple[str, str]:
        """PEM of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._sign(subject, self._cert.subject, key.public_key())
        return (
            cert.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )

    def server_context(self, *, client_ca: bool = False) -> ssl.SSLContext:
        cert, key = self.issue("server")
        path = self.folder / f"server-{id(self)}.pem"
        path.write_text(cert + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.pem)
        return context


class FakeClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class FixedRandom:
    """Always the same number."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


class Asked(msgspec.Struct):
    """One request as a transport gets it."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


Handler = Callable[[Asked], Response | Stream | Exception]


class FunctionTransport:
    """A transport whose server is a function: what the embedded server looks like to a client."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.asked: list[Asked] = []
        self.closed = False

    def _ask(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Response | Stream:
        asked = Asked(method, path, query, dict(headers), body)
        self.asked.append(asked)
        answer = self.handler(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer

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
        answer = self._ask(method, path, query, headers, body)
        assert isinstance(answer, Response)
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
        answer = self._ask(method, path, query, headers, body)
        assert isinstance(answer, Stream)
        return answer

    async def aclose(self) -> None:
        self.closed = True


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def in_process(handler: Handler, **options: Any) -> tuple[Client, FunctionTransport]:
    transport = FunctionTransport(handler)
    options.setdefault("clock", FakeClock())
    options.setdefault("random", FixedRandom())
    return Client.over(transport, **options), transport


def status(code: int, reason: str, message: str = "m", **details: Any) -> Response:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return Response(code, msgspec.json.encode(document))
