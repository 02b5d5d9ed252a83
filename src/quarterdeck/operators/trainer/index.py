"""Indexes kept over cached kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key
from quarterdeck.runtime.cache import Index

from .logic.info import spec_of
from .lookup import RUNTIMES, runtime_namespace
from .types import AnyRuntime, TrainJob


def values_of(job: TrainJob) -> Iterable[str]:
    """The value of the runtime that a TrainJob uses; none if nobody knows its kind."""
    ref = spec_of(job).runtime_ref
    return (f"{ref.key}/{runtime_namespace(job)}/{ref.name}",) if ref.key in RUNTIMES else ()


def runtime_value(runtime: AnyRuntime) -> str:
    """The value under which the TrainJobs of a runtime are found."""
    return value_of(type(runtime), runtime.key)


def value_of(kind: type[AnyRuntime], key: Key) -> str:
    """The same for a runtime of which only kind and name are left."""
    gvk = kind.type_info.gvk
    return f"{gvk.kind}.{gvk.group}/{key.namespace}/{key.name}"


JOBS_BY_RUNTIME: Final[Index[TrainJob]] = Index("trainjobs-by-runtime", values_of)
"""The TrainJobs of a runtime."""
