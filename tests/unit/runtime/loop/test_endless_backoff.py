"""Delays that grow to a cap, spread by jitter, and start over after a reset or a quiet spell."""

from __future__ import annotations

import random

from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.clock import LoopClock


class SetClock(LoopClock):
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def backoff(clock: SetClock, **options: float) -> EndlessBackoff:
    return EndlessBackoff(base=1.0, cap=5.0, clock=clock, rng=random.Random(1), **options)


def test_delays_grow_by_the_factor_up_to_the_cap() -> None:
    made = backoff(SetClock())
    assert [made.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    tripled = backoff(SetClock(), factor=3.0)
    assert [tripled.next() for _ in range(3)] == [1.0, 3.0, 5.0]


def test_a_reset_starts_over() -> None:
    made = backoff(SetClock())
    made.next()
    made.next()
    made.reset()
    assert [made.next(), made.next()] == [1.0, 2.0]


def test_jitter_stretches_every_delay_beyond_the_cap_too_and_never_shortens_it() -> None:
    made = backoff(SetClock(), jitter=0.5)
    delays = [made.next() for _ in range(200)]
    for delay, plain in zip(delays, [1.0, 2.0, 4.0, *[5.0] * 197], strict=True):
        assert plain <= delay <= plain * 1.5
    assert max(delays) > 5.0
    assert len(set(delays)) > 100


def test_a_quiet_spell_after_the_wait_starts_over() -> None:
    clock = SetClock()
    made = backoff(clock, reset_after=10.0)
    assert made.next() == 1.0
    clock.now += 1.0 + 10.5
    assert made.next() == 1.0


def test_a_spell_counts_from_the_end_of_the_wait() -> None:
    clock = SetClock()
    made = backoff(clock, reset_after=10.0)
    assert [made.next(), made.next()] == [1.0, 2.0]
    clock.now += 2.0 + 10.0
    assert made.next() == 4.0


def test_without_a_limit_no_spell_is_long_enough() -> None:
    clock = SetClock()
    made = backoff(clock)
    made.next()
    clock.now += 1e6
    assert made.next() == 2.0
