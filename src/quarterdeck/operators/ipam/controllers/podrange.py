"""Pod ranges of nodes: a claim for each node and family, and what it was given goes into the Node.

The claim belongs to the Node, so that garbage collection gives the range back when the Node is gone. It is
the only memory there is: its name follows from the Node, and a restart finds it again. The allocator sees to
it that no two overlap.

A range cannot be changed once a Node has it. So a Node that has one already, from whomever, keeps it, and it
is claimed as it is; nobody gets a new one before that is done for all Nodes that were there at the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta, set_controller_reference, to_dict
from quarterdeck.api.k8s import Node
from quarterdeck.client import MergePatch
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.index import POD_RANGES, RANGE_POOLS
from quarterdeck.operators.ipam.logic.naming import owned_name
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.podrange import (
    Family,
    NoPool,
    RangePool,
    choose_pool,
    pool_around,
    range_of_family,
    range_pools,
)
from quarterdeck.operators.ipam.settings import PodRangeSettings
from quarterdeck.operators.ipam.types import SubnetClaim, SubnetClaimSpec, SubnetPool
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed, labels_changed, spec_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until_free

ASSIGNED: Final = "CIDRAssigned"
NOT_AVAILABLE: Final = "CIDRNotAvailable"
"""Reasons of events about Nodes; the second is kube-controller-manager's."""
_SOON: Final = 1.0
"""Seconds until a Node is looked at again that waits for something that is under way."""
_WORKERS: Final = 8


class PodRanges(Reconciler[Node]):
    """Gives Nodes their ranges."""

    def __init__(self, settings: PodRangeSettings) -> None:
        self._namespace: Final = settings.namespace
        self._families: Final = settings.wanted
        self._waiting: Final[dict[Key, str]] = {}
        """Why Nodes wait. It is told once, and a change of a pool wakes them."""
        self._unclaimed: set[Key] | None = None
        """Nodes that had ranges at the start, as long as those are not claimed."""

    async def reconcile(self, ctx: Context[Node]) -> Result | None:
        """Look at one Node."""
        node = ctx.obj
        unclaimed = await self._not_claimed_yet(ctx)
        if node.metadata.is_deleting:
            self._forget(ctx.key)
            return None
        if unclaimed and not node.spec.pod_cidrs:
            raise Requeue(after=_SOON, reason="others-first")
        try:
            claims = [await self._claim(ctx, family) for family in self._families]
        except NoPool as error:
            self._wait(ctx, str(error))
            return None
        except ForeignObject as taken:
            self._wait(ctx, str(taken))
            return Wait(until_free(taken, SubnetClaim), reason="name-taken")
        self._look_at_claims(ctx, [claim for claim in claims if claim is not None])
        ranges = [claim.status.allocated_cidr for claim in claims if claim is not None and _is_bound(claim)]
        if not node.spec.pod_cidrs and len(ranges) == len(claims):
            await self._assign(ctx, ranges)
        return None

    async def deleted(self, ctx: DeleteContext) -> None:
        """A Node is gone; its claims follow by themselves."""
        self._forget(ctx.key)

    def waiting(self, _context: MapContext, _pool: SubnetPool) -> Iterable[Key]:
        """The Nodes that a change of a pool may help."""
        return list(self._waiting)

    def _forget(self, key: Key) -> None:
        self._waiting.pop(key, None)
        if self._unclaimed is not None:
            self._unclaimed.discard(key)

    async def _not_claimed_yet(self, ctx: Context[Node]) -> set[Key]:
        if self._unclaimed is None:
            nodes = await ctx.list(Node)
            self._unclaimed = {node.key for node in nodes if node.spec.pod_cidrs}
        return self._unclaimed

    def _wait(self, ctx: Context[Node], why: str) -> None:
        if self._unclaimed is not None:
            self._unclaimed.discard(ctx.key)  # others need not wait for what is refused
        if self._waiting.get(ctx.key) != why:
            self._waiting[ctx.key] = why
            ctx.event("Warning", NOT_AVAILABLE, why)

    def _look_at_claims(self, ctx: Context[Node], claims: list[SubnetClaim]) -> None:
        """Say which claim is refused; a Node all of whose claims are granted waits no longer."""
        refused = next((claim for claim in claims if claim.status.phase == names.ERROR), None)
        if refused is not None:
            held = f"pod range {ctx.obj.spec.pod_cidr} is not safe: " if ctx.obj.spec.pod_cidrs else ""
            where = f"{refused.metadata.namespace}/{refused.metadata.name}"
            self._wait(ctx, f"{held}SubnetClaim {where}: {refused.status.message}")
        elif all(map(_is_bound, claims)):
            self._forget(ctx.key)

    async def _claim(self, ctx: Context[Node], family: Family) -> SubnetClaim | None:
        """The claim of a Node; none where the Node has a range that is nobody's business here."""
        node = ctx.obj
        held = range_of_family(node.spec.pod_cidrs, family)
        if node.spec.pod_cidrs and held is None:
            return None
        made = SubnetClaim(metadata=self._metadata(node, family))
        try:
            claim = await ctx.get(SubnetClaim, made.metadata.name, self._namespace)
            require_ours(made, claim)
        except NotFound:
            claim = None
        if claim is not None and (claim.metadata.is_deleting or not _fits(claim, held)):
            if not claim.metadata.is_deleting:
                await ctx.delete(claim)
            raise Requeue(after=_SOON, reason="claim-leaves")
        if claim is not None and claim.status.phase != names.ERROR:
            return claim
        wanted = self._wish(ctx, family, held)
        if wanted is None:
            return None
        if claim is None:
            return await self._create(ctx, made.evolve(spec=wanted))
        if claim.spec != wanted:
            none = {"blockSize": None, "requestedCIDR": None}
            claim = await ctx.patch(claim, MergePatch({"spec": {**none, **to_dict(wanted)}}))
        return claim

    def _metadata(self, node: Node, family: Family) -> ObjectMeta:
        name = owned_name(node.metadata.name, f"{node.metadata.uid}/{family.name}")
        return set_controller_reference(node, ObjectMeta(name=name, namespace=self._namespace))

    def _wish(self, ctx: Context[Node], family: Family, held: Network | None) -> SubnetClaimSpec | None:
        pools = range_pools(list(ctx.index(SubnetPool, RANGE_POOLS(POD_RANGES, self._namespace))))
        uid = ctx.obj.metadata.uid
        if held is not None:
            pool: RangePool | None = pool_around(pools, held)
            if pool is None:
                return None
            return SubnetClaimSpec(pool_ref=pool.name, cluster_id=uid, requested_cidr=str(held))
        chosen = choose_pool(pools, ctx.obj.metadata.labels.get(names.ZONE_LABEL, ""), family)
        return SubnetClaimSpec(pool_ref=chosen.name, cluster_id=uid, block_size=chosen.size)

    async def _create(self, ctx: Context[Node], made: SubnetClaim) -> SubnetClaim:
        try:
            return await ctx.create(made)
        except AlreadyExists:
            claim = await ctx.client.get(SubnetClaim, made.metadata.name, self._namespace)
            require_ours(made, claim)
            return claim

    async def _assign(self, ctx: Context[Node], ranges: list[str]) -> None:
        node = ctx.obj
        spec: dict[str, Any] = {"podCIDR": ranges[0], "podCIDRs": ranges}
        # With its UID: another Node may have the name by now.
        await ctx.patch(node, MergePatch({"metadata": {"uid": node.metadata.uid}, "spec": spec}))
        ctx.event("Normal", ASSIGNED, f"pod range {', '.join(ranges)}")


def _is_bound(claim: SubnetClaim) -> bool:
    return claim.status.phase == names.BOUND and bool(claim.status.allocated_cidr)


def _fits(claim: SubnetClaim, held: Network | None) -> bool:
    """Whether a claim is not for something else than the range that a Node has."""
    return held is None or not _is_bound(claim) or parse(claim.status.allocated_cidr) == held


def pod_range_controller(settings: PodRangeSettings) -> Controller[Node]:
    """The controller, for ``manager.add``."""
    ranges = PodRanges(settings)
    return (
        Builder(name=names.POD_RANGE_CONTROLLER)
        .for_(Node, predicates=[labels_changed | spec_changed("podCIDRs")])
        .owns(SubnetClaim)
        .watches(SubnetPool, to=ranges.waiting, predicates=[generation_changed | labels_changed])
        .indexes(SubnetPool, RANGE_POOLS)
        .rbac(Rule(groups=("",), resources=("nodes",), verbs=("patch",)))
        .options(max_concurrent_reconciles=_WORKERS, field_manager=names.FIELD_MANAGER)
        .build(ranges)
    )
