"""Heads of requests that were parsed before.

A client that keeps its connection sends the same head again and again, byte for byte. A request whose head is
known skips the parser, which is a third of the cost of receiving it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

__all__ = ["CHUNKED", "Head", "HeadCache"]

CHUNKED: Final = -1


class Head(msgspec.Struct, frozen=True, gc=False):
    """Request line and headers, parsed. The headers may be shared by many requests: they never change."""

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
    """Heads of requests with a plain body on a connection that stays open.

    The length of the body is cut out of the key where it is spelled as Go and most others spell it, so that
    requests of all sizes share one entry.
    """

    __slots__ = ("_heads",)

    LIMIT: Final = 256
    LONGEST: Final = 2048
    _LENGTH: Final = b"\r\nContent-Length: "
    _NOT_PLAIN: Final = frozenset({"transfer-encoding", "expect", "connection", "upgrade"})

    def __init__(self) -> None:
        self._heads: Final[dict[bytes, Head]] = {}

    def find(self, raw: bytes) -> tuple[Head, int] | None:
        """The head with these bytes and the length of its body, if it is known."""
        key, length = self._cut(raw)
        head = self._heads.get(key)
        return None if head is None else (head, head.length if length < 0 else length)

    def keep(self, raw: bytes, head: Head) -> None:
        """Remember a head; one with a trace id never comes again, and leaves when all are dropped."""
        if (
            len(raw) > self.LONGEST
            or head.is_old
            or not head.keep_alive
            or not self._NOT_PLAIN.isdisjoint(head.headers)
        ):
            return
        if len(self._heads) >= self.LIMIT:
            self._heads.clear()
        self._heads[self._cut(raw)[0]] = head

    @classmethod
    def _cut(cls, raw: bytes) -> tuple[bytes, int]:
        """A head without the length of its body, and that length; -1 if it is not spelled as expected."""
        start = raw.find(cls._LENGTH)
        if start < 0:
            return raw, -1
        end = raw.find(b"\r\n", start + 2)
        number = raw[start + len(cls._LENGTH) : end]
        if not number.isdigit() or len(number) > 10:
            return raw, -1
        return raw[:start] + raw[end:], int(number)
