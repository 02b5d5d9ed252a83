"""The workers of a controller: supervised loops that take keys from its queue, one key at a time each."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.contract import ReconcileMetrics
from quarterdeck.runtime.controller.worker import Worker
from quarterdeck.runtime.log.field import FieldLogger
from quarterdeck.runtime.loop.supervision import Loop, Policy
from quarterdeck.runtime.queue.workqueue import QueueClosed, WorkQueue
from quarterdeck.runtime.reconcile.consistency import WriteTracker
from quarterdeck.wire.timeslice import TimeSlice

_TURN: Final = 0.003
"""Seconds of reconciles that wait for nothing before others get their turn."""


class WorkerPool:
    """So many workers on one queue; it ends when the queue is shut down."""

    def __init__(
        self,
        name: str,
        count: int,
        *,
        worker: Worker[Any],
        queue: WorkQueue[Key],
        tracker: WriteTracker | None,
        owns: Callable[[Key], bool] | None,
        recovers: bool,
        metrics: ReconcileMetrics | None,
        log: FieldLogger,
        clock: Clock,
    ) -> None:
        """``owns`` says which keys are this replica's; ``recovers`` that a panic does not end the pool."""
        self._worker: Final = worker
        self._queue: Final = queue
        self._park: Final = tracker.park if tracker is not None else None
        self._owns: Final = owns
        self._recovers: Final = recovers
        self._metrics: Final = metrics
        self._panic: Exception | None = None
        self.active = 0
        """Workers that reconcile at this moment."""
        policy = Policy.RESTART if recovers else Policy.STOP
        self.loops: Final = tuple(
            Loop(f"{name} worker {i}", self._serve, policy=policy, failed=self._failed, log=log, clock=clock)
            for i in range(count)
        )

    @property
    def alive(self) -> int:
        """How many workers there are."""
        return sum(loop.is_alive for loop in self.loops)

    async def run(self) -> None:
        """Work until the queue is shut down; raises a panic that is not to be recovered from."""
        async with asyncio.TaskGroup() as tasks:
            for loop in self.loops:
                tasks.create_task(loop.run(), name=loop.name)
        if self._panic is not None:
            raise self._panic

    def discard(self, unwanted: Callable[[Key], bool]) -> None:
        """Forget what is remembered about keys (a cluster left)."""
        self._worker.discard(unwanted)

    def _failed(self, error: Exception) -> None:
        if not self._recovers:
            self._panic = self._panic or error
            self._queue.shut_down()

    async def _serve(self) -> None:
        queue, worker, park, owns, metrics = self._queue, self._worker, self._park, self._owns, self._metrics
        turn = TimeSlice(_TURN, is_over=True)
        while True:
            if len(queue) and turn.is_over:
                await turn.end()
            try:
                key = await queue.get()
            except QueueClosed:
                return
            priority = queue.priority_of(key)
            try:
                if owns is not None and not owns(key):
                    continue  # another replica's; it finds the object by itself
                if park is not None and park(key, priority):
                    continue
                self.active += 1
                if metrics is not None:
                    metrics.active_workers.inc()
                try:
                    await worker.process(key, priority)
                except asyncio.CancelledError as error:
                    # If nobody wanted to end us, the hook cancelled its own task; another one takes over.
                    error.add_note(f"while it worked on {key}")
                    queue.add(key, rate_limited=True, priority=priority)
                    raise
                finally:
                    self.active -= 1
                    if metrics is not None:
                        metrics.active_workers.dec()
            finally:
                # A key that was woken by its own writes mostly has to wait until the cache shows them.
                if worker.is_async:
                    queue.done(key, takes_over=park)
                else:
                    worker.when_free(key, partial(queue.done, key, takes_over=park))
