"""A webhook endpoint for tests: real TLS on 127.0.0.1 in the test's own event loop."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Json = dict[str, Any]
#: raw answer for a request's path and body; None closes the connection without one
Answer = Callable[[str, bytes], bytes | Awaitable[bytes | None] | None]

LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class HookEndpoint:
    """What a running endpoint knows: where it is, whom to trust, and the requests it got."""

    def __init__(self, port: int, authority: bytes) -> None:
        self.port = port
        self.ca_bundle = base64.b64encode(authority).decode()
        self.requests: list[tuple[str, bytes]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def config(self, path: str = "/hook") -> Json:
        return {"url": f"{self.url}{path}", "caBundle": self.ca_bundle}

    def reviews(self) -> list[Json]:
        return [json.loads(body) for _, body in self.requests]


@asynccontextmanager
async def hook_endpoint(
    answer: Answer,
    *,
    names: Sequence[x509.GeneralName] = (LOOPBACK,),
    is_expired: bool = False,
    plain: bool = False,
) -> AsyncIterator[HookEndpoint]:
    """Serve until the block ends."""
    authority, chain, key = _certificates(names, is_expired=is_expired)
    context = None if plain else _server_context(chain, key)
    endpoint: HookEndpoint

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        endpoint.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                endpoint.requests.append(request)
                raw = answer(*request)
                if raw is not None and not isinstance(raw, bytes):
                    raw = await raw
                if raw is None:
                    break
                writer.write(raw)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    endpoint = HookEndpoint(server.sockets[0].getsockname()[1], authority)
    try:
        yield endpoint
    finally:
        server.close()
        await asyncio.sleep(0)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = await reader.readline()
        if not line:
            return None
        head += line
    lines = head.decode().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
    return lines[0].split(" ")[1], await reader.readexactly(length)


def http(body: bytes | Json, *, status: int = 200, media: str | None = "application/json") -> bytes:
    """A raw HTTP answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = f"Content-Type: {media}\r\n" if media else ""
    return f"HTTP/1.1 {status} X\r\n{kind}Content-Length: {len(content)}\r\n\r\n".encode() + content


def admission(body: bytes, **response: Any) -> bytes:
    """An AdmissionReview answer; `patch` may be a list of operations."""
    review = json.loads(body)
    if isinstance(response.get("patch"), list):
        response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        response.setdefault("patchType", "JSONPatch")
    answer = {"uid": review["request"]["uid"], "allowed": True, **response}
    return http({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer})


def _server_context(chain: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
        pair.write(chain + key)
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


def _certificates(names: Sequence[x509.GeneralName], *, is_expired: bool) -> tuple[bytes, bytes, bytes]:
    now = datetime.datetime.now(datetime.UTC)
    start, end = now - datetime.timedelta(days=3), now + datetime.timedelta(days=1)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    authority = (
        _builder(authority_name, authority_name, authority_key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    leaf_end = now - datetime.timedelta(days=2) if is_expired else end
    builder = _builder(subject, authority_name, key, start, leaf_end)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    leaf = builder.sign(authority_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return authority.public_bytes(pem), leaf.public_bytes(pem), private


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
