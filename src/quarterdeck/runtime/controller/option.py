"""The options of a controller, and the same as keyword arguments of ``Builder.options(...)``."""

from collections.abc import Callable
from typing import Literal, TypeAlias, TypedDict

import msgspec

from quarterdeck.api import Key
from quarterdeck.runtime.log.field import FieldLogger
from quarterdeck.runtime.queue.ratelimit import RateLimiter
from quarterdeck.runtime.queue.workqueue import DEFAULT_AGE_RATE, QueueMetrics, WorkQueue

LogConstructor: TypeAlias = Callable[[Key | None], FieldLogger]
NewQueue: TypeAlias = Callable[[str, RateLimiter[Key], QueueMetrics | None], WorkQueue[Key]]


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one controller."""

    max_concurrent_reconciles: int | None = None
    """Workers; ``None`` takes the manager's choice for the kind, else its default (4)."""
    cache_sync_timeout: float = 120.0
    """Seconds to wait for all sources at start; then the controller fails."""
    reconcile_timeout: float | None = 120.0
    """Seconds one reconcile may take before it is cancelled; ``None`` for no limit."""
    need_leader_election: bool = True
    """Run only while this process leads."""
    enable_warmup: bool = False
    """Start sources before the lease is won, so that taking over is quick."""
    consistency: Literal["own-writes", "none"] = "own-writes"
    """Whether a key waits for the cache to show its own writes."""
    consistency_timeout: float = 5.0
    """Seconds a key waits for that at most."""
    backoff_base: float = 0.005
    """First wait of a failed key, seconds; doubled each time."""
    backoff_cap: float = 300.0
    """Longest wait of a failed key, seconds; controller-runtime has 1000."""
    age_rate: float = DEFAULT_AGE_RATE
    """Points of priority a queued key gains per second; 0 gives strict bands."""
    errors: tuple[type[Exception], ...] = ()
    """Exceptions that are ordinary errors, not panics."""
    recover_panic: bool = True
    """Retry after a panic; otherwise it ends the controller, and the manager with it."""
    field_manager: str = ""
    """Field manager of this controller's writes; default its name."""
    use_priority_queue: bool = True
    """Whether keys have priorities; without, they are first in, first out, and retries share 10 a second."""
    new_queue: NewQueue | None = None
    """Makes the queue, given the controller's name, its limiter and who measures it."""
    log_constructor: LogConstructor | None = None
    """Makes the logger: of the controller (given ``None``) and of each run (given its key)."""


class ControllerOptionArguments(TypedDict, total=False):
    """The keyword arguments of ``Builder.options``; described in ``ControllerOptions``."""

    max_concurrent_reconciles: int
    cache_sync_timeout: float
    reconcile_timeout: float | None
    need_leader_election: bool
    enable_warmup: bool
    consistency: Literal["own-writes", "none"]
    consistency_timeout: float
    backoff_base: float
    backoff_cap: float
    age_rate: float
    errors: tuple[type[Exception], ...]
    recover_panic: bool
    field_manager: str
    use_priority_queue: bool
    new_queue: NewQueue | None
    log_constructor: LogConstructor | None
