"""Probes and metrics over HTTP.

::

    health = HealthServer(":8081")
    health.readiness.add_all(manager.checks.readiness())
    health.liveness.add_all(manager.checks.liveness())
    manager.add(health)
    manager.add(MetricsServer(metrics.registry, ":8080"))
"""

from quarterdeck.runtime.health.access import REVIEW_RULES, AccessReviewer
from quarterdeck.runtime.health.check import Check, HealthChecks, ping
from quarterdeck.runtime.health.server import HealthServer, MetricsServer, is_loopback, parse_address

__all__ = [
    "REVIEW_RULES",
    "AccessReviewer",
    "Check",
    "HealthChecks",
    "HealthServer",
    "MetricsServer",
    "is_loopback",
    "parse_address",
    "ping",
]
