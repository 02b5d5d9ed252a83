"""Variables of a JobSet that somebody changed: found, reported, put right.

The repair touches exactly those variables. Where the API refuses it, the JobSet is recreated once nothing of
it runs; what runs meanwhile cannot be changed, the repair protects restarts and resumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import is_controlled_by
from quarterdeck.api.condition import is_condition_true
from quarterdeck.errors import Conflict, Forbidden, Invalid
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.audit import Drift, find_drift, repaired
from quarterdeck.operators.trainer.logic.framework import Framework
from quarterdeck.operators.trainer.logic.overriderule import active_jobs
from quarterdeck.operators.trainer.logic.systemenv import EnvOwner
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.operators.trainer.types import AnyRuntime, MLPolicy, TrainJob
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

from .ownership import read_live
from .recreation import recreate
from .report import Reporter

_TRIES: Final = 5


class Finding(msgspec.Struct, frozen=True):
    """What an audit found."""

    owner: EnvOwner
    policy: MLPolicy
    processes: str
    """Processes on each node that the JobSet was rendered with."""
    jobset: JobSet
    drift: Sequence[Drift]

    @property
    def variables(self) -> list[str]:
        """Which variables differ, sorted."""
        return sorted({name for each in self.drift for name in each.names})


class Auditor:
    """Compares JobSets with what they should be, at every reconcile."""

    def __init__(self, framework: Framework, settings: TrainerSettings, reporter: Reporter) -> None:
        self._framework: Final = framework
        self._settings: Final = settings
        self._reporter: Final = reporter

    async def find(
        self, ctx: Context[TrainJob], runtime: AnyRuntime, jobset: JobSet, record: Mapping[str, str]
    ) -> Finding | None:
        """What differs in a JobSet that has not ended; a suspicion is confirmed on the server."""
        owner = self._framework.env_owner(runtime)
        policy = runtime.spec.ml_policy if runtime.spec else None
        if owner is None or not policy or _has_ended(jobset):
            return None
        processes = record.get(names.PROCESSES_PER_NODE, "")
        drift = find_drift(owner, policy, jobset, processes)
        return (
            await self._look_again(ctx, Finding(owner, policy, processes, jobset, drift)) if drift else None
        )

    @staticmethod
    async def _look_again(ctx: Context[TrainJob], found: Finding) -> Finding | None:
        live = await read_live(ctx, JobSet, ctx.key.name)
        if live is None or live.metadata.is_deleting or not is_controlled_by(ctx.obj, live.metadata):
            return None
        drift = find_drift(found.owner, found.policy, live, found.processes)
        return msgspec.structs.replace(found, jobset=live, drift=drift) if drift else None

    async def repair(self, ctx: Context[TrainJob], found: Finding) -> Result | None:
        """Put a JobSet right that must not be rendered anew; returns what to wait for if it is replaced."""
        variables = found.variables
        if self._settings.reserved_env_repair == "Off":
            self._reporter.drift(ctx.obj, variables, "off")
            return None
        for _ in range(_TRIES):
            try:
                await ctx.update(repaired(found.jobset, found.drift))
            except Conflict:
                again = await self._look_again(ctx, found)
                if again is None:
                    return None
                found = again
            except (Invalid, Forbidden):
                return await self._replace(ctx, found.jobset, variables)
            else:
                self._reporter.drift(ctx.obj, variables, "restored")
                return None
        raise Conflict(f"JobSet {ctx.key} is changed faster than it can be repaired")

    async def _replace(
        self, ctx: Context[TrainJob], jobset: JobSet, variables: Sequence[str]
    ) -> Result | None:
        if active_jobs(jobset) and self._settings.reserved_env_repair != "Force":
            self._reporter.drift(ctx.obj, variables, "pending")
            return None
        self._reporter.drift(ctx.obj, variables, "recreated")
        return await recreate(ctx, jobset)

    async def settle(self, ctx: Context[TrainJob], found: Finding, record: Mapping[str, str]) -> None:
        """After a JobSet was applied as a whole: what another manager added to variables is left to do."""
        processes = record.get(names.PROCESSES_PER_NODE, "")
        left = await self._look_again(ctx, msgspec.structs.replace(found, processes=processes))
        if left is not None and self._settings.reserved_env_repair != "Off":
            await ctx.update(repaired(left.jobset, left.drift))
        self._reporter.drift(ctx.obj, found.variables, "restored")


def _has_ended(jobset: JobSet) -> bool:
    conditions = jobset.status.conditions
    return is_condition_true(conditions, jobset_names.COMPLETED) or is_condition_true(
        conditions, jobset_names.FAILED
    )
