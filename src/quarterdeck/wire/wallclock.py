"""The date, for objects and for what expires.

It is the system's, unless the event loop keeps a date of its own (virtual time): then the dates in objects
move with everything else that waits on that loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

_Date = Callable[[], datetime] | None


class _LoopDate:
    """The date of the loop that was asked last: there is one loop for long, and it is asked all the time."""

    def __init__(self) -> None:
        self._known: tuple[asyncio.AbstractEventLoop | None, _Date] = (None, None)

    def find(self) -> _Date:
        running = asyncio._get_running_loop()
        loop, date = self._known
        if running is not loop:
            date = getattr(running, "date", None)
            self._known = running, date
        return date


_loop_date = _LoopDate()


def now() -> float:
    """Seconds since 1970."""
    date = _loop_date.find()
    return time.time() if date is None else float(date().timestamp())


def is_virtual() -> bool:
    """Whether time stands still while code runs."""
    return _loop_date.find() is not None


_second: tuple[int, str] = (0, "")


def timestamp() -> str:
    """Now, in RFC 3339 whole seconds; formatted once a second."""
    global _second  # a cache of one value
    seconds = int(now())
    if _second[0] != seconds:
        _second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)))
    return _second[1]
