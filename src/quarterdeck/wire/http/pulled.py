"""A body that is pulled from an iterator, as fast as the reader takes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from quarterdeck.errors import QuarterdeckError

from .message import ChunkWriter

_HIGH: Final = 512 * 1024
_PAUSE: Final = 0.02
"""Seconds until a reader that has much to take is looked at again."""


class PulledStream:
    """A ``Stream`` over an async iterator of bytes.

    The iterator is closed when the reader goes away. An error of ours cuts the connection: half a body must
    not look whole.
    """

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks: Final = chunks
        self._task: asyncio.Task[None] | None = None

    def start(self, writer: ChunkWriter) -> None:
        """Called by the connection once the head is on its way."""
        self._task = asyncio.get_running_loop().create_task(self._pump(writer))

    def closed(self) -> None:
        """Called by the connection when nobody reads any more."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._close())
        elif self._task is not asyncio.current_task():
            self._task.cancel()

    async def _pump(self, writer: ChunkWriter) -> None:
        try:
            async for chunk in self._chunks:
                writer.write(chunk)
                while writer.buffered() > _HIGH:  # noqa: ASYNC110  a writer tells how much, not when
                    await asyncio.sleep(_PAUSE)
        except (QuarterdeckError, OSError):
            writer.abort()
        else:
            writer.finish()
        finally:
            await self._close()

    async def _close(self) -> None:
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            with suppress(QuarterdeckError, OSError):
                await close()
