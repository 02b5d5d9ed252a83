"""Which start of a CronJob is due: pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from quarterdeck.api import ObjectMeta, Time, owner_reference
from quarterdeck.api.k8s import CronJob, Job
from quarterdeck.cluster.cronjob.schedule import Schedule
from quarterdeck.errors import ConfigError

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY: Final = 100
_DELTA: Final = 0.1
"""Seconds after a start at which it is looked at: not too early by any clock."""


class Due(NamedTuple):
    """What there is between the last start and now."""

    earliest: datetime
    """From when on starts count."""
    time: datetime | None
    """The latest start that is due."""
    missed: Literal["none", "few", "many"]


def zone_name(cron_job: CronJob) -> str:
    """The time zone of a CronJob; empty for that of the cluster."""
    zone = cron_job.spec.time_zone
    return zone if isinstance(zone, str) else ""


def due_start(cron_job: CronJob, schedule: Schedule, now: datetime, *, has_deadline: bool = True) -> Due:
    """The latest start that is due; raises ``ConfigError`` for a schedule that does not move on.

    Without ``has_deadline`` starts count that would come too late.
    """
    earliest = _moment(cron_job.metadata.creation_timestamp)
    last = cron_job.status.last_schedule_time
    if isinstance(last, Time):
        earliest = _moment(last)
    limit = cron_job.spec.starting_deadline_seconds
    if has_deadline and isinstance(limit, int):
        earliest = max(earliest, now - timedelta(seconds=limit))
    first = schedule.next_after(earliest)
    second = schedule.next_after(first) if first is not None else None
    if first is None or second is None:
        raise ConfigError("time difference between two schedules is less than 1 second")
    if now < first:
        return Due(earliest, None, "none")
    if now < second:
        return Due(earliest, first, "none")
    period = round((second - first).total_seconds())
    number = int((now - first).total_seconds()) // period + 1
    start = first + timedelta(seconds=(number - 2) * period)
    latest: datetime | None = None
    time = schedule.next_after(start)
    while time is not None and time <= now:
        latest, time = time, schedule.next_after(time)
    return Due(earliest, latest, "many" if number > _MANY else "few")


def seconds_to_next(cron_job: CronJob, schedule: Schedule, now: datetime) -> float:
    """Seconds until the CronJob has to be looked at again."""
    try:
        due = due_start(cron_job, schedule, now, has_deadline=False)
        base = due.time or (due.earliest if due.missed == "none" else now)
    except ConfigError:
        base = now
    following = schedule.next_after(base)
    if following is None:
        return 86400.0
    return max(0.0, (following - now).total_seconds() + _DELTA)


def job_name(cron_job: CronJob, time: datetime) -> str:
    """The name of the Job of a start: its minute, so that no start makes two."""
    return f"{cron_job.metadata.name}-{int(time.timestamp()) // 60}"


def job_for(cron_job: CronJob, time: datetime, local: datetime) -> Job:
    """The Job of a start; ``local`` is the same time in the zone of the CronJob."""
    template = cron_job.spec.job_template
    text = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Job(
        metadata=ObjectMeta(
            name=job_name(cron_job, time),
            namespace=cron_job.metadata.namespace,
            labels=template.metadata.labels,
            annotations={**template.metadata.annotations, SCHEDULED_AT: text},
            owner_references=(owner_reference(cron_job, controller=True),),
        ),
        spec=template.spec,
    )


def _moment(time: object) -> datetime:
    return time.datetime.astimezone(UTC) if isinstance(time, Time) else datetime.fromtimestamp(0, UTC)
