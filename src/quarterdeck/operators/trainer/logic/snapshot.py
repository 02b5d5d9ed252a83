"""The runtime as a TrainJob first saw it, as text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import yaml

from quarterdeck.api.manifest import load_documents
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    ClusterTrainingRuntime,
    RuntimeRef,
    TrainingRuntime,
)
from quarterdeck.wire.gostyle import quote

KEY: Final = "runtime"
"""Where the ConfigMap has the text."""
_KEPT: Final = ("name", "namespace", "labels", "annotations")
_KINDS: Final = {kind.type_info.kind: kind for kind in (TrainingRuntime, ClusterTrainingRuntime)}


class InvalidSnapshot(ReconcileError):
    """What a ConfigMap has is not the runtime of the TrainJob; whoever put it there must take it away."""

    def __init__(self, why: str) -> None:
        super().__init__(f"invalid runtime snapshot: {why}")


def snapshot_text(runtime: AnyRuntime) -> str:
    """A runtime as it is kept: what it says, not its history."""
    document = runtime.to_dict()
    metadata: Mapping[str, Any] = document["metadata"]
    document["metadata"] = {key: metadata[key] for key in _KEPT if key in metadata}
    return yaml.safe_dump(document, sort_keys=False)


def read_snapshot(data: Mapping[str, str], ref: RuntimeRef) -> AnyRuntime:
    """The runtime that was kept; raises ``InvalidSnapshot`` if it is none, or not the one referred to."""
    if KEY not in data:
        raise InvalidSnapshot(f'snapshot ConfigMap missing "{KEY}" data key')
    runtime = _parse(data[KEY])
    gvk = type(runtime).type_info.gvk
    if ref.key != names.registry_key(gvk.kind, gvk.group) or runtime.metadata.name != ref.name:
        what = "a runtime with name, api group and kind of"
        kind, _, group = ref.key.partition(".")
        wanted = ", ".join(map(quote, (ref.name, group, kind)))
        found = ", ".join(map(quote, (runtime.metadata.name, gvk.group, gvk.kind)))
        raise InvalidSnapshot(
            f"the snapshot refers to the wrong runtime: expecting {what} {wanted}, found {found}"
        )
    return runtime


@lru_cache(maxsize=64)
def _parse(text: str) -> AnyRuntime:
    """Many TrainJobs have the same runtime, so what was read lately is kept."""
    try:
        document = next(load_documents(text), None)
    except yaml.YAMLError as error:
        raise InvalidSnapshot(f"unable to read it: {error}") from error
    kind = _KINDS.get(document.get("kind", "")) if isinstance(document, dict) else None
    if kind is None or not isinstance(document, dict):
        raise InvalidSnapshot("there is no runtime in it")
    return kind.from_dict(document)
