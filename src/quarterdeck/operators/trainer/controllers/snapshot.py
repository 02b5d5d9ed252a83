"""The runtime as a TrainJob first saw it, kept in a ConfigMap of the TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from quarterdeck.api import ObjectMeta, is_controlled_by, owner_reference
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.api.manifest import load_documents
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.lookup import RUNTIMES
from quarterdeck.operators.trainer.types import AnyRuntime, TrainJob
from quarterdeck.runtime.reconcile.context import Context

from .ownership import read_live

__all__ = ["load_snapshot", "store_snapshot"]

_KEY: Final = "runtime"
_WRONG_OWNER: Final = "invalid runtime snapshot: a snapshot configmap exists but is owned by another object"
_KEPT: Final = ("name", "namespace", "labels", "annotations")


async def load_snapshot(ctx: Context[TrainJob]) -> AnyRuntime | None:
    """The runtime that was kept; ``None`` if none was. Raises ``ReconcileError`` if it is somebody else's."""
    job = ctx.obj
    kept = await read_live(ctx, ConfigMap, names.snapshot_name(job.metadata.name))
    if kept is None:
        return None
    if not is_controlled_by(job, kept.metadata):
        raise ReconcileError(_WRONG_OWNER)
    try:
        document = next(load_documents(kept.data.get(_KEY, "")), None)
    except yaml.YAMLError as error:
        raise ReconcileError(f"invalid runtime snapshot: {error}") from error
    if not isinstance(document, dict):
        raise ReconcileError("invalid runtime snapshot: there is no runtime in it")
    return RUNTIMES[spec_of(job).runtime_ref.key].from_dict(document)


async def store_snapshot(ctx: Context[TrainJob], runtime: AnyRuntime) -> None:
    """Keep the runtime; raises ``AlreadyExists`` if somebody was faster."""
    job = ctx.obj
    document = runtime.to_dict()
    metadata: Mapping[str, Any] = document["metadata"]
    document["metadata"] = {key: metadata[key] for key in _KEPT if key in metadata}
    await ctx.create(
        ConfigMap(
            metadata=ObjectMeta(
                name=names.snapshot_name(job.metadata.name),
                namespace=job.metadata.namespace,
                owner_references=(owner_reference(job, controller=True),),
            ),
            data={_KEY: yaml.safe_dump(document, sort_keys=False)},
        )
    )
