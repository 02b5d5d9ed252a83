"""Time limits of one length, on one timer.

A timer of the event loop costs a few microseconds to set and to cancel. Where thousands of short things a
second have the same limit, which none of them ever reaches, that is real money; here a limit is an entry in
a dictionary. Limits of one length end in the order in which they began, so that one timer, for the oldest,
is enough.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Deadlines(Generic[H]):
    """Calls ``expire(item)`` for every item that was added and not dropped ``length`` seconds later."""

    def __init__(self, length: float, expire: Callable[[H], None]) -> None:
        self._length: Final = length
        self._expire: Final = expire
        self._due: dict[H, float] = {}
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def add(self, item: H) -> None:
        """Begin the time of an item, which must not be there already."""
        loop = asyncio.get_running_loop()
        due = self._due[item] = loop.time() + self._length
        if self._timer is None:
            self._set(due, loop)

    def drop(self, item: H) -> None:
        """The item has ended in time, or has expired already."""
        self._due.pop(item, None)
        if not self._due and self._timer is not None:
            # Nothing stays behind in the loop when there is nothing left to wait for.
            self._timer.cancel()
            self._timer = None

    def _set(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        # It is told its time: for less than half a millisecond uvloop gives back no timer that would know it.
        self._timer = loop.call_at(due, self._ring, due, loop)

    def _ring(self, rung: float, loop: asyncio.AbstractEventLoop) -> None:
        # A timer may fire a clock tick early; what it was set for counts as due.
        now = max(loop.time(), rung)
        self._timer = None
        expired = []
        for item, due in self._due.items():
            if due > now:
                self._set(due, loop)
                break
            expired.append(item)
        for item in expired:
            del self._due[item]
        for item in expired:
            self._expire(item)
