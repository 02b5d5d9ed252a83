"""Keeps the status of every Queue: the sums over its groups and child queues, and who these are.

A change goes up the tree from queue to queue: each writes its own status, which wakes its parent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, to_dict
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.index import GROUPS_BY_QUEUE, QUEUES_BY_PARENT
from quarterdeck.operators.kai.logic.resourcestatus import queue_status
from quarterdeck.operators.kai.settings import KaiSettings
from quarterdeck.operators.kai.types import PodGroup, Queue
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed, spec_changed, status_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .podgroupstatus import write_some
from .writelimit import WriteLimit


class QueueStatusReconciler(Reconciler[Queue]):
    """Adds up what is in a queue and writes the sum if it differs."""

    def __init__(self, clock: Clock) -> None:
        self._limit: Final = WriteLimit(clock)

    async def reconcile(self, ctx: Context[Queue]) -> Result | None:
        """Look at one queue."""
        wait = self._limit.remaining(ctx.key)
        if wait > 0:
            return Requeue(after=wait, reason="pace")
        name = ctx.key.name
        wanted = queue_status(
            ctx.index(PodGroup, GROUPS_BY_QUEUE(name)), tuple(ctx.index(Queue, QUEUES_BY_PARENT(name)))
        )
        with ignore_not_found():
            if await write_some(ctx.client, ctx.obj, to_dict(ctx.obj.status), wanted):
                self._limit.wrote(ctx.key)
        return None


def queue_status_controller(settings: KaiSettings, clock: Clock) -> Controller[Queue]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=names.QUEUE_CONTROLLER)
        .for_(Queue, predicates=[generation_changed])
        .watches(Queue, to=_parent, predicates=[spec_changed() | status_changed()])
        .watches(
            PodGroup, to=_queue_of, predicates=[spec_changed("queue") | status_changed("resourcesStatus")]
        )
        .indexes(Queue, QUEUES_BY_PARENT)
        .indexes(PodGroup, GROUPS_BY_QUEUE)
        .options(max_concurrent_reconciles=settings.status_workers, field_manager=names.FIELD_MANAGER)
        .build(QueueStatusReconciler(clock))
    )


def _parent(_: MapContext, queue: Queue) -> Iterable[Key]:
    return (Key("", queue.spec.parent_queue),) if queue.spec.parent_queue else ()


def _queue_of(_: MapContext, group: PodGroup) -> Iterable[Key]:
    return (Key("", group.spec.queue),) if group.spec.queue else ()
