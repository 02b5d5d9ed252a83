"""A plain HTTP/1.1 client for whatever server a kubeconfig names.

It sends what it is told and nothing more: no default headers, no retries of answered requests, no
following of redirects. One `Connection` belongs to one thread and is kept alive between requests.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

Json = dict[str, Any]


class WireError(Exception):
    """No answer: refused, dropped, or not in time."""


class Answer(msgspec.Struct, frozen=True):
    """What the server sent back."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; raises ValueError when it is not JSON."""
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Target(msgspec.Struct, frozen=True):
    """The server of a kubeconfig and the credentials to use."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = {}
    prefix: str = ""

    def connect(self, timeout: float = 60.0) -> Connection:
        return Connection(self, timeout)


def load_kubeconfig(path: Path) -> Target:
    """The current context's server and user; client certificates, tokens and basic auth."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(config, "contexts", "context", config.get("current-context", ""))
    cluster = _named(config, "clusters", "cluster", context.get("cluster", ""))
    user = _named(config, "users", "user", context.get("user", ""))
    url = urlsplit(cluster["server"])
    secure = url.scheme == "https"
    return Target(
        host=url.hostname or "127.0.0.1",
        port=url.port or (443 if secure else 80),
        tls=_tls(cluster, user, path.parent) if secure else None,
        headers=_credentials(user, path.parent),
        prefix=url.path.rstrip("/"),
    )


def _named(config: Json, section: str, key: str, name: str) -> Json:
    entries: list[Json] = config.get(section) or []
    for entry in entries:
        if entry.get("name") == name:
            found: Json = entry.get(key) or {}
            return found
    if len(entries) == 1:
        only: Json = entries[0].get(key) or {}
        return only
    raise ValueError(f"kubeconfig: nothing named {name!r} in {section}")


def _tls(cluster: Json, user: Json, base: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", base)
    context = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _data(user, "client-certificate", base)
    key = _data(user, "client-key", base)
    if certificate is not None and key is not None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # ssl reads key pairs from files only
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _data(entry: Json, name: str, base: Path) -> bytes | None:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return (base / entry[name]).read_bytes() if name in entry else None


def _credentials(user: Json, base: Path) -> dict[str, str]:
    if "token" in user:
        return {"Authorization": f"Bearer {user['token']}"}
    if "tokenFile" in user:
        return {"Authorization": f"Bearer {(base / user['tokenFile']).read_text().strip()}"}
    if "username" in user:
        pair = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


class Connection:
    """One kept-alive connection; reconnects when the server closed it while idle."""

    def __init__(self, target: Target, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._http: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send one request and read the whole answer.

        Raises WireError when there is none.
        """
        sent = {**self._target.headers, **(headers or {})}
        reused = self._http is not None
        try:
            return self._exchange(method, path, body, sent, timeout)
        except (ConnectionError, http.client.HTTPException, OSError) as error:
            self.close()
            if not reused or isinstance(error, TimeoutError):
                raise WireError(f"no answer: {type(error).__name__}: {error}") from error
        try:
            return self._exchange(method, path, body, sent, timeout)
        except (ConnectionError, http.client.HTTPException, OSError) as error:
            self.close()
            raise WireError(f"no answer: {type(error).__name__}: {error}") from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float | None
    ) -> Answer:
        connection = self._http = self._http or self._open()
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(timeout or self._timeout)
        connection.putrequest(method, self._target.prefix + path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        answer = Answer(response.status, response.getheaders(), response.read())
        if response.will_close:
            self.close()
        return answer

    def _open(self) -> http.client.HTTPConnection:
        target = self._target
        if target.tls is None:
            return http.client.HTTPConnection(target.host, target.port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            target.host, target.port, timeout=self._timeout, context=target.tls
        )
