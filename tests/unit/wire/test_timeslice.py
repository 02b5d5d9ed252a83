"""Long work gives way, and those that gave way come back one by one."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.wire.timeslice import TimeSlice

pytestmark = pytest.mark.real_time


async def test_in_each_round_of_the_loop_one_of_many_workers_has_its_turn() -> None:
    rounds: list[list[int]] = [[]]

    async def work(number: int) -> None:
        turn = TimeSlice(0.0, is_over=True)
        for _ in range(5):
            await turn.end()
            rounds[-1].append(number)

    async def count() -> None:
        while not all(task.done() for task in workers):
            rounds.append([])
            await asyncio.sleep(0)

    workers = [asyncio.ensure_future(work(number)) for number in range(10)]
    await count()
    assert max(len(each) for each in rounds) == 1
    assert [each[0] for each in rounds if each][:20] == [*range(10), *range(10)], "in the order they gave way"


async def test_who_is_cancelled_while_waiting_for_a_turn_holds_up_nobody() -> None:
    turns: list[int] = []

    async def work(number: int) -> None:
        await TimeSlice(0.0, is_over=True).end()
        turns.append(number)

    tasks = [asyncio.ensure_future(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[1].cancel()
    await asyncio.wait(tasks, timeout=5)
    assert turns == [2]
