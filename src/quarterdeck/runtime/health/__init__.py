"""Probes and metrics over HTTP.

::

    manager.add(HealthServer(":8081"))  # with the manager's own checks
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
