"""Fair turns: long work gives way to other tasks every few milliseconds.

A loop that decodes thousands of objects calls ``await turn.end()`` now and then; it returns at once until
the slice is used up, then lets everybody else run. Measured in real time also under virtual time: a slice
is about the processor, not about the clock of the program.
"""

import asyncio
from time import perf_counter
from typing import Final

__all__ = ["SLICE", "TimeSlice"]

SLICE: Final = 0.005
"""Seconds of continuous work before others get their turn."""


class TimeSlice:
    """Measures one stretch of work."""

    __slots__ = ("_end", "_length")

    def __init__(self, length: float = SLICE) -> None:
        self._length = length
        self._end = perf_counter() + length

    @property
    def is_over(self) -> bool:
        """Whether it is time to give way."""
        return perf_counter() > self._end

    async def end(self) -> None:
        """Give way if the slice is used up, and begin a new one."""
        if perf_counter() > self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._length
