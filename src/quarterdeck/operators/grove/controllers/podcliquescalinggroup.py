"""PodCliqueScalingGroups: the PodCliques of every replica."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, UnsetType, is_controlled_by
from quarterdeck.api.k8s.resource import ResourceClaim
from quarterdeck.errors import AlreadyExists, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CONTROLLER
from quarterdeck.operators.grove.logic.claimplan import group_claims
from quarterdeck.operators.grove.logic.cliqueplan import plan_group_cliques
from quarterdeck.operators.grove.logic.groupstate import GroupReplica, group_replicas
from quarterdeck.operators.grove.logic.groupupdate import begin_update, is_due, is_updating, next_step
from quarterdeck.operators.grove.logic.membership import clique_name_of, group_index_of, is_on_delete
from quarterdeck.operators.grove.logic.setupdate import is_turn_of
from quarterdeck.operators.grove.logic.setupdate import is_updating as is_set_updating
from quarterdeck.operators.grove.logic.status import group_status
from quarterdeck.operators.grove.logic.termination import judge_group
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

from .claims import sync_claims
from .cliquewrite import is_child, upsert_clique
from .crowd import Crowds
from .outcome import Sweep, put_back, report_status, slow_start, step, telling_failure, write_status
from .predicate import CLIQUE_MATTERS_TO_GROUP, IS_MANAGED, IS_TOUCHED, NEWS, SET_UPDATES
from .setreplicas import termination_delay
from .shared import Hashes, SharedState

_LOST = "Gang termination may follow; look at the nodes and at what they have left."


class GroupReconciler(Reconciler[PodCliqueScalingGroup]):
    """Makes the PodCliques of groups and reports about them."""

    def __init__(self, shared: SharedState, recorder: Recorder) -> None:
        self.crowds: Final = Crowds(shortest=NEWS)
        self._shared: Final = shared
        self._recorder: Final = recorder

    async def reconcile(self, ctx: Context[PodCliqueScalingGroup]) -> Result | None:
        """One pass: PodCliques, then status. One that goes takes its PodCliques with it."""
        if ctx.obj.metadata.is_deleting:
            self.crowds.forget(ctx.key)
        elif not is_child(ctx.obj, PodCliqueSet):
            return None  # of somebody else: not even our finalizer is for it
        async with ctx.finalizer(names.GROUP_FINALIZER) as scope:
            if scope.is_deleting:
                return None
            scope.keep()
            return await self._pass(ctx)

    async def _pass(self, ctx: Context[PodCliqueScalingGroup]) -> Result | None:
        pcsg = ctx.obj
        owner = pcsg.metadata.labels.get(names.PART_OF, "")
        try:
            pcs = await ctx.get(PodCliqueSet, owner, pcsg.metadata.namespace)
        except NotFound:
            return None
        if not is_controlled_by(pcs, pcsg.metadata):
            return None  # of an earlier set of that name: it goes with it
        if pcs.metadata.is_deleting or not pcs.spec.template.cliques:
            return None
        sweep, hashes = Sweep(), self._shared.hashes(pcs)
        self.crowds.looked(ctx.key, len(ctx.index(PodClique, controlled_by(pcsg))))
        await sweep.run(lambda: self._steps(ctx, pcs, hashes, sweep))
        await self._report(ctx, pcs, sweep)
        return sweep.end()

    async def _steps(
        self, ctx: Context[PodCliqueScalingGroup], pcs: PodCliqueSet, hashes: Hashes, sweep: Sweep
    ) -> None:
        present = list(ctx.index(PodClique, controlled_by(ctx.obj)))
        if not is_on_delete(pcs.spec.update_strategy):
            await self._begin_update(ctx, pcs, hashes, present)
        await sync_claims(ctx, pcs, ctx.obj, group_claims(pcs, ctx.obj))
        with step("ERR_DELETE_EXCESS_PODCLIQUES", "failed to delete excess PodCliques", "Delete"):
            await _delete(ctx, _excess(pcs, ctx.obj, present))
        with step("ERR_SYNC_PODCLIQUE", "failed to sync PodCliques"):
            await self._sync_cliques(ctx, pcs, hashes, present)
        if is_on_delete(pcs.spec.update_strategy):
            # Has ended when it begins, and therefore begins when all PodCliques have the new template.
            await self._begin_update(ctx, pcs, hashes, present)
        if is_updating(ctx.obj.status.update_progress):
            with step("ERR_ROLLING_UPDATE", "failed to update the group", "Delete"):
                await self._update(ctx, hashes, present)
        else:
            with step("ERR_GANG_TERMINATION", "failed to terminate replicas", "Delete"):
                await self._terminate(ctx, pcs, present, sweep)

    async def _sync_cliques(
        self,
        ctx: Context[PodCliqueScalingGroup],
        pcs: PodCliqueSet,
        hashes: Hashes,
        present: list[PodClique],
    ) -> None:
        if is_on_delete(pcs.spec.update_strategy):
            going = {pclq.metadata.name for pclq in present if pclq.metadata.is_deleting}

            async def upsert(clique: PodClique) -> None:
                if clique.metadata.name not in going:
                    await upsert_clique(ctx, clique)

            await slow_start(plan_group_cliques(pcs, ctx.obj, hashes.cliques), upsert)
            return
        known = {pclq.metadata.name for pclq in present}

        async def create(clique: PodClique) -> None:
            failure = f"PodClique {clique.key} creation failed"
            try:
                with telling_failure(ctx, "PodCliqueCreateFailed", failure):
                    await ctx.create(clique)
            except AlreadyExists:
                await _put_back(ctx, clique)  # or it is not gone yet: its end brings us back
                return
            text = f"PodClique {clique.key} created successfully"
            ctx.event("Normal", "PodCliqueCreateSuccessful", text)

        await slow_start(plan_group_cliques(pcs, ctx.obj, hashes.cliques, known), create)

    async def _begin_update(
        self,
        ctx: Context[PodCliqueScalingGroup],
        pcs: PodCliqueSet,
        hashes: Hashes,
        present: list[PodClique],
    ) -> None:
        """Begin when it is the turn of our replica of the set, and something is old."""
        pcsg, now, update = ctx.obj, ctx.now(), pcs.status.update_progress
        if pcs.status.current_generation_hash != hashes.generation:
            return  # the set has not looked at its new templates yet
        if not is_due(pcsg.status, _replicas(pcsg, present), hashes.cliques, hashes.generation):
            return
        begun = begin_update(hashes.generation, now)
        if is_on_delete(pcs.spec.update_strategy):
            last = pcsg.status.update_progress
            if last and last.pod_clique_set_generation_hash == hashes.generation:
                return  # old replicas stay until somebody deletes them
            begun = begun.evolve(update_ended_at=now)
        elif is_set_updating(update) and not is_turn_of(update, pcsg.metadata.labels):
            return
        with step("ERR_BEGIN_UPDATE", "failed to begin the update"):
            await write_status(ctx, pcsg.status.evolve(update_progress=begun))

    async def _update(
        self, ctx: Context[PodCliqueScalingGroup], hashes: Hashes, present: list[PodClique]
    ) -> None:
        pcsg = ctx.obj
        progress = pcsg.status.update_progress
        assert not isinstance(progress, UnsetType)
        taken = next_step(
            progress,
            _replicas(pcsg, present),
            hashes.cliques,
            least=pcsg.spec.min_available,
            now=ctx.now(),
        )
        if taken.progress is not progress:
            # Written first: whoever continues after a crash must know which replica is being replaced.
            await write_status(ctx, pcsg.status.evolve(update_progress=taken.progress))
        await _delete(ctx, [pclq for pclq in present if group_index_of(pclq) in taken.doomed])

    async def _terminate(
        self,
        ctx: Context[PodCliqueScalingGroup],
        pcs: PodCliqueSet,
        present: list[PodClique],
        sweep: Sweep,
    ) -> None:
        pcsg = ctx.obj
        replicas: dict[int, list[PodClique]] = {}
        for pclq in present:
            if not pclq.metadata.is_deleting:
                replicas.setdefault(group_index_of(pclq), []).append(pclq)
        verdict = judge_group(
            replicas,
            count=pcsg.spec.replicas,
            least=pcsg.spec.min_available,
            delay=termination_delay(pcs),
            now=self._shared.clock.time(),
        )
        for index in verdict.expired:
            reason, name = "PodCliqueScalingGroupReplicaDelete", pcsg.metadata.name
            try:
                await _delete(ctx, replicas.get(index, []))
            except QuarterdeckError as error:
                text = f"Error deleting PodCliqueScalingGroup {name} ReplicaIndex {index} : {error}"
                self._recorder.event(pcs, "Warning", f"{reason}Failed", "Delete", text)
                raise
            text = f"Deleted PodCliqueScalingGroup {name} replicaIndex: {index}"
            self._recorder.event(pcs, "Normal", f"{reason}Successful", "Delete", text)
        if verdict.wait is not None:
            sweep.come_back(min(names.RETRY, verdict.wait), "a minimum is missed")

    async def _report(self, ctx: Context[PodCliqueScalingGroup], pcs: PodCliqueSet, sweep: Sweep) -> None:
        pcsg, now = ctx.obj, ctx.now()
        status = group_status(
            pcsg,
            ctx.index(PodClique, controlled_by(pcsg)),
            generation_hash=pcs.status.current_generation_hash,
            now=now,
        )
        status = status.evolve(last_errors=sweep.errors(status.last_errors, now))
        if sweep.is_complete:
            status = status.evolve(observed_generation=pcsg.metadata.generation)
        before = pcsg.status.scheduled_replicas
        is_told = await report_status(ctx, status, sweep)
        if is_told and before and not status.scheduled_replicas:
            text = f"All scheduled replicas lost (was {before}). {_LOST}"
            ctx.event("Warning", "AllScheduledReplicasLost", text)


async def _put_back(ctx: Context[PodCliqueScalingGroup], wanted: PodClique) -> None:
    """Put back what others took off a PodClique, except that it may be of an older template."""
    with ignore_not_found():
        present = await ctx.get(PodClique, wanted.metadata.name, wanted.metadata.namespace, live=True)
        hash = present.metadata.labels.get(names.TEMPLATE_HASH) or present.status.current_pod_template_hash
        labels = {key: value for key, value in wanted.metadata.labels.items() if key != names.TEMPLATE_HASH}
        if hash:
            labels[names.TEMPLATE_HASH] = hash
        await put_back(ctx, wanted.evolve(metadata=wanted.metadata.evolve(labels=labels)))


def _excess(pcs: PodCliqueSet, pcsg: PodCliqueScalingGroup, present: Iterable[PodClique]) -> list[PodClique]:
    """PodCliques of replicas that are too many, and of cliques that somebody once wrote into the group."""
    grouped = {name for group in pcs.spec.template.pod_clique_scaling_groups for name in group.clique_names}
    return [
        pclq
        for pclq in present
        if group_index_of(pclq) >= pcsg.spec.replicas or clique_name_of(pclq) not in grouped
    ]


def _replicas(pcsg: PodCliqueScalingGroup, cliques: Iterable[PodClique]) -> list[GroupReplica]:
    return group_replicas(cliques, count=pcsg.spec.replicas, clique_names=pcsg.spec.clique_names)


async def _delete(ctx: Context[PodCliqueScalingGroup], cliques: Iterable[PodClique]) -> None:
    async def delete(pclq: PodClique) -> None:
        with ignore_not_found():
            await ctx.delete(pclq)

    await asyncio.gather(*(delete(pclq) for pclq in cliques if not pclq.metadata.is_deleting))


def _groups_of_set(ctx: MapContext, pcs: PodCliqueSet) -> Iterable[Key]:
    return [pcsg.key for pcsg in ctx.cache.lookup(PodCliqueScalingGroup, controlled_by(pcs))]


def group_controller(shared: SharedState, recorder: Recorder) -> Controller[PodCliqueScalingGroup]:
    """The controller, for ``manager.add``; ``recorder`` tells sets about their groups."""
    reconciler = GroupReconciler(shared, recorder)
    return (
        Builder(name=names.GROUP_CONTROLLER)
        .for_(PodCliqueScalingGroup, predicates=[IS_MANAGED, generation_changed])
        .owns(PodClique, predicates=[CLIQUE_MATTERS_TO_GROUP], delay=reconciler.crowds.changed)
        .owns(ResourceClaim, predicates=[IS_TOUCHED], optional=True, only_metadata=True)
        .watches(PodCliqueSet, to=_groups_of_set, predicates=[SET_UPDATES])
        .indexes(PodClique, CONTROLLER)
        .indexes(PodCliqueScalingGroup, CONTROLLER)
        .rbac(
            Rule(groups=(names.GROUP,), resources=("podcliques",), verbs=("create", "delete", "patch")),
            Rule(groups=(names.GROUP,), resources=("podcliquescalinggroups",), verbs=("patch",)),
        )
        .options(
            max_concurrent_reconciles=shared.configuration.controllers.pod_clique_scaling_group.concurrent_syncs,
            field_manager=names.FIELD_MANAGER,
            backoff_cap=1000.0,
        )
        .build(reconciler)
    )
