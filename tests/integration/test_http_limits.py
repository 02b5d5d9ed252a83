"""What one connection can do to the server: nothing that others would notice, and nothing that Go's server
would not do, too. Everything here comes over a socket, as the server has it, and looks at the server's
process from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.client import Client
from kube.server import is_built
from parity import server

MIB = 1 << 20
GROWTH = 5 * MIB
"""What any of these may cost."""
#: seconds of work that others may have to wait for
SHARE = 0.1
PATIENCE = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[server.Embedded]:
    """A server of its own: whatever happens to it must not spoil other tests."""
    with server.embedded() as embedded:
        client = Client(embedded.kubeconfig)
        for _ in range(200):  # memory that any use of the server takes is taken before
            assert client.call("GET", "/version").status == 200
        _fill(client)
        for _ in range(10):
            assert len(client.call("GET", LARGE).body) > 900_000
        client.close()
        yield embedded


@pytest.fixture
def client(running: server.Embedded) -> Iterator[Client]:
    client = Client(running.kubeconfig)
    yield client
    client.close()


LARGE = "/api/v1/namespaces/default/configmaps"
"""A list of nearly a megabyte."""


def _fill(client: Client) -> None:
    for number in range(10):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 90_000}}
        assert client.call("POST", LARGE, body).status == 201


class Peak:
    """The most memory a process has had since this was made."""

    def __init__(self, pid: int) -> None:
        self._path = Path(f"/proc/{pid}")
        (self._path / "clear_refs").write_text("5")
        self._before = self._read()

    def _read(self) -> int:
        lines = (self._path / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    @property
    def growth(self) -> int:
        return self._read() - self._before


def _worked(pid: int) -> float:
    """Seconds that a process has worked; unlike those of a clock, they do not pass while others work."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def _longest_wait(client: Client, pid: int, requests: int) -> float:
    """How long, in its own work, the server lets an ordinary client wait at most."""
    longest = 0.0
    for _ in range(requests):
        before = _worked(pid)
        assert client.call("GET", "/api/v1/namespaces/default").status == 200
        longest = max(longest, _worked(pid) - before)
    return longest


class Flood:
    """Sends to a server without reading, until everything is sent or somebody has seen enough."""

    def __init__(self, connection: ssl.SSLSocket, data: bytes) -> None:
        self._connection = connection
        self._data = data
        self._enough = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._enough.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        self._connection.setblocking(False)
        view = memoryview(self._data)
        while self.sent < len(view) and not self._enough.is_set():
            try:
                self.sent += self._connection.send(view[self.sent : self.sent + 65536])
            except ssl.SSLWantWriteError:
                select.select([], [self._connection], [], 0.05)
            except ssl.SSLWantReadError:
                select.select([self._connection], [], [], 0.05)
            except OSError:
                return


# memory, and other people's time


def test_a_header_without_end_is_refused_while_it_is_read(running: server.Embedded, client: Client) -> None:
    peak = Peak(running.pid)
    piece = b"y" * 65536
    sent = 0
    answer = b""
    with client.connect(anonymous=True) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Long: ")
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            while sent < 100 * MIB and not answer:
                connection.sendall(piece)
                sent += len(piece)
                answer = _what_is_there(connection)
        answer += _until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answer.endswith(b"\r\n\r\n431 Request Header Fields Too Large")
    assert sent < 100 * MIB
    assert peak.growth <= GROWTH
    assert client.call("GET", "/version").status == 200


def test_a_million_requests_of_a_stranger_who_reads_nothing_are_not_kept(
    running: server.Embedded, client: Client
) -> None:
    request = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    data = request * (15 * MIB // len(request))
    assert client.call("GET", "/version").status == 200
    peak = Peak(running.pid)
    with Flood(client.connect(anonymous=True), data) as flood:
        assert _longest_wait(client, running.pid, 200) <= SHARE
        assert 0 < flood.sent < len(data)
        assert peak.growth <= GROWTH


def test_large_answers_are_not_made_for_one_who_reads_nothing(
    running: server.Embedded, client: Client
) -> None:
    request = f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert len(client.call("GET", LARGE).body) > 900_000
    peak = Peak(running.pid)
    with Flood(client.connect(), request * (66_000 // len(request))) as flood:
        assert _longest_wait(client, running.pid, 200) <= SHARE
        assert flood.sent > 0
        assert peak.growth <= GROWTH


def test_who_sends_everything_first_gets_every_answer_in_order(client: Client) -> None:
    paths = [f"{LARGE}/large-{number % 10}" for number in range(200)]
    with client.connect() as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths))
        with connection.makefile("rb") as file:
            for path in paths:
                length = 0
                while line := file.readline().strip():
                    if line.lower().startswith(b"content-length: "):
                        length = int(line.split()[1])
                assert json.loads(file.read(length))["metadata"]["name"] == path.rpartition("/")[2]


def test_the_bodies_of_strangers_are_not_kept(running: server.Embedded, client: Client) -> None:
    head = f"POST {LARGE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    counted = f"{head}Content-Length: 3000000\r\n\r\n".encode()
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n100000\r\n".encode()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(client.connect(anonymous=True)) for _ in range(20)]
        peak = Peak(running.pid)
        for connection, start in zip(connections, (counted, chunked) * 10, strict=True):
            connection.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                connection.sendall(start + b"x" * 900_000)
        for connection in connections:
            answer = http.client.HTTPResponse(connection, method="POST")
            answer.begin()
            assert (answer.status, answer.getheader("Connection")) == (401, "close")
            assert json.loads(answer.read())["reason"] == "Unauthorized"
        assert peak.growth <= GROWTH


def test_a_small_body_of_a_stranger_does_not_cost_the_connection(client: Client) -> None:
    request = f"POST {LARGE} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    with client.connect(anonymous=True) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(request * 2 + b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = _until_closed(connection)
    assert answers.count(b"HTTP/1.1 401 Unauthorized\r\n") == 2
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 1


# as kube-apiserver does it


@pytest.fixture(
    params=[
        "embedded",
        pytest.param(
            "real",
            marks=[
                pytest.mark.kube,
                pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
            ],
        ),
    ]
)
def either(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The embedded server, and the real one that it is to behave as."""
    kubeconfig = (
        request.getfixturevalue("running").kubeconfig
        if request.param == "embedded"
        else request.getfixturevalue("real_server")
    )
    client = Client(kubeconfig)
    yield client
    client.close()


def _until_closed(connection: ssl.SSLSocket) -> bytes:
    received = bytearray()
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        while part := connection.recv(65536):
            received += part
    return bytes(received)


def _what_is_there(connection: ssl.SSLSocket) -> bytes:
    connection.setblocking(False)
    try:
        return connection.recv(65536)
    except ssl.SSLWantReadError:
        return b""
    finally:
        connection.settimeout(PATIENCE)


def _talk(client: Client, data: bytes) -> bytes:
    """Everything that is answered until the server closes the connection."""
    with client.connect() as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(data)
        return _until_closed(connection)


GET = b"GET /healthz HTTP/1.1\r\n"
POST = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "line", "body"),
    [
        (
            GET + b"\r\n",
            "400 Bad Request: missing required Host header",
            "400 Bad Request: missing required Host header",
        ),
        (GET + b"Host: x\r\nHost: x\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (
            GET + b"Host: x y\r\n\r\n",
            "400 Bad Request: malformed Host header",
            "400 Bad Request: malformed Host header",
        ),
        (
            POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501 Not Implemented",
            "Unsupported transfer encoding",
        ),
        (
            POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "501 Not Implemented",
            "Unsupported transfer encoding",
        ),
        (POST + b"Content-Length: -1\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (
            b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n",
            "505 HTTP Version Not Supported: unsupported protocol version",
            "505 HTTP Version Not Supported: unsupported protocol version",
        ),
        (b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request", "400 Bad Request"),
        (GET + b"Host: x\r\nX: a\x01b\r\n\r\n", "400 Bad Request", "400 Bad Request"),
    ],
    ids=[
        "no host",
        "two hosts",
        "bad host",
        "gzip, chunked",
        "chunked twice",
        "negative length",
        "version",
        "escape",
        "relative",
        "control character",
    ],
)
def test_what_is_no_request_is_refused(either: Client, data: bytes, line: str, body: str) -> None:
    assert _talk(either, data + LAST).decode() == (
        f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{body}"
    )


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (GET + b"Host: x\r\n\r\n" + LAST, ["ok", "ok"]),
        (GET + b"Host: x\r\nConnection: close\r\n\r\n" + LAST, ["ok"]),
        (GET + b"Host: x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n" + LAST, ["ok"]),
        (GET + b"Host: x\r\nTE: gzip, chunked\r\n\r\n" + LAST, ["ok", "ok"]),
        (GET + b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + LAST, ["ok", "ok"]),
        (b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + LAST, ["", "ok"]),
        (b"HEAD /nothing HTTP/1.1\r\nHost: x\r\n\r\n" + LAST, ["", "ok"]),
        (b"HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n" + LAST, ["", "ok"]),
        (GET + b"Host: x\r\nContent-Length: 3\r\n\r\nabc" + LAST, ["ok", "ok"]),
        (b"GET http://y/healthz HTTP/1.1\r\nHost: x\r\n\r\n" + LAST, ["ok", "ok"]),
        (b"GET /healthz HTTP/1.0\r\n\r\n" + LAST, ["ok"]),
        (b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + LAST, ["ok", "ok"]),
    ],
    ids=[
        "pipelined",
        "close",
        "close beside keep-alive",
        "TE",
        "upgrade",
        "HEAD",
        "HEAD of nothing",
        "HEAD that may not be",
        "GET with a body",
        "absolute",
        "1.0",
        "1.0 kept alive",
    ],
)
def test_each_request_gets_its_answer_and_no_other(either: Client, data: bytes, answers: list[str]) -> None:
    found = _talk(either, data).decode().split("HTTP/1.")[1:]
    assert [each.partition("\r\n\r\n")[2] for each in found] == answers
    if data.startswith(b"HEAD"):
        assert "\r\nContent-Length: 0\r\n" not in found[0]
        assert "\r\nContent-Length: " in found[0]
    assert all("Transfer-Encoding" not in each for each in found)


def test_a_trailer_is_no_header(either: Client) -> None:
    answer = _talk(
        either,
        b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n"
        b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: somebody-else\r\n\r\n",
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 201 Created")
    user = json.loads(body)["status"]["userInfo"]
    assert user["username"] != "somebody-else"
    assert "system:masters" in user["groups"]


def test_a_body_a_little_too_large_keeps_the_connection_and_one_far_too_large_does_not(
    either: Client,
) -> None:
    def post(size: int) -> bytes:
        return POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size

    little = _talk(either, post(3 * MIB + 1000) + LAST)
    assert [little.count(status) for status in (b" 413 Request Entity Too Large", b" 200 OK")] == [1, 1]
    with either.connect() as connection:
        connection.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(post(5 * MIB) + LAST)
        far = _until_closed(connection)
    assert [far.count(status) for status in (b" 413 Request Entity Too Large", b" 200 OK")] == [1, 0]
    assert b"\r\nConnection: close\r\n" in far


def test_one_who_asks_before_sending_a_body_is_told(either: Client) -> None:
    asking = POST + b"Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
    with either.connect() as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(asking + b"Connection: close\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert _until_closed(connection).startswith(b"HTTP/1.1 422 Unprocessable Entity\r\n")
    with either.connect(anonymous=True) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(asking + b"\r\n")
        answer = _until_closed(connection)
        assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        assert b"\r\nConnection: close\r\n" in answer
    with either.connect() as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(POST + b"Content-Length: 2\r\nExpect: the unexpected\r\n\r\n{}")
        assert _until_closed(connection).startswith(b"HTTP/1.1 417 Expectation Failed\r\n")


def test_an_old_client_may_watch(either: Client) -> None:
    answer = _talk(either, b"GET /api/v1/namespaces?watch=1&timeoutSeconds=1 HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"Transfer-Encoding" not in head
    assert {json.loads(line)["type"] for line in body.splitlines()} == {"ADDED"}
