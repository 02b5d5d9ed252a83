"""Calling webhooks: HTTPS POST of a review, kept-alive connections, failures in Go's words.

    WebhookError             the call did not give an answer
    ├── ConfigurationFault   it could not even be tried (unreadable caBundle)
    └── CallFault            connect, TLS, status, body or time

A `service` reference is only ever dialled on a loopback address: the embedded server runs no
network, so anything else could reach a stranger. A `url` is called as it stands. This module knows
nothing about what is in a review.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import datetime
import ipaddress
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec
from cryptography import x509

from quarterdeck.wire import gostyle

from .document.decoding import ParseError, parse_yaml

Json = dict[str, Any]
#: (namespace, name, port) -> (address, port) of a ready endpoint, or None
ServiceResolver = Callable[[str, str, int], tuple[str, int] | None]

_MAX_IDLE: Final = 25
_IDLE_SECONDS: Final = 60.0
_MAX_ANSWER: Final = 128 << 20
_MAX_ERROR_TEXT: Final = 2048
_USER_AGENT: Final = b"kube-apiserver-admission"


class WebhookError(Exception):
    """A call without a usable answer; the text says why."""


class ConfigurationFault(WebhookError):
    """The clientConfig cannot be used."""


class CallFault(WebhookError):
    """The endpoint could not be reached or did not answer as it should."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a clientConfig points. Equal endpoints share connections."""

    origin: str
    path: str
    host: str
    port: int
    server_name: str
    ca_bundle: str = ""
    service: tuple[str, str, int] | None = None

    @property
    def pool_key(self) -> tuple[str, str]:
        return (self.origin, self.ca_bundle)

    def url(self, timeout: int) -> str:
        """The address as it is called and shown in errors."""
        return f"{self.origin}{self.path}?timeout={timeout}s"


def endpoint(client_config: Mapping[str, Any]) -> Endpoint:
    """The endpoint of a `clientConfig`, of an admission webhook or of a CRD conversion."""
    bundle = "".join((client_config.get("caBundle") or "").split())
    service = client_config.get("service")
    if service is not None:
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port = service.get("port") or 443
        host = f"{name}.{namespace}.svc"
        return Endpoint(
            origin=f"https://{host}:{port}",
            path=_absolute(service.get("path") or ""),
            host=host,
            port=port,
            server_name=host,
            ca_bundle=bundle,
            service=(namespace, name, port),
        )
    parts = urlsplit(client_config.get("url") or "")
    host = parts.hostname or ""
    return Endpoint(
        origin=f"{parts.scheme}://{parts.netloc}",
        path=_absolute(parts.path),
        host=host,
        port=parts.port or 443,
        server_name=host,
        ca_bundle=bundle,
    )


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


class _Answer(NamedTuple):
    status: int
    content_type: str | None
    body: bytes


class WebhookClient:
    """Connections to all webhook endpoints of one server. Close it when the server stops."""

    def __init__(self, resolve: ServiceResolver | None = None) -> None:
        self._resolve = resolve
        self._idle: dict[tuple[str, str], list[_Connection]] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._open: set[_Connection] = set()

    async def post(self, target: Endpoint, review: bytes, *, timeout: int) -> Any:
        """Send a review and return the decoded answer (any JSON or YAML document).

        Raises ConfigurationFault or CallFault, with the text upstream has for the same failure.
        """
        context = self._context(target)
        url = target.url(timeout)
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(timeout):
                connection = self._take(target)
                if connection is not None:
                    try:
                        answer = await connection.exchange(target, timeout, review)
                    except _Stale:
                        connection = None
                if connection is None:
                    connection = await self._connect(target, context)
                    answer = await connection.exchange(target, timeout, review)
        except TimeoutError as error:
            why = "context deadline exceeded"
            if connection is not None and connection.has_headers:
                raise CallFault(_broken_body(why)) from error
            raise CallFault(f"Post {gostyle.quote(url)}: {why}") from error
        except _Stale as error:
            raise CallFault(f"Post {gostyle.quote(url)}: {error}") from error
        except _Transport as error:
            raise CallFault(f"Post {gostyle.quote(url)}: {error}") from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        finally:
            if connection is not None:
                self._give_back(target, connection)
        return _decode(answer)

    def close(self) -> None:
        """Drop every connection; calls in flight fail."""
        for connection in list(self._open):
            connection.close()
        self._idle.clear()

    def _take(self, target: Endpoint) -> _Connection | None:
        idle = self._idle.get(target.pool_key)
        oldest = time.monotonic() - _IDLE_SECONDS
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    def _give_back(self, target: Endpoint, connection: _Connection) -> None:
        idle = self._idle.setdefault(target.pool_key, [])
        if connection.is_reusable and len(idle) < _MAX_IDLE:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        else:
            connection.close()

    def _context(self, target: Endpoint) -> ssl.SSLContext:
        context = self._contexts.get(target.ca_bundle)
        if context is None:
            context = self._contexts[target.ca_bundle] = _tls_context(target.ca_bundle)
        return context

    async def _connect(self, target: Endpoint, context: ssl.SSLContext) -> _Connection:
        loop = asyncio.get_running_loop()
        failure = "no such host"
        for host, port in await self._addresses(target):
            try:
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._open),
                    host,
                    port,
                    ssl=context,
                    server_hostname=target.server_name,
                )
            except ssl.SSLCertVerificationError as error:
                raise _Transport(await _verification_text(error, host, port)) from error
            except ssl.SSLError as error:
                raise _Transport(_tls_text(error)) from error
            except ConnectionResetError as error:
                raise _Transport("EOF") from error
            except OSError as error:
                failure = f"dial tcp {_join(host, port)}: connect: {_errno_text(error)}"
                continue
            mismatch = connection.name_mismatch(target.server_name)
            if mismatch:
                connection.close()
                raise _Transport(f"tls: failed to verify certificate: x509: {mismatch}")
            return connection
        raise _Transport(failure)

    async def _addresses(self, target: Endpoint) -> list[tuple[str, int]]:
        if target.service is not None:
            return [self._service_address(*target.service)]
        if _is_address(target.host):
            return [(target.host, target.port)]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise _Transport(f"dial tcp: lookup {target.host}: no such host") from error
        return [(str(address[0]), int(address[1])) for _, _, _, _, address in found]

    def _service_address(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        found = self._resolve(namespace, name, port) if self._resolve is not None else None
        if found is None:
            raise _Transport(f"no endpoints available for service {gostyle.quote(name)}")
        if not _is_loopback(found[0]):
            raise _Transport(
                f"service {gostyle.quote(f'{namespace}/{name}')} has no endpoint on a loopback address, "
                f"and the embedded API server calls no other ({_join(*found)})"
            )
        return found


class _Transport(Exception):
    """No HTTP answer; the text follows `Post "<url>": `."""


class _Stale(Exception):
    """A kept connection was closed before any part of an answer: worth one new connection."""


class _Connection(asyncio.Protocol):
    """One HTTP/1.1 connection with one request at a time."""

    def __init__(self, registry: set[_Connection]) -> None:
        self._registry = registry
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[_Answer] | None = None
        self._served = 0
        self._received = False
        self._keep_alive = True
        self._status = 0
        self._content_type: str | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self.has_headers = False
        self.idle_since = 0.0

    # -- use -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self._keep_alive and self._waiter is None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def exchange(self, target: Endpoint, timeout: int, body: bytes) -> _Answer:
        assert self._transport is not None
        assert self._waiter is None
        self._received = self.has_headers = False
        self._waiter = asyncio.get_running_loop().create_future()
        head = (
            b"POST %b?timeout=%ds HTTP/1.1\r\nHost: %b\r\nUser-Agent: %b\r\nContent-Length: %d\r\n"
            b"Accept: application/json, */*\r\nContent-Type: application/json\r\n\r\n"
        )
        host = target.origin.partition("://")[2].encode()
        self._transport.write(head % (target.path.encode(), timeout, host, _USER_AGENT, len(body)) + body)
        try:
            answer = await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None
        self._served += 1
        return answer

    def name_mismatch(self, name: str) -> str:
        """What is wrong with the peer's names, in Go's words; empty when `name` is among them."""
        assert self._transport is not None
        certificate = self._transport.get_extra_info("peercert") or {}
        names = certificate.get("subjectAltName", ())
        hosts = [value for kind, value in names if kind == "DNS"]
        addresses = [value for kind, value in names if kind == "IP Address"]
        if _is_address(name):
            wanted = ipaddress.ip_address(name)
            if any(wanted == ipaddress.ip_address(address.strip()) for address in addresses):
                return ""
        elif any(_matches_host(pattern, name) for pattern in hosts):
            return ""
        common = [
            value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
        ]
        if not names and any(_matches_host(pattern, name) for pattern in common):
            return "certificate relies on legacy Common Name field, use SANs instead"
        if _is_address(name) and not addresses:
            return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
        valid = ", ".join(addresses if _is_address(name) else hosts)
        if not valid:
            return f"certificate is not valid for any names, but wanted to match {name}"
        return f"certificate is valid for {valid}, not {name}"

    # -- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, though they do the same
        self._transport = cast("asyncio.Transport", transport)
        self._registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.discard(self)
        if self._served and not self._received:
            self._fail(_Stale("EOF"))
        elif self.has_headers:
            self._fail(CallFault(_broken_body("unexpected EOF")))
        elif isinstance(exc, ConnectionResetError):
            self._fail(_Transport("read: connection reset by peer"))
        else:
            self._fail(_Transport("EOF"))

    def data_received(self, data: bytes) -> None:
        self._received = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._keep_alive = False
            self._fail(_Transport(f"net/http: HTTP/1.x transport connection broken: {error}"))
            self.close()

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    # -- httptools ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._content_type = None
        self._chunks = []
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._content_type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self.has_headers = self._status >= 200

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > _MAX_ANSWER:
            self._fail(CallFault(_broken_body("the body is too large")))
            self.close()
            return
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        if self._status < 200:
            return
        self._keep_alive = self._parser.should_keep_alive()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(_Answer(self._status, self._content_type, b"".join(self._chunks)))


# -- addresses and TLS ---------------------------------------------------------------------------


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _matches_host(pattern: str, host: str) -> bool:
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        first, _, rest = host.partition(".")
        return bool(first) and rest == pattern[2:]
    return pattern == host


def _tls_context(bundle: str) -> ssl.SSLContext:
    context = ssl.create_default_context() if not bundle else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # `name_mismatch` does it, with Go's texts
    context.verify_mode = ssl.CERT_REQUIRED
    # Go takes every certificate of a bundle as a root and is not strict about extensions
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if sys.version_info >= (3, 13):
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if bundle:
        try:
            context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
        except (ssl.SSLError, ValueError, binascii.Error) as error:
            raise ConfigurationFault(
                "unable to load root certificates: unable to parse bytes as PEM block"
            ) from error
    return context


_EXPIRED: Final = (9, 10)  # OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED


async def _verification_text(error: ssl.SSLCertVerificationError, host: str, port: int) -> str:
    if error.verify_code in _EXPIRED:
        why = f"certificate has expired or is not yet valid: {await _validity_text(host, port)}"
    else:
        why = "certificate signed by unknown authority"
    return f"tls: failed to verify certificate: x509: {why}"


async def _validity_text(host: str, port: int) -> str:
    """How the peer's certificate and the clock disagree; OpenSSL tells only that they do."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
    certificate = x509.load_der_x509_certificate(raw)
    now = datetime.datetime.now(datetime.UTC)
    if now < certificate.not_valid_before_utc:
        return f"current time {_rfc3339(now)} is before {_rfc3339(certificate.not_valid_before_utc)}"
    return f"current time {_rfc3339(now)} is after {_rfc3339(certificate.not_valid_after_utc)}"


def _rfc3339(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _tls_text(error: ssl.SSLError) -> str:
    if error.reason == "WRONG_VERSION_NUMBER":
        return "http: server gave HTTP response to HTTPS client"
    if error.reason and "ALERT" in error.reason:
        return f"remote error: tls: {error.reason.rpartition('ALERT_')[2].replace('_', ' ').lower()}"
    return "EOF" if isinstance(error, ssl.SSLEOFError) else f"tls: {(error.reason or str(error)).lower()}"


def _errno_text(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error).lower()


# -- the answer ----------------------------------------------------------------------------------


def _broken_body(why: str) -> str:
    return f"unexpected error when reading response body. Please retry. Original error: {why}"


_STATUS_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: (
        "the server was unable to return a response in the time allotted, "
        "but may still be processing the request"
    ),
}
_GO_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _decode(answer: _Answer) -> Any:
    media = answer.content_type
    if media is not None and "/" not in media.partition(";")[0]:
        raise CallFault("Internal error occurred: mime: expected slash after first token")
    if not 200 <= answer.status <= 206:
        raise CallFault(_status_text(answer))
    if not answer.body:
        kind = media or "application/json"
        raise CallFault(f"0-length response with status code: {answer.status} and content type: {kind}")
    document = _parse(answer.body)
    if document is not None and not isinstance(document, dict):
        kind = "array" if isinstance(document, list) else "string" if isinstance(document, str) else "number"
        raise CallFault(
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {kind} into Go value of type {_GO_STRUCT}"
        )
    return document


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return parse_yaml(body)
        except ParseError as error:
            raise CallFault(f"couldn't get version/kind; json parse error: {error}") from error


def _status_text(answer: _Answer) -> str:
    """client-go's reading of an error answer: a Status says it itself, text is quoted, the rest guessed."""
    try:
        document = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status" and document.get("message"):
        return str(document["message"])
    is_text = answer.content_type is None or answer.content_type.startswith("text/")
    shown = answer.body[:_MAX_ERROR_TEXT].decode("utf-8", "replace").strip() if is_text else "unknown"
    if answer.status in (403, 415):
        return shown
    if answer.status == 406:
        known = shown not in ("", "unknown")
        return (
            shown
            if known
            else "the server was unable to respond with a content type that the client supports"
        )
    if answer.status in _STATUS_TEXTS:
        return _STATUS_TEXTS[answer.status]
    if answer.status >= 500:
        return f"an error on the server ({gostyle.quote(shown)}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"
