"""An open watch as a sequence of line batches, and the timer for streams that stop sending."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Final, Self, cast

from quarterdeck.client.line import line_batches
from quarterdeck.client.transport import Stream
from quarterdeck.errors import TransportError

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

    def gather(self, pace: float) -> None:
        """Hand over lines no more often than every ``pace`` seconds, many at a time; 0 means at once."""
        self._stream.gather(pace)

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
        self._timeout: Final = asyncio.timeout(None if limit else lifetime)
        self._loop: Final = asyncio.get_running_loop()
        self._remind: Final = remind
        self._last = 0.0
        self._timers: dict[Callable[[float], None], asyncio.Handle] = {}

    def broken(self) -> None:
        """Something arrived."""
        # Happens for every event: the timers look at this when they ring, instead of being set again.
        self._last = self._loop.time()

    def interrupt(self) -> None:
        """End the block now."""
        self._timeout.reschedule(self._loop.time())

    def _listen(self, rung: float) -> None:
        if self._is_silent_for(self._limit, rung, self._listen):
            self._timeout.reschedule(self._loop.time())

    def _ring(self, rung: float) -> None:
        if self._is_silent_for(REMINDER, rung, self._ring) and self._remind is not None:
            self._remind()
            self._set(self._loop.time() + REMINDER, self._ring)

    def _is_silent_for(self, seconds: float, rung: float, again: Callable[[float], None]) -> bool:
        """Whether nothing arrived for so long; if something did, ask ``again`` when it may be so.

        ``rung`` is when the timer was due.
        """
        due = self._last + seconds
        if due <= rung:
            return True
        self._set(due, again)
        return False

    def _set(self, due: float, callback: Callable[[float], None]) -> None:
        # The callback is told its time: after a pause ``due`` has passed already, and what uvloop gives back
        # for such a call is no timer and does not know when it was due.
        self._timers[callback] = self._loop.call_at(due, callback, due)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._last = self._loop.time()
        if self._limit:
            self._listen(self._last)
        if self._remind is not None:
            self._ring(self._last)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise Silent(f"no data for {self._limit:g}s, or open for too long") from expired
