"""Keeps the objects of a TrainJob: reads what is there, renders, writes what differs, repairs.

Every object is written only if it is absent or the TrainJob's own. A JobSet that runs is not rendered anew;
of it only variables that somebody changed are put right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from quarterdeck.api import Key, Resource, is_controlled_by
from quarterdeck.api.k8s import ConfigMap, Secret
from quarterdeck.client import MergePatch
from quarterdeck.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    ForeignObject,
    Invalid,
    NotFound,
    QuarterdeckError,
)
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.jobsetkind import JobSetMissing, is_jobset_served
from quarterdeck.operators.trainer.keys import new_secret
from quarterdeck.operators.trainer.logic.env import reserved_in
from quarterdeck.operators.trainer.logic.framework import Framework, is_running
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.logic.overriderule import active_jobs
from quarterdeck.operators.trainer.logic.plugin import Component, Present, Rendering
from quarterdeck.operators.trainer.logic.secret import key_digest, secret_name
from quarterdeck.operators.trainer.lookup import RuntimeMissing, find_runtime
from quarterdeck.operators.trainer.settings import AUDIT_JITTER, TrainerSettings
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    CoschedulingPodGroup,
    MLPolicy,
    PodGroupPolicy,
    TrainJob,
    VolcanoPodGroup,
)
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result, Wait, until_gone

from .audit import Auditor, Finding
from .ownership import Foreign, claim, read, read_live
from .recreation import recreate
from .report import Reporter
from .snapshot import Snapshot, Snapshots, recorded, with_record


class _Plan(msgspec.Struct, frozen=True):
    """What one reconcile is about to write, and what it goes by."""

    runtime: AnyRuntime
    snapshot: Snapshot | None
    present: Present
    rendering: Rendering


class Children:
    """What every reconcile of a TrainJob uses to bring its objects about."""

    def __init__(self, framework: Framework, settings: TrainerSettings, reporter: Reporter) -> None:
        self._framework: Final = framework
        self._settings: Final = settings
        self._reporter: Final = reporter
        self._auditor: Final = Auditor(framework, settings, reporter)
        self._snapshots: Final = Snapshots()
        self._looked: Final[dict[Key, float]] = {}
        """When a TrainJob's JobSet was last read from the server."""

    def forget(self, key: Key) -> None:
        """The TrainJob is gone."""
        self._looked.pop(key, None)
        self._snapshots.forget(key)

    async def keep(self, ctx: Context[TrainJob]) -> Result | None:
        """Bring the objects of an unfinished TrainJob about.

        Returns what to wait for if that is not possible now; raises what went wrong.
        """
        try:
            return await self._keep(ctx)
        except ForeignObject as error:  # it came between the look and the write
            self._reporter.metrics.foreign.labelled(error.kind).inc()
            raise Foreign(error.kind, error.namespace, error.name, error.holder) from error
        except Foreign as error:
            self._reporter.metrics.foreign.labelled(error.kind).inc()
            raise

    async def _keep(self, ctx: Context[TrainJob]) -> Result | None:
        job = ctx.obj
        jobset = await self._jobset(ctx)
        snapshot = await self._snapshots.load(ctx) if self._settings.runtime_snapshot else None
        runtime = snapshot.runtime if snapshot is not None else await self._find_runtime(ctx)
        if jobset is not None and jobset.metadata.is_deleting:
            return Wait(until_gone(jobset, JobSet), reason="jobset-goes")
        self._report_ignored(job, runtime)
        record = snapshot.record if snapshot is not None else recorded(jobset)
        finding = await self._auditor.find(ctx, runtime, jobset, record) if jobset is not None else None
        present = await self._present(ctx, runtime, jobset, record)
        self._report_key(job, runtime, present)
        if finding is not None and is_running(job, jobset):
            waits = await self._auditor.repair(ctx, finding)
            if waits is not None:
                return waits
            finding = None
        rendering = self._framework.render(job, runtime, present)
        plan = _Plan(runtime, snapshot, present, rendering)
        return await self._write_all(ctx, plan, finding)

    async def _write_all(self, ctx: Context[TrainJob], plan: _Plan, finding: Finding | None) -> Result | None:
        """Write a JobSet as a whole, which also puts right what was found."""
        try:
            waits = await self._write(ctx, plan)
        except (Invalid, Forbidden):
            if finding is not None:
                self._reporter.drift(ctx.obj, finding.variables, "pending")
            raise
        if finding is not None and waits is None:
            await self._auditor.settle(ctx, finding, plan.rendering.record)
        elif finding is not None:
            self._reporter.drift(ctx.obj, finding.variables, "recreated")
        return waits

    async def _jobset(self, ctx: Context[TrainJob]) -> JobSet | None:
        """The JobSet; read from the server unless it runs, because then it is about to be written.

        One that runs is read from there once in a period: an audit must not rest on events alone.
        """
        job, now = ctx.obj, ctx.now().timestamp()
        cached = await read(ctx, JobSet, job.metadata.name)
        is_own = cached is not None and is_controlled_by(job, cached.metadata)
        if is_own and is_running(job, cached) and not self._is_audit_due(ctx.key, now):
            return cached
        self._looked[ctx.key] = now
        live = await read_live(ctx, JobSet, job.metadata.name)
        return await claim(ctx, live) if live is not None else None

    def _is_audit_due(self, key: Key, now: float) -> bool:
        period = self._settings.reserved_env_audit_seconds
        return period > 0 and now - self._looked.get(key, 0.0) >= period * (1 - AUDIT_JITTER)

    @staticmethod
    async def _find_runtime(ctx: Context[TrainJob]) -> AnyRuntime:
        try:
            return await find_runtime(ctx.cache, ctx.obj)
        except RuntimeMissing:
            # The cache may be behind: a TrainJob is often created right after its runtime.
            return await find_runtime(ctx.client, ctx.obj)

    async def _present(
        self, ctx: Context[TrainJob], runtime: AnyRuntime, jobset: JobSet | None, record: Mapping[str, str]
    ) -> Present:
        policy = (runtime.spec.ml_policy if runtime.spec else None) or MLPolicy()
        gang = (runtime.spec.pod_group_policy if runtime.spec else None) or PodGroupPolicy()
        secret: Secret | None = None
        name = secret_name(policy, ctx.key.name)
        if name:
            found = await read_live(ctx, Secret, name)
            secret = await claim(ctx, found) if found is not None else None
        made = new_secret(policy, ctx.obj) if secret is None else None
        group: Resource | None = None
        if gang.coscheduling:
            group = await read(ctx, CoschedulingPodGroup, ctx.key.name)
        elif gang.volcano:
            group = await read(ctx, VolcanoPodGroup, ctx.key.name)
        if group is not None and not is_controlled_by(ctx.obj, group.metadata):
            live = await read_live(ctx, type(group), ctx.key.name)
            group = await claim(ctx, live) if live is not None else None
        return Present(
            jobset=jobset,
            secret=secret,
            new_secret=made,
            has_pod_group=group is not None,
            record=record,
        )

    def _report_ignored(self, job: TrainJob, runtime: AnyRuntime) -> None:
        owner = self._framework.env_owner(runtime)
        ignored = reserved_in(job, owner.reserved) if owner is not None else []
        if ignored:
            self._reporter.ignored(job, ignored)

    def _report_key(self, job: TrainJob, runtime: AnyRuntime, present: Present) -> None:
        """A Secret that is not the one a running JobSet was made with."""
        jobset, secret = present.jobset, present.secret
        if jobset is None or secret is None or not is_running(job, jobset):
            return
        expected = present.record.get(names.KEY_DIGEST)
        if expected is not None and expected != key_digest(secret) and active_jobs(jobset):
            self._reporter.key_replaced(job, secret)

    async def _write(self, ctx: Context[TrainJob], plan: _Plan) -> Result | None:
        """What a JobSet was made with is noted before it is there: it may start at once."""
        for component in plan.rendering.components:
            if component.is_created_once:
                await self._create(ctx, component, plan.present)
            elif isinstance(component.obj, JobSet):
                made = component.obj
                if self._settings.runtime_snapshot:
                    await self._keep_snapshot(ctx, plan)
                else:
                    made = with_record(made, plan.rendering.record)
                return await self._apply_jobset(ctx, made, plan.present.jobset)
            else:
                await self._apply(ctx, component.obj)
        if self._settings.runtime_snapshot:
            await self._keep_snapshot(ctx, plan)
        return None

    async def _keep_snapshot(self, ctx: Context[TrainJob], plan: _Plan) -> None:
        await self._snapshots.store(ctx, plan.runtime, plan.rendering.record, plan.snapshot)

    async def _create(self, ctx: Context[TrainJob], component: Component, present: Present) -> None:
        try:
            await ctx.create(component.obj)
        except AlreadyExists as error:
            # Somebody was faster. What was rendered with it (the digest of a key) is wrong: begin again.
            raise Conflict(str(error)) from error
        if isinstance(component.obj, Secret) and present.jobset is not None and active_jobs(present.jobset):
            self._reporter.key_replaced(ctx.obj, component.obj)

    @staticmethod
    async def _apply(ctx: Context[TrainJob], obj: Resource) -> None:
        found = await read_live(ctx, type(obj), obj.metadata.name)
        if found is not None:
            await claim(ctx, found)
        if isinstance(found, ConfigMap) and isinstance(obj, ConfigMap) and found.data == obj.data:
            return  # no cache holds the data of ConfigMaps, so nothing else would tell
        await ctx.apply(_guarded(obj, found))

    async def _apply_jobset(
        self, ctx: Context[TrainJob], obj: JobSet, present: JobSet | None
    ) -> Result | None:
        try:
            if present is None and await read(ctx, JobSet, obj.metadata.name) is not None:
                # The cache does not know yet that it is gone. Without force: nobody else's is taken over.
                await ctx.client.apply(obj, force=False)
            else:
                await ctx.apply(_guarded(obj, present))
        except NotFound:
            if await is_jobset_served(ctx.client):
                raise
            raise JobSetMissing from None
        except (Invalid, Forbidden) as error:
            if present is None or "immutable" not in str(error):
                raise
            return await self._recover(ctx, present, error)
        return None

    async def _recover(
        self, ctx: Context[TrainJob], jobset: JobSet, refusal: QuarterdeckError
    ) -> Result | None:
        """The API does not let a JobSet be changed: make it anew once nothing of it runs."""
        if active_jobs(jobset):
            if spec_of(ctx.obj).suspend and not jobset.spec.suspend:
                # Whatever else was edited meanwhile, the suspension itself must come about.
                await ctx.patch(jobset, MergePatch({"spec": {"suspend": True}}))
            raise refusal
        self._reporter.recreated(ctx.obj, refusal)
        return await recreate(ctx, jobset)


def _guarded(obj: Resource, present: Resource | None) -> Resource:
    """An object to apply that fits only the incarnation that was looked at."""
    if present is None:
        return obj
    return obj.evolve(metadata=obj.metadata.evolve(uid=present.metadata.uid))
