"""When processes beside a server are started again."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.cli.restart import Restarts, ending

pytestmark = pytest.mark.virtual_time


async def lasting(restarts: Restarts, seconds: float) -> float:
    """Let the process run for so long; seconds until it is started again."""
    loop = asyncio.get_running_loop()
    restarts.begin()
    await asyncio.sleep(seconds)
    ended = loop.time()
    await restarts.pause("has ended")
    return loop.time() - ended


async def test_a_process_that_does_not_last_is_started_later_and_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    restarts = Restarts("the process")
    assert [await lasting(restarts, 3) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert await lasting(restarts, 600) == 1
    assert await lasting(restarts, 3) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "quarterdeck: the process has ended; it is started again in 2 s"


def test_how_a_process_ended_is_said_in_words() -> None:
    told = [ending(3), ending(-9), ending(-200)]
    assert told == ["has ended with code 3", "was killed by SIGKILL", "was killed by signal 200"]
