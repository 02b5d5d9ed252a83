"""Keeps TrainJobs: their objects, their status, their deadline."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, PartialObjectMetadata, Resource, UnsetType, is_controlled_by
from quarterdeck.api.k8s import LimitRange
from quarterdeck.errors import ApiError, Conflict, NotFound, QuarterdeckError, Terminal, ignore_not_found
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import lookup, names
from quarterdeck.operators.trainer.index import JOBS_BY_RUNTIME, runtime_value
from quarterdeck.operators.trainer.jobsetkind import JobSetMissing
from quarterdeck.operators.trainer.logic import status as statuses
from quarterdeck.operators.trainer.logic.framework import Framework
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.logic.snapshot import InvalidSnapshot
from quarterdeck.operators.trainer.settings import AUDIT_JITTER, TrainerSettings
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    ClusterTrainingRuntime,
    TrainingRuntime,
    TrainJob,
    TrainJobStatus,
)
from quarterdeck.operators.trainer.types.runtimeclass import RuntimeClass
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext, for_owner
from quarterdeck.runtime.controller.predicate import Predicate, generation_changed, never
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .children import Children
from .ownership import Foreign, read
from .report import Reporter

_LONGEST_RETRY: Final = 60.0
"""Seconds."""
_APPEARS: Final = Predicate(
    "appears", create=lambda event: not event.is_initial, update=never, delete=never, generic=never
)
"""Runtimes that were not there; at the start all TrainJobs are looked at anyway."""
_NOT_NEW: Final = Predicate("not-new", create=lambda event: event.is_initial)
"""What the operator has just made is no news to it; what was there before is."""
_WRITES: Final = (
    Rule(groups=("",), resources=("secrets", "configmaps"), verbs=("create", "patch")),
    Rule(
        groups=(names.COSCHEDULING_GROUP, names.VOLCANO_GROUP),
        resources=("podgroups",),
        verbs=("create", "patch"),
    ),
    Rule(groups=(jobset_names.GROUP,), resources=("jobsets",), verbs=("create", "delete", "patch", "update")),
    # Blocking owner references need this where the server enforces who may set them.
    Rule(groups=(names.GROUP,), resources=("trainjobs/finalizers",), verbs=("update",)),
)
"""Only JobSets are ever deleted: by a deadline, or to be recreated."""


class TrainJobReconciler(Reconciler[TrainJob]):
    """One look at one TrainJob."""

    def __init__(
        self, framework: Framework, settings: TrainerSettings, reporter: Reporter, rng: random.Random
    ) -> None:
        self._framework: Final = framework
        self._settings: Final = settings
        self._reporter: Final = reporter
        self._random: Final = rng
        self._children: Final = Children(framework, settings, reporter)

    async def reconcile(self, ctx: Context[TrainJob]) -> Result | None:
        """Objects first, then the status; an error with the objects does not keep the status from users."""
        job = ctx.obj
        if job.metadata.is_deleting or (spec_of(job).managed_by or names.CONTROLLER) != names.CONTROLLER:
            return None
        status = job.status or TrainJobStatus()
        if not lookup.is_supported(job):
            key = spec_of(job).runtime_ref.key
            await self._write_status(ctx, statuses.with_unsupported_runtime(status, key, ctx.now()))
            raise Terminal(f"unsupported runtime: {key}")
        status = statuses.with_suspension(status, job, ctx.now())
        waits: Result | None = None
        problem: QuarterdeckError | None = None
        if not statuses.is_finished(status) and not _is_overdue(ctx, status):
            try:
                waits = await self._children.keep(ctx)
            except QuarterdeckError as error:
                problem = error
                if not isinstance(error, Conflict | NotLeading):
                    self._reporter.failed(job, error)
        jobset = await self._own_jobset(ctx)
        if jobset is not None:
            status = self._framework.status(job.evolve(status=status), jobset)
        missing = str(problem) if isinstance(problem, JobSetMissing) else ""
        status = statuses.with_jobset_missing(status, missing, ctx.now())
        taken = str(problem) if isinstance(problem, Foreign | InvalidSnapshot) else ""
        status = statuses.with_name_taken(status, taken, ctx.now())
        status = await self._enforce_deadline(ctx, status, jobset)
        await self._write_status(ctx, status)
        if isinstance(problem, lookup.RuntimeMissing):
            ctx.log.info("the runtime is missing; its creation wakes the TrainJob", error=str(problem))
            return self._next_look(ctx, status, audits=False)
        if problem is not None:
            raise problem
        if waits is not None:
            return waits
        if jobset is None and not statuses.is_finished(status):
            raise NotFound(f'jobsets.jobset.x-k8s.io "{job.metadata.name}" not found')
        return self._next_look(ctx, status)

    async def deleted(self, ctx: DeleteContext) -> None:
        """Keep nothing about a TrainJob that is gone."""
        self._children.forget(ctx.key)

    @staticmethod
    async def _own_jobset(ctx: Context[TrainJob]) -> JobSet | None:
        jobset = await read(ctx, JobSet, ctx.key.name)
        is_own = jobset is not None and is_controlled_by(ctx.obj, jobset.metadata)
        return jobset if is_own else None

    async def _enforce_deadline(
        self, ctx: Context[TrainJob], status: TrainJobStatus, jobset: JobSet | None
    ) -> TrainJobStatus:
        if not _is_overdue(ctx, status):
            return status
        if jobset is not None:
            with ignore_not_found():
                await ctx.delete(jobset, propagation="Background")
        return statuses.with_deadline_exceeded(status, ctx.now())

    async def _write_status(self, ctx: Context[TrainJob], status: TrainJobStatus) -> None:
        before = ctx.obj.status or TrainJobStatus()
        if status.conditions != before.conditions:
            ctx.status.conditions = list(status.conditions)
        if status.jobs_status != before.jobs_status:
            ctx.status.jobs_status = list(status.jobs_status)
        try:
            await ctx.write_status()
        except NotFound:
            ctx.note_gone()
        except ApiError as error:
            if not isinstance(error, Conflict):
                self._reporter.status_failed(ctx.obj, error)
            raise

    def _next_look(
        self, ctx: Context[TrainJob], status: TrainJobStatus, *, audits: bool = True
    ) -> Result | None:
        """The next audit, or the deadline if that comes first."""
        if statuses.is_finished(status):
            return None
        period = self._settings.reserved_env_audit_seconds if audits else 0
        looks = [period * self._random.uniform(1 - AUDIT_JITTER, 1 + AUDIT_JITTER)] if period > 0 else []
        end = statuses.deadline(ctx.obj, status)
        if end is not None:
            looks.append(max(end - ctx.now().timestamp(), 0.0) or 0.001)
        return Requeue(after=min(looks), reason="audit") if looks else None


def _is_overdue(ctx: Context[TrainJob], status: TrainJobStatus) -> bool:
    end = statuses.deadline(ctx.obj, status)
    return end is not None and ctx.now().timestamp() >= end


def train_job_controller(
    framework: Framework, settings: TrainerSettings, reporter: Reporter, rng: random.Random
) -> Controller[TrainJob]:
    """The controller, for ``manager.add``."""
    builder = (
        Builder(name=names.TRAIN_JOB_CONTROLLER)
        .for_(TrainJob, predicates=[generation_changed])
        .watches(JobSet, to=_same_name, optional=True, predicates=[_NOT_NEW])
        .watches(LimitRange, to=_suspended_in_namespace, only_metadata=True)
        .watches(RuntimeClass, to=_suspended_with_class, only_metadata=True)
        .watches(TrainingRuntime, to=_unfinished_with_runtime, predicates=[_APPEARS])
        .watches(ClusterTrainingRuntime, to=_unfinished_with_runtime, predicates=[_APPEARS])
        .indexes(TrainJob, JOBS_BY_RUNTIME)
        .rbac(*_WRITES)
        .options(
            field_manager=names.FIELD_MANAGER,
            max_concurrent_reconciles=settings.train_job_workers,
            backoff_cap=_LONGEST_RETRY,
        )
    )
    for watch in framework.watches():
        builder = builder.watches(
            watch.kind,
            to=for_owner(TrainJob),
            optional=watch.is_optional,
            only_metadata=watch.is_metadata_enough,
            predicates=[_NOT_NEW],
        )
    return builder.build(TrainJobReconciler(framework, settings, reporter, rng))


def _same_name(_: MapContext, jobset: Resource) -> Iterable[Key]:
    """A JobSet that is not ours keeps the TrainJob of its name from having one."""
    return (Key(jobset.metadata.namespace, jobset.metadata.name),)


def _unfinished_with_runtime(context: MapContext, runtime: AnyRuntime) -> Iterable[Key]:
    """The TrainJobs that may have waited for a runtime."""
    found = context.cache.lookup(TrainJob, JOBS_BY_RUNTIME(runtime_value(runtime)))
    return [job.key for job in found if not statuses.is_finished(job.status or TrainJobStatus())]


async def _suspended_in_namespace(context: MapContext, limits: PartialObjectMetadata) -> Iterable[Key]:
    jobs = await context.cache.list(TrainJob, namespace=limits.metadata.namespace)
    return [job.key for job in jobs if spec_of(job).suspend]


async def _suspended_with_class(context: MapContext, runtime_class: PartialObjectMetadata) -> Iterable[Key]:
    return [
        job.key
        for job in await context.cache.list(TrainJob)
        if spec_of(job).suspend
        and lookup.is_supported(job)
        and await _uses_class(context, job, runtime_class.metadata.name)
    ]


async def _uses_class(context: MapContext, job: TrainJob, name: str) -> bool:
    try:
        runtime = await lookup.find_runtime(context.cache, job)
    except lookup.RuntimeMissing:
        return False
    template: Any = runtime.spec.template if runtime.spec else None
    jobs = template.spec.replicated_jobs if template else ()
    return any(
        not isinstance(used := each.template.spec.template.spec.runtime_class_name, UnsetType)
        and used == name
        for each in jobs
    )
