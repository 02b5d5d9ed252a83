"""Create or update, create or patch: for those who do not apply.

Read; if the object is absent, fill it in and create it; if it is there, change it and write the
difference. The known trap is server-side defaulting: a sub-tree that is assigned whole never equals the
one the server has completed, and the object is written for ever. Here only what the change *set* is
compared: a field that was left at "not set" is no difference (``covers``). Server-side apply
(``ctx.apply``) does not need any of this and is the recommended way.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from quarterdeck.api import Draft, Model, Resource, to_dict
from quarterdeck.client import MergePatch, merge_patch
from quarterdeck.errors import AlreadyExists, NotFound
from quarterdeck.runtime.reconcile.context import Context

__all__ = ["Upsert", "UpsertResult", "covers", "create_or_patch", "create_or_update"]

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


async def create_or_update(ctx: Context[Any], obj: R, change: Callable[[Draft[R]], None]) -> Upsert:
    """Make an object like ``change`` wants it, by POST or PUT.

    ``obj`` names it and is what is filled in when it does not exist. ``change`` gets a draft and may do
    anything but rename it. Raises ``Conflict`` if somebody else was faster.
    """
    present, is_new = await _present(ctx, obj, change)
    if is_new:
        return Upsert(present, UpsertResult.CREATED)
    wanted = _changed(present, change)
    if wanted is present or covers(present, wanted):
        return Upsert(present, UpsertResult.UNCHANGED)
    return Upsert(await ctx.update(wanted), UpsertResult.UPDATED)


async def create_or_patch(ctx: Context[Any], obj: R, change: Callable[[Draft[R]], None]) -> Upsert:
    """Make an object like ``change`` wants it, by POST or by merge patches of object and status."""
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
        return await ctx.get(type(obj), name, namespace), False
    except NotFound:
        wanted = _changed(obj, change)
    try:
        return await ctx.create(wanted), True
    except AlreadyExists:  # the cache did not know
        return await ctx.get(type(obj), name, namespace, live=True), False


def _changed(obj: R, change: Callable[[Draft[R]], None]) -> R:
    draft = obj.draft()
    change(draft)
    made = draft.done()
    if made.metadata.name != obj.metadata.name or made.metadata.namespace != obj.metadata.namespace:
        raise ValueError("MutateFn cannot mutate object name and/or object namespace")
    return made


def covers(present: Any, wanted: Any) -> bool:
    """Whether ``present`` has every value that ``wanted`` sets.

    A field that ``wanted`` leaves unset is whatever the server made of it. Maps and lists must be equal
    in length: leaving something out of them is a change.
    """
    if isinstance(wanted, Model):
        return type(present) is type(wanted) and all(
            covers(getattr(present, info.name), value)
            for info in msgspec.structs.fields(cast("Any", wanted))
            if not _is_unset(value := getattr(wanted, info.name), info)
        )
    if isinstance(wanted, tuple):
        return (
            isinstance(present, tuple) and len(present) == len(wanted) and all(map(covers, present, wanted))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(present, dict)
            and present.keys() == wanted.keys()
            and all(covers(present[key], value) for key, value in wanted.items())
        )
    return bool(present == wanted)


def _is_unset(value: Any, info: Any) -> bool:
    return (
        value is msgspec.UNSET
        or value is None
        or (info.default is not msgspec.NODEFAULT and value is info.default)
    )
