"""What the runtime measures, under controller-runtime's own names.

``RuntimeMetrics`` is what a manager makes one of; ``Registry`` is where operators register their own::

    metrics = RuntimeMetrics()
    queue = WorkQueue(metrics=metrics.queue("widget"))
    allocated = metrics.registry.gauge("widget_allocated", "Widgets in use.", ["pool"])
    allocated.labelled("blue").set(3)
    body = metrics.registry.expose()
"""

from quarterdeck.runtime.metrics.definition import GROUPS, Definition
from quarterdeck.runtime.metrics.process import follow_process
from quarterdeck.runtime.metrics.registry import CONTENT_TYPE, Counter, Family, Gauge, Histogram, Registry
from quarterdeck.runtime.metrics.runtime import (
    ControllerMetrics,
    ElectionMetrics,
    QueueAges,
    Result,
    RuntimeMetrics,
    WebhookMetrics,
    WorkQueueMetrics,
)

__all__ = [
    "CONTENT_TYPE",
    "GROUPS",
    "ControllerMetrics",
    "Counter",
    "Definition",
    "ElectionMetrics",
    "Family",
    "Gauge",
    "Histogram",
    "QueueAges",
    "Registry",
    "Result",
    "RuntimeMetrics",
    "WebhookMetrics",
    "WorkQueueMetrics",
    "follow_process",
]
