"""A handler takes the connection over after 101."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quarterdeck.errors import StreamClosed
from quarterdeck.wire.http import RawStream, Request, Response, Route

from .httpkit import contexts, peer, serving, until

ASK = b"GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


def upgrading(talk: object) -> Route:
    def handle(request: Request) -> Response:
        assert request.header("upgrade") == "echo"
        headers = (("Connection", "Upgrade"), ("Upgrade", "echo"))
        return Response(101, headers=headers, takeover=talk)  # type: ignore[arg-type]  # as the tests say

    return Route(handle)


async def echo_lines(stream: RawStream) -> None:
    """Each byte doubled, until the peer says q."""
    while data := await stream.read():
        stream.write(data * 2)
        await stream.drain()
        if data.endswith(b"q"):
            return


@pytest.mark.parametrize("is_secure", [False, True])
async def test_bytes_go_both_ways_after_the_head(tmp_path: Path, is_secure: bool) -> None:
    tls = contexts(tmp_path) if is_secure else None
    route = upgrading(echo_lines)
    async with (
        serving(tls=tls.server if tls else None, talk=route) as server,
        peer(server, tls.client if tls else None) as client,
    ):
        client.send(ASK)
        answer = await client.answer()
        assert (answer.status, answer.headers["upgrade"]) == (101, "echo")
        assert not {"content-length", "content-type", "transfer-encoding"} & answer.headers.keys()
        client.send(b"GET ")
        assert await client.reader.readexactly(8) == b"GET GET "
        client.send(b"q")
        assert await client.rest() == b"qq"


async def test_bytes_behind_the_request_belong_to_who_takes_over() -> None:
    async with serving(talk=upgrading(echo_lines)) as server, peer(server) as client:
        client.send(ASK, b"earlyq")
        assert (await client.answer()).status == 101
        assert await client.rest() == b"earlyqearlyq"


async def test_a_slow_reader_stops_the_peer_and_misses_nothing() -> None:
    total = 8_000_000
    gate = asyncio.Event()
    received = bytearray()

    async def slow(stream: RawStream) -> None:
        await gate.wait()
        while data := await stream.read():
            received.extend(data)
            if len(received) == total:
                stream.write(b"done")
                return

    sent = bytes(range(256)) * (total // 256)
    async with serving(talk=upgrading(slow)) as server, peer(server) as client:
        client.send(ASK)
        assert (await client.answer()).status == 101
        client.send(sent)
        await until(lambda: _unread(server) > 100_000)
        gate.set()
        assert await client.rest() == b"done"
    assert bytes(received) == sent


def _unread(server: object) -> int:
    (connection,) = server.connections  # type: ignore[attr-defined]  # an HttpServer
    return len(connection._taken._received)


async def test_writing_waits_for_a_peer_that_reads_slowly() -> None:
    written = 0

    async def pour(stream: RawStream) -> None:
        nonlocal written
        for _ in range(300):
            stream.write(b"x" * 100_000)
            await stream.drain()
            written += 100_000

    async with serving(talk=upgrading(pour)) as server, peer(server) as client:
        client.send(ASK)
        assert (await client.answer()).status == 101
        await until(lambda: written > 0)
        assert written < 30_000_000
        assert len(await client.rest()) == 30_000_000


async def test_a_peer_that_leaves_ends_both_directions() -> None:
    outcome: list[str] = []

    async def talk(stream: RawStream) -> None:
        assert await stream.read() == b""
        with pytest.raises(StreamClosed):
            await stream.drain()
        outcome.append("ended")

    async with serving(talk=upgrading(talk)) as server:
        async with peer(server) as client:
            client.send(ASK)
            assert (await client.answer()).status == 101
        await until(lambda: outcome == ["ended"])


async def test_a_takeover_that_raises_cuts_the_connection_and_nothing_else() -> None:
    async def broken(stream: RawStream) -> None:
        raise ValueError("talk")

    async with serving(talk=upgrading(broken)) as server:
        async with peer(server) as client:
            client.send(ASK)
            assert (await client.answer()).status == 101
            assert await client.rest() == b""
        await until(lambda: not server.connections)


async def test_stopping_the_server_ends_the_reading_and_lets_the_last_word_out() -> None:
    async def talk(stream: RawStream) -> None:
        assert await stream.read() == b""
        stream.write(b"bye")

    async with serving(talk=upgrading(talk)) as server, peer(server) as client:
        client.send(ASK)
        assert (await client.answer()).status == 101
        await server.stop(drain=5.0)
        assert await client.rest() == b"bye"


async def test_all_who_wait_for_a_slow_peer_go_on_when_it_has_caught_up() -> None:
    stream = RawStream(_Nowhere())
    stream.feed_writable(False)
    waiting = [asyncio.ensure_future(stream.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    stream.feed_writable(True)
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)


class _Nowhere:
    """A connection that takes everything."""

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
