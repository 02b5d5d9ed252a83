"""SubnetPoolClaims: a claim on the parent first, then a child pool of what it got.

Both have names that follow from the SubnetPoolClaim, so neither a crash nor a stale cache makes a second
one. On the way out the order is reversed: the child pool goes first, and it goes only when nothing is
left in it; then the claim, and with it the Subnet in the parent.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta, set_controller_reference, to_dict
from quarterdeck.client import MergePatch
from quarterdeck.errors import AlreadyExists, ForeignObject, ignore_not_found
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.index import OWNER
from quarterdeck.operators.ipam.logic.naming import owned_name
from quarterdeck.operators.ipam.types import (
    SubnetClaim,
    SubnetClaimSpec,
    SubnetPool,
    SubnetPoolClaim,
    SubnetPoolClaimSpec,
    SubnetPoolSpec,
)
from quarterdeck.runtime.cache import owned_by
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until_free

from .claimstatus import status_changes
from .shared import SharedState

LEAVING: Final = 30.0
"""Seconds until another look at what should be gone; its events come before that."""


class PoolClaimReconciler(Reconciler[SubnetPoolClaim]):
    """Brings a SubnetPoolClaim to its pool."""

    async def reconcile(self, ctx: Context[SubnetPoolClaim]) -> Result | None:
        """Look at one SubnetPoolClaim."""
        spec = ctx.obj.spec
        if not spec or not spec.desired_block_size:
            return None
        try:
            claim = await self._claim(ctx, spec)
            if claim.status.phase == names.ERROR:
                await self._write(ctx, names.ERROR, message=claim.status.message)
            elif claim.status.phase == names.BOUND and claim.status.allocated_cidr:
                pool = await self._pool(ctx, spec, claim.status.allocated_cidr)
                await self._write(ctx, names.BOUND, pool=pool.metadata.name)
            else:
                await self._write(ctx, names.PENDING)
        except ForeignObject as taken:
            await self._tell_taken(ctx, taken)
            kind = SubnetPool if taken.kind == SubnetPool.type_info.kind else SubnetClaim
            return Wait(until_free(taken, kind), reason="name-taken")
        return None

    async def _tell_taken(self, ctx: Context[SubnetPoolClaim], taken: ForeignObject) -> None:
        if ctx.obj.status.message != str(taken):
            ctx.event("Warning", names.NAME_TAKEN, str(taken))
        await self._write(ctx, names.ERROR, message=str(taken))

    async def _claim(self, ctx: Context[SubnetPoolClaim], spec: SubnetPoolClaimSpec) -> SubnetClaim:
        wanted = SubnetClaimSpec(
            pool_ref=spec.parent_pool_ref,
            cluster_id=ctx.obj.metadata.uid,
            block_size=spec.desired_block_size,
        )
        claim = next(iter(ctx.index(SubnetClaim, owned_by(ctx.obj))), None)
        if claim is None:
            made = SubnetClaim(metadata=_owned(ctx.obj), spec=wanted)
            try:
                return await ctx.create(made)
            except AlreadyExists:
                claim = await ctx.get(SubnetClaim, made.metadata.name, ctx.key.namespace)
                require_ours(made, claim)  # that we write its status does not make it ours
        if claim.status.phase != names.BOUND and claim.spec != wanted:
            # The wish was changed before it was granted.
            claim = await ctx.patch(claim, MergePatch({"spec": to_dict(wanted)}))
        return claim

    async def _pool(self, ctx: Context[SubnetPoolClaim], spec: SubnetPoolClaimSpec, cidr: str) -> SubnetPool:
        pool = next(iter(ctx.index(SubnetPool, owned_by(ctx.obj))), None)
        if pool is not None:
            return pool
        labels = {names.PARENT_LABEL: spec.parent_pool_ref, names.IPAM_LABEL: "true"}
        made = SubnetPool(metadata=_owned(ctx.obj).evolve(labels=labels), spec=SubnetPoolSpec(cidr=cidr))
        try:
            return await ctx.create(made)
        except AlreadyExists:
            pool = await ctx.get(SubnetPool, made.metadata.name, ctx.key.namespace)
            require_ours(made, pool)
            return pool

    async def _write(
        self, ctx: Context[SubnetPoolClaim], phase: str, *, pool: str = "", message: str = ""
    ) -> None:
        reason = {names.BOUND: "Bound", names.ERROR: "Error"}.get(phase, "ClaimPending")
        changes = status_changes(
            ctx.obj,
            {"phase": phase, "boundPoolName": pool, "message": message},
            (phase == names.BOUND, reason, f"pool {pool} is bound" if pool else message),
            generation=ctx.obj.metadata.generation,
            now=ctx.now(),
        )
        if changes:
            with ignore_not_found():
                await ctx.client.status.patch(ctx.obj, MergePatch({"status": changes}))


async def release(ctx: Context[SubnetPoolClaim]) -> Result | None:
    """Before a SubnetPoolClaim goes: its pool, then its claim."""
    for kind in (SubnetPool, SubnetClaim):
        owned = list(ctx.index(kind, owned_by(ctx.obj)))
        for obj in owned:
            if not obj.metadata.is_deleting:
                with ignore_not_found():
                    await ctx.delete(obj)
        if owned:
            return Requeue(after=LEAVING, reason=f"waiting-for-{kind.__name__.lower()}")
    return None


def _owned(claim: SubnetPoolClaim) -> ObjectMeta:
    name = owned_name(claim.metadata.name, claim.metadata.uid)
    return set_controller_reference(claim, ObjectMeta(name=name, namespace=claim.metadata.namespace))


def pool_claim_controller(shared: SharedState) -> Controller[SubnetPoolClaim]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.POOL_CLAIM_CONTROLLER)
        .for_(SubnetPoolClaim, predicates=[generation_changed])
        .owns(SubnetClaim)
        .owns(SubnetPool)
        .indexes(SubnetClaim, OWNER)
        .indexes(SubnetPool, OWNER)
        .finalizer(names.FINALIZER, release)
        .options(
            max_concurrent_reconciles=shared.settings.pool_claim_workers,
            field_manager=names.FIELD_MANAGER,
        )
        .build(PoolClaimReconciler())
    )
