"""Which Jobs a change of a pod concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import Key, controller_of
from quarterdeck.api.k8s import Job
from quarterdeck.cluster.job.claim import selector_of
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import MapContext, for_owner

__all__ = ["JobsOfPods"]


class JobsOfPods:
    """The Jobs that a pod belongs to, or might come to belong to."""

    def __init__(self) -> None:
        self._owners: Final = for_owner(Job)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """The Job that controls the pod; for a pod that nobody controls, those that may adopt it."""
        if event.new is None or controller_of(event.new.owner_references) is not None:
            return self._owners.keys(event, context)  # type: ignore[return-value]  # never awaitable
        old, new = event.old, event.new
        if old is not None and (old.labels, old.owner_references) == (new.labels, new.owner_references):
            return ()
        informer = context.cache.informer(Job)
        decode = informer.decoder(Job)
        found = dict.fromkeys(self._owners.keys(event, context))  # type: ignore[arg-type]  # the same
        for entry in informer.entries(new.namespace):
            selector = selector_of(decode(entry))
            if selector is not None and selector.matches(new.labels):
                found[entry.key] = None
        return found
