"""Making, removing and freeing the pods of a Job, with the events that tell about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from quarterdeck.api.k8s import Job, Pod
from quarterdeck.client import Client, StrategicMergePatch
from quarterdeck.cluster.attempt import attempt_all
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.child import PodMaker
from quarterdeck.cluster.job.podstate import PodState
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.reconcile.context import Context

__all__ = ["Outcome", "create_pods", "free_pod", "free_pods", "remove_pods"]

_FREED: Final = StrategicMergePatch({"metadata": {"$deleteFromPrimitiveList/finalizers": [names.TRACKING]}})
_EVENTS: Final = 25
"""Events about one Job at a time; event recorders drop more than that."""
_FIRST_BATCH: Final = 1
"""Pods are made one, two, four … at a time, so that what is refused is refused once, not 500 times."""


class Outcome(NamedTuple):
    """What came of it."""

    number: int = 0
    """Pods that were made or removed."""
    ready: int = 0
    """How many of those removed were ready."""
    error: QuarterdeckError | None = None
    """The first that was met."""


class _Telling:
    """Tells about the first of many things."""

    def __init__(self, ctx: Context[Job]) -> None:
        self._ctx: Final = ctx
        self._left = _EVENTS

    def event(self, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        if self._left > 0:
            self._left -= 1
            self._ctx.event(type, reason, text)


async def create_pods(
    ctx: Context[Job],
    indexes: Sequence[int | None],
    predecessors: Mapping[int, PodState],
    note: Callable[[Pod], None],
) -> Outcome:
    """Make a pod for each index; stops after the first batch with a failure. ``note`` is told of each."""
    maker, made, told = PodMaker(ctx.obj), 0, _Telling(ctx)

    async def create(index: int | None) -> None:
        predecessor = predecessors.get(index) if index is not None else None
        try:
            pod = await ctx.client.create(maker.make(index, predecessor))
        except ApiError as error:
            if not _is_terminating(error):
                told.event("Warning", "FailedCreate", f"Error creating: {error}")
            raise
        note(pod)
        told.event("Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")

    size = _FIRST_BATCH
    while indexes:
        batch, indexes = indexes[:size], indexes[size:]
        errors = await attempt_all(batch, create)
        made += errors.count(None)
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            # Nothing can be made in a namespace that goes away: no reason to try again.
            return Outcome(made, error=None if _is_terminating(first) else first)
        size *= 2
    return Outcome(made)


def _is_terminating(error: QuarterdeckError) -> bool:
    return isinstance(error, ApiError) and any(
        cause.reason == "NamespaceTerminating" for cause in error.details.causes
    )


async def remove_pods(ctx: Context[Job], pods: Sequence[PodState], *, frees: bool) -> Outcome:
    """Delete pods; with ``frees`` they are forgotten at once, otherwise counted first."""
    told = _Telling(ctx)

    async def remove(pod: PodState) -> None:
        try:
            if frees and pod.is_tracked:
                await free_pod(ctx.client, pod.reference)
            await ctx.delete(pod.reference)
        except NotFound:
            return
        except ApiError as error:
            told.event("Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        told.event("Normal", "SuccessfulDelete", f"Deleted pod: {pod.entry.name}")

    errors = await attempt_all(pods, remove)
    gone = [pod for pod, error in zip(pods, errors, strict=True) if error is None]
    first = next((error for error in errors if error is not None), None)
    return Outcome(len(gone), sum(1 for pod in gone if pod.is_ready), first)


async def free_pods(
    ctx: Context[Job], pods: Sequence[PodState]
) -> tuple[frozenset[str], QuarterdeckError | None]:
    """Remove the finalizer of pods; returns the UIDs of those that are free, and the first error met."""
    errors = await attempt_all(pods, lambda pod: free_pod(ctx.client, pod.reference))
    freed = frozenset(pod.uid for pod, error in zip(pods, errors, strict=True) if error is None)
    return freed, next((error for error in errors if error is not None), None)


async def free_pod(client: Client, pod: Pod) -> None:
    """Remove the finalizer of a pod."""
    with ignore_not_found():
        await client.patch(pod, _FREED)
