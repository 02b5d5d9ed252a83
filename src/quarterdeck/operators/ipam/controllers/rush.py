"""Claims first: while they come in numbers, what only informs waits until they are granted.

A claim costs its client's create and four writes of this operator: the Subnet, the claim's status, the
Subnet's phase and an event; and its pool's status counts it. Somebody waits for the first two. So while
claims are under way, and for a window of 20 ms after the last one, the first phase of a Subnet waits, and
the status of a pool that is being claimed from gathers: many claims, one write. A rush that does not end
loses its precedence after a while, so nothing waits for good.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quarterdeck.api import Key

WINDOW: Final = 0.02
"""Seconds without a claim that end a rush."""
PRECEDENCE: Final = 10.0
"""Seconds a rush goes first; phases that it made wait are as late as that at most."""
GATHERING: Final = 1.0
"""Seconds between two status writes of a pool in a rush: people watch the count go down."""


class ClaimRush:
    """Which claims are being looked at, and whether that makes others wait."""

    def __init__(self) -> None:
        self._under_way: Final[Counter[Key]] = Counter()
        self._last: Final[dict[Key, float]] = {}
        """When a pool's latest claim was done; nothing from before this rush."""
        self._calm: Final = asyncio.Event()
        self._calm.set()
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def claim(self, pool: Key) -> Iterator[None]:
        """A claim on a pool is looked at."""
        loop = asyncio.get_running_loop()
        if self._calm.is_set():
            self._began = loop.time()
            self._calm.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._under_way[pool] += 1
        try:
            yield
        finally:
            self._last[pool] = loop.time()
            self._under_way[pool] -= 1
            if not self._under_way[pool]:
                del self._under_way[pool]
            if not self._under_way:
                self._timer = loop.call_later(WINDOW, self._end)

    def _end(self) -> None:
        self._timer = None
        self._last.clear()
        self._calm.set()

    def gathers(self, pool: Key) -> bool:
        """Whether more changes of a pool are to be expected at once."""
        if pool in self._under_way:
            return True
        last = self._last.get(pool)
        return last is not None and asyncio.get_running_loop().time() - last < WINDOW

    async def give_way(self) -> None:
        """Return when no rush goes first."""
        left = self._began + PRECEDENCE - asyncio.get_running_loop().time()
        if self._calm.is_set() or left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await self._calm.wait()
        except TimeoutError:
            return
