"""The scheduling cycle: look at the cluster, decide, carry it out; again and again.

``SchedulingCycle.run_once`` is one cycle, and the door for whoever wants exactly one. ``Ticker`` opens it
periodically; only the leader runs one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from quarterdeck.api import Key
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import Clock
from quarterdeck.scheduler import CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import DeleteBindRequest

from .commit import Committer

BIG: Final = 2_000
"""Pods above which planning leaves the event loop: it takes long enough to be noticed by others."""
_log: Final = get_logger(__name__)


class SchedulingCycle:
    """One scheduler."""

    def __init__(
        self,
        committer: Committer,
        *,
        take: Callable[[], Snapshot],
        left_over: Callable[[], Sequence[Key]] = tuple,
        settings: Settings,
        metrics: KaiMetrics,
    ) -> None:
        """``take`` looks at the cluster; ``left_over`` names bind requests to be cleared away."""
        self._committer: Final = committer
        self._take: Final = take
        self._left_over: Final = left_over
        self.settings = settings
        """Used from the next cycle on."""
        self._metrics: Final = metrics
        self._turn: Final = asyncio.Lock()

    async def run_once(self) -> CycleResult:
        """One cycle, from looking to the last write; raises ``ApiError`` and others that stop it."""
        async with self._turn:
            metrics = self._metrics
            with metrics.part("snapshot"):
                if not await self._committer.writes.wait_seen():
                    _log.warning("the cache does not show the writes of the last cycle")
                snapshot = self._take()
            with metrics.part("plan"):
                result = await self._plan(snapshot)
            with metrics.part("commit"):
                cleared = [DeleteBindRequest(key) for key in self._left_over()]
                await self._committer.carry_out([*cleared, *result.decisions])
            metrics.measure(result)
            return result

    async def _plan(self, snapshot: Snapshot) -> CycleResult:
        if len(snapshot.pods) > BIG:
            return await asyncio.to_thread(schedule, snapshot, self.settings)
        return schedule(snapshot, self.settings)


class Ticker:
    """Runs a cycle every period, for a manager that leads."""

    name: Final = names.SCHEDULER

    def __init__(self, cycle: SchedulingCycle, period: float, *, clock: Clock, metrics: KaiMetrics) -> None:
        self._cycle: Final = cycle
        self._period: Final = period
        self._clock: Final = clock
        self._metrics: Final = metrics

    async def run(self) -> None:
        """Run cycles until cancelled; one that fails does not end it."""
        while True:
            started = self._clock.monotonic()
            await self._tick()
            await self._clock.sleep(max(0.0, started + self._period - self._clock.monotonic()))

    async def _tick(self) -> None:
        try:
            await self._cycle.run_once()
        except Exception as error:  # noqa: BLE001  supervision point: the next cycle begins from scratch
            _log.error("scheduling cycle failed", error)
            self._metrics.cycle_ended(has_succeeded=False, now=self._clock.time())
        else:
            self._metrics.cycle_ended(has_succeeded=True, now=self._clock.time())
