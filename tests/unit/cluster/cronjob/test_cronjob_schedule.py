"""When CronJobs are due: clock changes, missed starts, names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quarterdeck.api import ObjectMeta, Time
from quarterdeck.api.k8s import CronJob
from quarterdeck.api.k8s.batch import CronJobSpec, CronJobStatus
from quarterdeck.cluster.cronjob.decision import due_start, job_name, seconds_to_next
from quarterdeck.cluster.cronjob.schedule import find_zone, parse_schedule
from quarterdeck.errors import ConfigError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


# Cases of the library that Kubernetes uses.
@pytest.mark.parametrize(
    ("moment", "text", "due"),
    [
        ("2012-11-04T00:00:00-04:00", "0 1 * * *", "2012-11-04T01:00:00-04:00"),
        ("2012-11-04T01:00:00-04:00", "0 1 * * *", "2012-11-04T01:00:00-05:00"),
        ("2012-11-04T01:00:00-05:00", "0 1 * * *", "2012-11-05T01:00:00-05:00"),
        ("2012-11-04T01:45:00-04:00", "0 * * * *", "2012-11-04T01:00:00-05:00"),
        ("2012-11-04T00:00:00-04:00", "0 2 * * *", "2012-11-04T02:00:00-05:00"),
        ("2012-03-11T00:00:00-05:00", "30 2 * * *", "2012-03-12T02:30:00-04:00"),
        ("2012-03-11T01:00:00-05:00", "0 * * * *", "2012-03-11T03:00:00-04:00"),
        ("2012-07-09T15:00:00-04:00", "0 0 29 2 *", "2016-02-29T00:00:00-05:00"),
        ("2012-07-15T00:00:00-04:00", "0 0 1,15 * SUN", "2012-07-22T00:00:00-04:00"),
    ],
)
def test_the_next_time_in_new_york(moment: str, text: str, due: str) -> None:
    assert parse_schedule(text, find_zone("America/New_York")).next_after(at(moment)) == at(due)


def test_a_zone_in_the_schedule_wins_and_every_counts_from_the_last_time() -> None:
    moment = at("2026-01-01T00:00:00+00:00")
    assert parse_schedule("TZ=Asia/Tokyo 0 10 * * *", UTC).next_after(moment) == moment + timedelta(hours=1)
    assert parse_schedule("@every 1h30m", UTC).next_after(moment) == moment + timedelta(minutes=90)
    assert parse_schedule("0 0 30 2 *", UTC).next_after(moment) is None


def test_unknown_zones_and_schedules_are_refused() -> None:
    with pytest.raises(ConfigError):
        find_zone("Mars/Olympus")
    with pytest.raises(ConfigError):
        parse_schedule("@every soon", UTC)


def cron_job(schedule: str = "*/5 * * * *", *, last: str = "", deadline: int | None = None) -> CronJob:
    spec = CronJobSpec(schedule=schedule)
    if deadline is not None:
        spec = spec.evolve(starting_deadline_seconds=deadline)
    return CronJob(
        metadata=ObjectMeta(name="tick", creation_timestamp=Time("2026-01-01T00:00:30Z")),
        spec=spec,
        status=CronJobStatus(last_schedule_time=Time(last)) if last else CronJobStatus(),
    )


def due(job: CronJob, now: str) -> tuple[str | None, str]:
    found = due_start(job, parse_schedule(job.spec.schedule, UTC), at(now))
    return found.time.isoformat() if found.time else None, found.missed


def test_the_latest_missed_start_is_due() -> None:
    assert due(cron_job(), "2026-01-01T00:04:59+00:00") == (None, "none")
    assert due(cron_job(), "2026-01-01T00:05:00+00:00") == ("2026-01-01T00:05:00+00:00", "none")
    assert due(cron_job(), "2026-01-01T00:21:00+00:00") == ("2026-01-01T00:20:00+00:00", "few")
    assert due(cron_job(last="2026-01-01T00:20:00Z"), "2026-01-01T00:21:00+00:00") == (None, "none")


def test_more_than_a_hundred_missed_starts_are_many() -> None:
    assert due(cron_job("* * * * *"), "2026-01-01T03:00:10+00:00") == ("2026-01-01T03:00:00+00:00", "many")


def test_a_deadline_forgets_what_is_older() -> None:
    job = cron_job(deadline=60)
    assert due(job, "2026-01-01T00:21:30+00:00") == (None, "none")
    assert due(job, "2026-01-01T00:20:30+00:00") == ("2026-01-01T00:20:00+00:00", "none")


def test_a_schedule_that_never_comes_is_refused() -> None:
    with pytest.raises(ConfigError, match="less than 1 second"):
        due(cron_job("0 0 30 2 *"), "2026-01-01T00:21:30+00:00")


def test_the_next_look_is_a_moment_after_the_next_start() -> None:
    job = cron_job(last="2026-01-01T00:20:00Z")
    wait = seconds_to_next(job, parse_schedule(job.spec.schedule, UTC), at("2026-01-01T00:21:00+00:00"))
    assert wait == pytest.approx(240.1)


def test_a_job_is_named_after_the_minute_of_its_start() -> None:
    assert job_name(cron_job(), at("2026-01-01T00:05:00+00:00")) == "tick-29453765"
