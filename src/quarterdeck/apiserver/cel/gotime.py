"""Time texts the way Go and the OpenAPI formats read and write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

NANOS: Final = 1_000_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_LOCAL: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}
_PART: Final = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_WORDY_UNITS: Final = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1000000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), NANOS),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * NANOS),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600 * NANOS),
    **dict.fromkeys(("d", "day", "days"), 86400 * NANOS),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 604800 * NANOS),
}
_WORDY: Final = re.compile(r"((\d+)\s*([A-Za-zµ]+))", re.ASCII)


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
    """time.ParseDuration in nanoseconds."""
    body, negative = text, False
    if body[:1] in ("+", "-"):
        negative = body[0] == "-"
        body = body[1:]
    if body == "0":
        return 0
    if not body:
        return None
    total, at = 0, 0
    while at < len(body):
        match = _PART.match(body, at)
        if match is None or not (match.group(1) or match.group(3)):
            return None
        unit = _UNITS[match.group(4)]
        total += int(match.group(1) or 0) * unit
        fraction = match.group(3)
        if fraction:
            fraction = fraction[:18]
            total += int(fraction) * unit // 10 ** len(fraction)
        if total > 1 << 63:
            return None
        at = match.end()
    if negative:
        return -total
    return total if total < 1 << 63 else None


def parse_wordy_duration(text: str) -> int | None:
    """The OpenAPI format duration: Go's, or `3 days`."""
    parsed = parse_duration(text)
    if parsed is not None:
        return parsed
    total, found = 0, False
    for _, number, unit in _WORDY.findall(text):
        factor = _WORDY_UNITS.get(unit)
        if factor is None:
            continue
        found = True
        total += int(number) * factor
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
