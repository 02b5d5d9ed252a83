"""The calendar of a CronJob: five fields or a word, in a time zone.

A time that a clock change skips does not happen; one that it repeats happens twice, as with the library that
Kubernetes uses. ``@every 1h30m`` counts from the last time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quarterdeck.api.cron import CronSchedule
from quarterdeck.errors import ConfigError

_HORIZON: Final = 366 * 5
"""Days to look ahead."""
_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_EVERY: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Schedule(Protocol):
    """When something happens."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after a moment; ``None`` if it never comes."""
        ...


def find_zone(name: str) -> tzinfo:
    """A time zone by its name; raises ``ConfigError``."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"unknown time zone {name}") from error


def parse_schedule(text: str, zone: tzinfo) -> Schedule:
    """Read a schedule; a zone in the text wins. Raises ``ConfigError``."""
    match = _PREFIX.fullmatch(text.strip())
    if match is not None:
        zone, text = find_zone(match.group(1)), match.group(2)
    if text.startswith("@every "):
        return _Every(_duration(text.removeprefix("@every ").strip()))
    return _Calendar(CronSchedule.parse(text), zone)


def _duration(text: str) -> float:
    parts = _EVERY.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(f"failed to parse duration @every {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class _Every:
    def __init__(self, seconds: float) -> None:
        self._seconds: Final = max(1, int(seconds))

    def next_after(self, moment: datetime) -> datetime:
        return moment.replace(microsecond=0) + timedelta(seconds=self._seconds)


class _Calendar:
    def __init__(self, fields: CronSchedule, zone: tzinfo) -> None:
        self._fields: Final = fields
        self._zone: Final = zone

    def next_after(self, moment: datetime) -> datetime | None:
        local = moment.astimezone(self._zone)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0)
        for _ in range(_HORIZON):
            if self._fits(day):
                due = min((time for time in self._times(day) if time > moment), default=None)
                if due is not None:
                    return due
            day += timedelta(days=1)
        return None

    def _fits(self, day: datetime) -> bool:
        fields = self._fields
        if day.month not in fields.months:
            return False
        in_month, in_week = day.day in fields.days, day.isoweekday() % 7 in fields.weekdays
        return in_month or in_week if fields.either_day else in_month and in_week

    def _times(self, day: datetime) -> Iterator[datetime]:
        """The moments of a day that fit: none for a time that is skipped, two for one that is repeated."""
        for hour in self._fields.hours:
            for minute in self._fields.minutes:
                wall = day.replace(hour=hour, minute=minute)
                for fold in (0, 1):
                    time = wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)
                    if time.astimezone(self._zone).replace(tzinfo=None, fold=0) == wall:
                        yield time
