"""The Job controller.

One reconcile: find the pods, see how the Job stands (``decision``), make or remove pods, count those that
ended (``tracking``). The runtime holds a key back until the cache shows what the run before wrote; should
that take too long, the records of pods (``claim``) know what has yet to be seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from quarterdeck.api import UNSET, Key, Time, UnsetType, value_or
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.api.k8s.batch import JobCondition, JobStatus, UncountedTerminatedPods
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.backoff import JobSettings
from quarterdeck.cluster.job.child import PodMaker
from quarterdeck.cluster.job.claim import PodRecords, selector_of
from quarterdeck.cluster.job.decision import (
    Assessment,
    assess,
    is_complete,
    is_finished,
    is_suspended,
    make_condition,
    plan,
    success,
)
from quarterdeck.cluster.job.podcontrol import free_pod, free_pods
from quarterdeck.cluster.job.podstate import PodState
from quarterdeck.cluster.job.tracking import account, conclude, settle
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.podset.claim import uncontrolled
from quarterdeck.cluster.podset.podwriter import Outcome, create_pods, remove_pods
from quarterdeck.cluster.podset.source import ClaimantsOf
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.runtime.cache import controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "job-controller"
_WORKERS: Final = 5
_FIRST_RETRY: Final = 1.0
_LONGEST_RETRY: Final = 60.0
_DOUBT: Final = 5.0
"""Seconds after which a Job is looked at again whose pods have not been seen."""


class _Step(NamedTuple):
    """What a look at a Job came to."""

    status: JobStatus
    finished: JobCondition | None
    wait: float
    suspension: str
    """``Suspended`` or ``Resumed`` if that is news."""
    error: QuarterdeckError | None


class JobReconciler(Reconciler[Job]):
    """Runs one Job after the other; ``job_controller`` makes the controller."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings: Final = settings
        self._clock: Final = LoopClock()
        self._records: dict[Key, PodRecords] = {}

    def batch_period(self, key: Key) -> float:
        """Seconds for which changes of the pods of a Job are gathered: longer for a large one."""
        size = len(self._records[key]) if key in self._records else 0
        return self._settings.batch_period + size * self._settings.batch_period_per_pod

    async def deleted(self, ctx: DeleteContext) -> None:
        """Forget a Job."""
        self._records.pop(ctx.key, None)

    def _records_of(self, key: Key, uid: str) -> PodRecords:
        """The records of a Job; another one of the same name begins with new ones."""
        records = self._records.get(key)
        if records is None or records.job_uid != uid:
            records = self._records[key] = PodRecords(uid)
        return records

    async def reconcile(self, ctx: Context[Job]) -> Result | None:
        """Bring pods and status of a Job up to date."""
        job = ctx.obj
        if value_or(job.spec.managed_by, names.CONTROLLER) != names.CONTROLLER:
            return None
        if is_finished(job):
            self._records.pop(ctx.key, None)
            return None
        if job.spec.completion_mode not in (UNSET, "NonIndexed", "Indexed"):
            text = "Skipped Job sync because completion mode is unknown"
            ctx.event("Warning", "UnknownCompletionMode", text)
            return None
        now = self._clock.time()
        status = _started(job, now)
        started = status.start_time if isinstance(status.start_time, Time) else None
        records = self._records_of(ctx.key, job.metadata.uid)
        pods = await records.claim(ctx, now)
        if pods is None:
            return None
        is_in_doubt = records.is_in_doubt  # before new pods are made
        found = assess(job, pods, records.failures, now=now, started=started)
        step = await self._act(ctx, records, found, status, now)
        try:
            await self._track(ctx, records, found, step, now)
        except NotFound:
            ctx.note_gone()
            return None
        if step.error is not None:
            raise step.error
        waits = [wait for wait in (found.deadline_in, step.wait, _DOUBT if is_in_doubt else 0) if wait]
        return Requeue(after=min(waits)) if waits else None

    async def _act(
        self, ctx: Context[Job], records: PodRecords, found: Assessment, status: JobStatus, now: float
    ) -> _Step:
        """Make or remove pods; what it comes to goes into the status."""
        job, active = ctx.obj, len(found.active)
        is_managed = not job.metadata.is_deleting and not records.is_behind
        finished, wait, suspension = found.finished, 0.0, ""
        removed = Outcome()
        error: QuarterdeckError | None = None
        if finished is not None:
            removed = await remove_pods(ctx, found.active)
            error = removed.error
            if removed.number != active or records.is_behind:
                finished = None  # not yet: some pods are still to be stopped, or to be seen
            active -= removed.number
        else:
            if is_managed:
                todo = plan(job, found, now=now, settings=self._settings)
                wait = todo.wait
                if todo.remove:
                    removed = await remove_pods(ctx, todo.remove, before=_uncounted(ctx))
                    active, error = active - removed.number, removed.error
                elif todo.create:
                    pods = _new_pods(job, todo.create, found.delayed)
                    made = await create_pods(ctx, pods, note=lambda pod: records.made(pod, now))
                    active, error = active + made.number, made.error
            if is_complete(job, found, active):
                finished = success(now)
            elif is_managed:
                status, suspension = _with_suspension(job, status, now)
        status = status.evolve(
            active=active or UNSET,
            ready=found.ready - removed.ready,
            terminating=found.terminating + removed.number,
        )
        return _Step(status, finished, wait, suspension, error)

    async def _track(
        self, ctx: Context[Job], records: PodRecords, found: Assessment, step: _Step, now: float
    ) -> None:
        """Count pods that ended, and end the Job when nothing is left to be counted."""
        counted = account(ctx.obj, step.status, found, step.finished, now)
        await self._store(ctx, counted.status)
        records.failures = found.failures
        if step.suspension:
            ctx.event("Normal", step.suspension, f"Job {step.suspension.lower()}")
        freed, error = await free_pods(ctx, counted.free)
        records.freed(freed, now)
        tracked = {pod.uid for pod in found.pods if pod.is_tracked and pod.uid not in freed}
        status = settle(counted.status, tracked)
        if error is not None:
            await self._store(ctx, status)
            raise error
        if not counted.is_capped:
            status = conclude(status, counted.ending)
        has_ended = len(status.conditions) > len(counted.status.conditions)
        await self._store(ctx, status)
        if has_ended and counted.ending is not None:
            self._tell_end(ctx, counted.ending)

    @staticmethod
    async def _store(ctx: Context[Job], status: JobStatus) -> None:
        if status != ctx.obj.status:
            ctx.replace(await ctx.client.status.update(ctx.obj.evolve(status=status)))

    @staticmethod
    def _tell_end(ctx: Context[Job], ending: JobCondition) -> None:
        if ending.type == names.FAILED:
            ctx.event("Warning", ending.reason, ending.message)
            return
        completions = ctx.obj.spec.completions
        if not isinstance(completions, UnsetType) and value_or(ctx.obj.status.succeeded, 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            ctx.event("Warning", "TooManySucceededPods", text)
        ctx.event("Normal", "Completed", "Job completed")


def _started(job: Job, now: float) -> JobStatus:
    status = job.status
    if not status.uncounted_terminated_pods:
        status = status.evolve(uncounted_terminated_pods=UncountedTerminatedPods())
    if not status.start_time and not is_suspended(job):
        status = status.evolve(start_time=Time.of_timestamp(now))
    return status


def _with_suspension(job: Job, status: JobStatus, now: float) -> tuple[JobStatus, str]:
    """The condition Suspended as it should be, and what changed about it."""
    start: Time | UnsetType
    if is_suspended(job):
        wanted = make_condition(names.SUSPENDED, "JobSuspended", "Job suspended", now)
        news, start = "Suspended", UNSET
    else:
        wanted = make_condition(names.SUSPENDED, "JobResumed", "Job resumed", now, "False")
        news, start = "Resumed", Time.of_timestamp(now)
    known = next((each for each in status.conditions if each.type == names.SUSPENDED), None)
    if known is None and wanted.status == "False":
        return status, ""  # it never was
    if known is not None and (known.status, known.reason) == (wanted.status, wanted.reason):
        return status, ""
    others = [wanted if each.type == names.SUSPENDED else each for each in status.conditions]
    conditions = others if known is not None else [*others, wanted]
    # The deadline counts from the moment a Job is resumed.
    return status.evolve(conditions=conditions, start_time=start), news


def _new_pods(job: Job, indexes: Iterable[int | None], predecessors: Mapping[int, PodState]) -> Iterator[Pod]:
    """A pod for each index; in the place of a failed one if there was one."""
    maker = PodMaker(job)
    for index in indexes:
        yield maker.make(index, predecessors.get(index) if index is not None else None)


def _uncounted(ctx: Context[Job]) -> Callable[[PodState], Awaitable[None]]:
    """What lets a pod go without being counted."""

    async def free(pod: PodState) -> None:
        if pod.is_tracked:
            await free_pod(ctx.client, pod.reference)

    return free


def job_controller(settings: JobSettings | None = None) -> Controller[Job]:
    """The controller, for ``manager.add``."""
    settings = settings if settings is not None else JobSettings()
    reconciler = JobReconciler(settings)
    return (
        Builder(Job, name=NAME)
        .watches(Pod, to=ClaimantsOf(Job, selector_of), delay=reconciler.batch_period)
        .indexes(Pod, controller_uid, uncontrolled)
        .rbac(
            Rule(
                groups=("",), resources=("pods",), verbs=("create", "delete", "get", "list", "patch", "watch")
            ),
            Rule(groups=("batch",), resources=("jobs/status",), verbs=("update",)),
            Rule(groups=("batch",), resources=("jobs/finalizers",), verbs=("update",)),
        )
        .options(
            max_concurrent_reconciles=_WORKERS,
            backoff_base=_FIRST_RETRY,
            backoff_cap=_LONGEST_RETRY,
            field_manager=FIELD_MANAGER,
        )
        .build(reconciler)
    )
