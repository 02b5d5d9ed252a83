"""Times, durations, and values that are integers or strings."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import Duration, Time
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.intorstring import resolve_percent


def test_time_is_written_with_whole_seconds_in_utc() -> None:
    moment = datetime(2024, 5, 1, 12, 0, 1, 999, tzinfo=timezone(timedelta(hours=2)))
    assert str(Time.of(moment)) == "2024-05-01T10:00:01Z"
    assert str(MicroTime.of(moment)) == "2024-05-01T10:00:01.000999Z"


def test_untouched_time_keeps_its_text() -> None:
    assert str(Time("2024-05-01T12:00:01.5+02:00")) == "2024-05-01T12:00:01.5+02:00"


def test_times_compare_by_instant() -> None:
    assert Time("2024-05-01T12:00:00+02:00") == Time("2024-05-01T10:00:00Z")
    assert Time("2024-05-01T10:00:00Z") < MicroTime("2024-05-01T10:00:00.000001Z")
    assert hash(Time("2024-05-01T12:00:00+02:00")) == hash(Time("2024-05-01T10:00:00Z"))


def test_time_arithmetic() -> None:
    start = Time("2024-05-01T10:00:00Z")
    assert str(start + timedelta(minutes=1)) == "2024-05-01T10:01:00Z"
    assert (start + timedelta(minutes=1)) - start == timedelta(minutes=1)
    assert str(start - timedelta(hours=1)) == "2024-05-01T09:00:00Z"


@pytest.mark.parametrize("text", ["", "today", "2024-05-01", "2024-05-01T10:00:00", "2024-05-01 10:00:00Z"])
def test_other_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        _ = Time(text).datetime


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))
def test_micro_time_round_trips(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    assert MicroTime(str(MicroTime.of(aware))).datetime == aware


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("4h0m0s", 14400),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("-2s", -2),
        ("250ms", 0.25),
        ("1us", 0.000001),
        ("1µs", 0.000001),
        (".5s", 0.5),
        ("1h1h", 7200),
    ],
)
def test_go_durations_are_read(text: str, seconds: float) -> None:
    assert Duration(text).seconds == seconds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("x", 'time: invalid duration "x"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
    ],
)
def test_bad_durations_are_refused_in_go_words(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        _ = Duration(text).seconds
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1.5µs"),
        (2_000_000, "2ms"),
        (90_000_000_000, "1m30s"),
        (14_400_000_000_000, "4h0m0s"),
        (-1_500_000_000, "-1.5s"),
        (3_600_000_000_001, "1h0m0.000000001s"),
    ],
)
def test_durations_are_written_as_go_does(nanos: int, text: str) -> None:
    assert str(Duration.of(nanoseconds=nanos)) == text


@given(st.integers(-(2**62), 2**62))
def test_durations_round_trip(nanos: int) -> None:
    assert Duration(str(Duration.of(nanoseconds=nanos))).nanoseconds == nanos


def test_percentages_round_as_asked() -> None:
    assert resolve_percent("25%", 10, round_up=True) == 3
    assert resolve_percent("25%", 10, round_up=False) == 2
    assert resolve_percent(4, 10, round_up=True) == 4
    with pytest.raises(ValueError):
        resolve_percent("many", 10, round_up=True)
