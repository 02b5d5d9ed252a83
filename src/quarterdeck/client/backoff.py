"""Back-off, and the retry of optimistic writes.

One helper for every place that waits longer and longer. ``retry_on_conflict`` runs a read-modify-write
until it goes through. The function it runs **must read again from the server** (or from a cache known to
be current): a stale cache gives the same old version every time and burns all the steps.
"""

import random as _random
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import msgspec

from quarterdeck.client.clock import Clock, Random, SystemClock
from quarterdeck.errors import Conflict

T = TypeVar("T")


class Backoff(msgspec.Struct, frozen=True):
    """A sequence of waits: ``base``, then times ``factor`` each, plus up to ``jitter`` times itself."""

    steps: int
    """How many tries in all; there is one wait less."""
    base: float
    """First wait in seconds."""
    factor: float = 1.0
    jitter: float = 0.0
    """Largest random addition as a share of the wait."""
    cap: float = float("inf")
    """Longest wait in seconds, before jitter."""

    def delays(self, random: Random) -> Iterator[float]:
        """The waits, one fewer than ``steps``."""
        delay = self.base
        for _ in range(self.steps - 1):
            yield min(delay, self.cap) * (1 + self.jitter * random.random())
            delay = min(delay * self.factor, self.cap)


DEFAULT_RETRY: Final = Backoff(steps=5, base=0.010, factor=1.0, jitter=0.1)
"""For conflicts between independent writers: quick tries, as client-go's ``DefaultRetry``."""

DEFAULT_BACKOFF: Final = Backoff(steps=4, base=0.010, factor=5.0, jitter=0.1)
"""For writers that fight over the same object, as client-go's ``DefaultBackoff``."""


async def retry_on_conflict(
    function: Callable[[], Awaitable[T]],
    *,
    backoff: Backoff = DEFAULT_RETRY,
    clock: Clock | None = None,
    random: Random | None = None,
) -> T:
    """Run ``function`` (read, change, write) again while it meets a ``Conflict``.

    Any other error ends it at once; the last conflict is raised when the steps are used up.
    """
    waits = backoff.delays(random if random is not None else _random.Random())  # noqa: S311  jitter, no secret
    sleeper = clock if clock is not None else SystemClock()
    while True:
        try:
            return await function()
        except Conflict:
            wait = next(waits, None)
            if wait is None:
                raise
            await sleeper.sleep(wait)
