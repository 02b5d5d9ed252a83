"""PodCliqueSets: everything that is made for one, and what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from quarterdeck.api import Key, is_controlled_by
from quarterdeck.api.draft import Draft
from quarterdeck.api.k8s import (
    HorizontalPodAutoscaler,
    Pod,
    Role,
    RoleBinding,
    Secret,
    Service,
    ServiceAccount,
)
from quarterdeck.api.k8s.resource import ResourceClaim
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.index import CLIQUES_OF_GANG, CLIQUES_OF_SET, CONTROLLER, PODS_OF_CLIQUE
from quarterdeck.operators.grove.logic.claimplan import set_claims
from quarterdeck.operators.grove.logic.label import managed_labels
from quarterdeck.operators.grove.logic.mnnvl import COMPUTE_DOMAIN
from quarterdeck.operators.grove.logic.setupdate import changed_hash
from quarterdeck.operators.grove.logic.status import set_status, topology_verdict
from quarterdeck.operators.grove.logic.topology import topology_name_of
from quarterdeck.operators.grove.logic.verdict import with_verdicts
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
)
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext, MapFunction
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result
from quarterdeck.runtime.reconcile.upsert import UpsertResult, create_or_patch

from .adoption import adopt
from .claims import CLAIM_RULES, sync_claims
from .cliquewrite import put_back_owners, upsert_clique
from .computedomains import COMPUTE_DOMAIN_RULE, release_domains, sync_domains
from .crowd import Crowds
from .outcome import Sweep, report_status, slow_start, step, telling_failure, write_status
from .predicate import (
    CLIQUE_MATTERS_TO_SET,
    GANG_MATTERS_TO_SET,
    GROUP_CLIQUE_MATTERS_TO_SET,
    GROUP_MATTERS_TO_SET,
    IS_MANAGED,
    IS_NEW,
    IS_TOUCHED,
    SET_MATTERS,
)
from .setchildren import SetChildren
from .setgangs import SetGangs
from .setreplicas import SetReplicas
from .settled import SetPlan, SetPlans, SettledChildren
from .shared import Hashes, SharedState

_GATHERED: Final = 0.03
"""Seconds: changes of children come in crowds, and each costs a pass."""


class SetReconciler(Reconciler[PodCliqueSet]):
    """Makes the children of sets and reports about them."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self.crowds: Final = Crowds(shortest=_GATHERED)
        self._plans: Final = SetPlans()
        self._settled: Final = SettledChildren()
        self._children: Final = SetChildren(self._settled)
        self._gangs: Final = SetGangs(shared, self._settled)
        self._replicas: Final = SetReplicas(shared)

    async def reconcile(self, ctx: Context[PodCliqueSet]) -> Result | None:
        """One pass: children, then status."""
        if not ctx.obj.spec.template.cliques:
            return None  # written while no webhook was there: nothing can be made of it
        sweep, hashes = Sweep(), self._shared.hashes(ctx.obj)
        cliques = ctx.index(PodClique, CLIQUES_OF_SET(ctx.key.name, ctx.key.namespace))
        self.crowds.looked(ctx.key, len(cliques))
        await sweep.run(lambda: self._steps(ctx, hashes, sweep))
        await self._report(ctx, hashes, sweep)
        return sweep.end()

    async def released(self, ctx: Context[PodCliqueSet]) -> Result | None:
        """A set goes: its children follow it, because they are owned."""
        self.crowds.forget(ctx.key)
        for memory in (self._plans, self._settled, self._children):
            memory.forget(ctx.obj.metadata.uid)
        if self._shared.has_mnnvl:
            await release_domains(ctx)
        return None

    async def _steps(self, ctx: Context[PodCliqueSet], hashes: Hashes, sweep: Sweep) -> None:
        with step("ERR_PROCESS_GENERATION_HASH", "failed to process the generation hash"):
            await self._process_hash(ctx, hashes)
        plan = self._plans.of(ctx.obj, hashes.cliques)
        await self._children.sync(ctx, plan)
        await self._replicas.sync(ctx, hashes, sweep)
        await sync_claims(ctx, ctx.obj, ctx.obj, set_claims(ctx.obj))
        if self._shared.has_mnnvl:
            await sync_domains(ctx)
        levels = await self._gangs.levels(ctx)
        # Before the pods: a scheduler may need to know a gang before its first pod is created.
        await self._gangs.make(ctx, plan, self._gangs.plan(ctx, levels))
        with step("ERR_SYNC_PODCLIQUE", "failed to sync PodCliques"):
            await self._sync_cliques(ctx, plan)
        with step("ERR_SYNC_PODCLIQUESCALINGGROUP", "failed to sync PodCliqueScalingGroups"):
            await self._sync_groups(ctx, plan)
        await self._gangs.fill(ctx, plan, self._gangs.plan(ctx, levels), sweep)

    async def _process_hash(self, ctx: Context[PodCliqueSet], hashes: Hashes) -> None:
        """Store the hash of the templates; another one than before begins an update."""
        pcs = ctx.obj
        if pcs.metadata.annotations.get(names.HASH_VERSION) != names.OUR_HASH_VERSION:
            if pcs.status.current_generation_hash:
                await adopt(ctx, hashes)
            annotations = {names.HASH_VERSION: names.OUR_HASH_VERSION}
            ctx.replace(await ctx.patch(ctx.obj, MergePatch({"metadata": {"annotations": annotations}})))
        status = changed_hash(ctx.obj.status, hashes.generation, now=ctx.now())
        if status is not ctx.obj.status:
            await write_status(ctx, status)

    async def _sync_cliques(self, ctx: Context[PodCliqueSet], plan: SetPlan) -> None:
        owner, present = ctx.obj.metadata.uid, ctx.index(PodClique, controlled_by(ctx.obj))

        async def upsert(clique: PodClique) -> None:
            self._settled.settle(owner, await upsert_clique(ctx, clique), clique)

        await slow_start(self._settled.others(owner, plan.cliques, present), upsert)
        await _delete_others(ctx, PodClique, {clique.metadata.name for clique in plan.cliques})

    async def _sync_groups(self, ctx: Context[PodCliqueSet], plan: SetPlan) -> None:
        owner, present = ctx.obj.metadata.uid, ctx.index(PodCliqueScalingGroup, controlled_by(ctx.obj))

        async def upsert(group: PodCliqueScalingGroup) -> None:
            def change(draft: Draft[PodCliqueScalingGroup]) -> None:
                draft.metadata.labels = dict(group.metadata.labels)
                draft.metadata.annotations = dict(group.metadata.annotations)
                put_back_owners(draft, group)
                draft.spec.min_available = group.spec.min_available
                draft.spec.clique_names = list(group.spec.clique_names)

            failure = f"Error creating or updating PodCliqueScalingGroup {group.key}"
            with telling_failure(ctx, "PodCliqueScalingGroupCreateOrUpdateFailed", failure):
                done = await create_or_patch(ctx, group, change)
            if done.result is UpsertResult.CREATED:
                text = f"Created PodCliqueScalingGroup {group.key}"
                ctx.event("Normal", "PodCliqueScalingGroupCreateSuccessful", text)
            self._settled.settle(owner, done.obj, group)

        await slow_start(self._settled.others(owner, plan.groups, present), upsert)
        await _delete_others(ctx, PodCliqueScalingGroup, {group.metadata.name for group in plan.groups})

    async def _report(self, ctx: Context[PodCliqueSet], hashes: Hashes, sweep: Sweep) -> None:
        pcs = ctx.obj
        cliques = ctx.index(PodClique, CLIQUES_OF_SET(pcs.metadata.name, pcs.metadata.namespace))
        status = set_status(
            pcs,
            {pclq.metadata.name: pclq for pclq in cliques if is_controlled_by(pcs, pclq.metadata)},
            {pcsg.metadata.name: pcsg for pcsg in ctx.index(PodCliqueScalingGroup, controlled_by(pcs))},
            ctx.index(PodGang, controlled_by(pcs)),
            hashes.cliques,
        )
        verdict = topology_verdict(
            pcs,
            await self._gangs.levels(ctx),
            is_enabled=self._shared.has_topology,
            has_default=bool(self._shared.default_levels),
        )
        status = status.evolve(
            conditions=with_verdicts(
                status.conditions,
                (verdict,) if verdict is not None else (),
                now=ctx.now(),
                without=() if verdict is not None else (names.TOPOLOGY_LEVELS_UNAVAILABLE,),
            ),
            last_errors=sweep.errors(status.last_errors, ctx.now()),
        )
        if sweep.is_complete:
            status = status.evolve(observed_generation=pcs.metadata.generation)
        await report_status(ctx, status, sweep)


async def _delete_others(
    ctx: Context[PodCliqueSet], kind: type[PodClique] | type[PodCliqueScalingGroup], wanted: Collection[str]
) -> None:
    """Delete children of a kind that are too many, and tell the set."""
    name = kind.__name__
    with telling_failure(ctx, f"{name}DeleteFailed", f"Error deleting {name}"):
        gone = await ctx.prune(kind, labels=managed_labels(ctx.obj.metadata.name), keep=wanted)
    for key in gone:
        text = f"Deleted PodClique: {key.name}" if kind is PodClique else f"Deleted {name} {key}"
        ctx.event("Normal", f"{name}DeleteSuccessful", text)


def _sets_using(shared: SharedState) -> MapFunction[ClusterTopologyBinding]:
    async def sets(ctx: MapContext, topology: ClusterTopologyBinding) -> Iterable[Key]:
        has_default = bool(shared.default_levels)
        found = await ctx.cache.list(PodCliqueSet)
        name = topology.metadata.name
        return [
            pcs.key for pcs in found if topology_name_of(pcs.spec.template, has_default=has_default) == name
        ]

    return sets


def _set_of_group_clique(ctx: MapContext, pclq: PodClique) -> Iterable[Key]:
    """The set of a PodClique that a scaling group owns; its own cliques come by their owner reference."""
    labels = pclq.metadata.labels
    if names.SCALING_GROUP not in labels or not labels.get(names.PART_OF):
        return ()
    return (Key(pclq.metadata.namespace, labels[names.PART_OF]),)


def _set_of_pod(ctx: MapContext, pod: Pod) -> Iterable[Key]:
    name = pod.metadata.labels.get(names.PART_OF)
    return (Key(pod.metadata.namespace, name),) if name else ()


def set_controller(shared: SharedState) -> Controller[PodCliqueSet]:
    """The controller, for ``manager.add``."""
    reconciler = SetReconciler(shared)
    write = ("create", "delete", "patch")
    builder = (
        Builder(name=names.SET_CONTROLLER)
        .for_(PodCliqueSet, predicates=[SET_MATTERS])
        .owns(PodClique, predicates=[CLIQUE_MATTERS_TO_SET], delay=reconciler.crowds.changed)
        .watches(
            PodClique,
            to=_set_of_group_clique,
            predicates=[GROUP_CLIQUE_MATTERS_TO_SET],
            delay=reconciler.crowds.changed,
        )
        # Its gang waits for the last of its pods.
        .watches(Pod, to=_set_of_pod, predicates=[IS_MANAGED, IS_NEW], delay=reconciler.crowds.changed)
        .owns(PodCliqueScalingGroup, predicates=[GROUP_MATTERS_TO_SET], delay=reconciler.crowds.changed)
        .owns(PodGang, predicates=[GANG_MATTERS_TO_SET], delay=reconciler.crowds.changed)
        .owns(Service, predicates=[IS_TOUCHED])
        .owns(ServiceAccount, predicates=[IS_TOUCHED])
        .owns(Role, predicates=[IS_TOUCHED])
        .owns(RoleBinding, predicates=[IS_TOUCHED])
        .owns(HorizontalPodAutoscaler, predicates=[IS_TOUCHED])
        .owns(Secret, only_metadata=True)
        .owns(ResourceClaim, predicates=[IS_TOUCHED], optional=True, only_metadata=True)
        .indexes(PodClique, CONTROLLER, CLIQUES_OF_GANG, CLIQUES_OF_SET)
        .indexes(PodCliqueScalingGroup, CONTROLLER)
        .indexes(PodGang, CONTROLLER)
        .indexes(Service, CONTROLLER)
        .indexes(HorizontalPodAutoscaler, CONTROLLER)
        .indexes(Pod, PODS_OF_CLIQUE)
        .finalizer(names.SET_FINALIZER, reconciler.released)
        .rbac(
            *CLAIM_RULES,
            Rule(groups=("",), resources=("secrets",), verbs=("get", *write)),
            Rule(groups=(names.GROUP,), resources=("podcliquesets",), verbs=("patch",)),
            Rule(groups=(names.GROUP,), resources=("podcliquescalinggroups/status",), verbs=("patch",)),
            Rule(groups=(names.SCHEDULER_GROUP,), resources=("podgangs/status",), verbs=("patch",)),
            # what a Role grants must be held by who makes it
            Rule(groups=("",), resources=("pods", "pods/status"), verbs=("get", "list", "watch")),
        )
        .options(
            max_concurrent_reconciles=shared.configuration.controllers.pod_clique_set.concurrent_syncs,
            field_manager=names.FIELD_MANAGER,
            backoff_cap=1000.0,
        )
    )
    if shared.has_mnnvl:
        builder.rbac(COMPUTE_DOMAIN_RULE)
        builder.owns(COMPUTE_DOMAIN, predicates=[IS_TOUCHED], optional=True, only_metadata=True)
    if shared.has_topology:
        builder.watches(ClusterTopologyBinding, to=_sets_using(shared))
    return builder.build(reconciler)
