"""Supervised loops: what a failure means, whose cancellation it is, and an end that comes."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from quarterdeck.runtime.loop.supervision import Loop, Policy, Stray, contained, end_all


async def cancelled_elsewhere() -> None:
    task = asyncio.ensure_future(asyncio.sleep(100))
    task.cancel()
    await task


async def test_a_loop_that_fails_runs_again_after_growing_waits() -> None:
    began: list[float] = []

    async def run() -> None:
        began.append(asyncio.get_running_loop().time())
        if len(began) <= 12:
            raise OSError("away")

    loop = Loop("x", run, policy=Policy.RESTART)
    await loop.run()
    waits = [later - sooner for sooner, later in itertools.pairwise(began)]
    assert 0.1 <= waits[0] <= 0.12
    assert waits == sorted(waits) or waits[-1] >= 30
    assert loop.failures == 12
    assert not loop.is_down, "it came to its end"


async def test_a_foreign_cancellation_is_a_failure_and_our_own_is_the_end() -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await cancelled_elsewhere()
        await asyncio.get_running_loop().create_future()

    loop = Loop("x", run, policy=Policy.RESTART)
    task = asyncio.ensure_future(loop.run())
    await asyncio.sleep(10)
    assert runs == 2
    assert loop.is_alive
    assert isinstance(loop.last_error, Stray)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not loop.is_alive


@pytest.mark.parametrize("policy", [Policy.ISOLATE, Policy.STOP])
async def test_a_loop_that_is_not_restarted_ends_and_says_so(policy: Policy) -> None:
    told: list[Exception] = []

    async def run() -> None:
        raise SystemExit(3)

    loop = Loop("x", run, policy=policy, failed=told.append)
    await loop.run()
    assert str(told[0]) == "it raised SystemExit: 3"
    assert loop.is_down


async def test_a_keyboard_interrupt_is_nobodys_to_contain() -> None:
    with pytest.raises(KeyboardInterrupt):
        contained(KeyboardInterrupt())


async def test_who_does_not_end_is_left_behind() -> None:
    """A loop that swallows its cancellation must not hold up the end of everything else."""
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    begun = asyncio.get_running_loop().time()
    await end_all([task], timeout=7)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(7)
    released.set()
    await task
