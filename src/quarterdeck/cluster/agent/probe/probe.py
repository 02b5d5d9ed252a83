"""Probes: how often, how many in a row, and what follows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Probe
from quarterdeck.cluster.agent.probe.handler import HandlerFailure

DEFAULT_PERIOD: Final = 10
DEFAULT_TIMEOUT: Final = 1
DEFAULT_SUCCESSES: Final = 1
DEFAULT_FAILURES: Final = 3


class ProbeCounter:
    """Turns single answers into a state: so many in a row change it. Pure."""

    def __init__(self, probe: Probe, *, is_good: bool) -> None:
        self._successes: Final = value_or(probe.success_threshold, DEFAULT_SUCCESSES)
        self._failures: Final = value_or(probe.failure_threshold, DEFAULT_FAILURES)
        self._last: bool | None = None
        self._in_a_row = 0
        self.is_good = is_good

    def count(self, succeeded: bool) -> bool:
        """Take an answer in; whether the threshold is reached, so that the state is now what it says."""
        self._in_a_row = self._in_a_row + 1 if succeeded is self._last else 1
        self._last = succeeded
        if self._in_a_row < (self._successes if succeeded else self._failures):
            return False
        self.is_good = succeeded
        return True


async def watch_probe(
    probe: Probe,
    ask: Callable[[float], Awaitable[None]],
    *,
    is_good: bool,
    started_ago: float,
    on_failure: Callable[[str], None],
    on_state: Callable[[bool], None],
    ends_when_bad: bool = False,
) -> None:
    """Ask for ever, or until the state is bad; ``ask`` gets the seconds it may take and raises
    ``HandlerFailure``.

    ``on_failure`` hears of each failure, ``on_state`` when the state has been confirmed or has changed.
    """
    counter = ProbeCounter(probe, is_good=is_good)
    period = max(1, value_or(probe.period_seconds, 0) or DEFAULT_PERIOD)
    timeout = max(1, value_or(probe.timeout_seconds, 0) or DEFAULT_TIMEOUT)
    wait = value_or(probe.initial_delay_seconds, 0) - started_ago
    # Many containers that started at once should not all be asked at once.
    await asyncio.sleep(max(0.0, wait) + random.random() * min(1.0, period / 10))  # noqa: S311
    while True:
        try:
            await ask(float(timeout))
            succeeded = True
        except HandlerFailure as failure:
            succeeded = False
            on_failure(str(failure))
        if counter.count(succeeded):
            on_state(counter.is_good)
            if ends_when_bad and not counter.is_good:
                return
        await asyncio.sleep(period)
