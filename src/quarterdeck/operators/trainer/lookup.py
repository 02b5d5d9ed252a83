"""Where the runtime of a TrainJob is found. The kind decides: there is no second place to look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from quarterdeck.errors import NotFound, ReconcileError

from . import names
from .logic.info import spec_of
from .types import AnyRuntime, ClusterTrainingRuntime, TrainingRuntime, TrainJob

RUNTIMES: Final[Mapping[str, type[TrainingRuntime] | type[ClusterTrainingRuntime]]] = {
    names.registry_key(names.TRAINING_RUNTIME, names.GROUP): TrainingRuntime,
    names.registry_key(names.CLUSTER_TRAINING_RUNTIME, names.GROUP): ClusterTrainingRuntime,
}
"""The kinds of runtimes that are known, by registry key."""


class Reader(Protocol):
    """What reads one object: a client, a cache or a reconcile."""

    async def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        """One object; raises ``NotFound``."""
        ...


class RuntimeMissing(ReconcileError):
    """The runtime that a TrainJob names does not exist."""

    def __init__(self, kind: str, error: NotFound) -> None:
        text = (
            "TrainingRuntime specified in TrainJob is not found"
            if kind == names.TRAINING_RUNTIME
            else "not found ClusterTrainingRuntime specified in TrainJob"
        )
        super().__init__(f"{text}: {error}")
        self.kind: Final = kind
        self.error: Final = error


def is_supported(job: TrainJob) -> bool:
    """Whether anybody knows the kind of the runtime."""
    return spec_of(job).runtime_ref.key in RUNTIMES


def runtime_namespace(job: TrainJob) -> str:
    """Where the runtime of a TrainJob is looked for; empty for cluster-wide ones."""
    kind = RUNTIMES[spec_of(job).runtime_ref.key]
    return job.metadata.namespace if kind.type_info.is_namespaced else ""


async def find_runtime(reader: Reader, job: TrainJob) -> AnyRuntime:
    """The runtime of a TrainJob whose kind is supported; raises ``RuntimeMissing``."""
    ref = spec_of(job).runtime_ref
    kind = RUNTIMES[ref.key]
    if not ref.name:
        missing = NotFound(f'{kind.type_info.plural}.{names.GROUP} "" not found')
        raise RuntimeMissing(kind.type_info.kind, missing)
    try:
        found: AnyRuntime = await reader.get(kind, ref.name, runtime_namespace(job))
    except NotFound as error:
        raise RuntimeMissing(kind.type_info.kind, error) from error
    return found
