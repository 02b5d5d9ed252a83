"""Which queue a controller gets.

With priorities, the default, failed keys wait exponentially and nothing else slows them. The classic queue
is first-in-first-out; as upstream has it, its retries also share a bucket of ten per second, so that an
error storm cannot flood the server.
"""

import random

from quarterdeck.api import Key
from quarterdeck.runtime.controller.option import ControllerOptions
from quarterdeck.runtime.metrics.runtime import WorkQueueMetrics
from quarterdeck.runtime.queue.ratelimit import BucketLimiter, ExponentialLimiter, LargestLimiter, RateLimiter
from quarterdeck.runtime.queue.workqueue import QueueMetrics, WorkQueue


def make_queue(
    name: str,
    options: ControllerOptions,
    *,
    limiter: RateLimiter[Key] | None,
    metrics: QueueMetrics | None,
    rng: random.Random,
) -> WorkQueue[Key]:
    """The queue that the options ask for; ``limiter`` is the author's own, if there is one."""
    if limiter is None:
        limiter = ExponentialLimiter(options.backoff_base, options.backoff_cap, rng=rng)
        if not options.use_priority_queue:
            limiter = LargestLimiter(limiter, BucketLimiter())
    if not options.use_priority_queue and isinstance(metrics, WorkQueueMetrics):
        metrics.drop_priorities()
    if options.new_queue is not None:
        return options.new_queue(name, limiter, metrics)
    return WorkQueue(
        limiter=limiter,
        metrics=metrics,
        age_rate=options.age_rate,
        has_priorities=options.use_priority_queue,
    )
