"""Create or patch, for those who do not apply: read, and create what is absent or write the difference.

Server-side apply (``ctx.apply``) does not need any of this and is the recommended way.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from quarterdeck.api import Resource, to_dict
from quarterdeck.api.draft import Draft
from quarterdeck.client import MergePatch
from quarterdeck.errors import AlreadyExists, NotFound
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import is_ours
from quarterdeck.wire.patch import merge_patch

R = TypeVar("R", bound=Resource)


class UpsertResult(Enum):
    """What was done."""

    UNCHANGED = "unchanged"
    CREATED = "created"
    UPDATED = "updated"
    UPDATED_STATUS = "updatedStatus"
    """The object and its status were written."""
    UPDATED_STATUS_ONLY = "updatedStatusOnly"


class Upsert(NamedTuple):
    """The object as it is now, and what was done."""

    obj: Any
    result: UpsertResult


async def create_or_patch(ctx: Context[Any], obj: R, change: Callable[[Draft[R]], None]) -> Upsert:
    """Make an object like ``change`` wants it, by POST or by merge patches of object and status.

    ``obj`` names it and is what is filled in when it does not exist. ``change`` gets a draft and may do
    anything but rename it. Raises ``ForeignObject`` if an object that should have our owners has others.
    """
    present, is_new = await _present(ctx, obj, change)
    if is_new:
        return Upsert(present, UpsertResult.CREATED)
    wanted = _changed(present, change)
    if wanted is present:
        return Upsert(present, UpsertResult.UNCHANGED)
    difference = merge_patch(to_dict(present), to_dict(wanted))
    status = difference.pop("status", None)
    written = present
    if difference:
        written = await ctx.patch(present, MergePatch(difference))
    if status:
        written = await ctx.client.status.patch(written, MergePatch({"status": status}))
    if difference and status:
        return Upsert(written, UpsertResult.UPDATED_STATUS)
    if status:
        return Upsert(written, UpsertResult.UPDATED_STATUS_ONLY)
    return Upsert(written, UpsertResult.UPDATED if difference else UpsertResult.UNCHANGED)


async def _present(ctx: Context[Any], obj: R, change: Callable[[Draft[R]], None]) -> tuple[R, bool]:
    """The object as it is, and whether it was created just now."""
    name, namespace = obj.metadata.name, obj.metadata.namespace
    try:
        present = await ctx.get(type(obj), name, namespace)
    except NotFound:
        try:
            return await ctx.create(_changed(obj, change)), True
        except AlreadyExists:  # the cache did not know
            return await ctx.get(type(obj), name, namespace, live=True), False
    owned = obj if obj.metadata.owner_references else _changed(obj, change)
    if not is_ours(owned.metadata.owner_references, present.metadata.owner_references):
        await ctx.require_ours(owned)
    return present, False


def _changed(obj: R, change: Callable[[Draft[R]], None]) -> R:
    draft = obj.draft()
    change(draft)
    made = draft.done()
    if made.metadata.name != obj.metadata.name or made.metadata.namespace != obj.metadata.namespace:
        raise ValueError("MutateFn cannot mutate object name and/or object namespace")
    return made
