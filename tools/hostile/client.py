"""A small HTTP/1.1 client that sends whatever it is told, right or wrong, and never waits for long.

Not for use by anything but the fuzzer: it follows no redirects, retries only on a stale connection and reads
whole bodies into memory.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

#: an answer that takes longer is a finding
PATIENCE: Final = 30.0
#: how long a socket is read before the wait is given up and called a hang
GIVE_UP: Final = 15.0


@dataclass(frozen=True)
class Request:
    """What to send. kind: the name of the generator; expect: the only right status codes, if known."""

    kind: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    expect: tuple[int, ...] = ()
    note: str = ""

    @property
    def is_write(self) -> bool:
        return self.method in ("POST", "PUT", "PATCH", "DELETE")

    def encode(self, host: str) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + self.body

    def __str__(self) -> str:
        headers = " ".join(f"[{name}: {value[:80]}]" for name, value in self.headers)
        return f"{self.method} {self.path[:300]} {headers} {_short(self.body)}"


def _short(data: bytes) -> str:
    """The beginning, and where it is deep or long, how it goes on."""
    text = re.sub(rb"((.{1,6}?)\2{20,})", rb"\2...", data[:4000], flags=re.DOTALL)
    return repr(text[:400]) + (f" and so on, {len(data)} bytes" if len(data) > 400 else "")


_DEEP: Final = 40_000


@dataclass(frozen=True)
class Response:
    status: int
    content_type: str
    body: bytes
    seconds: float

    def json(self) -> Any:
        # What the server stores may be as deep as it allows, and so its answers.
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEEP)
        try:
            return json.loads(self.body)
        finally:
            sys.setrecursionlimit(before)

    @property
    def message(self) -> str:
        """The message of a Status, or the beginning of what is there instead."""
        # An answer may be as deep as the request was, and Python's reader gives up early.
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            return str(self.json().get("message", ""))
        return self.body[:200].decode(errors="replace")


class Unanswered(Exception):
    """The connection ended, or the time was up, without an answer."""


class Gone(Unanswered):
    """Nobody listens any more: the server has ended."""


class Client:
    """One keep-alive connection to the server of a kubeconfig, and raw connections beside it."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        url = urlsplit(cluster["server"])
        assert url.hostname is not None
        self.address: Final = (url.hostname, url.port or 443)
        self.host: Final = url.netloc
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._anonymous = ssl.create_default_context(cadata=authority)
        self._context = ssl.create_default_context(cadata=authority)
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = Path(directory) / "certificate", Path(directory) / "key"
            for path, field in ((certificate, "client-certificate-data"), (key, "client-key-data")):
                with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                    file.write(base64.b64decode(user[field]))
            self._context.load_cert_chain(certificate, key)
        self._socket: ssl.SSLSocket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, path: str, body: Any = None, accept: str = "application/json") -> Response:
        """A well-formed request with a JSON body, for setting up and for looking."""
        data = b"" if body is None else json.dumps(body).encode()
        headers = (("Accept", accept), ("Content-Type", "application/json"))
        return self.send(Request("call", method, path, headers, data))

    def send(self, request: Request) -> Response:
        """Send and wait for the answer; a connection that went stale in between is opened again once."""
        data = request.encode(self.host)
        for fresh in (False, True):
            if fresh or self._socket is None:
                self.close()
                self._socket = self.connect()
            try:
                return self._exchange(self._socket, request.method, data)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if fresh or isinstance(error, TimeoutError):
                    raise Unanswered(f"{type(error).__name__}: {error}") from error
        raise AssertionError

    def send_anonymously(self, request: Request) -> Response:
        """Send without a client certificate, on a connection of its own."""
        with self.connect(anonymous=True) as connection:
            try:
                return self._exchange(connection, request.method, request.encode(self.host))
            except (OSError, http.client.HTTPException) as error:
                raise Unanswered(f"{type(error).__name__}: {error}") from error

    def send_raw(self, data: bytes, *, half_close: bool, tls: bool = True) -> bytes:
        """Send bytes on a fresh connection and read all there is until the server closes it or is silent."""
        connection = self.connect() if tls else socket.create_connection(self.address, GIVE_UP)
        with connection, contextlib.suppress(ConnectionError, ssl.SSLError, BrokenPipeError):
            connection.settimeout(PATIENCE)
            connection.sendall(data)
            if half_close:
                # The socket below TLS: SSLSocket's own shutdown would read what follows as plain text.
                socket.socket.shutdown(connection, socket.SHUT_WR)
            received = b""
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                connection.settimeout(0.5)
                try:
                    chunk = connection.recv(1 << 16)
                except TimeoutError:
                    break
                if not chunk:
                    break
                received += chunk
            return received
        return b""

    def connect(self, *, anonymous: bool = False) -> ssl.SSLSocket:
        context = self._anonymous if anonymous else self._context
        try:
            plain = socket.create_connection(self.address, GIVE_UP)
        except ConnectionRefusedError as error:
            raise Gone(str(error)) from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return context.wrap_socket(plain, server_hostname=self.address[0])
        except BaseException:
            plain.close()
            raise

    def _exchange(self, connection: ssl.SSLSocket, method: str, data: bytes) -> Response:
        started = time.monotonic()
        connection.settimeout(GIVE_UP)
        # A server may refuse a body before it has read it all; its answer is there to read then.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(data)
        answer = http.client.HTTPResponse(connection, method=method)
        answer.begin()
        body = answer.read()
        if answer.will_close:
            self.close()
        return Response(
            answer.status, answer.headers.get("Content-Type", ""), body, time.monotonic() - started
        )
