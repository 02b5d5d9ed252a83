"""Requests out of a stream of bytes, one at a time. No I/O.

Whoever reads from a socket gives what arrived to ``receive``, asks for a head, decides what its body may
cost, and asks for the body. Bytes behind the request under way wait as they are: a peer that sends many
requests at once costs what its bytes cost, not what parsed requests would.

Heads and chunks are parsed by httptools; a body of known length is only counted. What is no request by the
rules of Go's server is refused in its words (``RefusedRequest``).
"""

import re
from typing import Final

import httptools

from quarterdeck.errors import ProtocolError

from .headcache import CHUNKED, Head, HeadCache
from .limit import KIB, Limits

_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_HOST: Final = re.compile(r"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")
_VERSION: Final = re.compile(rb" HTTP/(\d)\.\d\Z")
_END: Final = b"\r\n\r\n"
_NAMES: Final[dict[bytes, str]] = {}
"""Names of headers as they are spelled, and in lower case: there are not many."""
_MOST_NAMES: Final = 256
_MOST_FRAMING: Final = 64 * KIB
"""Bytes of chunk sizes, extensions and trailers without a byte of data between them."""


class RefusedRequest(ProtocolError):
    """The peer does not send HTTP as it should; the connection ends with an answer of this status."""

    def __init__(self, status: int, why: str = "", body: str = "") -> None:
        super().__init__(why or f"refused with status {status}")
        self.status: Final = status
        self.why: Final = why
        self.body: Final = body


class RequestReader:
    """What one connection has sent and nobody has taken yet."""

    __slots__ = (
        "_at",
        "_body",
        "_can_parse",
        "_framing",
        "_headers",
        "_heads",
        "_host",
        "_is_done",
        "_is_head",
        "_keep_alive",
        "_kept",
        "_limits",
        "_parser",
        "_repeated",
        "_scanned",
        "_upgrades",
        "_url",
        "_waiting",
        "length",
        "size",
    )

    def __init__(self, limits: Limits, heads: HeadCache) -> None:
        self._limits = limits
        self._heads = heads
        self._parser = httptools.HttpRequestParser(self)
        self._can_parse = True
        self._headers: dict[str, str] = {}
        self._waiting: bytes | bytearray = b""
        self._at = 0
        self._scanned = 0
        self._is_head = False
        self._host: str | None = ""
        self.length = 0
        """Bytes of the body that are still to come, or ``CHUNKED``."""
        self.size = 0
        """Bytes of the body that have come."""

    def receive(self, data: bytes) -> None:
        """Take in what arrived."""
        waiting = self._waiting
        if self._at == len(waiting):
            self._waiting = data
            self._at = 0
            return
        if not isinstance(waiting, bytearray):  # one that grows byte by byte must not be copied each time
            self._waiting = waiting = bytearray(waiting[self._at :] if self._at else waiting)
        elif self._at:
            del waiting[: self._at]
        self._at = 0
        waiting += data

    @property
    def has_input(self) -> bool:
        """Whether something has arrived that was not taken."""
        return self._at < len(self._waiting)

    def _take(self, end: int) -> None:
        """Everything before ``end`` has been taken; what nobody needs is not kept."""
        if end == len(self._waiting):
            self._waiting, self._at = b"", 0
        else:
            self._at = end

    def take_rest(self) -> bytes:
        """Everything that was not taken, as it came."""
        rest = bytes(self._waiting[self._at :])
        self._waiting, self._at = b"", 0
        return rest

    def read_head(self) -> Head | None:
        """The next head, ``None`` while it is not complete; raises ``RefusedRequest``."""
        waiting, start = self._waiting, self._at
        found = waiting.find(_END, start + self._scanned)
        if found < 0:
            self._check_beginning()
            self._scanned = max(0, len(waiting) - start - 3)
            return None
        self._scanned = 0
        end = found + 4
        if end - start > self._limits.head:
            raise RefusedRequest(431)
        raw = bytes(waiting if start == 0 and end == len(waiting) else waiting[start:end])
        self._take(end)
        head = self._heads.find(raw)
        if head is None:
            head = self._parse(raw)
            self._heads.keep(raw, head)
        self.length = head.length
        return head

    def _check_beginning(self) -> None:
        """Do not wait for the end of what cannot become a head."""
        waiting, start = self._waiting, self._at
        size = len(waiting) - start
        if size > self._limits.head:
            raise RefusedRequest(431)
        if size and (
            not waiting[start : start + 1].isalpha() or waiting.find(b"\n\n", start + self._scanned) >= 0
        ):
            raise RefusedRequest(400)

    def _parse(self, raw: bytes) -> Head:
        parser = self._parser
        if not self._can_parse:
            parser = self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._repeated: list[tuple[str, str]] = []
        headers = self._headers = {}
        self._upgrades = self._is_done = False
        self._is_head = True
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            self._upgrades = True
        except httptools.HttpParserError as error:
            raise self._explained(raw) from error
        if self._is_head:  # what looks like the end of a head is none
            raise RefusedRequest(400)
        line = raw.find(b"\r\n")
        is_old = raw[line - 9 : line] != b" HTTP/1.1"
        if is_old:
            self._check_version()
        length = 0
        if "content-length" in headers or "transfer-encoding" in headers:
            length = self._body_length(headers, is_old=is_old)
        # The parser of a head whose body is only counted goes on waiting for that body.
        self._can_parse = self._is_done or length == CHUNKED
        if headers.get("host") != self._host or self._repeated:
            self._check_host(headers, is_old=is_old)
        expected = headers.get("expect")
        if expected is not None and expected.lower() != "100-continue":
            raise RefusedRequest(417)
        method = parser.get_method().decode("latin-1")
        url = self._url
        if url[:1] != b"/" or b"%" in url:
            url = self._check_target(method)
        path, _, query = url.decode("latin-1").partition("?")
        expects_continue = expected is not None and length != 0
        return Head(
            method, path, query, headers, self._repeated, length, self._keep_alive, is_old, expects_continue
        )

    def _explained(self, raw: bytes) -> RefusedRequest:
        """Why the parser does not take a head, as Go's server would say it."""
        version = _VERSION.search(raw[: raw.find(b"\r\n")])
        if version is not None and version[1] != b"1":
            return _unsupported_version()
        if "transfer-encoding" in self._headers and "content-length" not in self._headers:
            return _unsupported_encoding()
        return RefusedRequest(400)

    def _check_version(self) -> None:
        version = self._parser.get_http_version()
        if version == "0.9":
            raise RefusedRequest(400)
        if version != "1.0":
            raise _unsupported_version()

    def _body_length(self, headers: dict[str, str], *, is_old: bool) -> int:
        encoding = headers.get("transfer-encoding")
        if encoding is not None and not is_old:
            # The body of a request that also asks for another protocol would not be parsed.
            if encoding.lower() != "chunked" or self._upgrades:
                raise _unsupported_encoding()
            return CHUNKED
        return int(headers.pop("content-length", "") or 0)

    def _check_host(self, headers: dict[str, str], *, is_old: bool) -> None:
        host = headers.get("host")
        if host is None:
            if not is_old:
                raise RefusedRequest(400, "missing required Host header")
        elif any(name == "host" for name, _ in self._repeated):
            raise RefusedRequest(400)
        elif not _HOST.fullmatch(host):
            raise RefusedRequest(400, "malformed Host header")
        else:
            self._host = host

    def _check_target(self, method: str) -> bytes:
        """What is asked for, when it is not simply a path that stands for itself."""
        url = self._url
        if url[:1] != b"/" and url != b"*":
            if b"://" in url:  # as a proxy is asked: the host does not matter here
                url = b"/" + url.partition(b"://")[2].partition(b"/")[2]
            elif method != "CONNECT":
                raise RefusedRequest(400)
        if _BAD_ESCAPE.search(url.partition(b"?")[0]):
            raise RefusedRequest(400)
        return url

    def start_body(self, limit: int) -> None:
        """Get ready to read the body of the last head, of which at most so many bytes are kept."""
        self.size = 0
        self._kept = limit
        self._body: list[bytes] = []
        self._framing = 0
        self._is_done = False

    def read_body(self) -> bool:
        """Take what has arrived of the body; true when it is complete. Raises ``RefusedRequest``."""
        if self.length == CHUNKED:
            return self._read_chunks()
        waiting, start = self._waiting, self._at
        end = min(len(waiting), start + self.length)
        if end > start:
            self._take(end)
            self.length -= end - start
            self.size += end - start
            if self.size <= self._kept:
                self._body.append(bytes(waiting[start:end]))
            else:
                self._body.clear()
        return self.length == 0

    def body(self) -> bytes:
        """Hand out what was kept of the body; nothing if it was too large."""
        pieces, self._body = self._body, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_chunks(self) -> bool:
        """Feed the parser, but never across the end of the body: what follows is not its business yet.

        A chunked body ends with an empty line, so there is a safe place to cut behind each.
        """
        while not self._is_done:
            waiting, start = self._waiting, self._at
            found = waiting.find(_END, start)
            end = found + 4 if found >= 0 else _without_partial_end(waiting)
            if end <= start:
                return False
            self._take(end)
            self._framing += end - start
            try:
                self._parser.feed_data(bytes(waiting[start:end]))
            except httptools.HttpParserError as error:
                raise RefusedRequest(400) from error
            if self._framing > _MOST_FRAMING:
                raise RefusedRequest(400, "chunked encoding contains too much non-data")
        self.length = 0
        return True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_head:
            return  # a trailer is no header
        key = _NAMES.get(name) or _lower(name)
        value_text = value.decode("latin-1")
        known = self._headers.get(key)
        if known is None:
            self._headers[key] = value_text
            return
        if all(other != key for other, _ in self._repeated):
            self._repeated.append((key, known))
        self._repeated.append((key, value_text))
        self._headers[key] = f"{known}, {value_text}"

    def on_headers_complete(self) -> None:
        self._keep_alive = self._parser.should_keep_alive()
        self._is_head = False

    def on_body(self, data: bytes) -> None:
        self._framing = 0
        self.size += len(data)
        if self.size <= self._kept:
            self._body.append(data)
        else:
            self._body.clear()

    def on_message_complete(self) -> None:
        self._is_done = True


def _lower(name: bytes) -> str:
    lower = name.decode("latin-1").lower()
    if len(_NAMES) < _MOST_NAMES:
        _NAMES[name] = lower
    return lower


def _unsupported_encoding() -> RefusedRequest:
    return RefusedRequest(501, body="Unsupported transfer encoding")


def _unsupported_version() -> RefusedRequest:
    return RefusedRequest(505, "unsupported protocol version")


def _without_partial_end(waiting: bytes | bytearray) -> int:
    """The size of what is here without what may be the beginning of an empty line."""
    for size in (3, 2, 1):
        if waiting.endswith(_END[:size]):
            return len(waiting) - size
    return len(waiting)
