"""Fair turns: long work gives way to other tasks every few milliseconds.

A loop that decodes thousands of objects calls ``await turn.end()`` now and then; it returns at once until
the slice is used up, then lets everybody else run. Measured in real time also under virtual time: a slice
is about the processor, not about the clock of the program.

Where many such loops have work at the same time, each of them taking a slice in every round of the event
loop would add up: thirty controllers at start hold it for 150 ms. So those that have given way come back
one by one, one in each round, in the order in which they gave way.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final
from weakref import WeakKeyDictionary

SLICE: Final = 0.005
"""Seconds of continuous work before others get their turn."""


class _Turns:
    """Who has given way on one event loop. It does not hold the loop: that would keep both for ever."""

    def __init__(self) -> None:
        self._waiting: Final[deque[asyncio.Future[None]]] = deque()

    def wait(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        """Done when the caller's turn has come."""
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)
        return turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        turn = waiting.popleft()
        while turn.done() and waiting:  # who was cancelled meanwhile
            turn = waiting.popleft()
        if not turn.done():
            turn.set_result(None)
        if waiting:
            loop.call_soon(self._next, loop)


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]] = WeakKeyDictionary()


class TimeSlice:
    """Measures one stretch of work."""

    __slots__ = ("_end", "_length")

    def __init__(self, length: float = SLICE, *, is_over: bool = False) -> None:
        """``is_over`` for one of many that begin at the same time: it gives way before its first slice."""
        self._length = length
        self._end = 0.0 if is_over else perf_counter() + length

    @property
    def is_over(self) -> bool:
        """Whether it is time to give way."""
        return perf_counter() > self._end

    async def end(self) -> None:
        """Give way if the slice is used up, and begin a new one."""
        if perf_counter() > self._end:
            loop = asyncio.get_running_loop()
            turns = _turns.get(loop)
            if turns is None:
                turns = _turns[loop] = _Turns()
            await turns.wait(loop)
            self._end = perf_counter() + self._length

    def begin(self) -> None:
        """Begin a new slice: there was nothing to do, so others had their turn."""
        self._end = perf_counter() + self._length
