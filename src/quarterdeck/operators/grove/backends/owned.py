"""Objects that a backend makes for a gang, and that no other gang may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterdeck.api import DynamicObject, controller_of
from quarterdeck.errors import NotFound
from quarterdeck.operators.grove.types import PodGang

from .contract import HookContext
from .error import BackendError

__all__ = ["found_or_created", "is_owned_by"]


async def found_or_created(
    ctx: HookContext, gang: PodGang, wanted: Mapping[str, Any]
) -> DynamicObject | None:
    """The object of a gang as it is; ``None`` if it was not there and has been created.

    Raises ``BackendError`` if there is one of that name that is somebody else's.
    """
    made = DynamicObject(dict(wanted))
    name = made.metadata.name
    try:
        present = await ctx.client.get(made.gvk, name, made.metadata.namespace)
    except NotFound:
        await ctx.client.create(made)
        return None
    if not is_owned_by(present, gang):
        raise BackendError(f"{made.gvk.kind} {name} exists and is not owned by this PodGang")
    return present


def is_owned_by(found: DynamicObject, gang: PodGang) -> bool:
    """Whether the gang is the controller of an object."""
    owner = controller_of(found.metadata.owner_references)
    return owner is not None and owner.uid == gang.metadata.uid
