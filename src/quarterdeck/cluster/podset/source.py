"""Which sets a change of a pod, or of whatever sets are made of, concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from quarterdeck.api import Key, Resource, Selector, controller_of
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.handler import MapContext, for_owner

S = TypeVar("S", bound=Resource)


class ClaimantsOf(Generic[S]):
    """The set that controls an object; for one that nobody controls, those that may adopt it."""

    def __init__(self, kind: type[S], selector_of: Callable[[S], Selector | None]) -> None:
        self._kind: Final = kind
        self._selector_of: Final = selector_of
        self._owners: Final = for_owner(kind)

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """The keys of the sets."""
        if event.new is None or controller_of(event.new.owner_references) is not None:
            return self._owners.keys(event, context)  # type: ignore[return-value]  # never awaitable
        old, new = event.old, event.new
        if old is not None and (old.labels, old.owner_references) == (new.labels, new.owner_references):
            return ()
        informer = context.cache.informer(self._kind)
        decode = informer.decoder(self._kind)
        found = dict.fromkeys(self._owners.keys(event, context))  # type: ignore[arg-type]  # the same
        for entry in informer.entries(new.namespace):
            selector = self._selector_of(decode(entry))
            if selector is not None and selector.matches(new.labels):
                found[entry.key] = None
        return found
