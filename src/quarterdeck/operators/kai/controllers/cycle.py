"""The scheduling cycle: look at the cluster, decide, carry it out; again and again.

``SchedulingCycle.run_once`` is one cycle, and the door for whoever wants exactly one. ``Ticker`` opens it
periodically; only the leader runs one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from quarterdeck.api import Key
from quarterdeck.client.clock import Clock
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.runtime.log import get_logger
from quarterdeck.scheduler import CycleResult, Settings, Snapshot, schedule
from quarterdeck.scheduler.decision import DeleteBindRequest, NotReady, Unschedulable

from .commit import Committer

BIG: Final = 20
"""Pods above which planning leaves the event loop. How long it takes depends more on who wants whose place
than on their number, so only clusters stay where handing them over would take longer."""
LONGEST_REST: Final = 60.0
"""Seconds after which a cluster that does not change is looked at all the same: events are said again."""
_log: Final = get_logger(__name__)


class SchedulingCycle:
    """One scheduler."""

    def __init__(
        self,
        committer: Committer,
        *,
        take: Callable[[], Snapshot],
        left_over: Callable[[], Sequence[Key]] = tuple,
        version: Callable[[], object] | None = None,
        observe: Callable[[Snapshot, CycleResult], None] | None = None,
        settings: Settings,
        metrics: KaiMetrics,
        clock: Clock,
    ) -> None:
        """``take`` looks at the cluster; ``left_over`` names bind requests to be cleared away.

        As long as ``version`` stays the same, so does the cluster; without it that is never known.
        ``observe`` is told what was seen and what came of it.
        """
        self._observe: Final = observe
        self._committer: Final = committer
        self._take: Final = take
        self._left_over: Final = left_over
        self.settings = settings
        """Used from the next cycle on."""
        self._metrics: Final = metrics
        self._version: Final = version
        self._clock: Final = clock
        self._rest: tuple[object, Settings, CycleResult, float] | None = None
        """What was seen when nothing was left to do, what was said about it, and until when that holds."""
        self._turn: Final = asyncio.Lock()

    async def run_once(self) -> CycleResult:
        """One cycle, from looking to the last write; raises ``ApiError`` and others that stop it."""
        async with self._turn:
            metrics = self._metrics
            with metrics.part("snapshot"):
                if not await self._committer.writes.wait_seen():
                    _log.warning("the cache does not show the writes of the last cycle")
                version = self._version() if self._version is not None else None
                at_rest = self._at_rest(version)
                if at_rest is not None:
                    return at_rest
                snapshot = self._take()
            with metrics.part("plan"):
                result = await self._plan(snapshot)
            with metrics.part("commit"):
                cleared = [DeleteBindRequest(key) for key in self._left_over()]
                await self._committer.carry_out([*cleared, *result.decisions])
            metrics.measure(result)
            if self._observe is not None:
                self._observe(snapshot, result)
            self._rest = None
            if version is not None and _is_at_rest(result) and not _waits_for_time(snapshot, self.settings):
                self._rest = (version, self.settings, result, self._clock.monotonic() + LONGEST_REST)
            return result

    def _at_rest(self, version: object) -> CycleResult | None:
        """The result of the last cycle, if it changed nothing and nothing has changed since."""
        if self._rest is None or version is None:
            return None
        seen, settings, result, until = self._rest
        is_same = seen == version and settings is self.settings and self._clock.monotonic() < until
        return result if is_same else None

    async def _plan(self, snapshot: Snapshot) -> CycleResult:
        if len(snapshot.pods) > BIG:
            return await asyncio.to_thread(schedule, snapshot, self.settings)
        return schedule(snapshot, self.settings)


def _is_at_rest(result: CycleResult) -> bool:
    """Whether a cycle only told who waits."""
    return all(isinstance(each, Unschedulable | NotReady) for each in result.decisions)


def _waits_for_time(snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the same cluster may be decided otherwise later: protection and delays end some day."""
    if settings.preempt_min_runtime or settings.reclaim_min_runtime:
        return True
    return any(queue.preempt_min_runtime or queue.reclaim_min_runtime for queue in snapshot.queues) or any(
        group.preemption_delay for group in snapshot.pod_groups
    )


class Ticker:
    """Runs a cycle every period, for a manager that leads."""

    name: Final = names.SCHEDULER

    def __init__(
        self, run_once: Callable[[], Awaitable[object]], period: float, *, clock: Clock, metrics: KaiMetrics
    ) -> None:
        self._run_once: Final = run_once
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
            await self._run_once()
        except Exception as error:  # noqa: BLE001  supervision point: the next cycle begins from scratch
            _log.error("scheduling cycle failed", error)
            self._metrics.cycle_ended(has_succeeded=False, now=self._clock.time())
        else:
            self._metrics.cycle_ended(has_succeeded=True, now=self._clock.time())
