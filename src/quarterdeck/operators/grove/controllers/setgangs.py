"""The PodGangs of a set: made early and empty, filled when all pods are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.api import is_controlled_by
from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import Pod
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CLIQUES_OF_SET, PODS_OF_CLIQUE
from quarterdeck.operators.grove.logic.gangplan import GangPlan, gang_object, plan_gangs
from quarterdeck.operators.grove.logic.gate import is_initialized
from quarterdeck.operators.grove.logic.topology import TopologyView, topology_name_of
from quarterdeck.operators.grove.logic.verdict import Verdict
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
    TopologyLevel,
)
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context

from .outcome import NotYet, Sweep, set_condition, slow_start, step, telling_failure
from .settled import SetPlan, SettledChildren
from .shared import SharedState

_PENDING: Final = Verdict(
    names.INITIALIZED,
    "False",
    "PodGangPodsCreationPending",
    "Not all constituent pods have been created yet",
)
_COMPLETE: Final = Verdict(names.INITIALIZED, "True", "PodGangPodsCreated", "PodGang is fully initialized")


class SetGangs:
    """Keeps the gangs of sets."""

    def __init__(self, shared: SharedState, settled: SettledChildren) -> None:
        self._shared: Final = shared
        self._settled: Final = settled

    async def levels(self, ctx: Context[PodCliqueSet]) -> Sequence[TopologyLevel] | None:
        """The levels of the set's topology; nothing if it has none, or if that does not exist."""
        template = ctx.obj.spec.template
        name = topology_name_of(template, has_default=bool(self._shared.default_levels))
        if not name or not self._shared.has_topology:
            return None
        try:
            topology = await ctx.get(ClusterTopologyBinding, name)
        except NotFound:
            return None
        return topology.spec.levels

    def _view(self, pcs: PodCliqueSet, levels: Sequence[TopologyLevel] | None) -> TopologyView | None:
        if levels is None:
            return None
        name = topology_name_of(pcs.spec.template, has_default=bool(self._shared.default_levels))
        return TopologyView(name, {level.domain: level.key for level in levels})

    def plan(self, ctx: Context[PodCliqueSet], levels: Sequence[TopologyLevel] | None) -> list[GangPlan]:
        """The gangs that the set should have."""
        replicas = {
            pcsg.metadata.name: pcsg.spec.replicas
            for pcsg in ctx.index(PodCliqueScalingGroup, controlled_by(ctx.obj))
            if not pcsg.metadata.is_deleting
        }
        return plan_gangs(ctx.obj, replicas, self._view(ctx.obj, levels))

    async def make(self, ctx: Context[PodCliqueSet], whole: SetPlan, plans: Sequence[GangPlan]) -> None:
        """Delete gangs that should not be, make those that are missing, and say that they are empty."""
        present = {gang.metadata.name: gang for gang in ctx.index(PodGang, controlled_by(ctx.obj))}
        wanted = {plan.name for plan in plans}
        doomed = [
            gang for name, gang in present.items() if name not in wanted and not gang.metadata.is_deleting
        ]
        await slow_start(doomed, lambda gang: self._delete(ctx, gang))
        scheduler = self._scheduler(ctx.obj, present)

        async def ensure(plan: GangPlan) -> None:
            known = present.get(plan.name)
            if known is None:
                known = await self._write(ctx, plan, None, {}, scheduler)
                filling = _Filling(plan, known, _references(known), is_complete=False)
                self._settled.settle(ctx.obj.metadata.uid, known, filling.cause(whole))
            if find_condition(known.status.conditions, names.INITIALIZED) is None:
                await self._tell(ctx, known, _PENDING)

        await slow_start([plan for plan in plans if _is_new(present.get(plan.name))], ensure)

    async def _delete(self, ctx: Context[PodCliqueSet], gang: PodGang) -> None:
        name, failure = gang.metadata.name, f"Error deleting PodGang {gang.key}"
        with (
            step("ERR_DELETE_PODGANG", f"failed to delete PodGang {name}", "Delete"),
            telling_failure(ctx, "PodGangDeleteFailed", failure),
            ignore_not_found(),
        ):
            await ctx.delete(gang)
        ctx.event("Normal", "PodGangDeleteSuccessful", f"Deleted PodGang {gang.key}")

    def _scheduler(self, pcs: PodCliqueSet, present: Mapping[str, PodGang]) -> str:
        """The backend of new gangs: that of the gangs there are, then the template's, then the active one."""
        for gang in present.values():
            label = gang.metadata.labels.get(names.SCHEDULER_NAME)
            if label:
                return label
        if self._shared.backends.get() is None:
            raise NotYet("no scheduler backend is at work")
        given = (clique.spec.pod_spec.scheduler_name for clique in pcs.spec.template.cliques)
        return next((name for name in given if name), self._shared.backends.scheduler_name)

    async def _write(
        self,
        ctx: Context[PodCliqueSet],
        plan: GangPlan,
        known: PodGang | None,
        pods: Mapping[str, Sequence[str]],
        scheduler: str = "",
    ) -> PodGang:
        """Write a gang; ``scheduler`` is the backend of a new one."""
        if known is not None:
            # One without a label is of an older version: its pods tell, when the backend is asked about it.
            scheduler = known.metadata.labels.get(names.SCHEDULER_NAME, "")
        wanted = gang_object(ctx.obj, plan, scheduler=scheduler, pods=pods)
        code, name = "ERR_SYNC_PODGANG", plan.name
        with (
            step(code, f"failed to create or update PodGang {name}", "CreateOrUpdate"),
            telling_failure(
                ctx, "PodGangCreateOrUpdateFailed", f"Error Creating/Updating PodGang {wanted.key}"
            ),
        ):
            written = await ctx.apply(wanted)
        if known is None or written.metadata.resource_version != known.metadata.resource_version:
            ctx.event("Normal", "PodGangCreateOrUpdateSuccessful", f"Created/Updated PodGang {wanted.key}")
        return written

    async def _tell(self, ctx: Context[PodCliqueSet], gang: PodGang, verdict: Verdict) -> None:
        with step("ERR_PATCH_PODGANG_STATUS", f"failed to write status of PodGang {gang.metadata.name}"):
            await set_condition(ctx, gang, verdict, phase=gang.status.phase or "Pending")

    async def fill(
        self, ctx: Context[PodCliqueSet], whole: SetPlan, plans: Sequence[GangPlan], sweep: Sweep
    ) -> None:
        """List the pods of each gang; a gang whose pods are all there is initialized from then on."""
        owner, set_name = ctx.obj.metadata.uid, ctx.obj.metadata.name
        present = {gang.metadata.name: gang for gang in ctx.index(PodGang, controlled_by(ctx.obj))}
        cliques = {
            pclq.metadata.name: pclq
            for pclq in ctx.index(PodClique, CLIQUES_OF_SET(set_name, ctx.key.namespace))
        }

        async def write(filling: _Filling) -> None:
            written = await self._write(ctx, filling.plan, filling.gang, filling.pods)
            self._settled.settle(owner, written, filling.cause(whole))
            if filling.is_complete and not is_initialized(filling.gang):
                await self._tell(ctx, written, _COMPLETE)

        due = []
        for plan in plans:
            gang = present.get(plan.name)
            if gang is None or gang.metadata.is_deleting:
                sweep.come_back(names.RETRY, f"PodGang {plan.name} is not seen yet")
                continue
            filling = self._filling(ctx, plan, gang, cliques)
            if not filling.is_complete:
                text = f"Waiting for all pods to be created or assigned for PodGang {plan.name}"
                sweep.come_back(names.RETRY, text)
            is_told = not filling.is_complete or is_initialized(gang)
            if not (is_told and self._settled.is_settled(owner, gang, filling.cause(whole))):
                due.append(filling)
        await slow_start(due, write)

    def _filling(
        self, ctx: Context[PodCliqueSet], plan: GangPlan, gang: PodGang, cliques: Mapping[str, PodClique]
    ) -> _Filling:
        pods = _all_pods(ctx, plan, cliques)
        if pods is not None:
            return _Filling(plan, gang, pods, is_complete=True)
        listed = self._present_pods(ctx, plan) if is_initialized(gang) else _references(gang)
        return _Filling(plan, gang, listed, is_complete=False)

    def _present_pods(self, ctx: Context[PodCliqueSet], plan: GangPlan) -> dict[str, list[str]]:
        """The pods of a gang that are there."""
        return {
            group.name: sorted(
                pod.metadata.name
                for pod in ctx.index(Pod, PODS_OF_CLIQUE(group.name, ctx.key.namespace))
                if not pod.metadata.is_deleting and pod.metadata.labels.get(names.PODGANG) == plan.name
            )
            for group in plan.groups
        }


class _Filling(msgspec.Struct, frozen=True, eq=False):
    """The pods that a gang is to name."""

    plan: GangPlan
    gang: PodGang
    pods: Mapping[str, Sequence[str]]
    """Names by PodClique."""
    is_complete: bool
    """All that there should be."""

    def cause(self, whole: SetPlan) -> object:
        """All that decides what the gang looks like."""
        return whole, self.plan, self.pods


def _is_new(gang: PodGang | None) -> bool:
    """It has to be made, or nothing is said about its pods yet; the end of one that goes brings us back."""
    if gang is None:
        return True
    is_told = find_condition(gang.status.conditions, names.INITIALIZED) is not None
    return not is_told and not gang.metadata.is_deleting


def _all_pods(
    ctx: Context[PodCliqueSet], plan: GangPlan, cliques: Mapping[str, PodClique]
) -> dict[str, list[str]] | None:
    """The pods of a gang by PodClique; nothing while one is missing or belongs elsewhere."""
    found: dict[str, list[str]] = {}
    for group in plan.groups:
        pclq = cliques.get(group.name)
        if pclq is None or pclq.metadata.is_deleting:
            return None
        pods = _pods_of(ctx, pclq)
        if len(pods) < pclq.spec.replicas:
            return None
        if any(pod.metadata.labels.get(names.PODGANG) != plan.name for pod in pods):
            return None
        found[group.name] = sorted(pod.metadata.name for pod in pods)
    return found


def _pods_of(ctx: Context[PodCliqueSet], pclq: PodClique) -> list[Pod]:
    return [
        pod
        for pod in ctx.index(Pod, PODS_OF_CLIQUE(pclq.metadata.name, pclq.metadata.namespace))
        if not pod.metadata.is_deleting and is_controlled_by(pclq, pod.metadata)
    ]


def _references(gang: PodGang) -> dict[str, list[str]]:
    return {
        group.name: [reference.name for reference in group.pod_references] for group in gang.spec.podgroups
    }
