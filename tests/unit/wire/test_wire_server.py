"""The HTTP server: framing, limits, order, and what a client may get wrong."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from quarterdeck.wire.http import (
    KIB,
    MIB,
    ChunkWriter,
    Connection,
    HttpServer,
    Limits,
    Request,
    Response,
    Route,
    frame,
    text,
)

from .httpkit import Peer, echo, peer, serving, until

HEAD = b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
GET = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def bodies(server: HttpServer, *pieces: bytes) -> list[bytes]:
    """The bodies of all answers to pieces that arrive one by one, and to a last request."""
    async with peer(server) as client:
        await client.send_apart(*pieces, LAST)
        answer = await client.rest()
    found = [part.split(b"\r\n\r\n", 1)[1] for part in answer.split(b"HTTP/1.1 ") if b"\r\n\r\n" in part]
    assert found.pop() == b"GET|/echo||0|False"
    return found


async def refusal(server: HttpServer, *pieces: bytes) -> bytes:
    """Everything that is answered to what is no request."""
    async with peer(server) as client:
        with suppress(ConnectionError):
            await client.send_apart(*pieces)
        return await client.rest()


# heads and bodies


async def test_a_known_head_is_answered_like_a_new_one_however_it_is_cut() -> None:
    async with serving() as server:
        expected = b"POST|/echo|q=1|5|False"
        whole = HEAD + b"hello"
        assert await bodies(server, whole, whole, whole) == [expected] * 3
        for cut in (1, 10, len(HEAD) - 2, len(HEAD), len(HEAD) + 2):
            assert await bodies(server, whole, whole[:cut], whole[cut:], whole) == [expected] * 3, cut
        assert await bodies(server, whole + whole, whole) == [expected] * 3
        assert await bodies(server, whole + HEAD, b"hello", whole) == [expected] * 3


async def test_a_known_head_after_a_stray_beginning_is_no_request() -> None:
    async with serving() as server:
        assert await bodies(server, HEAD + b"hello")
        answer = await refusal(server, b"PO", HEAD + b"hello")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request")
        assert b"q=1" not in answer


async def test_requests_of_all_sizes_share_a_head_and_no_length_is_believed_twice() -> None:
    async with serving() as server:
        head = b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n"
        sizes = (5, 0, 17, 999, 5)
        answers = await bodies(server, *(head % str(size).encode() + b"x" * size for size in sizes))
        assert answers == [f"POST|/echo|q=1|{size}|False".encode() for size in sizes]
        for hostile in (
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\ncontent-length: 7\r\nContent-Length: 5\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
            b"POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\nhello",
        ):
            assert b"|5|" not in await refusal(server, hostile), hostile
        lower = b"POST /echo HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\n"
        assert await bodies(server, lower + b"hello", lower + b"hello") == [b"POST|/echo||5|False"] * 2


async def test_bodies_above_the_limit_are_thrown_away_and_the_handler_is_told() -> None:
    async with serving() as server:
        for _ in range(2):  # the second time the head is known
            big = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001
            assert await bodies(server, big, HEAD + b"hello") == [
                b"POST|/echo||0|True",
                b"POST|/echo|q=1|5|False",
            ]
        fits = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
        assert await bodies(server, fits) == [b"POST|/echo||1000|False"]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_far_above_the_limit_costs_the_connection_but_not_the_answer(is_chunked: bool) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\n"
    data = b"x" * MIB
    if is_chunked:
        sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + frame(data) + b"0\r\n\r\n"
    else:
        sent = head + b"Content-Length: %d\r\n\r\n" % len(data) + data
    async with serving(limits=Limits(discard=KIB)) as server, peer(server) as client:
        client.send(sent, LAST)
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST|/echo||0|True", "close")
        assert await client.rest() == b""


async def test_chunked_bodies_and_expect_continue() -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked = head + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    async with serving() as server:
        expected = [b"POST|/echo||7|False"] * 2
        assert await bodies(server, chunked, chunked) == expected
        assert await bodies(server, chunked + chunked) == expected
        for cut in range(len(head) - 1, len(chunked)):
            assert await bodies(server, chunked[:cut], chunked[cut:] + chunked) == expected, cut
        lines = head + b"8\r\n\r\n\r\n\r\n\r\n\r\n2\r\n\r\n\r\n0\r\n\r\n"
        assert await bodies(server, lines + lines) == [b"POST|/echo||10|False"] * 2
        asking = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        async with peer(server) as client:
            client.send(asking)
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"abc")
            assert (await client.answer()).body == b"POST|/echo||3|False"


async def test_trailers_are_no_headers() -> None:
    seen: list[dict[str, str]] = []

    def note(request: Request) -> Response:
        seen.append(dict(request.headers))
        return Response(200)

    async with serving(note=Route(note)) as server, peer(server) as client:
        client.send(
            b"POST /note HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-User\r\n\r\n",
            b"1\r\na\r\n0\r\nX-User: root\r\nHost: y\r\n\r\n",
            b"GET /note HTTP/1.1\r\nHost: x\r\n\r\n",
        )
        for _ in range(2):
            assert (await client.answer()).status == 200
    assert [headers.get("x-user") for headers in seen] == [None, None]
    assert [headers["host"] for headers in seen] == ["x", "x"]


@pytest.mark.parametrize(
    "tail", [b"1;" + b"e" * 100_000, b"0\r\nX-T: " + b"t" * 100_000], ids=["extension", "trailer"]
)
async def test_a_body_that_is_all_framing_is_refused(tail: bytes) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as server:
        answer = await refusal(server, head + tail)
        assert answer.startswith(b"HTTP/1.1 400 Bad Request: chunked encoding contains too much non-data\r\n")


# what Go's server says


@pytest.mark.parametrize(
    ("sent", "line", "body"),
    [
        (
            b"GET /echo HTTP/1.1\r\n\r\n",
            "400 Bad Request: missing required Host header",
            "400 Bad Request: missing required Host header",
        ),
        (b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (
            b"GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n",
            "400 Bad Request: malformed Host header",
            "400 Bad Request: malformed Host header",
        ),
        (
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "501 Not Implemented",
            "Unsupported transfer encoding",
        ),
        (
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            "501 Not Implemented",
            "Unsupported transfer encoding",
        ),
        (
            b"GET /echo HTTP/9.9\r\nHost: a\r\n\r\n",
            "505 HTTP Version Not Supported: unsupported protocol version",
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
        (b"GET echo HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"GET /echo HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"GET /echo HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"\r\n\r\nGET /echo HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"GET /echo\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "400 Bad Request", "400 Bad Request"),
        (b"GET /echo HTTP/1.1\nHost: a\n\n", "400 Bad Request", "400 Bad Request"),
        (
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            "400 Bad Request",
            "400 Bad Request",
        ),
        (
            b"GET /echo HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 300_000,
            "431 Request Header Fields Too Large",
            "431 Request Header Fields Too Large",
        ),
        (
            b"GET /echo HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 60_000 + b"\r\n",
            "431 Request Header Fields Too Large",
            "431 Request Header Fields Too Large",
        ),
    ],
)
async def test_what_is_not_http_is_refused_in_gos_words_and_the_server_goes_on(
    sent: bytes, line: str, body: str
) -> None:
    async with serving(limits=Limits(head=256 * KIB)) as server:
        answer = (await refusal(server, sent)).decode()
        rest = "Content-Type: text/plain; charset=utf-8\r\nConnection: close"
        assert answer == f"HTTP/1.1 {line}\r\n{rest}\r\n\r\n{body}"
        assert await bodies(server, HEAD + b"hello") == [b"POST|/echo|q=1|5|False"]


async def test_an_answer_to_head_has_the_length_of_its_body_and_no_body() -> None:
    async with serving(echo=Route(echo), parts=Route(parts)) as server, peer(server) as client:
        for path in (b"/echo", b"/parts"):
            client.send(b"HEAD %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            answer = await client.answer(has_body=False)
            assert int(answer.headers["content-length"]) > 0
        client.send(LAST)
        assert (await client.answer()).body == b"GET|/echo||0|False"
        assert await client.rest() == b""


def parts(request: Request) -> Response:
    return Response(200, parts=(b"a" * 700, b"b" * 2_000_000, b"c"))


async def test_answers_without_a_body_do_not_speak_of_one() -> None:
    async with serving(none=Response(204), same=Response(304)) as server, peer(server) as client:
        for path in (b"/none", b"/same"):
            client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            answer = await client.answer()
            assert not {"content-length", "content-type", "transfer-encoding"} & answer.headers.keys()


async def test_a_connection_closes_behind_the_request_that_asks_for_it() -> None:
    async with serving() as server, peer(server) as client:
        client.send(GET, LAST, GET)
        first, second = await client.answer(), await client.answer()
        assert "connection" not in first.headers
        assert second.headers["connection"] == "close"
        assert await client.rest() == b""


async def test_an_old_client_is_answered_in_its_version() -> None:
    async with (
        serving(echo=Route(echo), count=Route(lambda _: Response(200, stream=Count(3)))) as server,
        peer(server) as client,
    ):
        client.send(b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = await client.answer()
        assert (answer.version, answer.headers["connection"]) == ("HTTP/1.0", "keep-alive")
        client.send(b"GET /count HTTP/1.0\r\n\r\n")
        answer = await client.answer()
        assert answer.version == "HTTP/1.0"
        assert not {"connection", "content-length", "transfer-encoding"} & answer.headers.keys()
        assert await client.rest() == b"0\n1\n2\n"


async def test_a_wish_to_upgrade_that_nobody_grants_is_an_ordinary_request() -> None:
    async with serving() as server, peer(server) as client:
        client.send(
            b"GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", LAST
        )
        for _ in range(2):
            assert (await client.answer()).body == b"GET|/echo||0|False"
        assert await client.rest() == b""


async def test_a_target_with_a_host_is_its_path() -> None:
    async with serving() as server, peer(server) as client:
        client.send(b"GET http://elsewhere/echo?a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer()).body == b"GET|/echo|a|0|False"


# refused by its head


async def test_a_body_is_not_read_for_those_who_are_refused() -> None:
    async with serving(closed=text(401, "no")) as server:
        head = b"POST /closed HTTP/1.1\r\nHost: x\r\n"
        async with peer(server) as client:  # a small one is thrown away, and the connection lives
            client.send(head, b"Content-Length: 5\r\n\r\nhello", GET)
            assert [(await client.answer()).status for _ in range(2)] == [401, 404]
        async with peer(server) as client:  # of a large one not a byte is waited for
            client.send(head, b"Content-Length: 300000\r\n\r\n")
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (401, "close")
            assert await client.rest() == b""
        async with peer(server) as client:  # nor for one that is asked about
            client.send(head, b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (401, "close")
        async with peer(server) as client:
            client.send(head, b"Transfer-Encoding: chunked\r\n\r\n", frame(b"x" * 200_000) * 2)
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (401, "close")


# one at a time


async def test_pipelined_requests_are_answered_one_at_a_time_and_in_order() -> None:
    running = 0
    most = 0

    async def slow(request: Request) -> Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return text(200, request.raw_query)

    async with (
        serving(slow=Route(slow), quick=Route(lambda r: text(200, r.raw_query))) as server,
        peer(server) as client,
    ):
        paths = [b"slow" if number % 3 else b"quick" for number in range(60)]
        for number, path in enumerate(paths):
            client.send(b"GET /%b?%d HTTP/1.1\r\nHost: x\r\n\r\n" % (path, number))
        assert [int((await client.answer()).body) for _ in paths] == list(range(60))
    assert most == 1


async def test_nothing_is_handled_for_a_peer_that_does_not_read() -> None:
    served = 0

    def big(request: Request) -> Response:
        nonlocal served
        served += 1
        return Response(200, b"x" * 100_000)

    async with serving(big=Route(big), limits=Limits(unsent=100_000)) as server, peer(server) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's
        for _ in range(20):
            client.send(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        async with peer(server) as other:
            seen = -1
            while seen != served:  # until no more is done
                seen = served
                for _ in range(50):
                    other.send(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert (await other.answer()).status == 404
        assert served < 200  # what the sockets of both ends take
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket's
        for _ in range(2000):
            assert len((await client.answer()).body) == 100_000
    assert served == 2000


async def test_a_handler_that_raises_is_a_500_and_the_connection_lives_on() -> None:
    def broken(request: Request) -> Response:
        raise ValueError("sync")

    async def broken_later(request: Request) -> Response:
        await asyncio.sleep(0)
        raise ValueError("async")

    routes: dict[str, Any] = {"sync": Route(broken), "later": Route(broken_later), "echo": Route(echo)}
    async with serving(**routes) as server, peer(server) as client:
        for path in (b"/sync", b"/later"):
            client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            answer = await client.answer()
            assert (answer.status, answer.body) == (500, b"500 internal server error\n")
        client.send(GET)
        assert (await client.answer()).status == 200


async def test_a_client_that_leaves_does_not_disturb() -> None:
    entered, left = asyncio.Event(), asyncio.Event()
    ended = 0

    async def slow(request: Request) -> Response:
        nonlocal ended
        entered.set()
        await left.wait()
        ended += 1
        return Response(200, b"{}")

    async with serving(slow=Route(slow)) as server:
        async with peer(server) as client:
            client.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            await entered.wait()
        left.set()
        await until(lambda: not server.connections and not server.tasks)
    assert ended == 1


async def test_large_answers_arrive_whole() -> None:
    body = bytes(range(256)) * 20_000
    answers: dict[str, Any] = {"big": Response(200, body), "parts": Response(200, parts=(body, b"x", body))}
    async with serving(**answers) as server, peer(server) as client:
        for path, expected in (("big", body), ("parts", body + b"x" + body)):
            client.send(f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (await client.answer()).body == expected


# streams


class Count:
    """Pushes so many lines and ends."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self.is_closed = False

    def start(self, writer: ChunkWriter) -> None:
        for number in range(self._lines):
            writer.write_framed(frame(b"%d\n" % number))
        writer.finish()

    def closed(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class Endless(Count):
    def start(self, writer: ChunkWriter) -> None:
        writer.write(b"first\n")


async def test_a_stream_that_ends_leaves_the_connection_usable() -> None:
    stream = Count(3)
    async with (
        serving(count=Response(200, stream=stream), echo=Route(echo)) as server,
        peer(server) as client,
    ):
        client.send(b"GET /count HTTP/1.1\r\nHost: x\r\n\r\n", GET)
        assert (await client.answer()).body == b"0\n1\n2\n"
        assert (await client.answer()).body == b"GET|/echo||0|False"
    assert stream.is_closed


async def test_a_stream_hears_of_its_reader_leaving() -> None:
    stream = Endless(0)
    async with serving(endless=Response(200, stream=stream)) as server:
        async with peer(server) as client:
            client.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.reader.readuntil(b"first\n")
        await until(lambda: stream.is_closed)


async def test_a_stream_ends_cleanly_when_the_server_stops() -> None:
    stream = Endless(0)
    async with serving(endless=Response(200, stream=stream)) as server, peer(server) as client:
        client.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.readuntil(b"first\n")
        await server.stop(drain=1.0)
        assert await client.rest() == b"\r\n0\r\n\r\n"
    assert stream.is_closed


async def test_head_of_a_stream_is_a_head() -> None:
    stream = Count(3)
    async with (
        serving(count=Response(200, stream=stream), echo=Route(echo)) as server,
        peer(server) as client,
    ):
        client.send(b"HEAD /count HTTP/1.1\r\nHost: x\r\n\r\n", GET)
        assert (await client.answer(has_body=False)).status == 200
        assert (await client.answer()).body == b"GET|/echo||0|False"
    assert stream.is_closed


# time


async def test_connections_are_overdue_when_they_are_idle_or_slow_to_send() -> None:
    gate = asyncio.Event()

    async def slow(request: Request) -> Response:
        await gate.wait()
        return Response(200)

    limits = Limits(idle=100.0, head_time=10.0)
    async with serving(slow=Route(slow), limits=limits) as server, peer(server) as client:
        await until(lambda: len(server.connections) == 1)
        (connection,) = server.connections
        now = asyncio.get_running_loop().time()
        assert not connection.is_overdue(now + 90)
        assert connection.is_overdue(now + 120)
        await _send_and_wait(client, b"POST /slow HTTP/1.1\r\nHost", connection, now + 50, is_overdue=True)
        rest = b": x\r\nContent-Length: 5\r\n\r\nhe"
        await _send_and_wait(client, rest, connection, now + 50, is_overdue=False)
        assert connection.is_overdue(now + 120)
        await _send_and_wait(client, b"llo", connection, now + 1e9, is_overdue=False)
        gate.set()
        assert (await client.answer()).status == 200
        await until(lambda: connection.is_overdue(now + 120))


async def _send_and_wait(
    client: Peer, data: bytes, connection: Connection, moment: float, *, is_overdue: bool
) -> None:
    client.send(data)
    await until(lambda: connection.is_overdue(moment) is is_overdue)


async def test_the_server_drops_what_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.wire.http.server.SWEEP_PERIOD", 0.01)
    async with serving(limits=Limits(idle=0.0)) as server, peer(server) as client:
        assert await client.rest() == b""
        await until(lambda: not server.connections)


@pytest.mark.parametrize("ends_with_peer", [True, False])
async def test_a_handler_goes_on_without_its_peer_only_if_it_is_to(ends_with_peer: bool) -> None:
    asked, go_on, outcome = asyncio.Event(), asyncio.Event(), ""

    async def work(request: Request) -> Response:
        nonlocal outcome
        asked.set()
        try:
            await go_on.wait()
            outcome = "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        return Response(200)

    async with serving(work=Route(work)) as server:
        server.ends_with_peer = ends_with_peer
        async with peer(server) as client:
            client.send(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n")
            await asked.wait()
        await until(lambda: not server.connections)
        go_on.set()
        await until(lambda: bool(outcome))
    assert outcome == ("cancelled" if ends_with_peer else "done")


class Patient(Count):
    """Writes a lot, but only while the reader takes it."""

    def start(self, writer: ChunkWriter) -> None:
        self.most = 0
        self._task = asyncio.get_running_loop().create_task(self._write(writer))

    async def _write(self, writer: ChunkWriter) -> None:
        for _ in range(self._lines):
            await writer.drain()
            writer.write(b"x" * 10_000)
            self.most = max(self.most, writer.buffered())
        writer.finish()


async def test_a_stream_can_wait_for_its_reader() -> None:
    stream = Patient(2_000)
    async with (
        serving(count=Response(200, stream=stream), echo=Route(echo)) as server,
        peer(server) as client,
    ):
        client.send(b"GET /count HTTP/1.1\r\nHost: x\r\n\r\n", GET)
        await asyncio.sleep(0.1)
        assert len((await client.answer()).body) == 20_000_000
        assert (await client.answer()).body == b"GET|/echo||0|False"
    assert stream.most < 100 * KIB


async def test_a_stream_that_waits_for_its_reader_hears_of_its_leaving() -> None:
    stream = Patient(1_000_000)
    async with serving(count=Response(200, stream=stream)) as server:
        async with peer(server) as client:
            client.send(b"GET /count HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.reader.readuntil(b"xxx")
        await until(lambda: stream.is_closed)
        stream._task.cancel()
        await asyncio.wait([stream._task])
