"""URLs, parsed with Go's rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.library.network import AddressError, parse_address
from quarterdeck.cel.type.celtype import BOOL, STRING, list_type, map_type, object_type
from quarterdeck.cel.value.value import Opaque
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gostyle import quote

URL: Final = object_type("kubernetes.URL")

_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_ALNUM: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_UNRESERVED: Final = _ALNUM | frozenset(b"-_.~")
_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_FRAGMENT: Final = _UNRESERVED | frozenset(b"$&+,/:;=?@!()*")
_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_PATH_ALSO: Final = frozenset(b"!$&'()*+,;=:@[]%")
_USER: Final = _UNRESERVED | frozenset(b":!$&'()*+,;=%@")


class UrlError(QuarterdeckError, ValueError):
    """Text that is no URL, in the words of Go's net/url."""


class UrlValue(Opaque):
    """A parsed URL."""

    __slots__ = ("escaped_path", "host", "query", "scheme", "text")
    type_name: ClassVar[str] = "kubernetes.URL"

    def __init__(self, scheme: str, host: str, escaped_path: str, query: str, text: str) -> None:
        self.scheme = scheme
        self.host = host
        self.escaped_path = escaped_path
        self.query = query
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlValue) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def _unescape(text: str, mode: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    result = bytearray()
    at = 0
    while at < len(data):
        c = data[at]
        if c == 0x25:
            pair = data[at + 1 : at + 3]
            escape = data[at : at + 3].decode("utf-8", "replace")
            if len(pair) < 2 or not (pair[0] in _HEX and pair[1] in _HEX):
                raise UrlError(f"invalid URL escape {quote(escape)}")
            value = int(pair, 16)
            if mode == "host" and value < 0x80 and escape != "%25":
                raise UrlError(f"invalid URL escape {quote(escape)}")
            if mode == "zone" and escape != "%25" and value != 0x20 and value not in _HOST:
                raise UrlError(f"invalid URL escape {quote(escape)}")
            result.append(value)
            at += 3
            continue
        if mode in ("host", "zone") and c < 0x80 and c not in _HOST:
            raise UrlError(f"invalid character {quote(chr(c))} in host name")
        result.append(0x20 if c == 0x2B and mode == "query" else c)
        at += 1
    return bytes(result)


def _escape(data: bytes, allowed: frozenset[int]) -> str:
    return "".join(chr(c) if c in allowed else f"%{c:02X}" for c in data)


def _scheme(text: str) -> tuple[str, str]:
    for at, c in enumerate(text):
        if c.isascii() and c.isalpha():
            continue
        if c in "0123456789+-.":
            if at == 0:
                return "", text
        elif c == ":":
            if at == 0:
                raise UrlError("missing protocol scheme")
            return text[:at], text[at + 1 :]
        else:
            return "", text
    return "", text


def _valid_port(port: str) -> bool:
    return port == "" or (port[0] == ":" and all("0" <= c <= "9" for c in port[1:]))


def _host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        raise UrlError("invalid IP-literal")
    if opening == 0:
        return _ip_literal(host)
    first = host.find(":")
    if first >= 0:
        port = host[first:] if scheme in ("http", "https") else host[host.rfind(":") :]
        if not _valid_port(port):
            raise UrlError(f"invalid port {quote(port)} after host")
    return _unescape(host, "host").decode("utf-8", "replace")


def _ip_literal(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    port = host[closing + 1 :]
    if not _valid_port(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    inner = host[1:closing]
    zone = inner.find("%25")
    if zone >= 0:
        name = _unescape(inner[:zone], "host") + _unescape(inner[zone:], "zone")
    else:
        name = _unescape(inner, "host")
    text = name.decode("utf-8", "replace")
    try:
        address, _ = parse_address(text)
    except AddressError as problem:
        raise UrlError(f"invalid host: {problem}") from problem
    if address.version == 4:
        raise UrlError("invalid IP-literal")
    return f"[{text}]{port}"


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    """Printed user information and the host."""
    user, at, rest = authority.rpartition("@")
    host = _host(scheme, rest)
    if not at:
        return "", host
    if any(c not in _USER for c in user.encode("utf-8", "surrogatepass")):
        raise UrlError("net/url: invalid userinfo")
    for part in user.split(":", 1):
        _unescape(part, "user")
    return user + "@", host


def parse_url(text: str, *, via_request: bool) -> UrlValue:
    """url.ParseRequestURI (`via_request`) or url.Parse; UrlError with the inner message."""
    fragment = ""
    if not via_request:
        text, _, fragment = text.partition("#")
    if any(c < " " or c == "\x7f" for c in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and via_request:
        raise UrlError("empty url")
    if text == "*":
        return UrlValue("", "", "*", "", "*")
    scheme, rest = _scheme(text)
    scheme = scheme.lower()
    rest, mark, query = rest.partition("?")
    tail = mark + query if mark else ""
    if fragment:
        tail += "#" + _escape(_unescape(fragment, "fragment"), _FRAGMENT)
    if not rest.startswith("/"):
        if scheme:
            return UrlValue(scheme, "", "", query, f"{scheme}:{rest}{tail}")
        if via_request:
            raise UrlError("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    user = host = ""
    has_host = (scheme or (not via_request and not rest.startswith("///"))) and rest.startswith("//")
    if has_host:
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    path_bytes = _unescape(rest, "path")
    raw_ok = all(c in _PATH or c in _PATH_ALSO for c in rest.encode("utf-8", "surrogatepass"))
    path = rest if raw_ok else _escape(path_bytes, _PATH)
    lead = f"{scheme}:" if scheme else ""
    shown_host = (
        f"//{user}{_escape(host.encode('utf-8', 'surrogatepass'), _HOST)}"
        if has_host and (host or user or path)
        else ""
    )
    return UrlValue(scheme, host, path, query, f"{lead}{shown_host}{path}{tail}")


def _checked(text: str) -> UrlValue:
    parse_url(text, via_request=True)
    return parse_url(text, via_request=False)


def request_problem(text: str) -> str | None:
    """Why a text is no absolute URL or path, as url.ParseRequestURI words it."""
    try:
        parse_url(text, via_request=True)
    except UrlError as problem:
        return f"parse {quote(text)}: {problem}"
    return None


def to_url(text: str) -> UrlValue:
    """`url(text)`."""
    try:
        return _checked(text)
    except UrlError as problem:
        raise EvalError(
            f"URL parse error during conversion from string: parse {quote(text)}: {problem}"
        ) from problem


def _split_port(host: str) -> tuple[str, str]:
    colon = host.rfind(":")
    port = ""
    if colon >= 0 and _valid_port(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def _query(url: UrlValue) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for part in url.query.split("&"):
        if not part or ";" in part:
            continue
        name, _, value = part.partition("=")
        try:
            key = _unescape(name, "query").decode("utf-8", "replace")
            item = _unescape(value, "query").decode("utf-8", "replace")
        except UrlError:
            continue
        result.setdefault(key, []).append(item)
    return result


def functions() -> Iterable[Function]:
    """All functions of the library."""
    yield Function("url", [Overload("string_to_url", [STRING], URL, to_url)])
    yield Function("isURL", [Overload("is_url_string", [STRING], BOOL, lambda s: request_problem(s) is None)])
    for name, id, read in (
        ("getScheme", "url_get_scheme", lambda u: u.scheme),
        ("getHost", "url_get_host", lambda u: u.host),
        ("getHostname", "url_get_hostname", lambda u: _split_port(u.host)[0]),
        ("getPort", "url_get_port", lambda u: _split_port(u.host)[1]),
        ("getEscapedPath", "url_get_escaped_path", lambda u: u.escaped_path),
    ):
        yield Function(name, [Overload(id, [URL], STRING, read, is_member=True)])
    query = map_type(STRING, list_type(STRING))
    yield Function("getQuery", [Overload("url_get_query", [URL], query, _query, is_member=True)])
