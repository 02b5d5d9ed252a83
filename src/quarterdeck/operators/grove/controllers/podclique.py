"""PodCliques: their pods, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, controller_of
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.resource import ResourceClaim
from quarterdeck.errors import NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import (
    CLIQUES_OF_BASE_GANG,
    CLIQUES_OF_GANG,
    CLIQUES_OF_SET,
    CONTROLLER,
)
from quarterdeck.operators.grove.logic.cliqueupdate import begin_update, is_due, is_noted, noted_update
from quarterdeck.operators.grove.logic.membership import clique_name_of, is_on_delete
from quarterdeck.operators.grove.logic.setupdate import is_turn_of, is_updating
from quarterdeck.operators.grove.logic.status import clique_status
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.gathering import Gathering
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed, labels_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import ChannelSource
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

from .cliquepods import CliquePods
from .cliquewrite import is_child
from .outcome import Sweep, report_status, step, write_status
from .predicate import (
    GANG_MATTERS_TO_CLIQUE,
    GROUP_MATTERS_TO_CLIQUE,
    IS_MANAGED,
    IS_OR_WAS_MANAGED,
    IS_TOUCHED,
    NEWS,
    POD_MATTERS,
    SCHEDULED_CHANGED,
    SET_UPDATES,
)
from .shared import Hashes, SharedState

_LOST = "Gang termination may follow; look at the nodes and at what they have left."


class CliqueReconciler(Reconciler[PodClique]):
    """Keeps the pods of PodCliques and reports about them."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._pods: Final = CliquePods(shared)
        self._news: Final = Gathering(NEWS, clock=shared.clock.monotonic)

    def news_period(self, key: Key) -> float:
        """Seconds for which changes of pods are gathered; few if the pods of other gangs wait for these."""
        return NEWS if key in self._pods.awaited else self._news(key)

    async def reconcile(self, ctx: Context[PodClique]) -> Result | None:
        """One pass: pods, then status. One that goes takes its pods with it."""
        if ctx.obj.metadata.is_deleting:
            self._pods.forget(ctx.obj)
        elif not is_child(ctx.obj, PodCliqueSet, PodCliqueScalingGroup):
            return None  # of somebody else: not even our finalizer is for it
        async with ctx.finalizer(names.CLIQUE_FINALIZER) as scope:
            if scope.is_deleting:
                return None
            scope.keep()
            return await self._pass(ctx)

    async def _pass(self, ctx: Context[PodClique]) -> Result | None:
        labels = ctx.obj.metadata.labels
        try:
            pcs = await ctx.get(PodCliqueSet, labels.get(names.PART_OF, ""), ctx.key.namespace)
        except NotFound:
            return None
        owner = controller_of(ctx.obj.metadata.owner_references)
        assert owner is not None
        if pcs.metadata.is_deleting:
            return None
        if owner.kind == pcs.kind and owner.uid != pcs.metadata.uid:
            return None  # of an earlier set of that name: it goes with it
        hashes = self._shared.hashes(pcs)
        expected = hashes.cliques.get(clique_name_of(ctx.obj), "")
        sweep = Sweep()
        await sweep.run(lambda: self._steps(ctx, pcs, hashes, expected, sweep))
        if sweep.error is not None or not sweep.is_followed:
            await self._report(ctx, pcs, expected, sweep)
        return sweep.end()

    async def _steps(
        self,
        ctx: Context[PodClique],
        pcs: PodCliqueSet,
        hashes: Hashes,
        expected: str,
        sweep: Sweep,
    ) -> None:
        with step("ERR_BEGIN_UPDATE", "failed to begin the update"):
            await self._begin_update(ctx, pcs, hashes, expected)
        await self._pods.sync(ctx, pcs, expected, sweep)

    async def _begin_update(
        self, ctx: Context[PodClique], pcs: PodCliqueSet, hashes: Hashes, expected: str
    ) -> None:
        """Begin when pods are of an old template, and it is our turn."""
        pclq = ctx.obj
        if pcs.status.current_generation_hash != hashes.generation:
            return  # the set has not looked at its new templates yet
        if pclq.metadata.labels.get(names.TEMPLATE_HASH) != expected:
            return  # our own template is not the new one yet, or never will be: groups make PodCliques anew
        pods, update = list(ctx.index(Pod, controlled_by(pclq))), pcs.status.update_progress
        if not is_due(pclq.status.update_progress, pods, hashes.generation, expected):
            return
        if is_on_delete(pcs.spec.update_strategy):
            if is_noted(pclq.status.update_progress, hashes.generation, expected):
                return  # old pods stay until somebody deletes them
            begun = noted_update(hashes.generation, expected, ctx.now())
        elif names.SCALING_GROUP in pclq.metadata.labels:
            return
        elif is_turn_of(update, pclq.metadata.labels) or not is_updating(update):
            begun = begin_update(hashes.generation, expected, ctx.now())
        else:
            return
        await write_status(ctx, pclq.status.evolve(update_progress=begun))

    async def _report(self, ctx: Context[PodClique], pcs: PodCliqueSet, expected: str, sweep: Sweep) -> None:
        pclq, now = ctx.obj, ctx.now()
        before = pclq.status.scheduled_replicas
        if sweep.is_complete:
            observed = pclq.status.evolve(observed_generation=pclq.metadata.generation)
            pclq = pclq.evolve(status=observed)
        status = clique_status(
            pclq,
            list(ctx.index(Pod, controlled_by(pclq))),
            expected_hash=expected,
            generation_hash=pcs.status.current_generation_hash,
            now=now,
        )
        status = status.evolve(last_errors=sweep.errors(status.last_errors, now))
        is_told = await report_status(ctx, status, sweep)
        if is_told and before and not status.scheduled_replicas:
            text = f"All scheduled pods lost (was {before}). {_LOST}"
            ctx.event("Warning", "AllScheduledReplicasLost", text)


def _of_gang(ctx: MapContext, gang: PodGang) -> Iterable[Key]:
    found = ctx.cache.lookup(PodClique, CLIQUES_OF_GANG(gang.metadata.name, gang.metadata.namespace))
    return [pclq.key for pclq in found]


def _of_scaled_gangs(ctx: MapContext, pclq: PodClique) -> Iterable[Key]:
    """The PodCliques whose gangs wait for the gang of this one."""
    gang = pclq.metadata.labels.get(names.PODGANG, "")
    found = ctx.cache.lookup(PodClique, CLIQUES_OF_BASE_GANG(gang, pclq.metadata.namespace))
    return [each.key for each in found]


def _of_set(ctx: MapContext, pcs: PodCliqueSet) -> Iterable[Key]:
    found = ctx.cache.lookup(PodClique, CLIQUES_OF_SET(pcs.metadata.name, pcs.metadata.namespace))
    return [pclq.key for pclq in found]


def _of_group(ctx: MapContext, pcsg: PodCliqueScalingGroup) -> Iterable[Key]:
    return [pclq.key for pclq in ctx.cache.lookup(PodClique, controlled_by(pcsg))]


def clique_controller(shared: SharedState) -> Controller[PodClique]:
    """The controller, for ``manager.add``."""
    reconciler = CliqueReconciler(shared)
    return (
        Builder(name=names.CLIQUE_CONTROLLER)
        .for_(PodClique, predicates=[IS_MANAGED, generation_changed | labels_changed])
        .owns(Pod, predicates=[IS_OR_WAS_MANAGED, POD_MATTERS], delay=reconciler.news_period)
        .owns(ResourceClaim, predicates=[IS_TOUCHED], optional=True, only_metadata=True)
        .watches(PodGang, to=_of_gang, predicates=[GANG_MATTERS_TO_CLIQUE])
        .watches(PodClique, to=_of_scaled_gangs, predicates=[SCHEDULED_CHANGED])
        .watches(PodCliqueSet, to=_of_set, predicates=[SET_UPDATES])
        .watches(PodCliqueScalingGroup, to=_of_group, predicates=[GROUP_MATTERS_TO_CLIQUE])
        .source(ChannelSource(shared.cliques, name="gangs of backends"))
        .indexes(PodClique, CONTROLLER, CLIQUES_OF_SET, CLIQUES_OF_GANG, CLIQUES_OF_BASE_GANG)
        .indexes(Pod, CONTROLLER)
        .rbac(
            Rule(groups=(names.GROUP,), resources=("podcliques",), verbs=("patch",)),
            Rule(groups=("",), resources=("pods",), verbs=("create", "delete", "patch")),
            Rule(
                groups=("scheduling.k8s.io",),
                resources=("priorityclasses",),
                verbs=("get",),
                is_cluster_wide=True,
            ),
        )
        .options(
            max_concurrent_reconciles=shared.configuration.controllers.pod_clique.concurrent_syncs,
            field_manager=names.FIELD_MANAGER,
            backoff_cap=1000.0,
        )
        .build(reconciler)
    )
