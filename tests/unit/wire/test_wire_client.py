"""One connection of a client: what it takes of an answer, and what it refuses.

Pools, retries and credentials are the transport's: ``tests/unit/client``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quarterdeck.errors import ProtocolError, StreamClosed
from quarterdeck.wire.http import ClientConnection, StaleConnection

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def answering(*answers: bytes, max_answer: int | None = None) -> AsyncIterator[ClientConnection]:
    """A connection to a server that gives these answers, one for each request, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in answers:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    port = server.sockets[0].getsockname()[1]
    _, connection = await loop.create_connection(
        lambda: ClientConnection(loop, lambda _: None, max_answer=max_answer), "127.0.0.1", port
    )
    try:
        yield connection
    finally:
        connection.abort()
        server.close()
        await server.wait_closed()


async def test_trailers_are_no_headers() -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with answering(head + b"1\r\na\r\n0\r\nX-A: 2\r\n\r\n") as connection:
        answer = await connection.exchange(GET, None)
    assert answer.headers == [("X-A", "1"), ("Transfer-Encoding", "chunked")]
    assert answer.body == b"a"


async def test_the_answer_to_head_has_no_body_whatever_its_length() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as connection:
        answer = await connection.exchange(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", None)
        assert (answer.status, answer.body) == (200, b"")
        assert connection.closed


async def test_an_answer_larger_than_agreed_is_refused() -> None:
    fits, large = (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size for size in (1000, 1001)
    )
    async with answering(fits, large, max_answer=1000) as connection:
        assert len((await connection.exchange(GET, None)).body) == 1000
        with pytest.raises(ProtocolError, match="larger than 1000 bytes"):
            await connection.exchange(GET, None)
        assert connection.closed


async def test_an_endless_head_is_refused() -> None:
    endless = b"HTTP/1.1 200 OK\r\nX: " + b"y" * (11 << 20)
    async with answering(endless) as connection:
        with pytest.raises(ProtocolError, match="head of the answer exceeds"):
            await connection.exchange(GET, None)


async def test_a_connection_closed_between_answers_is_told_from_a_broken_answer() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with answering(whole) as connection:
        await connection.exchange(GET, None)
        with pytest.raises(StaleConnection):
            await connection.exchange(GET, None)
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab") as connection:
        with pytest.raises(StreamClosed, match="before the answer was complete"):
            await connection.exchange(GET, None)
        assert connection.has_head
