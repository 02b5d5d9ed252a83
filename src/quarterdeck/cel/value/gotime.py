"""Time texts the way Go and the OpenAPI formats read and write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quarterdeck.api import duration

NANOS: Final = 1_000_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_LOCAL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
# The last name of a unit counts with anything behind it: `days`.
_WORDY_UNITS: Final = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1_000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), NANOS),
    (("m", "min"), 60 * NANOS),
    (("h", "hr", "hour"), 3600 * NANOS),
    (("d", "day"), 86400 * NANOS),
    (("w", "wk", "week"), 604800 * NANOS),
)
_WORDY: Final = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")


def _instant(groups: tuple[str | None, ...], offset: int) -> int | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in groups[:6])
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        ordinal = date(year, month, day).toordinal() if year else _year_zero(month, day)
    except ValueError:
        return None
    seconds = (ordinal - _EPOCH_DAY) * 86400 + hour * 3600 + minute * 60 + second - offset
    fraction = (groups[6] if len(groups) > 6 else None) or ""
    return seconds * NANOS + int((fraction + "000000000")[:9])


def _year_zero(month: int, day: int) -> int:
    return date(4, month, day).toordinal() - 1461


def parse_rfc3339(text: str) -> tuple[int, int] | None:
    """Nanoseconds since 1970 and the offset in seconds, as time.Parse(time.RFC3339) does."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    zone = match.group(8)
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    nanos = _instant(match.groups()[:7], offset)
    return None if nanos is None else (nanos, offset)


def parse_date_time(text: str) -> tuple[int, int] | None:
    """The OpenAPI format date-time, which also admits a missing zone."""
    if not text:
        return 0, 0
    parsed = parse_rfc3339(text)
    if parsed is not None:
        return parsed
    match = _LOCAL.fullmatch(text)
    nanos = None if match is None else _instant(match.groups(), 0)
    return None if nanos is None else (nanos, 0)


def parse_date(text: str) -> int | None:
    """The OpenAPI format date; nanoseconds of its midnight UTC."""
    match = _DATE.fullmatch(text)
    return None if match is None else _instant((*match.groups(), "0", "0", "0"), 0)


def parse_duration(text: str) -> int | None:
    """time.ParseDuration in nanoseconds; None for what it refuses."""
    try:
        return duration.parse_duration(text)
    except ValueError:
        return None


def parse_wordy_duration(text: str) -> int | None:
    """The OpenAPI format duration: Go's `1h30m`, or anything with numbers and units in words: `3 days`."""
    parsed = parse_duration(text)
    if parsed is not None:
        return parsed
    total, found = 0, False
    for digits, name in _WORDY.findall(text):
        if len(digits.lstrip("0")) > 19 or int(digits) >= 1 << 63:
            return None
        unit = name.lower()
        for names, length in _WORDY_UNITS:
            if unit in names or unit.startswith(names[-1]):
                found = True
                total += int(digits) * length
    return total if found else None


def civil(nanos: int, zone: tzinfo | None = None) -> datetime:
    """Broken-down time (whole seconds) of an instant; OverflowError outside years 1..9999."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=nanos // NANOS)
    return moment if zone is None else moment.astimezone(zone)


def format_rfc3339(nanos: int, offset: int) -> str:
    """time.RFC3339Nano."""
    moment = civil(nanos + offset * NANOS)
    text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    fraction = nanos % NANOS
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if offset == 0:
        return text + "Z"
    sign, minutes = ("-", -offset // 60) if offset < 0 else ("+", offset // 60)
    return f"{text}{sign}{minutes // 60:02d}:{minutes % 60:02d}"


@lru_cache(maxsize=256)
def load_zone(name: str) -> tzinfo | None:
    """Time zone by name (`Europe/Paris`) or fixed offset (`+02:00`); None when unknown."""
    if ":" in name:
        hours, _, minutes = name.partition(":")
        try:
            hour, minute = int(hours), int(minutes)
        except ValueError:
            return None
        total = hour * 60 - minute if name[0] == "-" else hour * 60 + minute
        try:
            return timezone(timedelta(minutes=total))
        except ValueError:
            return None
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def is_date_time(text: str) -> bool:
    """The test behind the OpenAPI format date-time: letters in any case, any character before the
    fraction."""
    day, _, clock = text.lower().partition("t")
    match = _CLOCK.fullmatch(clock.split("t", 1)[0])
    if match is None or parse_date(day) is None:
        return False
    hour, minute, second = (int(part) for part in match.groups())
    return hour < 24 and minute < 60 and second < 60
