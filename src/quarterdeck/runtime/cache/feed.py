"""An open watch as a sequence of line batches, and the alarm for streams that fall silent."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Final, Self, cast

from quarterdeck.client.line import line_batches
from quarterdeck.client.transport import Stream
from quarterdeck.errors import TransportError

__all__ = ["Feed", "Silence", "Silent"]

REMINDER: Final = 10.0
"""Seconds between reminders while the initial events do not arrive."""


class Feed:
    """An open watch: batches of lines, some of which may have been read too far."""

    def __init__(self, stream: Stream, *, opened: float, lifetime: float) -> None:
        """``lifetime`` is how long the stream may last at most, seconds."""
        self.opened: Final = opened
        self.lifetime: Final = lifetime
        self.events = 0
        self.unread: list[bytes] = []
        self._stream: Final = stream
        self._batches: Final = cast("AsyncGenerator[list[bytes], None]", line_batches(aiter(stream)))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        if self.unread:
            lines, self.unread = self.unread, []
            return lines
        return await anext(self._batches)

    async def aclose(self) -> None:
        """Drop the connection."""
        await self._batches.aclose()
        await self._stream.aclose()


class Silent(TransportError):
    """Nothing arrived for too long."""


class Silence:
    """Ends its block with ``Silent`` unless ``broken()`` is called often enough; may remind earlier.

    Without a limit (0) only ``lifetime`` ends it, however much arrives.
    """

    def __init__(self, limit: float, *, lifetime: float, remind: Callable[[], None] | None = None) -> None:
        self._limit: Final = limit
        self._timeout: Final = asyncio.timeout(limit or lifetime)
        self._loop: Final = asyncio.get_running_loop()
        self._remind: Final = remind
        self._reminder: asyncio.TimerHandle | None = None

    def broken(self) -> None:
        """Something arrived."""
        if self._limit:
            self._timeout.reschedule(self._loop.time() + self._limit)
        if self._reminder is not None:
            self._reminder.cancel()
            self._schedule()

    def interrupt(self) -> None:
        """End the block now."""
        self._timeout.reschedule(self._loop.time())

    def _schedule(self) -> None:
        self._reminder = self._loop.call_later(REMINDER, self._ring)

    def _ring(self) -> None:
        if self._remind is not None:
            self._remind()
        self._schedule()

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._remind is not None:
            self._schedule()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reminder is not None:
            self._reminder.cancel()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise Silent(f"no data for {self._limit:g}s, or open for too long") from expired
