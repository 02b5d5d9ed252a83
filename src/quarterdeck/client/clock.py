"""Time and chance, as arguments.

Whatever waits or rolls dice gets a ``Clock`` and a ``Random``, so that tests run hours of back-off in no
time and the same way twice.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def time(self) -> float:
        """Wall-clock seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Random(Protocol):
    """Where chance comes from; ``random.Random`` fits."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemClock:
    """The real clock."""

    def time(self) -> float:
        """Wall-clock seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)
