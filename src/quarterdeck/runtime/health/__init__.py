"""Probes and metrics over HTTP.

::

    health = HealthServer(":8081")
    health.readiness.add("caches", caches_synced(lambda: [cache]))
    metrics = MetricsServer(runtime_metrics.registry, ":8080")
    async with health, metrics:
        ...
"""

from quarterdeck.runtime.health.access import AccessReviewer
from quarterdeck.runtime.health.check import (
    Check,
    HealthChecks,
    Unhealthy,
    caches_synced,
    informers_allowed,
    informers_heard,
    loop_responsive,
    ping,
)
from quarterdeck.runtime.health.server import HealthServer, MetricsServer, parse_address

__all__ = [
    "AccessReviewer",
    "Check",
    "HealthChecks",
    "HealthServer",
    "MetricsServer",
    "Unhealthy",
    "caches_synced",
    "informers_allowed",
    "informers_heard",
    "loop_responsive",
    "parse_address",
    "ping",
]
