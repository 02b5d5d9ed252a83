"""Writing PodCliques: for sets and for groups."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Draft
from quarterdeck.operators.grove.types import PodClique
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.upsert import UpsertResult, create_or_patch

from .outcome import telling_failure

__all__ = ["upsert_clique"]


async def upsert_clique(ctx: Context[Any], wanted: PodClique) -> PodClique:
    """Make a PodClique, or bring it up to date; how many pods one has that exists is up to others.

    Returns it as it is then. The owner is told what was done.
    """

    def change(draft: Draft[PodClique]) -> None:
        replicas = draft.spec.replicas
        draft.metadata.labels = dict(wanted.metadata.labels)
        draft.metadata.annotations = dict(wanted.metadata.annotations)
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
