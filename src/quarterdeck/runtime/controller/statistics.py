"""The statistics of a controller."""

import msgspec

from quarterdeck.runtime.queue.workqueue import QueueStatistics
from quarterdeck.runtime.reconcile.consistency import ConsistencyStatistics


class ControllerStatistics(msgspec.Struct, frozen=True):
    """A moment of a controller's life."""

    name: str
    workers: int
    active: int
    sources: int
    queue: QueueStatistics
    consistency: ConsistencyStatistics | None
    waiting: int
    """Keys that wait for something to be seen in the cache."""
    is_synced: bool
