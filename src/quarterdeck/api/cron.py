"""The calendar of cron: when something happens again and again.

A schedule has the five fields of cron: minute, hour, day of month, month, day of week. Each is ``*``, a
number, a range ``a-b``, a list ``a,b``, any of these with a step ``/n``, and months and weekdays may be named
(``JAN``, ``MON``; Sunday is 0 or 7). If both days are restricted, either fits. ``@hourly``, ``@daily``,
``@weekly``, ``@monthly`` and ``@yearly`` are known.

Times are those of a time zone. A time that a clock change skips does not happen; one that it repeats happens
once.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Self

import msgspec

from quarterdeck.errors import ConfigError

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ANY: Final = ("*", "?")
_HORIZON: Final = 366 * 8
"""Days to look ahead: the 29th of February may be eight years away."""


class CronSchedule(msgspec.Struct, frozen=True):
    """When something happens; ``CronSchedule.parse("*/5 * * * *")``."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """Whether a fitting day of month or a fitting weekday is enough."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a schedule; raises ``ConfigError`` naming the field that is wrong."""
        fields = _MACROS.get(text.strip(), text).split()
        if len(fields) != 5:
            raise ConfigError(f'schedule "{text}": expected 5 fields, found {len(fields)}')
        weekdays = _field("day of week", fields[4], 0, 7, _WEEKDAYS)
        return cls(
            minutes=_field("minute", fields[0], 0, 59),
            hours=_field("hour", fields[1], 0, 23),
            days=_field("day of month", fields[2], 1, 31),
            months=_field("month", fields[3], 1, 12, _MONTHS),
            weekdays=frozenset(day % 7 for day in weekdays),
            either_day=not (fields[2].startswith(_ANY) or fields[4].startswith(_ANY)),
        )

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime:
        """The first time after ``moment``; raises ``ConfigError`` if it never comes (30 February)."""
        return next(found for found in self._times(moment, zone, 1) if found > moment)

    def last_before(self, moment: datetime, zone: tzinfo = UTC) -> datetime:
        """The last time before ``moment``; raises ``ConfigError`` if it never comes (30 February)."""
        return next(found for found in self._times(moment, zone, -1) if found < moment)

    def _times(self, moment: datetime, zone: tzinfo, step: int) -> Iterator[datetime]:
        """Times from the day of a moment on, or from there back."""
        hours, minutes = sorted(self.hours)[::step], sorted(self.minutes)[::step]
        day = moment.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        for _ in range(_HORIZON):
            if self._fits(day):
                for hour in hours:
                    for minute in minutes:
                        found = _exact(day.replace(hour=hour, minute=minute), zone)
                        if found is not None:
                            yield found
            day += timedelta(days=step)
        raise ConfigError("the schedule never comes: no such day")

    def _fits(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def _exact(local: datetime, zone: tzinfo) -> datetime | None:
    """A local time as a moment; ``None`` if clocks skip it."""
    moment = local.replace(tzinfo=zone).astimezone(UTC)
    return moment if moment.astimezone(zone).replace(tzinfo=None) == local else None


def _field(name: str, text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = _number(name, step_text, 1, high, ()) if step_text or part.endswith("/") else 1
        if span in _ANY:
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(name, start, low, high, names)
            last = _number(name, end, low, high, names) if dash else high if step_text else first
        if first > last:
            raise ConfigError(f"{name}: {span} goes backwards")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _number(name: str, text: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text.upper() in names:
        return names.index(text.upper()) + low
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ConfigError(f'{name}: "{text}" is no number from {low} to {high}')
    return int(text)
