"""How long a key waits before it is tried again.

A limiter answers ``when(key)`` with a delay and remembers that it was asked; ``forget(key)`` clears that
memory after a success. Limiters hold no timers and make no decisions: the queue does.

The default of a controller is ``ExponentialLimiter`` alone. The shared token bucket exists for parity with
the classic queue; it delays retries of healthy keys while others fail, which is why it is not the default.
"""

import random
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

from quarterdeck.client.clock import Clock
from quarterdeck.client.lane import TokenBucket
from quarterdeck.runtime.loop.clock import LoopClock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

_LARGEST_POWER: Final = 60
"""Beyond that every sensible cap is reached; keeps the arithmetic in floats."""


class RateLimiter(Protocol[K_contra]):
    """What a work queue asks before it queues a key again."""

    def when(self, key: K_contra) -> float:
        """Seconds to wait; counts as one more failure of the key."""
        ...

    def forget(self, key: K_contra) -> None:
        """The key succeeded: its next failure is its first."""
        ...

    def failures(self, key: K_contra) -> int:
        """Failures since the last ``forget``."""
        ...


class ExponentialLimiter(Generic[K]):
    """``base × factor^failures`` up to ``cap``, per key, ± ``jitter``.

    ``base`` 5 ms. ``cap`` 300 s, where client-go has 1000 s: a quarter of an hour of silence after a
    transient fault helps nobody. ``jitter`` 0.1 keeps keys that failed together from coming back together.
    """

    def __init__(
        self,
        base: float = 0.005,
        cap: float = 300.0,
        *,
        factor: float = 2.0,
        jitter: float = 0.1,
        rng: random.Random | None = None,
    ) -> None:
        self._base: Final = base
        self._cap: Final = cap
        self._factor: Final = factor
        self._jitter: Final = jitter
        self._random: Final = rng or random.Random()  # noqa: S311  spreading retries is no secret
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """The delay of this failure; the next one is ``factor`` times as long."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(self._base * self._factor ** min(count, _LARGEST_POWER), self._cap)
        if self._jitter:
            delay *= 1 + self._random.uniform(-self._jitter, self._jitter)
        return delay

    def forget(self, key: K) -> None:
        """Back to ``base``."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures since the last ``forget``."""
        return self._failures.get(key, 0)


class BucketLimiter(Generic[K]):
    """One token bucket shared by all keys: ``rate`` per second, ``burst`` at once; remembers no keys."""

    def __init__(self, rate: float = 10.0, burst: int = 100, *, clock: Clock | None = None) -> None:
        self._bucket: Final = TokenBucket(rate, burst, clock or LoopClock())

    def when(self, key: K) -> float:
        """Take one token, possibly of the future; the wait until it exists."""
        return self._bucket.reserve()

    def forget(self, key: K) -> None:
        """Nothing is remembered per key."""

    def failures(self, key: K) -> int:
        """Always 0."""
        return 0


class LargestLimiter(Generic[K]):
    """The largest delay of several limiters; all of them count every failure."""

    def __init__(self, *parts: RateLimiter[K]) -> None:
        self._parts: Final = parts

    def when(self, key: K) -> float:
        """The longest of the parts' delays."""
        return max(part.when(key) for part in self._parts)

    def forget(self, key: K) -> None:
        """Forget in every part."""
        for part in self._parts:
            part.forget(key)

    def failures(self, key: K) -> int:
        """The largest count of the parts."""
        return max(part.failures(key) for part in self._parts)
