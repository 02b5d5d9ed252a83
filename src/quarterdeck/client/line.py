"""Chunks to lines: how a watch stream is cut.

Chunks end anywhere, several lines may arrive in one. Lines are handed over in batches, one batch per
chunk, so that a burst of events costs one wake-up. A line beyond the limit is refused: a server that
sends one is broken, and buffering it could take all memory.
"""

from collections.abc import AsyncIterator
from typing import Final

from quarterdeck.errors import ProtocolError

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest line accepted, in bytes; an API object is at most a few MiB."""


def line_batches(chunks: AsyncIterator[bytes], *, limit: int = MAX_LINE) -> "LineBatches":
    """Non-empty lines without their line ends, as many as each chunk completes.

    Raises ``ProtocolError`` for a line longer than ``limit``. Text after the last line end is handed
    over as a last line, as the body of an error answer has none.
    """
    return LineBatches(chunks, limit)


class LineBatches:
    """An iterator and not a generator: abandoned half-way, it leaves nothing to be closed."""

    __slots__ = ("_chunks", "_limit", "_rest", "_size")

    def __init__(self, chunks: AsyncIterator[bytes], limit: int) -> None:
        self._chunks = chunks
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def __aiter__(self) -> "LineBatches":
        return self

    async def __anext__(self) -> list[bytes]:
        while True:
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                if not self._rest:
                    raise
                last = b"".join(self._rest)
                self._rest = []
                return [last]
            batch = self._split(chunk)
            if batch:
                return batch

    async def aclose(self) -> None:
        """Drop what is buffered; the chunks belong to their stream."""
        self._rest = []

    def _split(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._rest.append(chunk)
            self._size += len(chunk)
            self._check(self._size)
            return []
        lines = chunk.split(b"\n")
        if self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
        tail = lines.pop()
        self._rest = [tail] if tail else []
        self._size = len(tail)
        if len(chunk) + len(lines[0] if lines else b"") > self._limit:
            self._check(max(self._size, *map(len, lines)) if lines else self._size)
        return [line for line in lines if line]

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ProtocolError(f"line of more than {self._limit} bytes in a stream")
