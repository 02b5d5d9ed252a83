"""Objects that a backend makes for a gang, and that nobody else may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api import DynamicObject, controller_of
from quarterdeck.client import MergePatch
from quarterdeck.errors import AlreadyExists, NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.kinship import missing_metadata
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.reconcile.ownership import require_ours

from .contract import HookContext


async def found_or_created(
    ctx: HookContext, gang: PodGang, wanted: Mapping[str, Any]
) -> DynamicObject | None:
    """The object of a gang as it is; ``None`` if it was not there and has been created.

    Raises ``ForeignObject``, which says whose it is, if there is one of that name that is somebody else's. If
    somebody took the reference to the gang away, it is put back.
    """
    made = DynamicObject(dict(wanted))
    name, namespace = made.metadata.name, made.metadata.namespace
    try:
        present = await ctx.client.get(made.gvk, name, namespace)
    except NotFound:
        try:
            await ctx.client.create(made)
            return None
        except AlreadyExists:  # somebody was faster
            present = await ctx.client.get(made.gvk, name, namespace)
    require_ours(made, present, manager=names.FIELD_MANAGER)
    if is_owned_by(present, gang):
        return present
    return await changed(ctx, present, {"metadata": missing_metadata(present.metadata, made.metadata)})


async def changed(ctx: HookContext, present: DynamicObject, patch: Mapping[str, Any]) -> DynamicObject:
    """Exactly this object with a merge patch: one that took its name meanwhile is left alone."""
    metadata = {**patch.get("metadata", {}), "uid": present.metadata.uid}
    return await ctx.client.patch(present, MergePatch({**patch, "metadata": metadata}))


def is_owned_by(found: DynamicObject, gang: PodGang) -> bool:
    """Whether the gang is the controller of an object."""
    owner = controller_of(found.metadata.owner_references)
    return owner is not None and owner.uid == gang.metadata.uid
