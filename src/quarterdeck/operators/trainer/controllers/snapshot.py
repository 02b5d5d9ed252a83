"""What a TrainJob was rendered with, kept in a ConfigMap of its own.

That is the runtime as the TrainJob first saw it, so that the runtime may change or go, and, as annotations,
what nothing else tells about the objects that were made of it: how many processes, which key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from quarterdeck.api import Key, ObjectMeta, Resource, is_controlled_by, owner_reference
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.errors import AlreadyExists, Conflict, NotFound
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.info import spec_of
from quarterdeck.operators.trainer.logic.snapshot import KEY, InvalidSnapshot, read_snapshot, snapshot_text
from quarterdeck.operators.trainer.types import AnyRuntime, TrainJob
from quarterdeck.runtime.reconcile.context import Context

from .ownership import Foreign, claim, read_live

_MOST_TEXTS: Final = 64
_WRONG_OWNER: Final = "a snapshot configmap exists but is owned by another object"
"""Upstream's words; whose it is follows."""


class Snapshot(msgspec.Struct, frozen=True):
    """What was kept."""

    runtime: AnyRuntime
    record: Mapping[str, str]
    version: str
    """Of the ConfigMap; empty if that is gone."""
    job: str
    """UID of the TrainJob."""


class Snapshots:
    """The snapshots of all TrainJobs; those that did not change are not read again."""

    def __init__(self) -> None:
        self._known: Final[dict[Key, Snapshot]] = {}
        self._texts: Final[dict[str, tuple[str, str]]] = {}
        """By the UID of a runtime its last version, and that as text: many TrainJobs have the same."""

    def forget(self, key: Key) -> None:
        """The TrainJob is gone."""
        self._known.pop(key, None)

    async def load(self, ctx: Context[TrainJob]) -> Snapshot | None:
        """What was kept; ``None`` if nothing was. Raises ``InvalidSnapshot`` if it is somebody else's."""
        job = ctx.obj
        name = names.snapshot_name(job.metadata.name)
        known = self._known.get(ctx.key)
        if known is not None:
            try:
                cached = await ctx.get(metadata_of(ConfigMap), name, ctx.key.namespace)
            except NotFound:
                pass
            else:
                if cached.metadata.resource_version == known.version and is_controlled_by(
                    job, cached.metadata
                ):
                    return known
        kept = await read_live(ctx, ConfigMap, name)
        if kept is None:
            if known is None or known.job != job.metadata.uid:
                self.forget(ctx.key)
                return None
            # Somebody deleted it: it comes back as it was, whatever became of the runtime.
            return msgspec.structs.replace(known, version="")
        try:
            kept = await claim(ctx, kept)
        except Foreign as error:
            raise InvalidSnapshot(f"{_WRONG_OWNER}: {error}") from error
        return self._remember(ctx, read_snapshot(kept.data, spec_of(job).runtime_ref), kept)

    async def store(
        self, ctx: Context[TrainJob], runtime: AnyRuntime, record: Mapping[str, str], known: Snapshot | None
    ) -> None:
        """Keep a runtime, or only what is new about the objects made of it."""
        job = ctx.obj
        if known is not None and known.version and known.record == record:
            return
        metadata = ObjectMeta(
            name=names.snapshot_name(job.metadata.name),
            namespace=job.metadata.namespace,
            annotations=record,
            owner_references=(owner_reference(job, controller=True),),
        )
        snapshot = ConfigMap(metadata=metadata, data={KEY: self._text(runtime)})
        if known is not None and known.version:
            changed = {**dict.fromkeys(known.record), **record}
            patched = await ctx.patch(snapshot, MergePatch({"metadata": {"annotations": changed}}))
            self._remember(ctx, runtime, patched)
            return
        try:
            self._remember(ctx, runtime, await ctx.create(snapshot))
        except AlreadyExists as error:  # a foreign one raises by itself
            raise Conflict(str(error)) from error

    def _text(self, runtime: AnyRuntime) -> str:
        uid, version = runtime.metadata.uid, runtime.metadata.resource_version
        known, text = self._texts.get(uid, ("", ""))
        if known != version or not version:
            text = snapshot_text(runtime)
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            self._texts[uid] = version, text
        return text

    def _remember(self, ctx: Context[TrainJob], runtime: AnyRuntime, kept: ConfigMap) -> Snapshot:
        snapshot = Snapshot(runtime, recorded(kept), kept.metadata.resource_version, ctx.obj.metadata.uid)
        self._known[ctx.key] = snapshot
        return snapshot


def recorded(obj: Resource | None) -> Mapping[str, str]:
    """What was noted on an object: on the JobSet itself, where there are no snapshots."""
    annotations = obj.metadata.annotations if obj is not None else {}
    return {name: annotations[name] for name in names.RECORD if name in annotations}


def with_record(jobset: JobSet, record: Mapping[str, str]) -> JobSet:
    """A JobSet with what is noted about it."""
    annotations = {**jobset.metadata.annotations, **record}
    return jobset.evolve(metadata=jobset.metadata.evolve(annotations=annotations))
