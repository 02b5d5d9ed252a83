"""The CronJob controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final

from quarterdeck.api import Key, Time, is_controlled_by
from quarterdeck.api.k8s import CronJob, Job, ObjectReference
from quarterdeck.api.k8s.batch import CronJobStatus
from quarterdeck.cluster.cronjob.decision import due_start, job_for, job_name, seconds_to_next, zone_name
from quarterdeck.cluster.cronjob.schedule import Schedule, find_zone, parse_schedule
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.podwriter import is_terminating
from quarterdeck.errors import (
    AlreadyExists,
    ApiError,
    ConfigError,
    ForeignObject,
    NotFound,
    QuarterdeckError,
    ReconcileError,
)
from quarterdeck.runtime.cache import controlled_by, controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext, for_owner
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.event.subject import reference_to
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.wire.gostyle import quote

NAME: Final = "cronjob-controller"
_WORKERS: Final = 5
_CACHE_PATIENCE: Final = 60.0
_TOO_MANY: Final = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)


def _finish(job: Job) -> str:
    """``Complete`` or ``Failed`` if a Job has ended."""
    ends = (each.type for each in job.status.conditions if each.status == "True")
    return next((each for each in ends if each in ("Complete", "Failed")), "")


class _Run:
    """One look at one CronJob; the status is collected and written at the end."""

    def __init__(self, ctx: Context[CronJob], jobs: Sequence[Job], now: datetime) -> None:
        self._ctx: Final = ctx
        self._jobs: Final = jobs
        self._now: Final = now
        self.status: CronJobStatus = ctx.obj.status

    @property
    def _active(self) -> tuple[ObjectReference, ...]:
        return tuple(self.status.active)

    def _is_active(self, uid: str) -> bool:
        return any(each.uid == uid for each in self._active)

    def _drop(self, uid: str) -> None:
        self.status = self.status.evolve(active=tuple(each for each in self._active if each.uid != uid))

    async def remove_old(self) -> None:
        """Delete ended Jobs beyond the history limits, oldest first."""
        spec = self._ctx.obj.spec
        for end, limit in (
            ("Complete", spec.successful_jobs_history_limit),
            ("Failed", spec.failed_jobs_history_limit),
        ):
            ended = sorted((job for job in self._jobs if _finish(job) == end), key=_start_order)
            if isinstance(limit, int):
                for job in ended[: max(0, len(ended) - limit)]:
                    await self._delete(job)

    async def _delete(self, job: Job) -> bool:
        try:
            await self._ctx.delete(job, propagation="Background")
        except ApiError as error:
            self._ctx.event("Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._drop(job.metadata.uid)
        self._ctx.event("Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")
        return True

    async def follow(self) -> None:
        """See which of the started Jobs have ended, and which are gone."""
        ctx = self._ctx
        for job in self._jobs:
            uid, name, end = job.metadata.uid, job.metadata.name, _finish(job)
            if not end:
                if not self._is_active(uid) and not await self._was_started(uid):
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    ctx.event("Warning", "UnexpectedJob", text)
                continue
            if self._is_active(uid):
                self._drop(uid)
                ctx.event("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {end}")
            done = job.status.completion_time
            last = self.status.last_successful_time
            if end == "Complete" and isinstance(done, Time) and (not isinstance(last, Time) or done > last):
                self.status = self.status.evolve(last_successful_time=done)
        there = {job.metadata.uid for job in self._jobs}
        for each in self._active:
            if each.uid not in there and not await self._exists(each):
                ctx.event("Normal", "MissingJob", f"Active job went missing: {each.name}")
                self._drop(each.uid)

    async def _was_started(self, uid: str) -> bool:
        """Whether the server knows better than the cache."""
        live = await self._ctx.get(CronJob, self._ctx.key.name, self._ctx.key.namespace, live=True)
        if any(each.uid == uid for each in live.status.active):
            self._ctx.replace(live)
            self.status = live.status
            return True
        return False

    async def _exists(self, reference: ObjectReference) -> bool:
        try:
            await self._ctx.get(Job, reference.name, reference.namespace, live=True)
        except NotFound:
            return False
        return True

    async def start(self) -> float | None:
        """Start what is due; returns the seconds until the next look."""
        ctx, cron_job = self._ctx, self._ctx.obj
        schedule = self._schedule()
        if schedule is None:
            return None
        try:
            due = due_start(cron_job, schedule, self._now)
        except ConfigError as error:
            text = f"invalid schedule: {cron_job.spec.schedule} : {error}"
            ctx.event("Warning", "InvalidSchedule", text)
            return None
        wait = seconds_to_next(cron_job, schedule, self._now)
        if due.time is None:
            return wait
        if due.missed == "many":
            ctx.event("Warning", "TooManyMissedTimes", _TOO_MANY)
        if self._is_late(due.time):
            text = f"Missed scheduled time to start a job: {format_datetime(due.time)}"
            ctx.event("Warning", "MissSchedule", text)
            return wait
        if self._is_known(due.time) or not await self._may_start():
            return wait
        if not await self._create(due.time):
            return None
        return seconds_to_next(cron_job.evolve(status=self.status), schedule, self._now)

    def _schedule(self) -> Schedule | None:
        """The schedule; ``None`` if nothing is to be started."""
        ctx, cron_job = self._ctx, self._ctx.obj
        if cron_job.metadata.is_deleting:
            return None
        text, name = cron_job.spec.schedule, zone_name(cron_job)
        try:
            zone = find_zone(name)
        except ConfigError as error:
            ctx.event("Warning", "UnknownTimeZone", f"invalid timeZone: {quote(name)}: {error}")
            return None
        if cron_job.spec.suspend is True:
            return None
        if "TZ" in text:
            where = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
            note = (
                f"CRON_TZ or TZ used in schedule {quote(text)} is not officially supported, see {where} for "
                "more details"
            )
            ctx.event("Warning", "UnsupportedSchedule", note)
        try:
            return parse_schedule(text, zone)
        except ConfigError as error:
            ctx.event("Warning", "UnparseableSchedule", f"unparseable schedule: {quote(text)} : {error}")
            return None

    def _is_late(self, time: datetime) -> bool:
        limit = self._ctx.obj.spec.starting_deadline_seconds
        return isinstance(limit, int) and time.timestamp() + limit < self._now.timestamp()

    def _is_known(self, time: datetime) -> bool:
        """Whether the start was made before."""
        last, name = self.status.last_schedule_time, job_name(self._ctx.obj, time)
        is_last = isinstance(last, Time) and last.timestamp() == time.timestamp()
        return is_last or any(each.name == name for each in self._active)

    async def _may_start(self) -> bool:
        """Whether Jobs that still run allow another; those that are to be replaced are deleted."""
        ctx, policy = self._ctx, self._ctx.obj.spec.concurrency_policy
        if policy == "Forbid" and self._active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            ctx.event("Normal", "JobAlreadyActive", text)
            return False
        if policy == "Replace":
            for each in self._active:
                await self._replace(each)
        return True

    async def _replace(self, reference: ObjectReference) -> None:
        try:
            job = await self._ctx.get(Job, reference.name, reference.namespace, live=True)
        except ApiError as error:
            self._ctx.event("Warning", "FailedGet", f"Get job: {error}")
            raise
        if not await self._delete(job):
            raise ReconcileError(f"could not replace job {job.metadata.namespace}/{job.metadata.name}")

    async def _create(self, time: datetime) -> bool:
        """Make the Job of a start; returns whether it was, now or by a run that did not get further."""
        ctx, cron_job = self._ctx, self._ctx.obj
        wanted = job_for(cron_job, time, time.astimezone(find_zone(zone_name(cron_job))))
        try:
            job = await ctx.create(wanted)
            ctx.event("Normal", "SuccessfulCreate", f"Created job {job.metadata.name}")
        except (AlreadyExists, ForeignObject):
            job = await ctx.get(Job, wanted.metadata.name, wanted.metadata.namespace, live=True)
            if not is_controlled_by(cron_job, job.metadata) or self._is_active(job.metadata.uid):
                return False
        except ApiError as error:
            if not is_terminating(error):
                ctx.event("Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        active = (*self._active, reference_to(job))
        self.status = self.status.evolve(active=active, last_schedule_time=Time.of(time))
        return True


def _start_order(job: Job) -> tuple[bool, float, str]:
    start = job.status.start_time
    return (
        not isinstance(start, Time),
        start.timestamp() if isinstance(start, Time) else 0.0,
        job.metadata.name,
    )


class CronJobReconciler(Reconciler[CronJob]):
    """Starts the Jobs of one CronJob after the other."""

    def __init__(self) -> None:
        self._clock: Final = LoopClock()

    async def reconcile(self, ctx: Context[CronJob]) -> Result | None:
        """Look after the Jobs that were started, and start the next one if it is due."""
        jobs = list(ctx.index(Job, controlled_by(ctx.obj)))
        run = _Run(ctx, jobs, datetime.fromtimestamp(self._clock.time(), UTC))
        failure: QuarterdeckError | None = None
        wait: float | None = None
        await run.remove_old()
        try:
            await run.follow()
            wait = await run.start()
        except QuarterdeckError as error:
            failure = error
        if run.status != ctx.obj.status:
            try:
                ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=run.status)))
            except NotFound:
                ctx.note_gone()
                return None
        if failure is not None:
            raise failure
        return Requeue(after=wait) if wait is not None else None


class _Rescheduled:
    """CronJobs with another schedule: looked at when it first comes, not for what it would have been."""

    def __init__(self) -> None:
        self._waits: dict[Key, float] = {}

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        cron_job: CronJob = event.object
        now = datetime.fromtimestamp(LoopClock().time(), UTC)
        try:
            schedule = parse_schedule(cron_job.spec.schedule, find_zone(zone_name(cron_job)))
        except ConfigError:
            self._waits[event.key] = 0.0
        else:
            self._waits[event.key] = seconds_to_next(cron_job, schedule, now)
        return (event.key,)

    def wait(self, key: Key) -> float:
        """Seconds until the new schedule first comes."""
        return self._waits.pop(key, 0.0)


def _has_new_schedule(event: ObjectEvent[Any]) -> bool:
    old, new = event.old_object, event.object
    return old is not None and (old.spec.schedule, old.spec.time_zone) != (
        new.spec.schedule,
        new.spec.time_zone,
    )


_NEW_SCHEDULE: Final = Predicate(
    "new_schedule", create=lambda _: False, update=_has_new_schedule, delete=lambda _: False
)
_SAME_SCHEDULE: Final = Predicate("same_schedule", update=lambda event: not _has_new_schedule(event))


def cronjob_controller() -> Controller[CronJob]:
    """The controller, for ``manager.add``."""
    rescheduled = _Rescheduled()
    return (
        Builder(name=NAME)
        .for_(CronJob, predicates=[_SAME_SCHEDULE])
        .watches(CronJob, to=rescheduled, predicates=[_NEW_SCHEDULE], delay=rescheduled.wait)
        .watches(Job, to=for_owner(CronJob))
        .indexes(Job, controller_uid)
        .rbac(
            Rule(groups=("batch",), resources=("jobs",), verbs=("create", "delete", "get", "list", "watch")),
            Rule(groups=("batch",), resources=("cronjobs",), verbs=("get",)),
            Rule(groups=("batch",), resources=("cronjobs/status", "cronjobs/finalizers"), verbs=("update",)),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_cap=1000.0,
            consistency_timeout=_CACHE_PATIENCE,
            field_manager=FIELD_MANAGER,
        )
        .build(CronJobReconciler())
    )
