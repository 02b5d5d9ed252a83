"""The HTTP server over TLS: the layer between the socket and the connection."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.wire.http import MIB, Limits, Response, Route

from .httpkit import contexts, echo, peer, serving, until

GET = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_small_and_large_requests_over_every_tls_version(tmp_path: Path, version: Any) -> None:
    tls = contexts(tmp_path)
    tls.client.minimum_version = tls.client.maximum_version = version
    async with (
        serving(tls=tls.server, echo=Route(echo, 10 * MIB)) as server,
        peer(server, tls.client) as client,
    ):
        for size in (0, 5, 5, 16_000, 17_000, 100_000, 5_000_000, 5):
            client.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size)
            assert (await client.answer()).body == f"POST|/echo||{size}|False".encode()


async def test_large_answers_over_tls(tmp_path: Path) -> None:
    body = bytes(range(256)) * 40_000
    tls = contexts(tmp_path)
    async with serving(tls=tls.server, big=Response(200, body)) as server, peer(server, tls.client) as client:
        for _ in range(3):
            client.send(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.answer()).body == body


async def test_pipelined_requests_over_tls_wait_for_their_turn(tmp_path: Path) -> None:
    tls = contexts(tmp_path)
    big = b"x" * 10_000
    async with (
        serving(tls=tls.server, big=Response(200, big), limits=Limits(unsent=20_000)) as server,
        peer(server, tls.client) as client,
    ):
        for _ in range(50):
            client.send(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        for _ in range(5000):
            assert (await client.answer()).body == big


async def test_strangers_and_plain_text_are_refused(tmp_path: Path) -> None:
    tls = contexts(tmp_path)
    async with serving(tls=tls.server, echo=Route(echo)) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            async with peer(server, ssl.create_default_context()):
                pass
        async with peer(server) as client:
            client.send(GET)
            plain = await client.rest()
        assert plain == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        async with peer(server):
            pass
        async with peer(server, tls.client) as client:
            client.send(GET)
            assert (await client.answer()).status == 200


async def test_a_client_that_never_shakes_hands_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarterdeck.wire.http.tls.HANDSHAKE_TIMEOUT", 0.1)
    async with serving(tls=contexts(tmp_path).server) as server, peer(server) as client:
        assert await client.rest() == b""


async def test_closing_says_goodbye_in_tls(tmp_path: Path) -> None:
    tls = contexts(tmp_path)
    async with serving(tls=tls.server, echo=Route(echo)) as server:
        for sent in (LAST, LAST + GET):  # with something left unread, too
            async with peer(server, tls.client) as client:
                client.send(sent)
                assert (await client.reader.read()).endswith(b"GET|/echo||0|False")
        await until(lambda: not server.connections)


async def test_stopping_closes_idle_connections(tmp_path: Path) -> None:
    tls = contexts(tmp_path)
    async with serving(tls=tls.server) as server, peer(server, tls.client) as client:
        await until(lambda: len(server.connections) == 1)
        await server.stop(drain=5.0)
        assert await client.rest() == b""
        assert not server.connections
        assert not server.is_serving
