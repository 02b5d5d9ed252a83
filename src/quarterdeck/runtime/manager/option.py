"""Options of a manager, its statistics, and the exceptions it ends with."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.cache.cache import CacheStatistics
from quarterdeck.runtime.contract import ReconcileMetrics
from quarterdeck.runtime.controller.statistics import ControllerStatistics
from quarterdeck.runtime.queue.workqueue import QueueMetrics


class GracePeriodExceeded(QuarterdeckError):
    """Some runnables did not end in time and were cancelled."""


class LeaderElectionLost(QuarterdeckError):
    """Another process leads by now."""


class ManagerMetrics(Protocol):
    """Hands out recorders; ``quarterdeck.runtime.metrics.RuntimeMetrics`` is one."""

    def controller(self, name: str) -> ReconcileMetrics:
        """The recorder of a controller."""
        ...

    def queue(self, name: str) -> QueueMetrics:
        """The recorder of its queue."""
        ...


class ManagerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a manager."""

    graceful_shutdown_timeout: float = 30.0
    """Seconds to stop in; 0 does not wait, negative waits for ever."""
    max_concurrent_reconciles: int = 4
    """Workers of a controller that does not say otherwise."""
    concurrency_by_kind: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Workers by kind, as ``Kind.group``."""
    cache_settle_timeout: float = 120.0
    """Seconds to wait for caches before controllers start anyway and wait for what they need themselves."""
    blocked_kinds_are_ready: bool = False
    """Whether readiness ignores kinds that are forbidden or missing."""
    check_permissions: bool = False
    """Ask the server at start for every permission the controllers declare, and log what is missing."""
    threads: int = 16
    """Blocking calls at once."""
    record_events: bool = True
    """Write events to the cluster, unless the manager is given a recorder."""
    event_api: Literal["events.k8s.io", "core", "both"] = "events.k8s.io"
    """In which form: ``core`` fills the fields that kubectl sorts by and older tools read (source, count,
    first and last time), at the price of a write for each repetition; ``both`` is ``core`` with a series."""
    watch_loop: bool = True
    """Watch the event loop for blocking calls."""
    restart_on_lost_lease: bool = False
    """Campaign again after losing the lease, instead of ending the process."""


class ManagerStatistics(msgspec.Struct, frozen=True):
    """A moment of a manager's life."""

    controllers: tuple[ControllerStatistics, ...]
    caches: dict[str, CacheStatistics]
    is_leading: bool

    def is_idle(self, *, until: float | None = None) -> bool:
        """Whether nothing is to be done: queues empty, nobody at work, nothing delayed before ``until``.

        ``until`` is a loop time; ``None`` ignores delayed keys altogether.
        """
        informers = (each for cache in self.caches.values() for each in cache.informers)
        if any(each.queued or each.handling for each in informers):
            return False
        return all(_is_idle(controller, until) for controller in self.controllers)


def _is_idle(controller: ControllerStatistics, until: float | None) -> bool:
    queue, consistency = controller.queue, controller.consistency
    parked = consistency.parked if consistency is not None else 0
    if queue.ready or queue.processing or controller.active or parked:
        return False
    return until is None or queue.next_due is None or queue.next_due > until
