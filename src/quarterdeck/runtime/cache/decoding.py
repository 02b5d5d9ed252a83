"""From entries to objects: decoded on first use, remembered for a while, always frozen.

Decoding a body costs some twenty microseconds and, kept for ever, several times the memory of its bytes.
So a bounded number of decoded objects is remembered, least recently used first out; the bound is in bytes
of JSON, because that is what is known without measuring. Everything handed out is frozen (typed) or a
read-only view (dynamic): two readers may share one object.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from quarterdeck.runtime.cache.entry import Entry

T = TypeVar("T")

DEFAULT_REMEMBERED_BYTES: Final = 16 * 1024 * 1024
"""JSON bytes whose decoded objects are remembered per kind; their heap is about four times that."""


class DecodingStatistics(msgspec.Struct, frozen=True):
    """How well the memory of decoded objects works."""

    remembered: int
    remembered_bytes: int
    hits: int
    misses: int


class ObjectDecoder(Generic[T]):
    """Decodes the entries of one kind in one representation."""

    def __init__(
        self, decode: Callable[[bytes], T], *, remembered_bytes: int = DEFAULT_REMEMBERED_BYTES
    ) -> None:
        self._decode: Final = decode
        self._limit: Final = remembered_bytes
        self._objects: OrderedDict[Entry, T] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    def __call__(self, entry: Entry) -> T:
        """The object of an entry. Raises ``SchemaError`` if the body does not fit its class."""
        known = self._objects.get(entry)
        if known is not None:
            self._hits += 1
            self._objects.move_to_end(entry)
            return known
        self._misses += 1
        made = self._decode(entry.raw)
        if self._limit:
            self._objects[entry] = made
            self._bytes += len(entry.body)
            while self._bytes > self._limit:
                old, _ = self._objects.popitem(last=False)
                self._bytes -= len(old.body)
        return made

    def once(self, entry: Entry) -> T:
        """Decode without remembering: for passes over everything, which would flush what is in use."""
        known = self._objects.get(entry)
        return known if known is not None else self._decode(entry.raw)

    def forget(self, entry: Entry) -> None:
        """The entry left the store: its object need not be remembered."""
        if self._objects.pop(entry, None) is not None:
            self._bytes -= len(entry.body)

    def statistics(self) -> DecodingStatistics:
        """Remembered objects, hits and misses so far."""
        return DecodingStatistics(len(self._objects), self._bytes, self._hits, self._misses)
