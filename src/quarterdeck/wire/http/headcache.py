"""Headers of requests that were parsed before.

A client that keeps its connection asks for many things, but sends the same headers with each, byte for byte.
Of a request whose headers are known only the first line is looked at; that costs a fifth of parsing it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

CHUNKED: Final = -1


class Head(msgspec.Struct, frozen=True, gc=False):
    """Request line and headers, parsed.

    The headers may be shared by many requests: they never change, and the length is not among them.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    repeated: Sequence[tuple[str, str]]
    length: int
    """Bytes of the body, or ``CHUNKED``."""
    keep_alive: bool = True
    is_old: bool = False
    """HTTP/1.0."""
    expects_continue: bool = False


class HeadCache:
    """Headers of requests with a plain body on a connection that stays open.

    The length of the body is cut out of the key where it is spelled as Go and most others spell it, so that
    requests of all sizes share one entry; that there is a length stays in the key.
    """

    __slots__ = ("_known",)

    LIMIT: Final = 256
    LONGEST: Final = 4096
    _LINE: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[!-\"$&-~]*) HTTP/1\.1(?=\r\n)")
    """A first line that means what it says: an absolute path without escapes."""
    _LENGTH: Final = b"\r\nContent-Length: "
    _NOT_PLAIN: Final = frozenset({"transfer-encoding", "expect", "connection", "upgrade"})

    def __init__(self) -> None:
        self._known: Final[dict[bytes, Head]] = {}

    def find(self, raw: bytes) -> Head | None:
        """The head with these bytes, if its headers are known."""
        line = self._LINE.match(raw)
        if line is None:
            return None
        key, length = self._cut(raw[line.end() :])
        known = self._known.get(key)
        if known is None:
            return None
        method, target = line.groups()
        path, _, query = target.decode("latin-1").partition("?")
        return Head(
            method.decode("latin-1"),
            path,
            query,
            known.headers,
            known.repeated,
            known.length if length < 0 else length,
        )

    def keep(self, raw: bytes, head: Head) -> None:
        """Remember headers; those with a trace id never come again, and leave when all are dropped."""
        line = self._LINE.match(raw)
        if (
            line is None
            or len(raw) > self.LONGEST
            or not head.keep_alive
            or not self._NOT_PLAIN.isdisjoint(head.headers)
        ):
            return
        if len(self._known) >= self.LIMIT:
            self._known.clear()
        self._known[self._cut(raw[line.end() :])[0]] = head

    @classmethod
    def _cut(cls, block: bytes) -> tuple[bytes, int]:
        """Headers without the length of a body, and that length; -1 if it is not spelled as expected."""
        start = block.find(cls._LENGTH)
        if start < 0:
            return block, -1
        start += len(cls._LENGTH)
        end = block.find(b"\r\n", start)
        number = block[start:end]
        if not number.isdigit() or len(number) > 10:
            return block, -1
        return block[:start] + block[end:], int(number)
