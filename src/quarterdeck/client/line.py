"""Chunks to lines: how a watch stream is cut.

Chunks end anywhere, several lines may arrive in one. Lines are handed over in batches, one batch per
chunk, so that a burst of events costs one wake-up. A line beyond the limit is refused: a server that
sends one is broken, and buffering it could take all memory.
"""

from collections.abc import AsyncIterator
from typing import Final

from quarterdeck.errors import ProtocolError

__all__ = ["MAX_LINE", "line_batches"]

MAX_LINE: Final = 16 * 1024 * 1024
"""Longest line accepted, in bytes; an API object is at most a few MiB."""


async def line_batches(chunks: AsyncIterator[bytes], *, limit: int = MAX_LINE) -> AsyncIterator[list[bytes]]:
    """Non-empty lines without their line ends, as many as each chunk completes.

    Raises ``ProtocolError`` for a line longer than ``limit``. Text after the last line end is handed
    over as a last line, as the body of an error answer has none.
    """
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        if b"\n" not in chunk:
            rest.append(chunk)
            size += len(chunk)
            if size > limit:
                raise ProtocolError(f"line of more than {limit} bytes in a stream")
            continue
        lines = chunk.split(b"\n")
        if rest:
            rest.append(lines[0])
            lines[0] = b"".join(rest)
            rest = []
        tail = lines.pop()
        size = len(tail)
        if tail:
            rest.append(tail)
        if len(chunk) > limit or len(lines[0]) > limit:
            oversized = any(len(line) > limit for line in lines)
            if oversized or size > limit:
                raise ProtocolError(f"line of more than {limit} bytes in a stream")
        batch = [line for line in lines if line]
        if batch:
            yield batch
    if rest:
        yield [b"".join(rest)]
