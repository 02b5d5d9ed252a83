"""What a manager gives to a controller."""

import random
from collections.abc import Callable

import msgspec

from quarterdeck.api import Key
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.contract import NoRecorder, ReconcileMetrics, Recorder
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.execution import Execution
from quarterdeck.runtime.queue.workqueue import QueueMetrics
from quarterdeck.runtime.trace import NO_TRACER, Tracer


class ControllerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Services, clock and metrics of the manager, and what leadership allows."""

    execution: Execution
    recorder: Recorder = msgspec.field(default_factory=NoRecorder)
    clock: Clock = msgspec.field(default_factory=LoopClock)
    rng: random.Random = msgspec.field(default_factory=random.Random)
    may_write: Callable[[Key | None], bool] | None = None
    """Asked before each write of a controller that needs leadership, with the key it is made for."""
    owns: Callable[[Key], bool] | None = None
    """Asked before each reconcile of such a controller, if keys are shared among replicas."""
    metrics: ReconcileMetrics | None = None
    queue_metrics: QueueMetrics | None = None
    tracer: Tracer = NO_TRACER
    workers: int = 4
    """Workers, unless the controller's options say otherwise."""
