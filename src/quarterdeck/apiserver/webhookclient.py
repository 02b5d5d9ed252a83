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
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from quarterdeck.errors import ProtocolError, QuarterdeckError, TransportError
from quarterdeck.wire import gostyle
from quarterdeck.wire.http import Answer, ClientConnection, StaleConnection
from quarterdeck.wire.url import clean_path, escape_path

from . import gourl
from .deadline import seconds_left
from .document.decoding import ParseError, parse_yaml
from .webhooktls import BadBundle, is_address, refusal_text, tls_context, trusting_context


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
_LAST_PORT: Final = 65535
_LONGEST_PORT: Final = 100  # digits: more of them are not worth a number
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
    problem: str = ""
    """Why it cannot be called."""

    @property
    def pool_key(self) -> tuple[str, str]:
        return (self.origin, self.ca_bundle)

    def url(self, timeout: int) -> str:
        """The address as it is called and shown in errors."""
        return f"{self.origin}{self.path}?timeout={timeout}s"


def endpoint(client_config: Mapping[str, Any]) -> Endpoint:
    """The endpoint of a `clientConfig`, of an admission webhook or of a CRD conversion.

    Any will do: what is wrong with one shows when it is called.
    """
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
    try:
        url = gourl.parse(client_config.get("url") or "")
    except gourl.UrlError as error:
        return Endpoint(origin="", path="", host="", port=0, server_name="", problem=str(error))
    host, port = _split(url.host)
    return Endpoint(
        origin=f"{url.scheme}://{url.host}",
        path=_as_called(url.path),
        host=host,
        port=port,
        server_name=host,
        ca_bundle=bundle,
    )


def _split(authority: str) -> tuple[str, int]:
    """Host and port of a URL that Go has taken; the port may be one that nobody can have."""
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    return host.removeprefix("[").removesuffix("]"), int(port[:_LONGEST_PORT] or 443)


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
        self._sweeper: asyncio.TimerHandle | None = None

    async def post(self, target: Endpoint, review: bytes, *, timeout: int) -> Any:
        """Send a review and return the decoded answer (any JSON or YAML document).

        Raises ConfigurationFault or CallFault, with the text upstream has for the same failure.
        """
        if target.problem:
            raise ConfigurationFault(target.problem)
        context = self._context(target)
        told = seconds_left(timeout)  # the webhook is told how long anybody will wait
        url = target.url(told)
        request = _render(target, told, review)
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
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._active):
            connection.abort()
        for idle in self._idle.values():
            for connection, _ in idle:
                connection.close()
        self._idle.clear()

    def forget(self, target: Endpoint) -> None:
        """Nothing refers to an endpoint any more: connections to it that nobody uses are closed."""
        for connection, _ in self._idle.pop(target.pool_key, ()):
            connection.close()

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
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody has used for long: the last call to an endpoint leaves its connection idle."""
        self._sweeper = None
        oldest = time.monotonic() - _IDLE_SECONDS
        for key, idle in list(self._idle.items()):
            kept = [each for each in idle if each[1] > oldest]
            for connection, since in idle:
                if since <= oldest:
                    connection.close()
            if kept:
                self._idle[key] = kept
            else:
                del self._idle[key]
        if self._idle:
            self._sweeper = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._sweep)

    def _context(self, target: Endpoint) -> ssl.SSLContext:
        context = self._contexts.get(target.ca_bundle)
        if context is None:
            try:
                context = tls_context(target.ca_bundle)
            except BadBundle as error:
                raise ConfigurationFault(str(error)) from error
            self._contexts[target.ca_bundle] = context
        return context

    async def _connect(self, target: Endpoint, context: ssl.SSLContext) -> ClientConnection:
        loop = asyncio.get_running_loop()
        failure = "no such host"
        for place in await self._places(target):
            try:
                _, connection = await _open(
                    place,
                    lambda: ClientConnection(loop, partial(self._put, target), max_answer=_MAX_ANSWER),
                    context,
                    target.server_name,
                )
            except ssl.SSLCertVerificationError as error:
                fetch = partial(_certificate_of, place, target.server_name)
                raise _Transport(await refusal_text(fetch, target.server_name)) from error
            except ssl.SSLError as error:
                raise _Transport(_tls_text(error)) from error
            except ConnectionResetError as error:
                raise _Transport("EOF") from error
            except OSError as error:
                failure = f"dial tcp {_join(*place[:2])}: connect: {_errno_text(error)}"
                continue
            return connection
        raise _Transport(failure)

    async def _places(self, target: Endpoint) -> list[Place]:
        if target.service is not None:
            return [self._service_place(*target.service)]
        if target.port > _LAST_PORT:
            raise _Transport(f"dial tcp: address {target.port}: invalid port")
        if is_address(target.host):
            return [Place(target.host, target.port)]
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
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


async def _certificate_of(place: Place, server_name: str) -> bytes | None:
    transport, _ = await _open(place, asyncio.Protocol, trusting_context(), server_name)
    try:
        session: ssl.SSLObject = transport.get_extra_info("ssl_object")
        return session.getpeercert(binary_form=True)
    finally:
        transport.close()


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


def _is_loopback(host: str) -> bool:
    return is_address(host) and ipaddress.ip_address(host).is_loopback


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
