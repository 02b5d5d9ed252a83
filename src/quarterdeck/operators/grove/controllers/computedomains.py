"""Making and removing the ComputeDomains of sets.

They carry a finalizer, so that none goes while pods use it: who deletes one has to let go of it, too.
"""

from __future__ import annotations

from quarterdeck.api import DynamicObject, is_controlled_by
from quarterdeck.api.finalizer import remove_finalizer
from quarterdeck.errors import AlreadyExists, NotFound, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.label import managed_labels
from quarterdeck.operators.grove.logic.mnnvl import COMPUTE_DOMAIN, domain_groups, plan_compute_domains
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.finalizer import change_finalizers

from .outcome import put_back, step, telling_failure

COMPUTE_DOMAIN_RULE = Rule(
    groups=(COMPUTE_DOMAIN.group,),
    resources=("computedomains",),
    verbs=("create", "delete", "get", "list", "patch", "watch"),
)


async def sync_domains(ctx: Context[PodCliqueSet]) -> None:
    """Make the ComputeDomains of a set that are missing, and remove those of replicas that are gone.

    They are not cached; they are listed, and only for sets that have any.
    """
    if not domain_groups(ctx.obj):
        return
    wanted = plan_compute_domains(ctx.obj)
    with step("ERR_SYNC_COMPUTEDOMAIN", "failed to sync ComputeDomains"):
        present = await _present(ctx)
        for name, domain in present.items():
            if name not in wanted:
                await _remove(ctx, domain)
        for name, document in wanted.items():
            if name not in present:
                await _create(ctx, DynamicObject(document))


async def release_domains(ctx: Context[PodCliqueSet]) -> None:
    """A set goes: let its ComputeDomains go with it."""
    if not domain_groups(ctx.obj):
        return
    try:
        present = await _present(ctx)
    except NotFound:
        return  # the kind is gone, and its objects with it
    for domain in present.values():
        await _remove(ctx, domain)


async def _present(ctx: Context[PodCliqueSet]) -> dict[str, DynamicObject]:
    pcs = ctx.obj
    labels = {**managed_labels(pcs.metadata.name), names.COMPONENT: names.COMPUTE_DOMAIN_COMPONENT}
    listed = await ctx.client.list(COMPUTE_DOMAIN, namespace=pcs.metadata.namespace, labels=labels)
    return {each.metadata.name: each for each in listed if is_controlled_by(pcs, each.metadata)}


async def _create(ctx: Context[PodCliqueSet], domain: DynamicObject) -> None:
    key = f"{domain.metadata.namespace}/{domain.metadata.name}"
    try:
        with telling_failure(ctx, "ComputeDomainCreateFailed", f"ComputeDomain {key} creation failed"):
            await ctx.create(domain)
    except AlreadyExists:
        await put_back(ctx, domain)
        return
    ctx.event("Normal", "ComputeDomainCreateSuccessful", f"ComputeDomain {key} created successfully")


async def _remove(ctx: Context[PodCliqueSet], domain: DynamicObject) -> None:
    name = domain.metadata.name
    failure = f"Failed to delete ComputeDomain {name}"
    with telling_failure(ctx, "ComputeDomainDeleteFailed", failure), ignore_not_found():
        after = remove_finalizer(domain.metadata, names.COMPUTE_DOMAIN_FINALIZER)
        await change_finalizers(ctx.client, domain, after)
        await ctx.delete(domain)
    ctx.event("Normal", "ComputeDomainDeleteSuccessful", f"Deleted ComputeDomain {name}")
