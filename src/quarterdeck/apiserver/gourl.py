"""URLs as Go's net/url reads them, with its error texts."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gostyle import quote

_HOST_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,;=:[]<>\""
)
_scheme = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_userinfo = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_port = re.compile(r"(:[0-9]*)?", re.ASCII)


class UrlError(QuarterdeckError, ValueError):
    """Why a text is no URL, in Go's words (`parse "x": ...`)."""


class Url(msgspec.Struct, frozen=True):
    scheme: str = ""
    #: None: no user information at all
    user: str | None = None
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""


def is_request_uri(text: str) -> bool:
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True


def parse(text: str) -> Url:
    """`url.Parse`. Raises UrlError."""
    before, _, fragment = text.partition("#")
    try:
        return msgspec.structs.replace(_parse(before, request=False), fragment=_unescape(fragment))
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def parse_request_uri(text: str) -> Url:
    """`url.ParseRequestURI`: absolute, and `#` is no delimiter. Raises UrlError."""
    try:
        return _parse(text, request=True)
    except UrlError as error:
        raise UrlError(f"parse {quote(text)}: {error}") from None


def _parse(text: str, *, request: bool) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise UrlError("empty url")
    if text == "*":
        return Url(path="*")
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    match = _scheme.match(text)
    scheme = match[1].lower() if match else ""
    rest, _, query = (text[match.end() :] if match else text).partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme=scheme, query=query)
        if request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    user: str | None = None
    host = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    return Url(scheme=scheme, user=user, host=host, path=_unescape(rest), query=query)


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _userinfo.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    _unescape(user)
    return user, host


def _host(scheme: str, host: str) -> str:
    if host.rfind("[") > 0:
        raise UrlError("invalid IP-literal")
    if host.startswith("["):
        return _ip_literal(host)
    colon = host.find(":")
    if colon >= 0:
        if scheme not in ("http", "https"):
            colon = host.rfind(":")
        if not _port.fullmatch(host[colon:]):
            raise UrlError(f"invalid port {quote(host[colon:])} after host")
    return _unescape(host, mode="host")


def _ip_literal(host: str) -> str:
    end = host.rfind("]")
    if end < 0:
        raise UrlError("missing ']' in host")
    port = host[end + 1 :]
    if not _port.fullmatch(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    name = host[1:end]
    zone = name.find("%25")
    if zone >= 0:
        plain = _unescape(name[:zone], mode="host") + _unescape(name[zone:], mode="zone")
    else:
        plain = _unescape(name, mode="host")
    address, percent, scope = plain.partition("%")
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise UrlError(f"invalid host: ParseAddr({quote(plain)}): unable to parse IP") from None
    if parsed.version == 4 or (percent and not scope):
        raise UrlError("invalid IP-literal")
    return f"[{plain}]{port}"


def _unescape(text: str, mode: str = "path") -> str:
    """Percent escapes resolved; `host` and `zone` refuse characters that may not occur there."""
    if mode == "path" and "%" not in text:
        return text
    data = text.encode("utf-8", "replace")
    out = bytearray()
    index = 0
    while index < len(data):
        byte = data[index]
        if byte != 0x25:
            if mode != "path" and byte < 0x80 and chr(byte) not in _HOST_CHARS:
                raise UrlError(f"invalid character {quote(chr(byte))} in host name")
            out.append(byte)
            index += 1
            continue
        escape = data[index : index + 3]
        value = _hex(escape)
        shown = escape.decode("utf-8", "replace")
        if value is None:
            raise UrlError(f"invalid URL escape {quote(shown)}")
        if mode == "host" and value < 0x80 and escape != b"%25":
            raise UrlError(f"invalid URL escape {quote(shown)}")
        if mode == "zone" and escape != b"%25" and value != 0x20 and chr(value) not in _HOST_CHARS:
            raise UrlError(f"invalid URL escape {quote(shown)}")
        out.append(value)
        index += 3
    return out.decode("utf-8", "replace")


def _hex(escape: bytes) -> int | None:
    if len(escape) < 3:
        return None
    try:
        return int(escape[1:].decode("ascii"), 16) if b"_" not in escape and b"+" not in escape else None
    except ValueError:
        return None
