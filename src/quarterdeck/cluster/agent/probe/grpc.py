"""One question of gRPC's health protocol, with as much of HTTP/2 as that needs.

A probe opens a connection, asks once and hangs up, so there is no flow control, no multiplexing, and the
headers of the answer need not be understood: a server that is well sends a message that says so.
"""

from __future__ import annotations

import asyncio
import os
import struct
from contextlib import suppress
from typing import Final

from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.probe.handler import USER_AGENT, HandlerFailure

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _PADDED, _ACK = 1, 4, 8, 1
_SERVING: Final = 1


async def check_health(dialer: Dialer, host: str, port: int, service: str, timeout: float) -> None:
    """Ask whether a service is serving. Raises ``HandlerFailure`` unless it says so."""
    place = f"{host}:{port}"
    is_connected = False
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await dialer.open(host, port)
            is_connected = True
            try:
                status = await _ask(reader, writer, place, service)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, asyncio.IncompleteReadError) as error:
        within = f"within {timeout:g}s"
        words = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
        if not is_connected:
            words = words or "context deadline exceeded"
            raise HandlerFailure(f'timeout: failed to connect service "{place}" {within}: {words}') from error
        if isinstance(error, TimeoutError):
            raise HandlerFailure(f"timeout: health rpc did not complete {within}") from error
        raise HandlerFailure(f"error: health rpc probe failed: {words}") from error
    if status != _SERVING:
        names = {0: "UNKNOWN", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
        raise HandlerFailure(f'service unhealthy (responded with "{names.get(status, status)}")')


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, service: str
) -> int:
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/grpc.health.v1.Health/Check"),
        (b":authority", authority.encode()),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        (b"user-agent", USER_AGENT.encode()),
    ]
    writer.write(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, b"".join(_literal(*field) for field in fields))
        + _frame(_DATA, _END_STREAM, 1, b"\x00" + struct.pack(">I", len(message)) + message)
    )
    received = b""
    while True:
        head = await reader.readexactly(9)
        size = int.from_bytes(head[:3], "big")
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        body = await reader.readexactly(size)
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, body))
        elif kind == _RESET or (kind == _GOAWAY and not int.from_bytes(body[:4], "big")):
            raise HandlerFailure("error: health rpc probe failed: the server ended the stream")
        elif stream == 1 and kind == _DATA:
            received += body[1 : len(body) - body[0]] if flags & _PADDED else body
        if stream == 1 and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            return _status_in(received, service)


def _status_in(received: bytes, service: str) -> int:
    """The status of a HealthCheckResponse behind its length; 0 where it is left out."""
    if len(received) < 5:
        # Which of the two it is stands in trailers that may be compressed; both are mended at the server.
        raise HandlerFailure(
            "error: health rpc probe failed: the server does not implement the grpc health protocol"
            f" (grpc.health.v1.Health), or does not know the service {service!r}"
        )
    message = received[5:]
    return message[1] if message[:1] == b"\x08" and len(message) > 1 else 0


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _varint(number: int) -> bytes:
    """A length as protocol buffers have it."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field that is not put into a table; names and values here are shorter than 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
