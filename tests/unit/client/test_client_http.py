"""The HTTP transport against a real socket."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import uvloop

from quarterdeck.client import HttpTransport, TlsOptions
from quarterdeck.client.credential import StaticToken
from quarterdeck.client.line import line_batches
from quarterdeck.errors import ConfigError, ConnectError, ProtocolError, ReadTimeout, StreamClosed

from .wireserver import Authority, Seen, WireServer, always, reply, serving


async def test_request_carries_method_path_query_headers_and_body() -> None:
    async with serving(always(201, b'{"a":1}', "X-Answer: yes")) as server:
        transport = HttpTransport(server.url + "/prefix")
        response = await transport.request(
            "POST", "/api/v1/x", query="a=b", headers=(("content-type", "application/json"),), body=b"{}"
        )
        await transport.aclose()
    assert (response.status, response.body, response.header("x-answer")) == (201, b'{"a":1}', "yes")
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.query, seen.body) == ("POST", "/prefix/api/v1/x", "a=b", b"{}")
    assert seen.header("host") == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_look_ups_of_host_names_are_timed(host: str) -> None:
    looked_up: list[tuple[str, float]] = []
    async with serving(always()) as server:
        transport = HttpTransport(
            f"http://{host}:{server.port}", on_resolved=lambda *found: looked_up.append(found)
        )
        for _ in range(2):
            await transport.request("GET", "/")  # the second on the same connection
        await transport.aclose()
    assert server.connections == 1
    assert [name for name, _ in looked_up] == (["localhost"] if host == "localhost" else [])
    assert all(seconds > 0 for _, seconds in looked_up)


async def test_connection_is_kept_alive() -> None:
    async with serving(always()) as server:
        transport = HttpTransport(server.url)
        for _ in range(5):
            await transport.request("GET", "/")
        await transport.aclose()
    assert server.connections == 1


async def test_connection_close_is_honoured() -> None:
    async with serving(always(200, b"{}", "Connection: close")) as server:
        transport = HttpTransport(server.url)
        for _ in range(3):
            await transport.request("GET", "/")
        await transport.aclose()
    assert server.connections == 3


async def test_concurrent_requests_use_connections_of_their_own() -> None:
    gate = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.write(reply())

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        requests = [asyncio.ensure_future(transport.request("GET", "/")) for _ in range(4)]
        await server.requests(4)
        gate.set()
        await asyncio.gather(*requests)
        await transport.aclose()
    assert server.connections == 4


async def test_chunked_answers_are_joined() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b"2\r\nde\r\n0\r\n\r\n")

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        assert (await transport.request("GET", "/")).body == b"abcde"
        assert (await transport.request("GET", "/")).body == b"abcde"
        await transport.aclose()
    assert server.connections == 1


async def test_answer_without_length_ends_with_the_connection() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nrest")
        return False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        assert (await transport.request("GET", "/")).body == b"rest"
        await transport.aclose()


async def test_interim_answers_are_skipped() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(200, b"{}"))

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        assert (await transport.request("GET", "/")).status == 200
        await transport.aclose()


async def closing_after_first(server_seen: list[int]) -> Any:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool | None:
        if seen.connection == 1 and len(server_seen):
            return False
        server_seen.append(1)
        writer.write(reply())
        return None

    return answer


async def test_cold_connection_is_replaced_for_repeatable_methods() -> None:
    async with serving(await closing_after_first([])) as server:
        transport = HttpTransport(server.url)
        await transport.request("GET", "/")
        assert (await transport.request("PUT", "/")).status == 200
        await transport.aclose()
    assert [seen.method for seen in server.seen] == ["GET", "PUT", "PUT"]


async def test_post_is_never_sent_twice() -> None:
    async with serving(await closing_after_first([])) as server:
        transport = HttpTransport(server.url)
        await transport.request("GET", "/")
        with pytest.raises(StreamClosed):
            await transport.request("POST", "/", body=b"{}")
        await transport.aclose()
    assert [seen.method for seen in server.seen] == ["GET", "POST"]


async def test_idle_connection_closed_by_the_server_is_not_used() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool | None:
        writer.write(reply())
        await writer.drain()
        return None if seen.connection > 1 else False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        await transport.request("GET", "/")
        await asyncio.sleep(0.05)
        assert (await transport.request("POST", "/", body=b"x")).status == 200
        await transport.aclose()
    assert server.connections == 2


async def test_half_an_answer_is_an_error() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        return False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(StreamClosed, match="before the answer was complete"):
            await transport.request("GET", "/")
        await transport.aclose()


async def test_garbage_is_a_protocol_error() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        return False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(ProtocolError):
            await transport.request("GET", "/")
        await transport.aclose()


async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def test_slow_answer_times_out_and_drops_the_connection() -> None:
    async with serving(silent) as server:
        transport = HttpTransport(server.url)
        with pytest.raises(ReadTimeout, match=r"no answer within 0\.05s"):
            await transport.request("GET", "/", timeout=0.05)
        with pytest.raises(ReadTimeout):
            await transport.request("GET", "/", timeout=0.05)
        await transport.aclose()
    assert server.connections == 2


async def test_cancelled_request_drops_the_connection() -> None:
    async with serving(silent) as server:
        transport = HttpTransport(server.url)
        task = asyncio.ensure_future(transport.request("GET", "/"))
        await server.requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.answer = always()
        assert (await transport.request("GET", "/")).status == 200
        await transport.aclose()
    assert server.connections == 2


async def test_nobody_listening_is_a_connect_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    transport = HttpTransport(f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectError, match=rf"cannot connect to 127\.0\.0\.1:{port}"):
        await transport.request("GET", "/")
    await transport.aclose()


async def test_closed_transport_refuses_and_fails_what_runs() -> None:
    async with serving(silent) as server:
        transport = HttpTransport(server.url)
        task = asyncio.ensure_future(transport.request("GET", "/"))
        await server.requests(1)
        await transport.aclose()
        with pytest.raises(StreamClosed):
            await task
        with pytest.raises(ConnectError, match="closed"):
            await transport.request("GET", "/")


async def test_header_and_path_injection_is_refused() -> None:
    transport = HttpTransport("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="control character"):
        await transport.request("GET", "/", headers=(("x", "a\r\nb: c"),))
    with pytest.raises(ValueError, match="percent-encoded"):
        await transport.request("GET", "/a b")
    with pytest.raises(ValueError, match="percent-encoded"):
        await transport.request("GET", "/a\r\nb")


@pytest.mark.parametrize("server", ["ftp://x", "https://", "https://host:port"])
def test_bad_server_urls_are_refused(server: str) -> None:
    with pytest.raises(ConfigError):
        HttpTransport(server)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_stream_hands_out_lines_as_they_arrive() -> None:
    proceed = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(b'{"a":1}\n{"b"'))
        await writer.drain()
        await proceed.wait()
        writer.write(chunk(b":2}\n") + b"0\r\n\r\n")

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        stream = await transport.stream("GET", "/")
        batches = []
        async with stream:
            async for batch in line_batches(aiter(stream)):
                batches.append(batch)
                proceed.set()
        assert batches == [[b'{"a":1}'], [b'{"b":2}']]
        assert (await transport.request("GET", "/")).status == 200
        await transport.aclose()
    assert server.connections == 1


async def test_stream_that_breaks_raises() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM_HEAD + chunk(b"x\n"))
        await writer.drain()
        await asyncio.sleep(0.02)
        return False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        stream = await transport.stream("GET", "/")
        assert await anext(aiter(stream)) == b"x\n"
        with pytest.raises(StreamClosed):
            await stream.read()
        await stream.aclose()
        await transport.aclose()


async def test_leaving_a_stream_early_drops_its_connection() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(b"x\n"))
        await writer.drain()
        await asyncio.sleep(60)

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        async with await transport.stream("GET", "/") as stream:
            async for _ in stream:
                break
        server.answer = always()
        assert (await transport.request("GET", "/")).status == 200
        await transport.aclose()
    assert server.connections == 2


async def test_slow_reader_pauses_the_socket() -> None:
    size = 64 * 1024
    sent = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM_HEAD)
        for _ in range(400):
            writer.write(chunk(b"x" * size))
            await writer.drain()
            sent += size
        writer.write(b"0\r\n\r\n")

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        async with await transport.stream("GET", "/") as stream:
            await asyncio.sleep(0.3)
            held = sent
            total = 0
            async for data in stream:
                total += len(data)
        await transport.aclose()
    assert held < 400 * size
    assert total == 400 * size


LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


@LOOPS
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_small_pieces_are_left_to_gather_on_demand(loop: Any, secure: bool, tmp_path: Path) -> None:
    proceed = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(b"first"))
        await proceed.wait()
        for number in range(10):
            writer.write(chunk(b"%d" % number))
            await writer.drain()
            await asyncio.sleep(0.001)
        proceed.clear()
        await proceed.wait()
        writer.write(chunk(b"last") + b"0\r\n\r\n")

    async def read() -> list[bytes]:
        authority = Authority(tmp_path)
        async with serving(answer, authority.server_context() if secure else None) as server:
            transport = HttpTransport(server.url, tls=TlsOptions(ca_data=authority.pem))
            async with await transport.stream("GET", "/") as stream:
                chunks = aiter(stream)
                pieces = [await anext(chunks)]
                stream.gather(0.1)
                proceed.set()
                while len(b"".join(pieces)) < len(b"first0123456789"):
                    pieces.append(await anext(chunks))
                stream.gather(0.0)
                proceed.set()
                pieces += [piece async for piece in chunks]
            # The connection is as good as any other afterwards.
            server.answer = always()
            assert (await transport.request("GET", "/")).status == 200
            assert server.connections == 1
            await transport.aclose()
        return pieces

    with asyncio.Runner(loop_factory=loop) as runner:
        first, *gathered, last = runner.run(read())
    assert (first, b"".join(gathered), last) == (b"first", b"0123456789", b"last")
    assert len(gathered) <= 2  # a TLS transport may have read one record before it noticed the pause


async def test_stream_closed_while_it_gathers_is_told() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM_HEAD + chunk(b"first"))
        await writer.drain()
        return False

    async with serving(answer) as server:
        transport = HttpTransport(server.url)
        async with await transport.stream("GET", "/") as stream:
            chunks = aiter(stream)
            await anext(chunks)
            stream.gather(0.02)
            with pytest.raises(StreamClosed):
                await anext(chunks)
        await transport.aclose()


async def test_line_beyond_the_limit_is_refused() -> None:
    async def endless() -> Any:
        while True:
            yield b"x" * 1000

    with pytest.raises(ProtocolError, match="more than 10000 bytes"):
        async for _ in line_batches(endless(), limit=10000):
            pass


async def test_lines_are_cut_the_same_wherever_chunks_end() -> None:
    text = b"one\n\ntwo\nthree\nfour"
    for size in range(1, len(text) + 1):

        async def cut(size: int = size) -> Any:
            for i in range(0, len(text), size):
                yield text[i : i + size]

        lines = [line async for batch in line_batches(cut()) for line in batch]
        assert lines == [b"one", b"two", b"three", b"four"]


async def secure_get(server: WireServer, **options: Any) -> int:
    transport = HttpTransport(server.url, **options)
    try:
        return (await transport.request("GET", "/")).status
    finally:
        await transport.aclose()


async def test_tls_trusts_exactly_the_given_authority(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path)
    async with serving(always(), authority.server_context()) as server:
        assert await secure_get(server, tls=TlsOptions(ca_data=authority.pem)) == 200
        assert await secure_get(server, tls=TlsOptions(ca_file=str(authority.file))) == 200
        assert await secure_get(server, tls=TlsOptions(insecure=True)) == 200
        with pytest.raises(ConnectError, match="certificate verify failed"):
            await secure_get(server, tls=TlsOptions(ca_data=stranger.pem))
        with pytest.raises(ConnectError, match="certificate verify failed"):
            await secure_get(server)


async def test_tls_server_name_is_verified_instead_of_the_host(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(always(), authority.server_context()) as server:
        assert await secure_get(server, tls=TlsOptions(ca_data=authority.pem, server_name="api.test")) == 200
        with pytest.raises(ConnectError):
            await secure_get(server, tls=TlsOptions(ca_data=authority.pem, server_name="other.test"))


async def test_client_certificate_from_data(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    async with serving(always(), authority.server_context(client_ca=True)) as server:
        options = TlsOptions(ca_data=authority.pem, cert_data=cert, key_data=key)
        assert await secure_get(server, tls=options) == 200


async def test_rotated_authority_file_is_followed(tmp_path: Path) -> None:
    first, second = Authority(tmp_path), Authority(tmp_path)
    trusted = tmp_path / "ca.crt"
    trusted.write_text(second.pem)
    async with serving(always(200, b"{}", "Connection: close"), first.server_context()) as server:
        transport = HttpTransport(server.url, tls=TlsOptions(ca_file=str(trusted)))
        with pytest.raises(ConnectError):
            await transport.request("GET", "/")
        trusted.write_text(first.pem + "\n")
        assert (await transport.request("GET", "/")).status == 200
        await transport.aclose()


async def test_broken_certificates_are_configuration_errors(tmp_path: Path) -> None:
    transport = HttpTransport("https://127.0.0.1:1", tls=TlsOptions(ca_data="nonsense"))
    with pytest.raises(ConfigError, match="certificate authority"):
        await transport.request("GET", "/")
    transport = HttpTransport("https://127.0.0.1:1", tls=TlsOptions(cert_file=str(tmp_path / "none")))
    with pytest.raises(ConfigError, match="client certificate"):
        await transport.request("GET", "/")


async def proxy_answer(target: WireServer, seen: Seen, writer: asyncio.StreamWriter) -> bool:
    if seen.method != "CONNECT" or seen.header("proxy-authorization") != "Basic dTpw":
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        return False
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    reader, onward = await asyncio.open_connection("127.0.0.1", target.port)
    client: asyncio.StreamReader = writer._reader  # type: ignore[attr-defined]

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.close()

    try:
        await asyncio.gather(pump(client, onward), pump(reader, writer), return_exceptions=True)
    finally:
        onward.close()
    return False


async def test_requests_go_through_a_proxy(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(always(), authority.server_context()) as target:

        async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
            return await proxy_answer(target, seen, writer)

        async with serving(answer) as proxy:
            tls = TlsOptions(ca_data=authority.pem)
            assert await secure_get(target, tls=tls, proxy=f"http://u:p@127.0.0.1:{proxy.port}") == 200
            assert proxy.seen[0].path == f"127.0.0.1:{target.port}"
            with pytest.raises(ConnectError, match="407"):
                await secure_get(target, tls=tls, proxy=f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(ConfigError, match="use an http:// proxy"):
        HttpTransport("https://x", proxy="socks5://y")


@LOOPS
def test_plain_requests_go_through_a_proxy(loop: Any) -> None:
    async def get() -> int:
        async with serving(always()) as target:

            async def answer(seen: Seen, writer: asyncio.StreamWriter) -> bool:
                return await proxy_answer(target, seen, writer)

            async with serving(answer) as proxy:
                return await secure_get(target, proxy=f"http://u:p@127.0.0.1:{proxy.port}")

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(get()) == 200


class Rotating(StaticToken):
    """A token that is right on the second try."""

    def __init__(self) -> None:
        super().__init__("old")
        self.refreshed = 0

    async def refresh(self) -> bool:
        self.refreshed += 1
        self._headers = (("authorization", "Bearer new"),)
        return self.refreshed == 1


async def test_unauthorized_is_answered_once_with_fresh_credentials() -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        good = seen.header("authorization") == "Bearer new"
        writer.write(reply(200 if good else 401))

    async with serving(answer) as server:
        credential = Rotating()
        transport = HttpTransport(server.url, credential=credential)
        assert (await transport.request("POST", "/", body=b"{}")).status == 200
        await transport.aclose()
        assert len(server.seen) == 2
        transport = HttpTransport(server.url, credential=Rotating())
        async with await transport.stream("GET", "/") as stream:
            assert stream.status == 200
        await transport.aclose()
        hopeless = HttpTransport(server.url, credential=StaticToken("never"))
        assert (await hopeless.request("GET", "/")).status == 401
        await hopeless.aclose()
