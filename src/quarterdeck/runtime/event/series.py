"""How events of ``events.k8s.io/v1`` become series.

The first event of a kind is created; the second makes it a series of two; later ones are counted in memory
and written every half hour, and once more when the series has been quiet for six minutes. Events are of a
kind when type, action, reason, reporter, object and related object are the same. The note does not count, and
neither does the object's version: what happens to an object again is the same event, although the object
moved on.

Pure: events in, writes out, the date is given.
"""

from typing import Final

import msgspec

from quarterdeck.api import value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s.events import Event, EventSeries

FINISH_AFTER: Final = 360.0
"""Seconds of quiet after which a series is over; also the time between two looks."""
REFRESH_PERIOD: Final = 1800.0
"""Seconds between two writes of a series that goes on: events expire after an hour."""

Parts = tuple[object, ...]


class _Open(msgspec.Struct):
    """An event that may become, or is, a series."""

    event: Event
    last: float
    written: int
    """The count the server knows."""


class SeriesCache:
    """The events that are going on."""

    def __init__(self) -> None:
        self._open: Final[dict[Parts, _Open]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, event: Event, now: float) -> Event | None:
        """What to write for an event: itself, the series it made, or nothing for now."""
        key = _key(event)
        known = self._open.get(key)
        if known is None:
            self._open[key] = _Open(event, now, 1)
            return event
        count = _count(known.event) + 1
        series = EventSeries(count=count, last_observed_time=MicroTime.of_timestamp(now))
        known.event = known.event.evolve(series=series)
        known.last = now
        if count > 2:
            return None
        known.written = count
        return known.event

    def refresh(self) -> list[Event]:
        """The series whose counts the server does not know yet."""
        due = [each for each in self._open.values() if _count(each.event) != each.written]
        for each in due:
            each.written = _count(each.event)
        return [each.event for each in due]

    def finish(self, now: float) -> list[Event]:
        """Forget what has been quiet; returns the series to write a last time."""
        over = {key: each for key, each in self._open.items() if now - each.last >= FINISH_AFTER}
        for key in over:
            del self._open[key]
        return [each.event for each in over.values() if _count(each.event) != each.written]


def _count(event: Event) -> int:
    return value_or(event.series.count, 1) if event.series else 1


def _key(event: Event) -> Parts:
    related = event.related.evolve(resource_version="") if event.related else None
    return (
        event.type,
        event.action,
        event.reason,
        event.reporting_controller,
        event.reporting_instance,
        event.regarding.evolve(resource_version=""),
        related,
    )
