"""Making and removing resource claims, for sets, groups and PodCliques alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarterdeck.api import Writable, is_controlled_by, set_controller_reference
from quarterdeck.api.k8s.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from quarterdeck.errors import AlreadyExists, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.claimplan import ClaimPlan, claim_metadata, shares_anything
from quarterdeck.operators.grove.logic.label import managed_labels
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context

from .outcome import put_back, step

CLAIM_RULES = (
    Rule(
        groups=("resource.k8s.io",),
        resources=("resourceclaims",),
        verbs=("create", "delete", "get", "list", "patch"),
    ),
    Rule(groups=("resource.k8s.io",), resources=("resourceclaimtemplates",), verbs=("get",)),
)


async def sync_claims(
    ctx: Context[Any], pcs: PodCliqueSet, owner: Writable, wanted: Sequence[ClaimPlan]
) -> None:
    """Make the claims of an owner that are missing, and remove those that are not wanted any more.

    What is claimed does not change: a claim that exists stays as it is. Claims are not cached; they are
    listed, and only for sets that have any.
    """
    if not shares_anything(pcs.spec.template):
        return
    with step("ERR_SYNC_RESOURCE_CLAIM", "failed to sync ResourceClaims"):
        labels = {**managed_labels(pcs.metadata.name), names.COMPONENT: names.CLAIM_COMPONENT}
        listed = await ctx.client.list(ResourceClaim, namespace=pcs.metadata.namespace, labels=labels)
        present = {claim.metadata.name: claim for claim in listed if is_controlled_by(owner, claim.metadata)}
        for plan in wanted:
            if plan.name not in present:
                await _create(ctx, pcs, owner, plan)
        names_wanted = {plan.name for plan in wanted}
        for name, claim in present.items():
            if name not in names_wanted and not claim.metadata.is_deleting:
                with ignore_not_found():
                    await ctx.delete(claim)


async def _create(ctx: Context[Any], pcs: PodCliqueSet, owner: Writable, plan: ClaimPlan) -> None:
    templates = pcs.spec.template.resource_claim_templates
    internal = next((each for each in templates if each.name == plan.template), None)
    if internal is not None:
        spec: ResourceClaimSpec = internal.template_spec.spec
    else:
        namespace = plan.namespace or pcs.metadata.namespace
        external = await ctx.get(ResourceClaimTemplate, plan.template, namespace, live=True)
        spec = external.spec.spec
    metadata = set_controller_reference(owner, claim_metadata(pcs, plan, internal))
    claim = ResourceClaim(metadata=metadata, spec=spec)
    try:
        await ctx.create(claim)
    except AlreadyExists:
        await put_back(ctx, claim)
