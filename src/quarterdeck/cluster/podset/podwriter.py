"""Making and removing the pods of a set, with the events that tell about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from quarterdeck.api import ObjectMeta, Resource, owner_reference
from quarterdeck.api.k8s import Pod, PodTemplateSpec
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError
from quarterdeck.runtime.reconcile.attempt import attempt_all
from quarterdeck.runtime.reconcile.context import Context

MAX_CHANGES: Final = 500
"""Pods of a set that are made or removed in one go."""
_EVENTS: Final = 25
"""Events about one set at a time; event recorders drop more than that."""
_LONGEST_NAME: Final = 253
V = TypeVar("V", bound=PodView)


class Outcome(NamedTuple):
    """What came of it."""

    number: int = 0
    """Pods that were made or removed."""
    ready: int = 0
    """How many of those removed were ready."""
    error: QuarterdeckError | None = None
    """The first that was met."""


class Telling:
    """Tells about the first of many things."""

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx: Final = ctx
        self._left = _EVENTS

    def event(self, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        """Record an event unless there were too many."""
        if self._left > 0:
            self._left -= 1
            self._ctx.event(type, reason, text)


def pod_of(owner: Resource, template: PodTemplateSpec) -> Pod:
    """A pod of ``owner`` as its template says, with a name that the server completes."""
    name = owner.metadata.name
    metadata = template.metadata
    return Pod(
        metadata=ObjectMeta(
            generate_name=f"{name}-" if len(name) < _LONGEST_NAME else name,
            namespace=owner.metadata.namespace,
            labels=metadata.labels,
            annotations=metadata.annotations,
            finalizers=metadata.finalizers,
            owner_references=(owner_reference(owner, controller=True),),
        ),
        spec=template.spec,
    )


async def create_pods(
    ctx: Context[Any],
    pods: Iterable[Pod],
    *,
    is_ignored: Callable[[ApiError], bool] | None = None,
    note: Callable[[Pod], None] | None = None,
) -> Outcome:
    """Make pods: one, two, four … at a time, so that what is refused is refused once, not 500 times.

    Stops after the first batch with a failure. In a namespace that goes away nothing can be made, which is
    no reason to try again; ``is_ignored`` names further errors of this sort. ``note`` is told of each pod.
    """
    told, made, left = Telling(ctx), 0, list(pods)

    async def create(pod: Pod) -> None:
        try:
            created = await ctx.client.create(pod)
        except ApiError as error:
            if not is_terminating(error):
                told.event("Warning", "FailedCreate", f"Error creating: {error}")
            raise
        if note is not None:
            note(created)
        told.event("Normal", "SuccessfulCreate", f"Created pod: {created.metadata.name}")

    size = 1
    while left:
        batch, left = left[:size], left[size:]
        errors = await attempt_all(batch, create)
        made += errors.count(None)
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            is_moot = isinstance(first, ApiError) and (
                is_terminating(first) or (is_ignored is not None and is_ignored(first))
            )
            return Outcome(made, error=None if is_moot else first)
        size *= 2
    return Outcome(made)


def is_terminating(error: QuarterdeckError) -> bool:
    """Whether the namespace goes away."""
    return isinstance(error, ApiError) and any(
        cause.reason == "NamespaceTerminating" for cause in error.details.causes
    )


async def remove_pods(
    ctx: Context[Any], pods: Sequence[V], *, before: Callable[[V], Awaitable[None]] | None = None
) -> Outcome:
    """Delete pods, each after ``before``; those that are gone are none of our business."""
    told = Telling(ctx)

    async def remove(pod: V) -> None:
        try:
            if before is not None:
                await before(pod)
            await ctx.delete(pod.reference)
        except NotFound:
            return
        except ApiError as error:
            told.event("Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        told.event("Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")

    errors = await attempt_all(pods, remove)
    gone = [pod for pod, error in zip(pods, errors, strict=True) if error is None]
    first = next((error for error in errors if error is not None), None)
    return Outcome(len(gone), sum(1 for pod in gone if pod.is_ready), first)
