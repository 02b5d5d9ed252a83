"""Time limits that share one timer."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.runtime.loop.deadline import Deadlines
from quarterdeck.testing import eventually


async def test_what_is_not_dropped_expires_after_the_length_in_the_order_it_began() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    expired: list[tuple[str, float]] = []
    deadlines: Deadlines[str] = Deadlines(10.0, lambda item: expired.append((item, loop.time() - start)))
    deadlines.add("first")
    await asyncio.sleep(3)
    deadlines.add("second")
    deadlines.add("third")
    await asyncio.sleep(4)
    deadlines.drop("second")
    await asyncio.sleep(20)
    assert expired == [("first", 10.0), ("third", 13.0)]
    assert not len(deadlines)


async def test_an_item_may_be_added_again_after_it_was_dropped() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    expired: list[float] = []
    deadlines: Deadlines[str] = Deadlines(10.0, lambda _: expired.append(loop.time() - start))
    deadlines.add("key")
    await asyncio.sleep(9)
    deadlines.drop("key")
    deadlines.drop("key")
    deadlines.add("key")
    await asyncio.sleep(30)
    assert expired == [19.0]


async def test_expiry_may_drop_and_add_items() -> None:
    expired: list[str] = []

    def expire(item: str) -> None:
        expired.append(item)
        deadlines.drop("other")
        if item == "key":
            deadlines.add("again")

    deadlines: Deadlines[str] = Deadlines(1.0, expire)
    deadlines.add("key")
    await asyncio.sleep(0.5)
    deadlines.add("other")
    await asyncio.sleep(5)
    assert expired == ["key", "again"]


@pytest.mark.real_time
async def test_items_that_end_within_the_same_tick_of_the_loop_all_expire() -> None:
    """For less than half a millisecond uvloop gives back a handle without a time."""
    expired: list[int] = []
    deadlines: Deadlines[int] = Deadlines(0.0001, expired.append)
    for item in range(5):
        deadlines.add(item)
    await eventually(lambda: expired == [0, 1, 2, 3, 4])
