"""The loop-lag monitor, in real time: it is about the processor."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from quarterdeck.runtime.loop.lag import LoopLag


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def test_blocking_call_is_reported_with_the_stack_of_the_culprit(caplog: pytest.LogCaptureFixture) -> None:
    lags: list[float] = []

    async def main() -> LoopLag:
        monitor = LoopLag(tick=0.02, warn_after=0.1, observe=lags.append)
        task = asyncio.ensure_future(monitor.run())
        for _ in range(20):  # on a busy machine the loop may be late before anybody blocks it
            await asyncio.sleep(0.06)
            block_the_loop(0.4)
            await asyncio.sleep(0.06)
            if "block_the_loop" in monitor.statistics().culprit:
                break
        task.cancel()
        await asyncio.wait([task])
        return monitor

    with caplog.at_level(logging.WARNING):
        monitor = asyncio.run(main())
    statistics = monitor.statistics()
    assert statistics.stalls >= 1
    assert statistics.worst > 0.3
    assert "block_the_loop" in statistics.culprit
    assert max(lags) > 0.3
    assert {record.message for record in caplog.records} == {"event loop is blocked"}
    assert monitor.lag == 0.0
    assert statistics.culprit.count("File ") <= 6, "the end of the stack says who it is"


def test_a_monitor_that_does_not_run_has_nothing_to_tell() -> None:
    monitor = LoopLag()
    statistics = monitor.statistics()
    assert (statistics.stalls, statistics.worst, statistics.culprit, monitor.lag) == (0, 0.0, "", 0.0)
