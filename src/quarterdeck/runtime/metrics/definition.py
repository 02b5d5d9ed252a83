"""What the runtime measures: every name, label and bucket, in one table.

Names, labels and buckets are those of controller-runtime and client-go, so that dashboards made for them
work here; what upstream lacks has the prefix ``quarterdeck_``. This table is the only source:
``RuntimeMetrics`` registers from it and ``tools/metrics_reference.py`` writes the reference page from it.
"""

from typing import Final

import msgspec

from quarterdeck.runtime.metrics.registry import Kind


class Definition(msgspec.Struct, frozen=True):
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    opt_in: bool = False
    """Recorded only when asked for: it costs a series per verb and host."""


RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
QUEUE_BUCKETS: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""Twelve powers of ten from 10 ns."""
CLIENT_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS: Final = tuple(
    float(2**power) for power in (6, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24)
)  # 64 B to 16 MiB
INFORMER_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_BY_CONTROLLER: Final = ("controller",)
_BY_QUEUE: Final = ("name", "controller")
_BY_WEBHOOK: Final = ("webhook",)
_BY_CALL: Final = ("verb", "host")
_BY_INFORMER: Final = ("name", "group", "version", "resource")

RECONCILE_TOTAL: Final = Definition(
    "controller_runtime_reconcile_total",
    "counter",
    "Total number of reconciliations per controller",
    ("controller", "result"),
)
RECONCILE_ERRORS: Final = Definition(
    "controller_runtime_reconcile_errors_total",
    "counter",
    "Total number of reconciliation errors per controller",
    _BY_CONTROLLER,
)
TERMINAL_ERRORS: Final = Definition(
    "controller_runtime_terminal_reconcile_errors_total",
    "counter",
    "Total number of terminal reconciliation errors per controller",
    _BY_CONTROLLER,
)
RECONCILE_PANICS: Final = Definition(
    "controller_runtime_reconcile_panics_total",
    "counter",
    "Total number of reconciliation panics per controller",
    _BY_CONTROLLER,
)
RECONCILE_TIMEOUTS: Final = Definition(
    "controller_runtime_reconcile_timeouts_total",
    "counter",
    "Total number of reconciliation timeouts per controller",
    _BY_CONTROLLER,
)
RECONCILE_TIME: Final = Definition(
    "controller_runtime_reconcile_time_seconds",
    "histogram",
    "Length of time per reconciliation per controller",
    _BY_CONTROLLER,
    RECONCILE_BUCKETS,
)
MAX_CONCURRENT: Final = Definition(
    "controller_runtime_max_concurrent_reconciles",
    "gauge",
    "Maximum number of concurrent reconciles per controller",
    _BY_CONTROLLER,
)
ACTIVE_WORKERS: Final = Definition(
    "controller_runtime_active_workers",
    "gauge",
    "Number of currently used workers per controller",
    _BY_CONTROLLER,
)

QUEUE_DEPTH: Final = Definition(
    "workqueue_depth",
    "gauge",
    "Current depth of workqueue by workqueue and priority",
    (*_BY_QUEUE, "priority"),
)
QUEUE_ADDS: Final = Definition(
    "workqueue_adds_total", "counter", "Total number of adds handled by workqueue", _BY_QUEUE
)
QUEUE_DURATION: Final = Definition(
    "workqueue_queue_duration_seconds",
    "histogram",
    "How long in seconds an item stays in workqueue before being requested",
    _BY_QUEUE,
    QUEUE_BUCKETS,
)
WORK_DURATION: Final = Definition(
    "workqueue_work_duration_seconds",
    "histogram",
    "How long in seconds processing an item from workqueue takes.",
    _BY_QUEUE,
    QUEUE_BUCKETS,
)
UNFINISHED_WORK: Final = Definition(
    "workqueue_unfinished_work_seconds",
    "gauge",
    "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. "
    "Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate "
    "at which this increases.",
    _BY_QUEUE,
)
LONGEST_RUNNING: Final = Definition(
    "workqueue_longest_running_processor_seconds",
    "gauge",
    "How many seconds has the longest running processor for workqueue been running.",
    _BY_QUEUE,
)
QUEUE_RETRIES: Final = Definition(
    "workqueue_retries_total",
    "counter",
    "Total number of items added to the workqueue with a non-zero delay "
    "(rate-limited requeues, explicit RequeueAfter or AddAfter calls)",
    _BY_QUEUE,
)

WEBHOOK_REQUESTS: Final = Definition(
    "controller_runtime_webhook_requests_total",
    "counter",
    "Total number of admission requests by HTTP status code.",
    ("webhook", "code"),
)
WEBHOOK_LATENCY: Final = Definition(
    "controller_runtime_webhook_latency_seconds",
    "histogram",
    "Histogram of the latency of processing admission requests",
    _BY_WEBHOOK,
    QUEUE_BUCKETS,
)
WEBHOOK_IN_FLIGHT: Final = Definition(
    "controller_runtime_webhook_requests_in_flight",
    "gauge",
    "Current number of admission requests being served.",
    _BY_WEBHOOK,
)
WEBHOOK_PANICS: Final = Definition(
    "controller_runtime_webhook_panics_total", "counter", "Total number of webhook panics"
)
CONVERSION_PANICS: Final = Definition(
    "controller_runtime_conversion_webhook_panics_total",
    "counter",
    "Total number of conversion webhook panics",
)

CLIENT_REQUESTS: Final = Definition(
    "rest_client_requests_total",
    "counter",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    ("code", "method", "host"),
)
CLIENT_DURATION: Final = Definition(
    "rest_client_request_duration_seconds",
    "histogram",
    "Request latency in seconds. Broken down by verb, and host.",
    _BY_CALL,
    CLIENT_BUCKETS,
    opt_in=True,
)
CLIENT_THROTTLE: Final = Definition(
    "rest_client_rate_limiter_duration_seconds",
    "histogram",
    "Client side rate limiter latency in seconds. Broken down by verb, and host.",
    _BY_CALL,
    CLIENT_BUCKETS,
    opt_in=True,
)
CLIENT_RESOLUTION: Final = Definition(
    "rest_client_dns_resolution_duration_seconds",
    "histogram",
    "DNS resolver latency in seconds. Broken down by host.",
    ("host",),
    CLIENT_BUCKETS,
    opt_in=True,
)
CLIENT_REQUEST_SIZE: Final = Definition(
    "rest_client_request_size_bytes",
    "histogram",
    "Request size in bytes. Broken down by verb and host.",
    _BY_CALL,
    SIZE_BUCKETS,
    opt_in=True,
)
CLIENT_RESPONSE_SIZE: Final = Definition(
    "rest_client_response_size_bytes",
    "histogram",
    "Response size in bytes. Broken down by verb and host.",
    _BY_CALL,
    SIZE_BUCKETS,
    opt_in=True,
)
CLIENT_RETRIES: Final = Definition(
    "rest_client_request_retries_total",
    "counter",
    "Number of request retries, partitioned by status code, verb, and host.",
    ("code", "verb", "host"),
    opt_in=True,
)

LEADER: Final = Definition(
    "leader_election_master_status",
    "gauge",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates "
    "master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    ("name",),
)
LEADER_SLOW_PATH: Final = Definition(
    "leader_election_slowpath_total",
    "counter",
    "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify "
    "the lease. Please make sure to group by name.",
    ("name",),
)

INFORMER_QUEUED: Final = Definition(
    "informer_queued_items", "gauge", "Number of items currently queued in the FIFO.", _BY_INFORMER
)
INFORMER_LATENCY: Final = Definition(
    "informer_processing_latency_seconds",
    "histogram",
    "Time taken to process events after popping from the queue.",
    _BY_INFORMER,
    INFORMER_BUCKETS,
)
INFORMER_VERSION: Final = Definition(
    "informer_store_resource_version",
    "gauge",
    "The 15 least significant digits of the resource version of the store.",
    _BY_INFORMER,
)

CERTIFICATE_READS: Final = Definition(
    "certwatcher_read_certificate_total", "counter", "Total number of certificate reads"
)
CERTIFICATE_ERRORS: Final = Definition(
    "certwatcher_read_certificate_errors_total", "counter", "Total number of certificate read errors"
)

CERTIFICATE_EXPIRY: Final = Definition(
    "quarterdeck_webhook_certificate_expiry_timestamp_seconds",
    "gauge",
    "Date after which the certificate that webhooks are served with is refused, in seconds since 1970.",
)

SYNCED: Final = Definition(
    "quarterdeck_informer_synced", "gauge", "1 once the first list of the kind is stored.", ("kind",)
)
LAST_EVENT: Final = Definition(
    "quarterdeck_informer_last_event_seconds",
    "gauge",
    "Seconds since the last event or bookmark of the kind's quietest watch.",
    ("kind",),
)
RELISTS: Final = Definition(
    "quarterdeck_informer_relists_total", "counter", "Lists after the first, by reason.", ("kind", "reason")
)
HANDLER_ERRORS: Final = Definition(
    "quarterdeck_informer_handler_errors_total",
    "counter",
    "Changes that a handler failed on; each is handled again.",
    ("kind",),
)
OBJECTS: Final = Definition("quarterdeck_informer_objects", "gauge", "Objects in the cache.", ("kind",))
BYTES: Final = Definition("quarterdeck_informer_bytes", "gauge", "JSON bytes kept in the cache.", ("kind",))
FORBIDDEN: Final = Definition(
    "quarterdeck_informer_forbidden",
    "gauge",
    "1 while the server refuses this verb on the kind: a permission is missing.",
    ("kind", "verb"),
)
CONSISTENCY_WAITS: Final = Definition(
    "quarterdeck_consistency_waits_total",
    "counter",
    "Keys held back until the cache had seen the controller's own writes.",
    _BY_CONTROLLER,
)
CONSISTENCY_SECONDS: Final = Definition(
    "quarterdeck_consistency_wait_seconds",
    "histogram",
    "How long such keys were held back.",
    (),
    RECONCILE_BUCKETS,
)
CONSISTENCY_TIMEOUTS: Final = Definition(
    "quarterdeck_consistency_timeouts_total",
    "counter",
    "Keys let go although the cache had not caught up in time.",
    _BY_CONTROLLER,
)
LOOP_LAG: Final = Definition(
    "quarterdeck_event_loop_lag_seconds", "gauge", "How late the event loop ran its last tick."
)
EVENTS_DROPPED: Final = Definition(
    "quarterdeck_events_dropped_total",
    "counter",
    "Events not written: the queue was full, the spam filter closed, the server refused, or time ran out.",
)
REQUEUE_REASONS: Final = Definition(
    "quarterdeck_reconcile_requeue_reason_total",
    "counter",
    "Requeues by the reason the reconciler gave.",
    ("controller", "reason"),
)

GROUPS: Final[dict[str, tuple[Definition, ...]]] = {
    "Controllers": (
        RECONCILE_TOTAL,
        RECONCILE_ERRORS,
        TERMINAL_ERRORS,
        RECONCILE_PANICS,
        RECONCILE_TIMEOUTS,
        RECONCILE_TIME,
        MAX_CONCURRENT,
        ACTIVE_WORKERS,
    ),
    "Work queues": (
        QUEUE_DEPTH,
        QUEUE_ADDS,
        QUEUE_DURATION,
        WORK_DURATION,
        UNFINISHED_WORK,
        LONGEST_RUNNING,
        QUEUE_RETRIES,
    ),
    "Webhooks": (
        WEBHOOK_REQUESTS,
        WEBHOOK_LATENCY,
        WEBHOOK_IN_FLIGHT,
        WEBHOOK_PANICS,
        CONVERSION_PANICS,
    ),
    "Client": (
        CLIENT_REQUESTS,
        CLIENT_DURATION,
        CLIENT_THROTTLE,
        CLIENT_RESOLUTION,
        CLIENT_REQUEST_SIZE,
        CLIENT_RESPONSE_SIZE,
        CLIENT_RETRIES,
    ),
    "Leader election": (LEADER, LEADER_SLOW_PATH),
    "Informers": (INFORMER_QUEUED, INFORMER_LATENCY, INFORMER_VERSION),
    "Certificates": (CERTIFICATE_READS, CERTIFICATE_ERRORS),
    "Beyond controller-runtime": (
        SYNCED,
        LAST_EVENT,
        RELISTS,
        HANDLER_ERRORS,
        OBJECTS,
        BYTES,
        FORBIDDEN,
        CONSISTENCY_WAITS,
        CONSISTENCY_SECONDS,
        CONSISTENCY_TIMEOUTS,
        LOOP_LAG,
        EVENTS_DROPPED,
        REQUEUE_REASONS,
        CERTIFICATE_EXPIRY,
    ),
}
"""Every metric of the runtime, by who measures it."""
