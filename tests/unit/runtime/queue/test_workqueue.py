"""The work queue, against the rules of its module text."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.runtime.queue.ratelimit import (
    BucketLimiter,
    ExponentialLimiter,
    LargestLimiter,
)
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY, QueueClosed, WorkQueue
from quarterdeck.testing.clock import run


def exact_queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue(limiter=ExponentialLimiter(jitter=0), **options)


async def drain(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while len(queue):
        taken.append(await queue.get())
        queue.done(taken[-1])
    return taken


async def test_same_key_never_runs_twice_at_once_under_100000_adds_and_32_workers() -> None:
    chance = random.Random(1)
    queue: WorkQueue[int] = WorkQueue(limiter=ExponentialLimiter(rng=chance))
    running: set[int] = set()
    runs: Counter[int] = Counter()
    dirty: set[int] = set()

    async def worker() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            assert key not in running
            running.add(key)
            dirty.discard(key)
            runs[key] += 1
            await asyncio.sleep(chance.random() * 0.01)
            running.remove(key)
            if chance.random() < 0.1:
                dirty.add(key)
                queue.add(key, rate_limited=True, priority=chance.choice((LOW_PRIORITY, 0, 5)))
            else:
                queue.forget(key)
            queue.done(key)

    async with asyncio.TaskGroup() as workers:
        for _ in range(32):
            workers.create_task(worker())
        for _ in range(100_000):
            key = chance.randrange(500)
            dirty.add(key)
            queue.add(key, after=chance.choice((0, 0, 0, 0.02)), priority=chance.choice((LOW_PRIORITY, 0)))
            if chance.random() < 0.05:
                await asyncio.sleep(0.001)
        while dirty or running:  # noqa: ASYNC110  virtual time: polling costs nothing
            await asyncio.sleep(0.1)
        queue.shut_down()
    assert len(runs) == 500
    assert queue.statistics().processing == 0


async def test_add_during_processing_yields_exactly_one_more_run_after_done() -> None:
    queue = exact_queue()
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 1
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await queue.get()
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_during_processing_may_be_taken_over_when_it_is_given_back() -> None:
    queue = exact_queue()
    asked: list[tuple[str, int]] = []

    def takes_over(key: str, priority: int) -> bool:
        asked.append((key, priority))
        return key == "a"

    for key in ("a", "b", "c"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    queue.add("a", priority=5)
    queue.add("b")
    for key in ("a", "b", "c"):
        queue.done(key, takes_over=takes_over)
    assert asked == [("a", 5), ("b", 0)]
    assert len(queue) == 1
    assert await queue.get() == "b"
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.shut_down()
    queue.done("a", takes_over=takes_over)
    assert len(asked) == 2


async def test_merge_takes_the_earliest_due_time() -> None:
    loop = asyncio.get_running_loop()
    queue = exact_queue()
    started = loop.time()
    queue.add("a", after=10)
    queue.add("a", after=2)
    queue.add("a", after=7)
    assert len(queue) == 0
    assert await queue.get() == "a"
    assert loop.time() - started == pytest.approx(2)
    assert queue.statistics().waiting == 0


async def test_immediate_add_makes_a_delayed_key_ready_now() -> None:
    queue = exact_queue()
    queue.add("a", after=10)
    queue.add("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    await asyncio.sleep(20)
    assert len(queue) == 0


async def test_merge_takes_the_highest_priority_and_a_lower_one_changes_nothing() -> None:
    queue = exact_queue(age_rate=0)
    queue.add("low")
    queue.add("high", priority=10)
    queue.add("high", priority=-5)
    assert await drain(queue) == ["high", "low"]


async def test_band_is_first_in_first_out() -> None:
    queue = exact_queue()
    for key in "dbca":
        queue.add(key)
    queue.add("d")
    assert await drain(queue) == ["d", "b", "c", "a"]


async def test_band_change_goes_to_the_back_of_the_new_band() -> None:
    queue = exact_queue(age_rate=0)
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("b")
    queue.add("c")
    queue.add("a")
    assert await drain(queue) == ["b", "c", "a"]


async def test_delayed_entry_arrives_when_it_is_due() -> None:
    queue = exact_queue()
    queue.add("late", after=1)
    await asyncio.sleep(0.5)
    queue.add("early")
    await asyncio.sleep(1)
    queue.add("last")
    assert await drain(queue) == ["early", "late", "last"]


@pytest.mark.parametrize(("waited", "first"), [(59.5, "fresh"), (60.5, "initial")])
async def test_the_low_band_catches_up_with_the_normal_one_after_a_minute(waited: float, first: str) -> None:
    queue = exact_queue()
    queue.add("initial", priority=LOW_PRIORITY)
    await asyncio.sleep(waited)
    queue.add("fresh")
    assert (await drain(queue))[0] == first


async def test_raised_priority_never_makes_an_aged_entry_wait_longer() -> None:
    queue = exact_queue()
    queue.add("aged", priority=LOW_PRIORITY)
    await asyncio.sleep(120)
    queue.add("fresh")
    queue.add("aged", priority=0)
    assert await drain(queue) == ["aged", "fresh"]


async def test_back_off_doubles_from_5_ms_to_the_cap_and_forget_resets() -> None:
    limiter: ExponentialLimiter[str] = ExponentialLimiter(cap=0.1, jitter=0)
    assert [limiter.when("a") for _ in range(7)] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.1]
    assert limiter.failures("a") == 7
    assert limiter.when("b") == 0.005
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.when("a") == 0.005


async def test_delay_without_rate_limit_is_no_failure() -> None:
    queue = exact_queue()
    queue.add("a", after=30)
    assert queue.failures("a") == 0
    queue.add("a", rate_limited=True)
    assert queue.failures("a") == 1


async def test_rate_limit_and_delay_together_take_the_smaller() -> None:
    loop = asyncio.get_running_loop()
    queue = exact_queue()
    started = loop.time()
    queue.add("a", after=30, rate_limited=True)
    await queue.get()
    assert loop.time() - started == pytest.approx(0.005)


def test_default_back_off_is_jittered_by_a_tenth_and_capped_at_300_s() -> None:
    limiter: ExponentialLimiter[str] = ExponentialLimiter(rng=random.Random(3))
    delays = [limiter.when("a") for _ in range(40)]
    assert 0.0045 <= delays[0] <= 0.0055
    assert len(set(delays)) == 40
    assert all(270 <= delay <= 330 for delay in delays[20:])


async def served_within(age_rate: float, *, seconds: int) -> bool:
    """Whether a low key is served while the normal band is never empty."""
    queue = exact_queue(age_rate=age_rate)
    queue.add("initial", priority=LOW_PRIORITY)
    queue.add("busy-0")
    for i in range(1, seconds * 10):
        key = await queue.get()
        if key == "initial":
            return True
        queue.add(f"busy-{i}")
        await asyncio.sleep(0.1)
        queue.done(key)
    return False


async def test_low_priority_initial_list_is_not_starved_with_ageing() -> None:
    assert await served_within(100 / 60, seconds=61)


async def test_low_priority_initial_list_starves_without_ageing() -> None:
    assert not await served_within(0, seconds=600)


async def test_waiting_workers_are_woken_one_per_key() -> None:
    queue = exact_queue()
    taken: list[str] = []

    async def worker() -> None:
        taken.append(await queue.get())

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(worker())
        await asyncio.sleep(1)
        assert queue.statistics().getters == 3
        for key in "abc":
            queue.add(key)
    assert sorted(taken) == ["a", "b", "c"]


async def test_wake_up_of_a_cancelled_worker_passes_to_another() -> None:
    queue = exact_queue()
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_shut_down_sends_workers_home_and_drops_adds() -> None:
    queue = exact_queue()
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(1)
    queue.shut_down()
    with pytest.raises(QueueClosed):
        await waiting
    queue.add("a")
    assert len(queue) == 0
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_keys_added_before_the_loop_runs_are_served() -> None:
    queue = await asyncio.to_thread(build_early)
    async with asyncio.timeout(10):
        assert {await queue.get(), await queue.get()} == {"now", "later"}


def build_early() -> WorkQueue[str]:
    queue = exact_queue()
    queue.add("now")
    queue.add("later", after=0.001)
    return queue


async def test_add_from_another_thread_wakes_a_worker() -> None:
    queue = exact_queue()
    with pytest.raises(RuntimeError, match="no event loop"):
        queue.add_threadsafe("a")
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    await asyncio.to_thread(queue.add_threadsafe, "a")
    assert await waiting == "a"
    assert threading.active_count() >= 1


async def test_discard_drops_queued_and_delayed_keys_but_not_the_running_one() -> None:
    queue = exact_queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("b")
    queue.add("c", after=5)
    queue.add("keep")
    assert queue.discard(lambda key: key != "keep") == 3
    queue.done("a")
    await asyncio.sleep(10)
    assert await drain(queue) == ["keep"]


async def test_statistics_tell_ages_and_the_next_due_time() -> None:
    queue = exact_queue()
    queue.add("a")
    queue.add("later", after=100)
    await queue.get()
    await asyncio.sleep(3)
    statistics = queue.statistics()
    assert (statistics.ready, statistics.waiting, statistics.processing) == (0, 1, 1)
    assert statistics.longest_seconds == pytest.approx(3)
    assert statistics.next_due == pytest.approx(asyncio.get_running_loop().time() + 97)


async def test_delays_cut_short_do_not_pile_up() -> None:
    queue = exact_queue()
    for _ in range(1000):
        queue.add("a", after=1000)
        queue.add("a")
        queue.done(await queue.get())
        assert len(queue._waiting) <= 5


async def test_delays_that_still_run_are_kept_when_others_are_swept_out() -> None:
    queue = exact_queue()
    for name in ("x", "y"):
        queue.add(name, after=50)
    for _ in range(100):
        queue.add("a", after=1000)
        queue.add("a")
        queue.done(await queue.get())
    await asyncio.sleep(60)
    assert await drain(queue) == ["x", "y"]


async def test_a_raised_priority_is_worth_its_age_and_not_more() -> None:
    queue = exact_queue()
    queue.add("old", priority=-10)
    await asyncio.sleep(5)
    queue.add("first", priority=3)
    queue.add("raised", priority=-10)
    queue.add("second", priority=3)
    queue.add("raised", priority=3)
    assert await drain(queue) == ["first", "second", "raised", "old"]


async def test_keys_in_hand_are_told_with_priority_and_the_time_they_waited() -> None:
    queue = exact_queue()
    queue.add("a", priority=7)
    await asyncio.sleep(4)
    assert (queue.priority_of("a"), queue.waited("a"), queue.processing) == (0, 0, ())
    assert await queue.get() == "a"
    assert (queue.priority_of("a"), queue.waited("a"), queue.processing) == (7, 4, ("a",))
    queue.done("a")
    assert (queue.priority_of("a"), queue.waited("a"), queue.processing) == (0, 0, ())
    assert not queue.is_closed
    queue.shut_down()
    assert queue.is_closed


async def test_metrics_see_ready_taken_finished_and_retried() -> None:
    seen: list[tuple[object, ...]] = []

    class Observer:
        def ready(self, priority: int) -> None:
            seen.append(("ready", priority))

        def moved(self, before: int, after: int) -> None:
            seen.append(("moved", before, after))

        def taken(self, priority: int, waited: float) -> None:
            seen.append(("taken", priority, round(waited, 3)))

        def dropped(self, priority: int) -> None:
            seen.append(("dropped", priority))

        def finished(self, worked: float) -> None:
            seen.append(("finished", round(worked, 3)))

        def retried(self) -> None:
            seen.append(("retried",))

    queue: WorkQueue[str] = WorkQueue(metrics=Observer())
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("a")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(1)
    queue.add("a", after=0.5)
    queue.done("a")
    assert seen == [
        ("ready", LOW_PRIORITY),
        ("moved", LOW_PRIORITY, 0),
        ("taken", 0, 2),
        ("retried",),
        ("finished", 1),
    ]


async def test_bucket_lets_a_burst_pass_and_then_ten_a_second() -> None:
    limiter: BucketLimiter[int] = BucketLimiter()
    assert [limiter.when(i) for i in range(100)] == [0.0] * 100
    assert limiter.when(1) == pytest.approx(0.1)
    assert limiter.when(2) == pytest.approx(0.2)
    await asyncio.sleep(1)
    assert limiter.when(3) == 0.0


def test_the_longest_of_several_delays_counts() -> None:
    steady: ExponentialLimiter[str] = ExponentialLimiter(base=1.5, cap=1.5, jitter=0)
    both: LargestLimiter[str] = LargestLimiter(steady, ExponentialLimiter(base=1, jitter=0))
    assert [both.when("a") for _ in range(3)] == [1.5, 2, 4]
    both.forget("a")
    assert both.when("a") == 1.5


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "delay", "get", "done", "sleep"]), st.integers(0, 4), st.integers(-2, 2)
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(ACTIONS)
def test_any_interleaving_serves_every_added_key(actions: list[tuple[str, int, int]]) -> None:
    async def check() -> None:
        queue: WorkQueue[int] = WorkQueue()
        owed: set[int] = set()
        held: list[int] = []
        for action, key, priority in actions:
            if action == "add":
                queue.add(key, priority=priority)
                owed.add(key)
            elif action == "delay":
                queue.add(key, after=1 + key, priority=priority)
                owed.add(key)
            elif action == "sleep":
                await asyncio.sleep(0.7)
            elif action == "done" and held:
                queue.done(held.pop(0))
            elif action == "get":
                try:
                    async with asyncio.timeout(0.01):
                        taken = await queue.get()
                except TimeoutError:
                    continue
                assert taken not in held
                held.append(taken)
                owed.discard(taken)
        for key in held:
            queue.done(key)
        await asyncio.sleep(10)
        assert len(queue) == len(owed)
        rest = set()
        while len(queue):
            rest.add(await queue.get())
        assert rest == owed

    run(check())
