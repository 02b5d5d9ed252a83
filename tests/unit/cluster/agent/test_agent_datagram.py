"""Datagrams that are passed on to pods, and what comes back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quarterdeck.cluster.agent.network.datagram import DatagramProxy
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.network.proxy import Backends, Place

HERE = "127.0.0.1"


def free_place() -> Place:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind((HERE, 0))
        host, port = found.getsockname()
        return host, port


class Echo(asyncio.DatagramProtocol):
    """Answers with its name and what it was sent."""

    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, sender: Place) -> None:
        self._transport.sendto(self._name.encode() + b" " + data, sender)


class Client(asyncio.DatagramProtocol):
    """Somebody who sends, from an address of its own."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[str] = asyncio.Queue()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, _sender: Place) -> None:
        self._answers.put_nowait(data.decode())

    async def ask(self, text: str) -> str:
        self.transport.sendto(text.encode())
        async with asyncio.timeout(10):
            return await self._answers.get()


class Stage:
    """A proxy, the pods behind it and the clients before it."""

    def __init__(self, proxy: DatagramProxy) -> None:
        self.proxy = proxy
        self.place = free_place()
        self.open: list[asyncio.BaseTransport] = []

    async def pod(self, name: str) -> Place:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: Echo(name), local_addr=(HERE, 0))
        self.open.append(transport)
        host, port = transport.get_extra_info("sockname")
        return host, port

    async def client(self) -> Client:
        loop = asyncio.get_running_loop()
        transport, made = await loop.create_datagram_endpoint(Client, remote_addr=self.place)
        self.open.append(transport)
        return made

    async def serve(self, *pods: Place, is_sticky: bool = False) -> None:
        await self.proxy.update({self.place: Backends(pods, is_sticky)} if pods else {})


@asynccontextmanager
async def stage(idle_seconds: float = 120.0) -> AsyncIterator[Stage]:
    made = Stage(DatagramProxy(Dialer(), idle_seconds=idle_seconds))
    try:
        yield made
    finally:
        await made.proxy.close()
        for transport in made.open:
            transport.close()


async def test_every_client_has_an_endpoint_of_its_own_and_keeps_it() -> None:
    async with stage() as here:
        await here.serve(await here.pod("a"), await here.pod("b"))
        first, second = await here.client(), await here.client()
        assert [await first.ask("1"), await second.ask("1")] == ["a 1", "b 1"]
        assert [await first.ask("2"), await second.ask("2"), await first.ask("3")] == ["a 2", "b 2", "a 3"]
        assert here.proxy.sessions == 2


async def test_clients_of_one_address_stick_together_where_that_is_wanted() -> None:
    async with stage() as here:
        await here.serve(await here.pod("a"), await here.pod("b"), is_sticky=True)
        assert [await (await here.client()).ask("1") for _ in range(3)] == ["a 1"] * 3


async def test_an_endpoint_that_is_none_any_more_gets_nothing() -> None:
    async with stage() as here:
        gone, left = await here.pod("gone"), await here.pod("left")
        await here.serve(gone, left)
        client = await here.client()
        assert await client.ask("1") == "gone 1"
        await here.serve(left)
        assert await client.ask("2") == "left 2"
        await here.serve()
        assert here.proxy.sessions == 0


async def test_a_session_in_which_nothing_is_sent_ends() -> None:
    async with stage(idle_seconds=0.05) as here:
        await here.serve(await here.pod("a"))
        client = await here.client()
        assert await client.ask("1") == "a 1"
        async with asyncio.timeout(10):
            while here.proxy.sessions:  # noqa: ASYNC110  nobody signals it
                await asyncio.sleep(0.01)
        assert await client.ask("2") == "a 2"


async def test_a_place_that_somebody_has_is_left_alone() -> None:
    async with stage() as here:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(here.place)
            await here.serve(await here.pod("a"))
        assert here.proxy.sessions == 0
