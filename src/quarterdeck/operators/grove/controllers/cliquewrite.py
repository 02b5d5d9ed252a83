"""Children of sets and groups: whose they are, and how PodCliques are written."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import GroupVersionKind, Resource, controller_of
from quarterdeck.api.draft import Draft
from quarterdeck.operators.grove.logic.kinship import merged_owners
from quarterdeck.operators.grove.types import PodClique
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.upsert import UpsertResult, create_or_patch

from .outcome import telling_failure


def put_back_owners(draft: Draft[Any], wanted: Resource) -> None:
    """The references of a child to its owner, should somebody have taken them away."""
    present = tuple(
        each.done() if isinstance(each, Draft) else each for each in draft.metadata.owner_references
    )
    draft.metadata.owner_references = list(merged_owners(present, wanted.metadata.owner_references))


def is_child(obj: Resource, *owners: type[Resource]) -> bool:
    """Whether an object is controlled by one of these kinds."""
    owner = controller_of(obj.metadata.owner_references)
    found = owner is not None and GroupVersionKind.parse(owner.api_version, owner.kind).group_kind
    return any(found == kind.type_info.gvk.group_kind for kind in owners)


async def upsert_clique(ctx: Context[Any], wanted: PodClique) -> PodClique:
    """Make a PodClique, or bring it up to date; how many pods one has that exists is up to others.

    Returns it as it is then. The owner is told what was done.
    """

    def change(draft: Draft[PodClique]) -> None:
        replicas = draft.spec.replicas
        draft.metadata.labels = dict(wanted.metadata.labels)
        draft.metadata.annotations = dict(wanted.metadata.annotations)
        put_back_owners(draft, wanted)
        draft.spec = wanted.spec.evolve(replicas=replicas)

    key = str(wanted.key)
    failure = f"PodClique {key} creation or update failed"
    with telling_failure(ctx, "PodCliqueCreateOrUpdateFailed", failure):
        done = await create_or_patch(ctx, wanted, change)
    if done.result is not UpsertResult.UNCHANGED:
        text = f"PodClique {key} created or updated successfully"
        ctx.event("Normal", "PodCliqueCreateOrUpdateSuccessful", text)
    made: PodClique = done.obj
    return made
