"""One jittered exponential back-off, used by everything in the runtime that tries again.

An ``EndlessBackoff`` is a small state: ``next()`` gives the seconds to wait before the coming attempt and
grows the delay, ``reset()`` starts over. With ``reset_after`` a quiet spell of that length resets it by
itself, which is how a reflector forgets yesterday's outage. (``quarterdeck.client.Backoff`` is the other
kind: a fixed number of tries.)
"""

import random
from typing import Final

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.loop.clock import LoopClock


class EndlessBackoff:
    """Delays ``base``, ``base × factor``, … up to ``cap``, each stretched by up to ``jitter``.

    ``jitter=1.0`` means up to double. The jitter is added after the cap, so waits of many processes
    spread even at the cap.
    """

    def __init__(
        self,
        *,
        base: float,
        cap: float,
        factor: float = 2.0,
        jitter: float = 0.0,
        reset_after: float | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._base: Final = base
        self._cap: Final = cap
        self._factor: Final = factor
        self._jitter: Final = jitter
        self._reset_after: Final = reset_after
        self._clock: Final = clock or LoopClock()
        self._random: Final = rng or random.Random()  # noqa: S311  spreading retries is no secret
        self._delay = base
        self._last: float | None = None

    def next(self) -> float:
        """Seconds to wait now; the following wait is longer."""
        now = self._clock.monotonic()
        quiet = self._last is not None and now - self._last
        if self._reset_after is not None and quiet and quiet > self._reset_after:
            self._delay = self._base
        delay = self._delay
        self._delay = min(delay * self._factor, self._cap)
        self._last = now + delay
        return delay * (1 + self._random.random() * self._jitter)

    def reset(self) -> None:
        """Start over at ``base``."""
        self._delay = self._base
        self._last = None
