"""A watch that wakes its controller a moment later: most things happen to many objects at once.

The pods of a Job start within moments of each other; one look at all of them is as good as a look after each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quarterdeck.api import Key, Resource
from quarterdeck.runtime.controller import Controller
from quarterdeck.runtime.handler import KeyMapper
from quarterdeck.runtime.predicate import Predicate
from quarterdeck.runtime.source import KindSource, SourceContext

__all__ = ["BatchedSource"]


class BatchedSource(KindSource):
    """Changes of a kind; keys are due some seconds after the first change that concerns them."""

    def __init__(
        self,
        kind: type[Resource],
        mapper: KeyMapper,
        *,
        delay: Callable[[Key], float],
        predicates: Sequence[Predicate] = (),
    ) -> None:
        """``delay`` says for how many seconds changes that concern a key are gathered."""
        super().__init__(kind, mapper, predicates=predicates)
        self._delay: Final = delay
        self._controller: Controller[Any] | None = None

    def attach(self, controller: Controller[Any]) -> None:
        """The controller that is to be woken."""
        self._controller = controller

    async def run(self, context: SourceContext) -> None:
        """Follow the informer of the kind until cancelled."""
        assert self._controller is not None
        queue = self._controller.queue
        await super().run(
            SourceContext(
                cache=context.cache,
                cluster=context.cluster,
                enqueue=lambda key, priority: queue.add(key, after=self._delay(key), priority=priority),
                predicates=context.predicates,
                clock=context.clock,
                rng=context.rng,
                synced=context.synced,
            )
        )
