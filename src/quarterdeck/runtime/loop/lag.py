"""Is the event loop being blocked, and by whom?

A task ticks every 100 ms and measures how late it is. A thread watches the ticks; when they stop for more
than half a second it samples the stack of the loop's thread, which at that moment shows the culprit, and
logs it once per stall. Everything that shares the loop suffers from such a stall: probes, watches, leases.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

import msgspec

from quarterdeck.runtime.log.field import get_logger

TICK: Final = 0.1
WARN_AFTER: Final = 0.5

_log: Final = get_logger(__name__)


class LoopLagStatistics(msgspec.Struct, frozen=True):
    """How late the loop has been."""

    last: float
    """Seconds the last tick was late."""
    worst: float
    stalls: int
    """How often it was late by more than the limit."""
    culprit: str
    """The innermost frames during the last stall."""


class LoopLag:
    """Watches one event loop; a runnable that needs no leadership."""

    needs_leader_election: Final = False

    def __init__(
        self,
        *,
        tick: float = TICK,
        warn_after: float = WARN_AFTER,
        observe: Callable[[float], None] | None = None,
    ) -> None:
        """``observe`` gets the lag of every tick, for a metric."""
        self._tick: Final = tick
        self._warn_after: Final = warn_after
        self._observe: Final = observe
        self._beat = 0.0
        self._last = 0.0
        self._worst = 0.0
        self._stalls = 0
        self._culprit = ""

    @property
    def lag(self) -> float:
        """Seconds the loop is late right now; may be read from any thread."""
        return max(self._last, time.monotonic() - self._beat - self._tick) if self._beat else 0.0

    def statistics(self) -> LoopLagStatistics:
        """Last and worst lag, stalls, and who caused the last one."""
        return LoopLagStatistics(self._last, self._worst, self._stalls, self._culprit)

    async def run(self) -> None:
        """Tick until cancelled."""
        self._beat = time.monotonic()
        ended = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(threading.get_ident(), ended), name="loop-lag", daemon=True
        )
        watcher.start()
        try:
            while True:
                await asyncio.sleep(self._tick)
                now = time.monotonic()
                self._last = max(0.0, now - self._beat - self._tick)
                self._worst = max(self._worst, self._last)
                self._beat = now
                if self._observe is not None:
                    self._observe(self._last)
        finally:
            ended.set()
            watcher.join(1.0)
            self._beat = 0.0

    def _watch(self, loop_thread: int, ended: threading.Event) -> None:
        reported = 0.0
        while not ended.wait(self._tick):
            beat = self._beat
            late = time.monotonic() - beat - self._tick
            if late <= self._warn_after or beat == reported:
                continue
            reported = beat
            self._stalls += 1
            frame = sys._current_frames().get(loop_thread)
            stack = traceback.format_stack(frame)[-6:] if frame is not None else []
            self._culprit = "".join(stack)
            _log.warning("event loop is blocked", seconds=round(late, 3), stack=self._culprit)
