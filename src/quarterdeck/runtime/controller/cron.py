"""Keys by the calendar: the source that follows a cron schedule."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, tzinfo
from typing import Final

from quarterdeck.api import Key
from quarterdeck.api.cron import CronSchedule
from quarterdeck.runtime.controller.source import SourceContext


class CronSource:
    """The same keys whenever a schedule says so. Runs that were missed are not made up for."""

    def __init__(
        self,
        schedule: str,
        keys: Iterable[Key] | Callable[[], Iterable[Key]],
        *,
        zone: tzinfo = UTC,
        priority: int = 0,
    ) -> None:
        """``keys`` may be a function, which is asked each time."""
        self._schedule: Final = CronSchedule.parse(schedule)
        self._keys: Final = keys if callable(keys) else tuple(keys)
        self._zone: Final = zone
        self._priority: Final = priority
        self.name: Final = f"cron source: {schedule}"

    async def run(self, context: SourceContext) -> None:
        """Enqueue at the times of the schedule until cancelled."""
        context.synced()
        clock = context.clock
        while True:
            now = datetime.fromtimestamp(clock.time(), UTC)
            due = self._schedule.next_after(now, self._zone)
            await clock.sleep((due - now).total_seconds())
            if clock.time() < due.timestamp():
                continue  # the date was set back meanwhile, or the timer was early
            for key in self._keys() if callable(self._keys) else self._keys:
                context.enqueue(key, self._priority)
