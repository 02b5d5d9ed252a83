"""Calling webhooks: HTTPS POST of a review, kept-alive connections, failures in Go's words.

    WebhookError             the call did not give an answer
    ├── ConfigurationFault   it could not even be tried (unreadable caBundle)
    └── CallFault            connect, TLS, status, body or time

A `service` reference is only ever dialled on a loopback address, or through a node of this machine to
one of its pods: the embedded server runs no network, so anything else could reach a stranger. A `url` is
called as it stands. This module knows nothing about what is in a review.
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
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from cryptography import x509

from quarterdeck.errors import ProtocolError, QuarterdeckError, TransportError
from quarterdeck.wire import gostyle
from quarterdeck.wire.http import Answer, ClientConnection, StaleConnection
from quarterdeck.wire.url import clean_path, escape_path

from .document.decoding import ParseError, parse_yaml

Json = dict[str, Any]


class Place(NamedTuple):
    """Where an endpoint is."""

    host: str
    port: int
    dial: Callable[[], Awaitable[socket.socket]] | None = None
    """Opens a connection to it, where it is not this machine's network; raises OSError."""


#: (namespace, name, port) -> a ready endpoint, or None
ServiceResolver = Callable[[str, str, int], Place | tuple[str, int] | None]

_MAX_IDLE: Final = 25
_IDLE_SECONDS: Final = 60.0
_MAX_ANSWER: Final = 128 << 20
_MAX_ERROR_TEXT: Final = 2048
_USER_AGENT: Final = b"kube-apiserver-admission"


class WebhookError(QuarterdeckError):
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
            path=_as_called(service.get("path") or ""),
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
        path=_as_called(unquote(parts.path)),
        host=host,
        port=parts.port or 443,
        server_name=host,
        ca_bundle=bundle,
    )


def _as_called(path: str) -> str:
    """Upstream joins the path to its base: `https://host//validate` is called as `/validate`."""
    return escape_path(clean_path(path))


def _render(target: Endpoint, timeout: int, body: bytes) -> bytes:
    head = (
        b"POST %b?timeout=%ds HTTP/1.1\r\nHost: %b\r\nUser-Agent: %b\r\nContent-Length: %d\r\n"
        b"Accept: application/json, */*\r\nContent-Type: application/json\r\n\r\n"
    )
    host = target.origin.partition("://")[2].encode()
    return head % (target.path.encode(), timeout, host, _USER_AGENT, len(body)) + body


class WebhookClient:
    """Connections to all webhook endpoints of one server. Close it when the server stops."""

    def __init__(self, resolve: ServiceResolver | None = None) -> None:
        self._resolve = resolve
        self._idle: dict[tuple[str, str], list[tuple[ClientConnection, float]]] = {}
        self._active: set[ClientConnection] = set()
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, target: Endpoint, review: bytes, *, timeout: int) -> Any:
        """Send a review and return the decoded answer (any JSON or YAML document).

        Raises ConfigurationFault or CallFault, with the text upstream has for the same failure.
        """
        context = self._context(target)
        url = target.url(timeout)
        request = _render(target, timeout, review)
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(timeout):
                connection = self._take(target)
                answer = None if connection is None else await self._try_kept(connection, request)
                if answer is None:
                    connection = await self._connect(target, context)
                    answer = await self._exchange(connection, request)
        except TimeoutError as error:
            why = "context deadline exceeded"
            if connection is not None and connection.has_head:
                raise CallFault(_broken_body(why)) from error
            raise CallFault(f"Post {gostyle.quote(url)}: {why}") from error
        except _Transport as error:
            raise CallFault(f"Post {gostyle.quote(url)}: {error}") from error
        return _decode(answer)

    async def _try_kept(self, connection: ClientConnection, request: bytes) -> Answer | None:
        """Use a kept connection; None if it was closed before any part of an answer."""
        try:
            return await self._exchange(connection, request)
        except StaleConnection:
            return None

    async def _exchange(self, connection: ClientConnection, request: bytes) -> Answer:
        self._active.add(connection)
        try:
            return await connection.exchange(request, None)
        except StaleConnection:
            raise
        except TransportError as error:
            raise _broken(error, connection) from error
        finally:
            self._active.discard(connection)

    def close(self) -> None:
        """Drop every connection; calls in flight fail."""
        for connection in list(self._active):
            connection.abort()
        for idle in self._idle.values():
            for connection, _ in idle:
                connection.close()
        self._idle.clear()

    def _take(self, target: Endpoint) -> ClientConnection | None:
        idle = self._idle.get(target.pool_key)
        oldest = time.monotonic() - _IDLE_SECONDS
        while idle:
            connection, since = idle.pop()
            if not connection.closed and since > oldest:
                return connection
            connection.close()
        return None

    def _put(self, target: Endpoint, connection: ClientConnection) -> None:
        idle = self._idle.setdefault(target.pool_key, [])
        if len(idle) < _MAX_IDLE:
            idle.append((connection, time.monotonic()))
        else:
            connection.close()

    def _context(self, target: Endpoint) -> ssl.SSLContext:
        context = self._contexts.get(target.ca_bundle)
        if context is None:
            context = self._contexts[target.ca_bundle] = _tls_context(target.ca_bundle)
        return context

    async def _connect(self, target: Endpoint, context: ssl.SSLContext) -> ClientConnection:
        loop = asyncio.get_running_loop()
        failure = "no such host"
        for place in await self._places(target):
            try:
                transport, connection = await _open(
                    place,
                    lambda: ClientConnection(loop, partial(self._put, target), max_answer=_MAX_ANSWER),
                    context,
                    target.server_name,
                )
            except ssl.SSLCertVerificationError as error:
                raise _Transport(await _verification_text(error, place)) from error
            except ssl.SSLError as error:
                raise _Transport(_tls_text(error)) from error
            except ConnectionResetError as error:
                raise _Transport("EOF") from error
            except OSError as error:
                failure = f"dial tcp {_join(*place[:2])}: connect: {_errno_text(error)}"
                continue
            mismatch = _name_mismatch(transport.get_extra_info("peercert") or {}, target.server_name)
            if mismatch:
                connection.close()
                raise _Transport(f"tls: failed to verify certificate: x509: {mismatch}")
            return connection
        raise _Transport(failure)

    async def _places(self, target: Endpoint) -> list[Place]:
        if target.service is not None:
            return [self._service_place(*target.service)]
        if _is_address(target.host):
            return [Place(target.host, target.port)]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise _Transport(f"dial tcp: lookup {target.host}: no such host") from error
        return [Place(str(address[0]), int(address[1])) for _, _, _, _, address in found]

    def _service_place(self, namespace: str, name: str, port: int) -> Place:
        found = self._resolve(namespace, name, port) if self._resolve is not None else None
        if found is None:
            raise _Transport(f"no endpoints available for service {gostyle.quote(name)}")
        place = Place(*found)
        if place.dial is None and not _is_loopback(place.host):
            raise _Transport(
                f"service {gostyle.quote(f'{namespace}/{name}')} has no endpoint on a loopback address, "
                f"and the embedded API server calls no other ({_join(place.host, place.port)})"
            )
        return place


_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)


async def _open(
    place: Place, make: Callable[[], _Protocol], context: ssl.SSLContext, server_name: str | None
) -> tuple[asyncio.BaseTransport, _Protocol]:
    loop = asyncio.get_running_loop()
    if place.dial is None:
        return await loop.create_connection(
            make, place.host, place.port, ssl=context, server_hostname=server_name
        )
    return await loop.create_unix_connection(
        make, sock=await place.dial(), ssl=context, server_hostname=server_name or ""
    )


class _Transport(QuarterdeckError):
    """No HTTP answer; the text follows `Post "<url>": `."""


def _broken(error: TransportError, connection: ClientConnection) -> CallFault | _Transport:
    """What became of an exchange, in the words of Go's client."""
    cause = error.__cause__
    if isinstance(error, ProtocolError):
        if connection.has_head and cause is None:
            return CallFault(_broken_body("the body is too large"))
        return _Transport(f"net/http: HTTP/1.x transport connection broken: {cause or error}")
    if connection.has_head:
        return CallFault(_broken_body("unexpected EOF"))
    return _Transport("read: connection reset by peer" if isinstance(cause, ConnectionResetError) else "EOF")


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


def _name_mismatch(certificate: Mapping[str, Any], name: str) -> str:
    """What is wrong with the peer's names, in Go's words; empty when `name` is among them."""
    names = certificate.get("subjectAltName", ())
    hosts = [value for kind, value in names if kind == "DNS"]
    addresses = [value for kind, value in names if kind == "IP Address"]
    if _is_address(name):
        wanted = ipaddress.ip_address(name)
        if any(wanted == ipaddress.ip_address(address.strip()) for address in addresses):
            return ""
    elif any(_matches_host(pattern, name) for pattern in hosts):
        return ""
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if not names and any(_matches_host(pattern, name) for pattern in common):
        return "certificate relies on legacy Common Name field, use SANs instead"
    if _is_address(name) and not addresses:
        return f"cannot validate certificate for {name} because it doesn't contain any IP SANs"
    valid = ", ".join(addresses if _is_address(name) else hosts)
    if not valid:
        return f"certificate is not valid for any names, but wanted to match {name}"
    return f"certificate is valid for {valid}, not {name}"


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


async def _verification_text(error: ssl.SSLCertVerificationError, place: Place) -> str:
    if error.verify_code in _EXPIRED:
        why = f"certificate has expired or is not yet valid: {await _validity_text(place)}"
    else:
        why = "certificate signed by unknown authority"
    return f"tls: failed to verify certificate: x509: {why}"


async def _validity_text(place: Place) -> str:
    """How the peer's certificate and the clock disagree; OpenSSL tells only that they do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    transport, _ = await _open(place, asyncio.Protocol, context, None)
    try:
        raw = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        transport.close()
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


def _content_type(answer: Answer) -> str | None:
    return next((value for name, value in answer.headers if name.lower() == "content-type"), None)


def _decode(answer: Answer) -> Any:
    media = _content_type(answer)
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


def _status_text(answer: Answer) -> str:
    """client-go's reading of an error answer: a Status says it itself, text is quoted, the rest guessed."""
    try:
        document = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status" and document.get("message"):
        return str(document["message"])
    is_text = (_content_type(answer) or "text/").startswith("text/")
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
