"""Events are gone an hour after they were last written.

The first look is taken an hour after an event was created; if it was written since (a series grows), the
next one follows an hour after that.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, Time
from quarterdeck.api.k8s import CoreEvent
from quarterdeck.client import metadata_of
from quarterdeck.errors import Conflict, NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

NAME: Final = "event-ttl-controller"
DEFAULT_TTL: Final = 3600.0
"""Seconds an event is kept after its last write."""


class _EventRemover(Reconciler[Resource]):
    def __init__(self, ttl: float) -> None:
        self._ttl: Final = ttl

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Delete an event that is old enough, or come back when it is."""
        try:
            known = await ctx.get(metadata_of(CoreEvent), ctx.key.name, ctx.key.namespace)
            left = self._left(ctx, known.metadata.creation_timestamp)
            if left > 0:
                return Requeue(after=left)
            event = await ctx.get(metadata_of(CoreEvent), ctx.key.name, ctx.key.namespace, live=True)
        except NotFound:
            return None
        written = [entry.time for entry in event.metadata.managed_fields]
        left = max(self._left(ctx, time) for time in (event.metadata.creation_timestamp, *written))
        if left > 0:
            return Requeue(after=left)
        try:
            with ignore_not_found():
                await ctx.client.delete(
                    metadata_of(CoreEvent),
                    ctx.key.name,
                    ctx.key.namespace,
                    uid=event.metadata.uid,
                    resource_version=event.metadata.resource_version,
                )
        except Conflict:  # written a moment ago
            return Requeue(after=self._ttl)
        return None

    def _left(self, ctx: Context[Resource], written: object) -> float:
        since = written.timestamp() if isinstance(written, Time) else 0.0
        return since + self._ttl - ctx.now().timestamp()


def _was_there(event: ObjectEvent[Any]) -> bool:
    return event.is_initial


def _is_new(event: ObjectEvent[Any]) -> bool:
    return not event.is_initial


_FOUND: Final = Predicate("found", create=_was_there, update=lambda _: False, delete=lambda _: False)
_CREATED: Final = Predicate("created", create=_is_new, update=lambda _: False, delete=lambda _: False)


def event_ttl_controller(ttl: float = DEFAULT_TTL) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``ttl`` in seconds."""
    return (
        Builder[Resource](name=NAME)
        .watches(CoreEvent, predicates=[_FOUND], only_metadata=True)
        .watches(CoreEvent, predicates=[_CREATED], only_metadata=True, delay=lambda _: ttl)
        .rbac(Rule(groups=("",), resources=("events",), verbs=("delete",)))
        .build(_EventRemover(ttl))
    )
