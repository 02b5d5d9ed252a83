"""The question of gRPC's health protocol, put to a server that speaks HTTP/2 by hand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.probe.grpc import check_health
from quarterdeck.cluster.agent.probe.handler import HandlerFailure

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
OK_HEADERS = b"\x88"
"""``:status: 200``, from HPACK's table."""


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def message(data: bytes) -> bytes:
    return b"\x00" + len(data).to_bytes(4, "big") + data


def answer(status: bytes) -> bytes:
    return (
        frame(HEADERS, END_HEADERS, 1, OK_HEADERS)
        + frame(DATA, 0, 1, message(status))
        + frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_HEADERS)
    )


SERVING = answer(b"\x08\x01")
NOT_SERVING = answer(b"\x08\x02")
UNKNOWN = answer(b"")
TRAILERS_ALONE = frame(HEADERS, END_HEADERS | END_STREAM, 1, OK_HEADERS)
PADDED_SERVING = frame(DATA, PADDED | END_STREAM, 1, b"\x03" + message(b"\x08\x01") + bytes(3))
BUSY_SERVING = (
    frame(SETTINGS, 0, 0, b"")
    + frame(PING, 0, 0, b"8 bytes.")
    + frame(GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4))  # goes, after this one
    + SERVING
)
REFUSED = frame(GOAWAY, 0, 0, bytes(4) + (2).to_bytes(4, "big"))
STREAM_RESET = frame(RESET, 0, 1, (8).to_bytes(4, "big"))


@asynccontextmanager
async def health_server(answers: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """A server that answers to the message of the first request, and hangs up; the port it listens on."""

    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        asked = b""
        while True:
            head = await reader.readexactly(9)
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == DATA:
                asked = body[5:]
            if head[4] & END_STREAM and head[3] in (DATA, HEADERS):
                break
        writer.write(answers(asked))
        await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await served.wait()
        server.close()
        await server.wait_closed()


async def ask(given: bytes | Callable[[bytes], bytes], service: str = "") -> None:
    async with health_server(given if callable(given) else lambda _: given) as port:
        await check_health(Dialer(), "127.0.0.1", port, service, 30.0)


@pytest.mark.parametrize("given", [SERVING, PADDED_SERVING, BUSY_SERVING])
async def test_a_server_that_serves_is_well(given: bytes) -> None:
    await ask(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (NOT_SERVING, 'service unhealthy (responded with "NOT_SERVING")'),
        (UNKNOWN, 'service unhealthy (responded with "UNKNOWN")'),
        (TRAILERS_ALONE, "does not know the service ''"),
        (REFUSED, "error: health rpc probe failed: the server ended the stream"),
        (STREAM_RESET, "error: health rpc probe failed: the server ended the stream"),
        (b"", "error: health rpc probe failed"),
    ],
)
async def test_a_server_that_is_not_well_is_told_in_words(given: bytes, words: str) -> None:
    with pytest.raises(HandlerFailure) as failure:
        await ask(given)
    assert words in str(failure.value)


@pytest.mark.parametrize("name", ["", "trainer", "t" * 300])
async def test_the_service_asked_for_is_named(name: str) -> None:
    def by_name(asked: bytes) -> bytes:
        size = bytes([len(name)]) if len(name) < 128 else bytes([len(name) & 0x7F | 0x80, len(name) >> 7])
        return SERVING if asked == (b"\x0a" + size + name.encode() if name else b"") else NOT_SERVING

    await ask(by_name, name)


async def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(
        HandlerFailure, match=r"^timeout: failed to connect service .* within 30s: connection refused$"
    ):
        await check_health(Dialer(), "127.0.0.1", port, "", 30.0)


async def test_a_server_that_says_nothing_is_given_up() -> None:
    # The kernel takes the connection, and nobody answers.
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(HandlerFailure, match=r"^timeout: health rpc did not complete within 0\.05s$"),
    ):
        await check_health(Dialer(), "127.0.0.1", silent.getsockname()[1], "", 0.05)
