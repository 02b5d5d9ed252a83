"""Who owns a Subnet: every claim that is bound to it, and no Subnet more than a claim needs."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import controller_of, owner_reference, to_dict
from quarterdeck.client import Backoff, MergePatch, retry_on_conflict
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.facts import Member, member_of
from quarterdeck.operators.ipam.logic.naming import collision_name, subnet_name
from quarterdeck.operators.ipam.logic.network import Network
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim
from quarterdeck.runtime.cache import owned_by
from quarterdeck.runtime.reconcile.context import Context

from .shared import SharedState

RETRY: Final = Backoff(steps=5, base=0.02, factor=2.0, jitter=0.1)


async def adopt(ctx: Context[SubnetClaim], shared: SharedState, member: Member) -> None:
    """Make the claim an owner of the Subnet it is bound to: the Subnet lives until its last claim goes.

    Subnets that were made by hand belong to no claim, and do not go with one; but if one of them goes, so
    that a claim is bound to nothing, the claim is looked at again.
    """
    uid = ctx.obj.metadata.uid
    entry = shared.subnet_entry(member.key)
    if entry is not None and any(owner.uid == uid for owner in entry.owner_references):
        return
    shared.use(member, ctx.key)

    async def add_owner() -> None:
        subnet = await ctx.client.get(Subnet, member.name, member.namespace)
        owners = subnet.metadata.owner_references
        if any(owner.uid == uid for owner in owners) or not _is_made_for_claims(subnet):
            return
        added = [*to_dict(owners), to_dict(owner_reference(ctx.obj))]
        version = subnet.metadata.resource_version
        head = {"resourceVersion": version, "ownerReferences": added}
        await ctx.client.patch(subnet, MergePatch({"metadata": head}))

    try:
        await retry_on_conflict(add_owner, backoff=RETRY)
    except NotFound:
        return  # its deletion brings the claim back here


def _is_made_for_claims(subnet: Subnet) -> bool:
    by_claim = any(owner.kind == "SubnetClaim" for owner in subnet.metadata.owner_references)
    return by_claim or bool(subnet.spec and subnet.spec.claim_ref)


async def give_up(ctx: Context[SubnetClaim], shared: SharedState, member: Member) -> None:
    """Delete a Subnet that was made for this claim and cannot be used; others are left alone."""
    try:
        subnet = await ctx.client.get(Subnet, member.name, member.namespace)
    except NotFound:
        shared.table.drop_subnet(member.uid)
        return
    if is_made_for(subnet, ctx.obj):
        await delete(ctx, shared, subnet)


async def drop_extras(ctx: Context[SubnetClaim], shared: SharedState, bound: Network) -> None:
    """Delete Subnets that were made for this claim beside the one it is bound to.

    They come from two allocators that were active at once. The claim is read again first: what is written
    there, not what a cache says, is what it is bound to.
    """
    extras = [
        subnet
        for subnet in ctx.index(Subnet, owned_by(ctx.obj))
        if is_made_for(subnet, ctx.obj)
        and (member := member_of(subnet)) is not None
        and member.network != bound
    ]
    if not extras:
        return
    claim = await ctx.client.get(SubnetClaim, ctx.key.name, ctx.key.namespace)
    if claim.status.phase == names.BOUND and claim.status.allocated_cidr == str(bound):
        for subnet in extras:
            await delete(ctx, shared, subnet)


def is_made_for(subnet: Subnet, claim: SubnetClaim) -> bool:
    """Whether the allocator made a Subnet for this claim and nobody changed or shares it."""
    owners, member = subnet.metadata.owner_references, member_of(subnet)
    controller = controller_of(owners)
    if member is None or member.network is None or len(owners) != 1:
        return False
    made = (subnet_name(member.pool, member.network), collision_name(member.pool, member.network))
    return controller is not None and controller.uid == claim.metadata.uid and member.name in made


async def delete(ctx: Context[SubnetClaim], shared: SharedState, subnet: Subnet) -> None:
    """Delete exactly this Subnet."""
    with ignore_not_found():
        await ctx.delete(subnet)
    shared.table.drop_subnet(subnet.metadata.uid)
