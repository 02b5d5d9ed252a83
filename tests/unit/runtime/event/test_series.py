"""When an event becomes a series, and what of it is written when."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api.k8s.events import Event
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.runtime.event.series import FINISH_AFTER, SeriesCache


def event(version: str = "1", **fields: Any) -> Event:
    said = {"type": "Normal", "action": "Scale", "reason": "Scaled", "note": "", **fields}
    regarding = ObjectReference(kind="Gang", name="a", resource_version=version)
    return Event(regarding=regarding, reporting_controller="c", reporting_instance="c-1", **said)


def count(found: Event | None) -> int:
    assert found is not None
    return (found.series.count or 0) if found.series else 1


def test_the_first_is_written_the_second_makes_a_series_and_later_ones_wait() -> None:
    series = SeriesCache()
    written = [series.add(event(), 0.0), series.add(event(), 1.0)]
    assert [count(each) for each in written] == [1, 2]
    assert series.add(event(), 2.0) is None
    assert series.add(event(), 3.0) is None
    assert len(series) == 1


def test_counts_are_written_once_when_they_are_due() -> None:
    series = SeriesCache()
    for second in range(4):
        series.add(event(), second)
    assert [count(each) for each in series.refresh()] == [4]
    assert series.refresh() == []


def test_what_the_server_knows_already_is_not_written_at_the_end() -> None:
    series = SeriesCache()
    series.add(event(), 0.0)
    series.add(event(reason="Again"), 0.0)
    series.add(event(reason="Again"), 0.0)
    for _ in range(3):
        series.add(event(reason="Often"), 0.0)
    assert series.finish(FINISH_AFTER - 1) == []
    assert len(series) == 3
    assert [(each.reason, count(each)) for each in series.finish(FINISH_AFTER)] == [("Often", 3)]
    assert len(series) == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "Warning"},
        {"action": "Other"},
        {"reason": "Other"},
        {"related": ObjectReference(kind="Pod", name="p")},
    ],
    ids=repr,
)
def test_another_kind_of_event_is_another_series(fields: dict[str, Any]) -> None:
    series = SeriesCache()
    series.add(event(), 0.0)
    assert count(series.add(event(**fields), 1.0)) == 1
    assert len(series) == 2


def test_neither_note_nor_versions_make_another_series() -> None:
    series = SeriesCache()
    for version in ("1", "2"):
        related = ObjectReference(kind="Pod", name="p", resource_version=version)
        found = series.add(event(version, note=version, related=related), 0.0)
    assert count(found) == 2
