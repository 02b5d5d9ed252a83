"""The HTTP server under webhooks and probes: framing, limits, order, and what a client may get wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from servicekit import Authority, Web, until

from quarterdeck.runtime.certificate import KeyPair, ServingContext
from quarterdeck.wire.http import HttpServer, Request, Response, Route, text


def echo(request: Request) -> Response:
    parts = [request.method, request.path, request.query, str(len(request.body)), str(request.is_too_large)]
    return text(200, "|".join(parts))


@asynccontextmanager
async def serving(**routes: Route) -> AsyncIterator[HttpServer]:
    known = {f"/{name}": route for name, route in routes.items()} or {"/echo": Route(echo, 1000)}
    server = HttpServer(known.get)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop(drain=1.0)


async def raw(server: HttpServer, *chunks: bytes, pause: float = 0.01) -> bytes:
    """Send pieces one by one, then read until the server closes or is silent."""
    reader, writer = await asyncio.open_connection(*server.address)
    for chunk in chunks:
        writer.write(chunk)
        await asyncio.sleep(pause)
    answer = b""
    try:
        async with asyncio.timeout(0.2):
            while part := await reader.read(65536):
                answer += part
    except TimeoutError:
        pass
    writer.transport.abort()
    await asyncio.sleep(0)
    return answer


def bodies(answer: bytes) -> list[bytes]:
    return [part.split(b"\r\n\r\n", 1)[1] for part in answer.split(b"HTTP/1.1 ") if b"\r\n\r\n" in part]


HEAD = b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"


async def test_a_known_head_is_answered_like_a_new_one_however_it_is_cut() -> None:
    async with serving() as server:
        expected = b"POST|/echo|q=1|5|False"
        whole = HEAD + b"hello"
        assert bodies(await raw(server, whole, whole, whole)) == [expected] * 3
        for cut in (1, 10, len(HEAD) - 2, len(HEAD), len(HEAD) + 2):
            assert bodies(await raw(server, whole, whole[:cut], whole[cut:], whole)) == [expected] * 3, cut
        assert bodies(await raw(server, whole + whole, whole)) == [expected] * 3
        assert bodies(await raw(server, whole + HEAD, b"hello", whole)) == [expected] * 3


async def test_a_known_head_after_a_stray_beginning_is_no_request() -> None:
    async with serving() as server:
        await raw(server, HEAD + b"hello")
        answer = await raw(server, b"PO", HEAD + b"hello")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request")
        assert b"q=1" not in answer


async def test_requests_of_all_sizes_share_a_head_and_no_length_is_believed_twice() -> None:
    async with serving() as server:
        head = b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n"
        sizes = (5, 0, 17, 999, 5)
        answer = await raw(server, *(head % str(size).encode() + b"x" * size for size in sizes))
        assert bodies(answer) == [f"POST|/echo|q=1|{size}|False".encode() for size in sizes]
        for hostile in (
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\ncontent-length: 7\r\nContent-Length: 5\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\nhello",
        ):
            assert not [body for body in bodies(await raw(server, hostile)) if b"|5|" in body], hostile
        lower = b"POST /echo HTTP/1.1\r\ncontent-length: 5\r\n\r\n"
        assert bodies(await raw(server, lower + b"hello", lower + b"hello")) == [b"POST|/echo||5|False"] * 2


async def test_bodies_above_the_limit_are_thrown_away_and_the_handler_is_told() -> None:
    async with serving() as server:
        for _ in range(2):  # the second time the head is known
            big = b"POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001
            assert bodies(await raw(server, big, HEAD + b"hello")) == [
                b"POST|/echo||0|True",
                b"POST|/echo|q=1|5|False",
            ]
        fits = b"POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
        assert bodies(await raw(server, fits)) == [b"POST|/echo||1000|False"]


async def test_chunked_bodies_and_expect_continue() -> None:
    async with serving() as server:
        chunked = (
            b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
        )
        assert bodies(await raw(server, chunked, chunked)) == [b"POST|/echo||7|False"] * 2
        asking = b"POST /echo HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        answer = await raw(server, asking, b"abc")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def test_the_connection_closes_when_the_client_wants_it() -> None:
    async with serving() as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        assert b"Connection: close\r\n" in answer
        assert answer.endswith(b"GET|/echo||0|False")
        writer.close()
        old = await raw(server, b"GET /echo HTTP/1.0\r\n\r\n")
        assert old.endswith(b"GET|/echo||0|False")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused_and_the_server_goes_on(garbage: bytes) -> None:
    async with serving() as server:
        answer = await raw(server, garbage)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 Bad Request")
        assert bodies(await raw(server, HEAD + b"hello")) == [b"POST|/echo|q=1|5|False"]


async def test_a_handler_that_raises_is_a_500_and_the_connection_lives_on() -> None:
    def broken(request: Request) -> Response:
        raise ValueError("sync")

    async def broken_later(request: Request) -> Response:
        await asyncio.sleep(0)
        raise ValueError("async")

    async with serving(sync=Route(broken), later=Route(broken_later), echo=Route(echo)) as server:
        web = await Web.connect(server.address[1], None)
        for path in ("/sync", "/later"):
            assert await web.send("GET", path) == (500, b"500 internal server error\n")
        assert (await web.send("GET", "/echo"))[0] == 200
        await web.close()


async def test_a_client_that_leaves_does_not_disturb() -> None:
    entered = asyncio.Event()

    async def slow(request: Request) -> Response:
        entered.set()
        await asyncio.sleep(0.1)
        return Response(200, b"{}")

    async with serving(slow=Route(slow)) as server:
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n" * 3)
        await entered.wait()
        writer.transport.abort()
        await until(lambda: server.open_connections == 0)
        await asyncio.sleep(0.15)


async def test_large_answers_arrive_whole() -> None:
    body = bytes(range(256)) * 20_000

    async with serving(big=Route(lambda request: Response(200, body))) as server:
        web = await Web.connect(server.address[1], None)
        assert await web.send("GET", "/big") == (200, body)
        await web.close()


# -- TLS ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def secure(tmp_path: Path, **routes: Route) -> AsyncIterator[tuple[HttpServer, Authority]]:
    authority = Authority()
    authority.issue(tmp_path)
    context = ServingContext()
    context.replace(KeyPair((tmp_path / "tls.crt").read_bytes(), (tmp_path / "tls.key").read_bytes()))
    known = {f"/{name}": route for name, route in routes.items()} or {"/echo": Route(echo, 10_000_000)}
    server = HttpServer(known.get)
    await server.start("127.0.0.1", 0, context.ssl)
    try:
        yield server, authority
    finally:
        await server.stop(drain=1.0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_small_and_large_requests_over_every_tls_version(tmp_path: Path, version: Any) -> None:
    async with secure(tmp_path) as (server, authority):
        context = authority.client_context()
        context.minimum_version = context.maximum_version = version
        web = await Web.connect(server.address[1], context)
        for size in (0, 5, 5, 16_000, 17_000, 100_000, 5_000_000, 5):
            status, answer = await web.send("POST", "/echo", b"x" * size)
            assert (status, answer) == (200, f"POST|/echo||{size}|False".encode())
        await web.close()


async def test_large_answers_over_tls(tmp_path: Path) -> None:
    body = bytes(range(256)) * 40_000

    async with secure(tmp_path, big=Route(lambda request: Response(200, body))) as (server, authority):
        web = await Web.connect(server.address[1], authority.client_context())
        for _ in range(3):
            assert await web.send("GET", "/big") == (200, body)
        await web.close()


async def test_old_versions_wrong_authorities_and_plain_text_are_refused(tmp_path: Path) -> None:
    async with secure(tmp_path) as (server, authority):
        stranger = Authority("stranger").client_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            await Web.connect(server.address[1], stranger)
        plain = await raw(server, b"GET /echo HTTP/1.1\r\n\r\n")
        assert b"200 OK" not in plain
        reader, writer = await asyncio.open_connection(*server.address)
        writer.close()
        await writer.wait_closed()
        del reader
        web = await Web.connect(server.address[1], authority.client_context())
        assert (await web.send("GET", "/echo"))[0] == 200
        await web.close()


async def test_a_client_that_never_shakes_hands_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.runtime.webhook.tls.HANDSHAKE_TIMEOUT", 0.1)
    async with secure(tmp_path) as (server, _):
        reader, writer = await asyncio.open_connection(*server.address)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.transport.abort()
        await asyncio.sleep(0)


async def test_closing_says_goodbye_in_tls(tmp_path: Path) -> None:
    async with secure(tmp_path) as (server, authority):
        reader, writer = await asyncio.open_connection(
            *server.address, ssl=authority.client_context(), server_hostname="localhost"
        )
        writer.write(b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"GET|/echo||0|False")
        writer.close()
        await writer.wait_closed()
        await until(lambda: server.open_connections == 0)


async def test_stopping_closes_idle_connections(tmp_path: Path) -> None:
    async with secure(tmp_path) as (server, authority):
        reader, writer = await asyncio.open_connection(
            *server.address, ssl=authority.client_context(), server_hostname="localhost"
        )
        await until(lambda: server.open_connections == 1)
        await server.stop(drain=5.0)
        assert await reader.read() == b""
        assert server.open_connections == 0
        assert not server.is_serving
        writer.close()


@pytest.mark.virtual_time
async def test_idle_connections_are_dropped_after_a_while() -> None:
    from quarterdeck.runtime.webhook.connection import HeadCache, HttpConnection

    class Transport:
        is_aborted = False

        def write(self, data: bytes) -> None: ...
        def is_closing(self) -> bool:
            return False

        def abort(self) -> None:
            self.is_aborted = True

    server = HttpServer({"/echo": Route(echo)}.get)
    await server.start("127.0.0.1", 0)
    idle, busy = Transport(), Transport()
    connections: Any = server._connections
    one = HttpConnection(server._find, connections, server._tasks, HeadCache())
    two = HttpConnection(server._find, connections, server._tasks, HeadCache())
    one.attach(idle)  # type: ignore[arg-type]  # only what is used
    two.attach(busy)  # type: ignore[arg-type]  # only what is used
    for _ in range(5):
        await asyncio.sleep(60)
        two.data_received(HEAD + b"hello")
    assert idle.is_aborted
    assert not busy.is_aborted
    for each in (one, two):
        each.connection_lost(None)
    await server.stop()
