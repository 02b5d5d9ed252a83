"""How long a key waits, limiter by limiter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from quarterdeck.runtime.queue.ratelimit import (
    BucketLimiter,
    ExponentialLimiter,
    LargestLimiter,
    RateLimiter,
)

LIMITERS: dict[str, Callable[[], RateLimiter[str]]] = {
    "exponential": ExponentialLimiter,
    "largest": lambda: LargestLimiter(BucketLimiter(), ExponentialLimiter()),
}


@pytest.mark.parametrize("kind", LIMITERS)
async def test_failures_are_counted_by_key_until_they_are_forgotten(kind: str) -> None:
    limiter = LIMITERS[kind]()
    assert limiter.failures("a") == 0
    limiter.when("a")
    limiter.when("a")
    assert (limiter.failures("a"), limiter.failures("b")) == (2, 0)
    limiter.forget("a")
    assert limiter.failures("a") == 0


def test_a_key_that_failed_a_thousand_times_waits_no_longer_than_the_cap() -> None:
    limiter: ExponentialLimiter[str] = ExponentialLimiter(1, 300, jitter=0)
    assert [limiter.when("a") for _ in range(1100)][-1] == 300


def test_jitter_goes_both_ways_around_the_delay() -> None:
    limiter: ExponentialLimiter[int] = ExponentialLimiter(10, 300, jitter=0.1, rng=random.Random(1))
    delays = [limiter.when(key) for key in range(200)]
    assert 9 <= min(delays) < 9.5
    assert 10.5 < max(delays) <= 11


async def test_a_bucket_lends_from_the_future_and_never_holds_more_than_its_burst() -> None:
    bucket: BucketLimiter[str] = BucketLimiter(rate=2, burst=2)
    assert [bucket.when("a") for _ in range(4)] == [0, 0, 0.5, 1]
    assert bucket.failures("a") == 0
    await asyncio.sleep(1000)
    assert [bucket.when("b") for _ in range(3)] == [0, 0, 0.5]
