"""Many exchanges on one connection to a server of the same program."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Namespace
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.inprocess import Headers
from quarterdeck.apiserver.link import LinkServer
from quarterdeck.client import Client, HttpTransport, LinkTransport
from quarterdeck.errors import AlreadyExists, ConnectError, NotFound, ReadTimeout, StreamClosed
from quarterdeck.wire.link import link_path


class Slow:
    """A server that answers when it is told to."""

    def __init__(self) -> None:
        self.go, self.is_asked = asyncio.Event(), asyncio.Event()
        self.asked: list[str] = []

    async def exchange(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        self.asked.append(path)
        if path == "/slow":
            self.is_asked.set()
            await self.go.wait()
        return 200, [("x-path", path)], body


@asynccontextmanager
async def slow_link() -> AsyncIterator[tuple[Slow, LinkServer, LinkTransport]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "server.link")
        slow = Slow()
        server = LinkServer(slow)
        await server.start(path)
        transport = LinkTransport(path, HttpTransport("http://localhost", socket_path="/none"))
        try:
            yield slow, server, transport
        finally:
            await transport.aclose()
            await server.stop(drain=0.0)


async def test_a_client_speaks_to_the_server_as_over_http() -> None:
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory, "apiserver.sock")
        async with ApiServer(ServerOptions()) as server:
            await server.listen_privately(socket)
            streams = HttpTransport("http://localhost", socket_path=str(socket))
            client = Client.over(LinkTransport(link_path(socket), streams))
            large = {"text": "x" * 300_000}
            maps = [
                ConfigMap(metadata=ObjectMeta(name=f"map-{number}", namespace="default"), data=large)
                for number in range(20)
            ]
            await asyncio.gather(*map(client.create, maps))
            with pytest.raises(AlreadyExists):
                await client.create(maps[0])
            with pytest.raises(NotFound):
                await client.get(Namespace, "nowhere")
            found = await client.list(ConfigMap, namespace="default")
            assert sum(each.data == large for each in found) == 20
            async with client.watch(ConfigMap, namespace="default") as events:
                async for event in events:
                    assert event
                    break
            await client.aclose()


async def test_a_slow_answer_keeps_nobody_waiting() -> None:
    async with slow_link() as (slow, _, transport):
        waiting = asyncio.create_task(transport.request("POST", "/slow", body=b"first"))
        quick = await asyncio.gather(*(transport.request("POST", f"/{n}", body=b"%d" % n) for n in range(50)))
        assert [each.body for each in quick] == [b"%d" % n for n in range(50)]
        assert not waiting.done()
        slow.go.set()
        answer = await waiting
        assert (answer.status, answer.body, answer.header("X-Path")) == (200, b"first", "/slow")


async def test_an_exchange_that_is_given_up_disturbs_no_other() -> None:
    async with slow_link() as (slow, _, transport):
        waiting = asyncio.create_task(transport.request("GET", "/slow"))
        await slow.is_asked.wait()
        waiting.cancel()
        slow.go.set()
        assert (await transport.request("GET", "/after")).status == 200


async def test_an_exchange_ends_in_time() -> None:
    async with slow_link() as (slow, _, transport):
        with pytest.raises(ReadTimeout):
            await transport.request("GET", "/slow", timeout=0.01)
        assert slow.asked == ["/slow"]


async def test_running_exchanges_fail_when_the_connection_does() -> None:
    async with slow_link() as (slow, server, transport):
        waiting = asyncio.create_task(transport.request("GET", "/slow"))
        await slow.is_asked.wait()
        await server.stop(drain=0.0)
        with pytest.raises(StreamClosed):
            await waiting
        with pytest.raises(ConnectError):
            await transport.request("GET", "/again")
