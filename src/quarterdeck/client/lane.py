"""Lanes: how many requests may be under way at once, and who waits for whom.

API Priority and Fairness limits concurrency, not rate, so that is what a client should limit too. Each
lane has its own limit; a lease renewal or a watch never waits behind reconciles, because they travel on
lanes of their own. When the server answers 429 the lane halves itself; successes widen it again one
request at a time.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Final

from quarterdeck.client.clock import Clock


class LaneName(Enum):
    """The three kinds of traffic that must not block one another."""

    DEFAULT = "default"
    LEASE = "lease"
    WATCH = "watch"

    __hash__ = object.__hash__  # looked up for every request: Enum's own is a function in Python


class Lane:
    """A counting gate with first-come-first-served waiting; ``limit=0`` means no limit."""

    def __init__(self, limit: int) -> None:
        self.maximum: Final = limit
        self._limit = float(limit)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """How many requests may be under way now; 0 means any number."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """How many requests wait for a place."""
        return len(self._waiting)

    def try_enter(self) -> bool:
        """Take a place if one is free and nobody waits; the quick way of ``enter``."""
        if not self.maximum or (self._in_flight < int(self._limit) and not self._waiting):
            self._in_flight += 1
            return True
        return False

    async def enter(self) -> None:
        """Wait for a place; give it back with ``leave``."""
        if self.try_enter():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            # The place may have been given in the same moment: pass it on.
            if place.done() and not place.cancelled():
                self.leave()
            else:
                self._waiting.remove(place)
            raise

    def leave(self) -> None:
        """Give a place back."""
        self._in_flight -= 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_flight < int(self._limit):
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)

    def shrink(self) -> None:
        """The server is overloaded: halve the lane, down to one."""
        self._limit = max(1.0, self._limit / 2)

    def grow(self) -> None:
        """A request went through: after ``limit`` of them the lane is one wider, up to its maximum."""
        if self._limit < self.maximum:
            self._limit = min(float(self.maximum), self._limit + 1 / self._limit)
            self._admit()


class TokenBucket:
    """An optional rate limit: ``qps`` requests per second on average, ``burst`` at once."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps
        self._burst = max(1, burst)
        self._clock = clock
        self._tokens = float(self._burst)
        self._at: float | None = None

    def reserve(self) -> float:
        """Take one token, possibly of the future; returns how many seconds to wait before using it."""
        now = self._clock.monotonic()
        if self._at is not None:
            self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps
