"""Whose an object is. Only objects that a TrainJob controls, by UID, are written and read as its own.

An object whose owner reference was taken away, but which the operator has written, is taken back.
"""

from __future__ import annotations

from typing import TypeVar

from quarterdeck.api import (
    ObjectMeta,
    Resource,
    controller_of,
    is_controlled_by,
    owner_reference,
    to_dict,
)
from quarterdeck.client import MergePatch
from quarterdeck.errors import NotFound, ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.reconcile.context import Context

R = TypeVar("R", bound=Resource)


class Foreign(ReconcileError):
    """The name that an object of a TrainJob would have is taken by somebody else's."""

    def __init__(self, kind: str, namespace: str, name: str, holder: str) -> None:
        super().__init__(
            f"{kind} {namespace}/{name} already exists and is not controlled by this TrainJob: {holder}"
        )
        self.kind = kind


async def read(ctx: Context[TrainJob], kind: type[R], name: str) -> R | None:
    """A cached object of the TrainJob's namespace, whoever it belongs to."""
    try:
        return await ctx.get(kind, name, ctx.key.namespace)
    except NotFound:
        return None


async def read_live(ctx: Context[TrainJob], kind: type[R], name: str) -> R | None:
    """An object as the server has it now, with its managed fields."""
    try:
        return await ctx.get(kind, name, ctx.key.namespace, live=True)
    except NotFound:
        return None


async def claim(ctx: Context[TrainJob], obj: R) -> R:
    """The object, if it is or becomes the TrainJob's; raises ``Foreign``. It must have been read live."""
    metadata = obj.metadata
    if is_controlled_by(ctx.obj, metadata):
        return obj
    if controller_of(metadata.owner_references) is not None or not _is_written_by_us(obj):
        raise Foreign(obj.kind, metadata.namespace, metadata.name, _holder(metadata))
    references = (*metadata.owner_references, owner_reference(ctx.obj, controller=True))
    patch = {
        "metadata": {
            "ownerReferences": to_dict(references),
            "resourceVersion": metadata.resource_version,
        }
    }
    return await ctx.patch(obj, MergePatch(patch))


def _holder(metadata: ObjectMeta) -> str:
    controller = controller_of(metadata.owner_references)
    if controller is None:
        return "nobody controls it; delete it or choose another name"
    return f"it is controlled by {controller.kind} {controller.name}"


def _is_written_by_us(obj: Resource) -> bool:
    return any(entry.manager == names.FIELD_MANAGER for entry in obj.metadata.managed_fields)
