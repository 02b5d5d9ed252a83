"""A list answer, cut into its items while it arrives.

A server may answer a list of any size in one piece, whatever limit was asked for (it does when its watch
cache answers). Holding all of that text beside what is made of it would double the peak memory, so the
splitter hands out complete items as soon as it has them.

JSON cannot be cut by looking for a separator, yet it can be cut by *guessing* and having the guess proved:
items begin alike (``{"metadata":``), so the last place that looks like a boundary is tried; the decoder,
which checks that every bracket is closed, accepts the piece only if it really is one. A nested object that
looks the same fails that check, and an earlier place is tried. Text without such places (pretty-printed)
is decoded at the end, in one piece.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from quarterdeck.api.codec import UNREADABLE
from quarterdeck.errors import ProtocolError

_ITEMS: Final = b'"items":['
_FIRST_KEY: Final = re.compile(rb'\{"[A-Za-z]+":')
_BATCH: Final = 512 * 1024
"""Bytes gathered before a cut is tried."""
_TRIES: Final = 8
"""Places tried per cut; nested look-alikes are rare and few."""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Frame(msgspec.Struct):
    metadata: _Metadata | None = None
    items: tuple[msgspec.Raw, ...] | None = None


_items: Final = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_frame: Final = msgspec.json.Decoder(_Frame)


class ListSplitter:
    """Feed it chunks, get items; ``finish()`` gives the rest and fills in version and token."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head = b""
        self._boundary = b""
        self._is_inside = False
        self._try_at = _BATCH
        self.resource_version = ""
        self.continue_token = ""

    def feed(self, chunk: bytes) -> Iterable[msgspec.Raw]:
        """The items completed so far; they refer to a private copy, so they may be kept."""
        buffer = self._buffer
        buffer += chunk
        if len(buffer) < self._try_at:
            return ()
        if not self._is_inside and not self._enter():
            self._try_at = len(buffer) + _BATCH
            return ()
        return self._cut()

    def _enter(self) -> bool:
        start = self._buffer.find(_ITEMS)
        if start < 0:
            return False
        start += len(_ITEMS)
        first = _FIRST_KEY.match(self._buffer, start)
        if first is None:
            return False
        self._head = bytes(self._buffer[:start])
        self._boundary = b"}," + first[0]
        self._is_inside = True
        del self._buffer[:start]
        return True

    def _cut(self) -> Iterable[msgspec.Raw]:
        end = len(self._buffer)
        for _ in range(_TRIES):
            end = self._buffer.rfind(self._boundary, 0, end)
            if end < 0:
                break
            end += 1
            with memoryview(self._buffer) as view:
                piece = b"".join((b"[", view[:end], b"]"))
            try:
                items = _items.decode(piece)
            except UNREADABLE:
                continue
            del self._buffer[: end + 1]
            self._try_at = len(self._buffer) + _BATCH
            return items
        self._try_at = len(self._buffer) + _BATCH
        return ()

    def finish(self) -> Iterable[msgspec.Raw]:
        """The last items. Raises ``ProtocolError`` if the answer was not a list."""
        try:
            frame = _frame.decode(self._head + bytes(self._buffer))
        except UNREADABLE as error:
            raise ProtocolError(f"not a list: {error}") from error
        self._buffer.clear()
        if frame.metadata is not None:
            self.resource_version = frame.metadata.resource_version
            self.continue_token = frame.metadata.continue_
        return frame.items or ()
