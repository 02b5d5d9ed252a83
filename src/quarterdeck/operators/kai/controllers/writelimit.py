"""Not writing the status of one object faster than anybody reads it.

A gang of a thousand pods changes a thousand times while it starts. Its status is written at once after a
pause, and then at most a few times a second.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Key
from quarterdeck.client.clock import Clock

INTERVAL: Final = 0.2
"""Seconds between two writes of one object."""
_SWEEP_ABOVE: Final = 10_000


class WriteLimit:
    """Remembers when each object was last written."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._until: dict[Key, float] = {}

    def remaining(self, key: Key) -> float:
        """Seconds until an object may be written again; 0 for now."""
        return max(0.0, self._until.get(key, 0.0) - self._clock.monotonic())

    def wrote(self, key: Key) -> None:
        """An object was written."""
        now = self._clock.monotonic()
        if len(self._until) > _SWEEP_ABOVE:
            self._until = {known: until for known, until in self._until.items() if until > now}
        self._until[key] = now + INTERVAL
