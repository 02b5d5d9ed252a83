"""The JobSet controller.

One reconcile sorts the child Jobs, then does the first of these that applies: tidy up a set that has
finished, act on failures, conclude, or make, suspend and resume Jobs. The status is written once, at the end,
and events tell about it only then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quarterdeck.api import Time, value_or
from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import Job, PersistentVolumeClaim, PodTemplateSpec, Service
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.client.representation import AnyKind
from quarterdeck.errors import (
    ApiError,
    ForeignObject,
    NotFound,
    QuarterdeckError,
    ignore_already_exists,
    ignore_not_found,
)
from quarterdeck.operators.jobset.logic.child import (
    has_hostnames,
    is_suspended,
    job_name,
    make_claim,
    make_job,
    make_service,
    replicas_of,
)
from quarterdeck.operators.jobset.logic.failure import after_failure
from quarterdeck.operators.jobset.logic.state import (
    Event,
    are_all_ready,
    has_reached,
    has_succeeded,
    is_finished,
    job_index,
    no_longer_restarting,
    replicated_status,
    sort_children,
    with_condition,
)
from quarterdeck.operators.jobset.types import JobSet, ReplicatedJob, names
from quarterdeck.runtime.cache import controlled_by, controller_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import for_owner
from quarterdeck.runtime.controller.predicate import Predicate, never
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until_free

NAME: Final = "jobset"
_KINDS: Final[Mapping[str, AnyKind]] = {
    "Job": Job,
    "Service": Service,
    "PersistentVolumeClaim": metadata_of(PersistentVolumeClaim),
}
"""What a JobSet makes, as it is cached."""
_GOES: Final = Predicate("goes", create=never, update=never, generic=never)


class JobSetReconciler(Reconciler[JobSet]):
    """Runs one JobSet after the other; ``jobset_controller`` makes the controller."""

    async def reconcile(self, ctx: Context[JobSet]) -> Result | None:
        """Bring the Jobs and the status of a JobSet up to date."""
        try:
            jobset = await ctx.get(JobSet, ctx.key.name, ctx.key.namespace)
        except NotFound:
            return None
        is_foreign = value_or(jobset.spec.managed_by, names.CONTROLLER) != names.CONTROLLER
        if jobset.metadata.is_deleting or is_foreign:
            return None
        ctx.replace(jobset)
        run = _Run(ctx)
        try:
            result = await run.act()
        except ForeignObject as taken:
            run.taken, result = taken, None
        run.tell_names()
        await run.store()
        if run.taken is None:
            return result
        return Wait(until_free(run.taken, _KINDS[run.taken.kind]), reason="name-taken")


class _Run:
    """One reconcile of one JobSet."""

    def __init__(self, ctx: Context[JobSet]) -> None:
        self.ctx: Final = ctx
        self.jobset: Final = ctx.obj
        self.now: Final = ctx.now()
        self.children: Final = sort_children(self.jobset, ctx.index(Job, controlled_by(self.jobset)))
        self.jobs: Final = {job.name: job for job in self.jobset.spec.replicated_jobs}
        counted = replicated_status(self.jobset, self.children)
        self.counted: Final = {each.name: each for each in counted}
        self.status = self.jobset.status.evolve(
            replicated_jobs_status=counted, restarts=value_or(self.jobset.status.restarts, 0)
        )
        self.events: Final[list[Event]] = []
        self.taken: ForeignObject | None = None
        """Somebody else's object with the name of a child."""

    async def act(self) -> Result | None:
        """Do what is to be done; the new status is left in ``status``."""
        jobset, children = self.jobset, self.children
        if is_finished(jobset) is not None:
            await self._delete(children.active)
            return await self._expire()
        await self._delete(children.previous)
        if not is_suspended(jobset) and are_all_ready(jobset, self.counted):
            self._end_restart("JobsReady", "all jobs are ready")
        if children.failed:
            self.status, events = after_failure(jobset, self.status, children.failed, self.now)
            self.events.extend(events)
            return None
        if children.successful and has_succeeded(jobset, children):
            text = "jobset completed successfully"
            self._set(names.COMPLETED, "AllJobsCompleted", text)
            self._end_restart("JobSetCompleted", text)
            self.status = self.status.evolve(terminal_state=names.COMPLETED)
            return None
        await self._make_service()
        await self._make_claims()
        await self._make_jobs()
        if is_suspended(jobset):
            await self._suspend()
        else:
            await self._resume()
        return None

    async def store(self) -> None:
        """Write the status if it is news, then tell about it."""
        if self.status == self.jobset.status:
            return
        try:
            await self.ctx.client.status.update(self.jobset.evolve(status=self.status))
        except NotFound:
            return
        for event in self.events:
            self.ctx.event("Warning" if event.type == "Warning" else "Normal", event.reason, event.message)

    def tell_names(self) -> None:
        """If the name of a child is somebody else's, say whose, as long as that is so."""
        known = find_condition(self.status.conditions, names.NAME_TAKEN)
        if self.taken is None:
            if known is not None:
                self._set(names.NAME_TAKEN, "NamesAreFree", "all children could be made", holds=False)
            return
        message = str(self.taken)
        if known is None or known.status != "True" or known.message != message:
            self.events.append(Event("Warning", names.NAME_TAKEN, message))
        self.status = with_condition(
            self.status,
            names.NAME_TAKEN,
            reason=f"{self.taken.kind}Exists",
            message=message,
            now=self.now,
            holds=True,
        )

    def _set(self, type: str, reason: str, message: str, *, holds: bool = True) -> None:
        before = self.status
        self.status = with_condition(before, type, reason=reason, message=message, now=self.now, holds=holds)
        if self.status is not before:
            self.events.append(Event("Normal", reason, message))

    def _end_restart(self, reason: str, message: str) -> None:
        before = self.status
        self.status = no_longer_restarting(before, reason, message, self.now)
        if self.status is not before:
            self.events.append(Event("Normal", reason, message))

    async def _delete(self, jobs: Sequence[Job]) -> None:
        """Delete Jobs; each is gone when its pods are."""

        async def delete(job: Job) -> None:
            with ignore_not_found():
                await self.ctx.delete(job, propagation="Foreground")

        _raise_first(await attempt_all([job for job in jobs if not job.metadata.is_deleting], delete))

    async def _expire(self) -> Result | None:
        ttl, end = self.jobset.spec.ttl_seconds_after_finished, is_finished(self.jobset)
        if not isinstance(ttl, int) or end is None or not isinstance(end.last_transition_time, Time):
            return None
        left = end.last_transition_time.timestamp() + ttl - LoopClock().time()
        if left > 0:
            return Requeue(after=left)
        with ignore_not_found():
            await self.ctx.delete(self.jobset, propagation="Foreground")
        return None

    async def _make_service(self) -> None:
        if not has_hostnames(self.jobset):
            return
        wanted = make_service(self.jobset)
        try:
            found = await self.ctx.get(Service, wanted.metadata.name, wanted.metadata.namespace)
        except NotFound:
            try:
                with ignore_already_exists():
                    await self.ctx.create(wanted)
            except ApiError as error:
                self.ctx.event("Warning", "HeadlessServiceCreationFailed", str(error))
                raise
        else:
            try:
                require_ours(wanted, found)
            except ForeignObject as taken:
                self.taken = taken  # it may well serve: users bring Services of their own

    async def _make_claims(self) -> None:
        for policy in self.jobset.spec.volume_claim_policies:
            for template in policy.templates:
                try:
                    with ignore_already_exists():
                        await self.ctx.create(make_claim(self.jobset, policy, template))
                except ApiError as error:
                    self.ctx.event("Warning", "PVCCreationFailed", str(error))
                    raise

    async def _make_jobs(self) -> None:
        """Make the Jobs that are missing and whose turn it is."""
        policy = self.jobset.spec.failure_policy
        is_blocked = policy and policy.restart_strategy == names.BLOCKING_RECREATE and self.children.previous
        in_order = self._starts_in_order and not is_suspended(self.jobset)
        for job in self.jobset.spec.replicated_jobs:
            if not has_reached(job, self.jobs, self.counted):
                continue
            if in_order and self._has_started(job):
                continue
            if not is_blocked:
                await self._create(job)
            if in_order:
                self._announce_start()
                return
        if in_order:
            text = "in order startup policy has completed"
            self._set(names.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", text)

    def _announce_start(self) -> None:
        text = "in order startup policy is in progress"
        self._set(names.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", text)

    @property
    def _starts_in_order(self) -> bool:
        policy = self.jobset.spec.startup_policy
        return bool(policy and policy.startup_policy_order == names.IN_ORDER)

    def _has_started(self, job: ReplicatedJob) -> bool:
        status = self.counted[job.name]
        return status.failed + status.ready + status.succeeded == replicas_of(job)

    async def _create(self, job: ReplicatedJob) -> None:
        taken = self.children.names
        restarts = self.counted[job.name].job_restarts
        missing = [
            make_job(self.jobset, job, index, own_restarts=restarts[index] if index < len(restarts) else 0)
            for index in range(replicas_of(job))
            if job_name(self.jobset, job, index) not in taken
        ]

        async def create(child: Job) -> None:
            try:
                await self.ctx.create(child)
            except ApiError as error:
                text = f'job "{child.metadata.name}" creation failed with error: {error}'
                self.ctx.event("Warning", "JobCreationFailed", text)
                raise

        _raise_first(await attempt_all(missing, create))

    async def _suspend(self) -> None:
        running = [job for job in self.children.active if job.spec.suspend is not True]

        async def suspend(job: Job) -> None:
            await self.ctx.update(job.evolve(spec=job.spec.evolve(suspend=True)))

        _raise_first(await attempt_all(running, suspend))
        self._set(names.SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self._end_restart("JobSetSuspended", "jobset is suspended")

    async def _resume(self) -> None:
        for job in self.jobset.spec.replicated_jobs:
            if not has_reached(job, self.jobs, self.counted):
                continue
            if self._starts_in_order and self._has_started(job):
                continue
            await self._resume_all(job)
            if self._starts_in_order:
                self._announce_start()
                return
        self._set(names.SUSPENDED, "ResumeJobs", "jobset is resumed", holds=False)

    async def _resume_all(self, job: ReplicatedJob) -> None:
        label, suspended = names.REPLICATED_JOB_NAME, []
        for child in self.children.active:
            if child.spec.suspend is True and child.metadata.labels.get(label) == job.name:
                suspended.append(child)

        async def resume(child: Job) -> None:
            wanted = make_job(self.jobset, job, job_index(child)).spec.template
            template = _placed_like(child.spec.template, wanted)
            if template != child.spec.template and child.status.start_time:
                # The API takes another template only from a Job that has not started.
                child = await self.ctx.client.status.patch(child, MergePatch({"status": {"startTime": None}}))
            await self.ctx.update(child.evolve(spec=child.spec.evolve(template=template, suspend=False)))

        _raise_first(await attempt_all(suspended, resume))


def _placed_like(template: PodTemplateSpec, wanted: PodTemplateSpec) -> PodTemplateSpec:
    """What may have been changed about a suspended JobSet: marks are added, places to run are replaced."""
    return template.evolve(
        metadata=template.metadata.evolve(
            labels={**template.metadata.labels, **wanted.metadata.labels},
            annotations={**template.metadata.annotations, **wanted.metadata.annotations},
        ),
        spec=template.spec.evolve(
            node_selector=wanted.spec.node_selector,
            tolerations=wanted.spec.tolerations,
            scheduling_gates=wanted.spec.scheduling_gates,
        ),
    )


def _raise_first(errors: Sequence[QuarterdeckError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


def jobset_controller() -> Controller[JobSet]:
    """The controller, for ``manager.add``; until the kind is installed it has nothing to do."""
    return (
        Builder[JobSet](name=NAME)
        .watches(JobSet, optional=True)
        .watches(Job, to=for_owner(JobSet))
        .watches(Service, to=for_owner(JobSet))
        .watches(PersistentVolumeClaim, to=for_owner(JobSet), only_metadata=True, predicates=[_GOES])
        .indexes(Job, controller_uid)
        .rbac(
            Rule(groups=("batch",), resources=("jobs",), verbs=("create", "delete", "update")),
            Rule(groups=("batch",), resources=("jobs/status",), verbs=("patch",)),
            Rule(groups=("",), resources=("persistentvolumeclaims", "services"), verbs=("create",)),
            Rule(groups=(names.GROUP,), resources=("jobsets",), verbs=("delete",)),
            Rule(groups=(names.GROUP,), resources=("jobsets/status",), verbs=("update",)),
            Rule(groups=(names.GROUP,), resources=("jobsets/finalizers",), verbs=("update",)),
        )
        .options(field_manager="jobset-controller-manager")
        .build(JobSetReconciler())
    )
