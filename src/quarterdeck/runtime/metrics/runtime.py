"""The runtime's metrics as the parts of the runtime use them.

``RuntimeMetrics`` registers every definition once and hands each part a small recorder with its label
values already bound: a controller gets ``ControllerMetrics``, its queue ``WorkQueueMetrics`` (the
``QueueMetrics`` of ``queue.workqueue``), a webhook ``WebhookMetrics``. Handing one out creates its series at
zero, so that a rate over a fresh counter sees the first increment.
"""

from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeVar

from quarterdeck.client import RequestRecord
from quarterdeck.runtime.metrics import definition as d
from quarterdeck.runtime.metrics.definition import Definition
from quarterdeck.runtime.metrics.registry import Counter, Family, Gauge, Histogram, Registry

Result = Literal["success", "error", "requeue", "requeue_after"]
RESULTS: Final[tuple[Result, ...]] = ("success", "error", "requeue", "requeue_after")

MAX_PRIORITIES: Final = 25
"""Distinct priorities a queue may show; all later ones share one label value."""
EXCEEDED: Final = "exceeded_cardinality_limit"

M = TypeVar("M", Counter, Gauge, Histogram)


class ControllerMetrics:
    """What one controller counts."""

    def __init__(self, name: str, metrics: "RuntimeMetrics") -> None:
        self._name: Final = name
        self._metrics: Final = metrics
        self._total: Final = {result: metrics.reconcile_total.labelled(name, result) for result in RESULTS}
        self._errors: Final = metrics.reconcile_errors.labelled(name)
        self._terminal: Final = metrics.terminal_errors.labelled(name)
        self._panics: Final = metrics.reconcile_panics.labelled(name)
        self._timeouts: Final = metrics.reconcile_timeouts.labelled(name)
        self._time: Final = metrics.reconcile_time.labelled(name)
        self._waits: Final = metrics.consistency_waits.labelled(name)
        self._wait_timeouts: Final = metrics.consistency_timeouts.labelled(name)
        self._reasons: Final[dict[str, Counter]] = {}
        self.max_concurrent: Final = metrics.max_concurrent.labelled(name)
        self.active_workers: Final = metrics.active_workers.labelled(name)

    def reconciled(self, result: Result, seconds: float) -> None:
        """A reconcile ended; an ``error`` result counts in both counters."""
        self._total[result].inc()
        self._time.observe(seconds)
        if result == "error":
            self._errors.inc()

    def terminal(self) -> None:
        """The error was terminal (besides ``reconciled("error", …)``)."""
        self._terminal.inc()

    def panicked(self) -> None:
        """The error was an exception nobody expects."""
        self._panics.inc()

    def timed_out(self) -> None:
        """Our own deadline ended the reconcile."""
        self._timeouts.inc()

    def requeued(self, reason: str) -> None:
        """The reconciler named a reason; reasons must be few and fixed."""
        counter = self._reasons.get(reason)
        if counter is None:
            counter = self._reasons[reason] = self._metrics.requeue_reasons.labelled(self._name, reason)
        counter.inc()

    def consistency_waited(self, seconds: float, *, in_time: bool) -> None:
        """A key was held back until the cache had caught up, or not even then."""
        self._waits.inc()
        self._metrics.consistency_seconds.labelled().observe(seconds)
        if not in_time:
            self._wait_timeouts.inc()


class QueueAges(Protocol):
    """The part of a queue's statistics that is read at each scrape."""

    @property
    def unfinished_seconds(self) -> float:
        """Sum of the ages of what is being processed."""
        ...

    @property
    def longest_seconds(self) -> float:
        """Age of the oldest of these."""
        ...


class WorkQueueMetrics:
    """What one queue counts; a ``QueueMetrics``."""

    def __init__(self, name: str, metrics: "RuntimeMetrics") -> None:
        self._name: Final = name
        self._depth: Final = metrics.queue_depth
        self._by_priority: dict[int, Gauge] = {}
        self._exceeded: Gauge | None = None
        self._adds: Final = metrics.queue_adds.labelled(name, name)
        self._duration: Final = metrics.queue_duration.labelled(name, name)
        self._work: Final = metrics.work_duration.labelled(name, name)
        self._retries: Final = metrics.queue_retries.labelled(name, name)
        self._unfinished: Final = metrics.unfinished_work.labelled(name, name)
        self._longest: Final = metrics.longest_running.labelled(name, name)
        self._registry: Final = metrics.registry
        self._depth_of(0)

    def ready(self, priority: int) -> None:
        """An entry became ready."""
        (self._by_priority.get(priority) or self._depth_of(priority)).value += 1
        self._adds.value += 1

    def moved(self, before: int, after: int) -> None:
        """A ready entry changed its priority."""
        self._depth_of(before).dec()
        self._depth_of(after).inc()

    def taken(self, priority: int, waited: float) -> None:
        """A ready entry was handed out."""
        (self._by_priority.get(priority) or self._depth_of(priority)).value -= 1
        self._duration.observe(waited)

    def dropped(self, priority: int) -> None:
        """A ready entry was discarded."""
        self._depth_of(priority).dec()

    def finished(self, worked: float) -> None:
        """A key was given back."""
        self._work.observe(worked)

    def retried(self) -> None:
        """A key was added with a delay."""
        self._retries.value += 1

    def follow(self, ages: Callable[[], QueueAges]) -> Callable[[], None]:
        """Read running ages at each scrape (``queue.statistics``); returns the function that ends it."""

        def refresh() -> None:
            now = ages()
            self._unfinished.set(now.unfinished_seconds)
            self._longest.set(now.longest_seconds)

        return self._registry.before_expose(refresh)

    def drop_priorities(self) -> None:
        """All entries have the same priority, which then has no name: for the classic queue."""
        if self._by_priority.get(0) is not None:
            self._depth.remove(self._name, self._name, "0")
        self._by_priority[0] = self._depth.labelled(self._name, self._name, "")

    def _depth_of(self, priority: int) -> Gauge:
        gauge = self._by_priority.get(priority)
        if gauge is not None:
            return gauge
        if len(self._by_priority) >= MAX_PRIORITIES:
            # A known priority keeps its series: moving it would leave a depth that never returns to zero.
            if self._exceeded is None:
                self._exceeded = self._depth.labelled(self._name, self._name, EXCEEDED)
            return self._exceeded
        gauge = self._by_priority[priority] = self._depth.labelled(self._name, self._name, str(priority))
        return gauge


class WebhookMetrics:
    """What one path counts."""

    __slots__ = ("_codes", "_family", "_latency", "_path", "in_flight")

    def __init__(self, path: str, metrics: "RuntimeMetrics") -> None:
        self._path: Final = path
        self._family: Final = metrics.webhook_requests
        self._codes: Final = {code: self._family.labelled(path, str(code)) for code in (200, 500)}
        self._latency: Final = metrics.webhook_latency.labelled(path)
        self.in_flight: Final = metrics.webhook_in_flight.labelled(path)

    def answered(self, code: int, seconds: float) -> None:
        """A request was answered with this HTTP status."""
        counter = self._codes.get(code)
        if counter is None:
            counter = self._codes[code] = self._family.labelled(self._path, str(code))
        counter.value += 1
        self._latency.observe(seconds)


class ElectionMetrics:
    """What one lease counts; the gauge may be set from the election's thread."""

    def __init__(self, name: str, metrics: "RuntimeMetrics") -> None:
        self._leader: Final = metrics.leader.labelled(name)
        self._slow_path: Final = metrics.leader_slow_path.labelled(name)

    def leading(self, is_leader: bool) -> None:
        """Whether this process holds the lease."""
        self._leader.set(1.0 if is_leader else 0.0)

    def slow_path(self) -> None:
        """A renewal had to read the lease first."""
        self._slow_path.inc()


class RuntimeMetrics:
    """All metrics of a manager, in a registry of its own unless one is given."""

    def __init__(self, registry: Registry | None = None, *, client_details: bool = False) -> None:
        """``client_details`` adds the opt-in ``rest_client_*`` histograms (one series per verb and host)."""
        self.registry: Final = registry if registry is not None else Registry()
        self.has_client_details: Final = client_details
        counter, gauge, histogram = self._counter, self._gauge, self._histogram
        self.reconcile_total: Final = counter(d.RECONCILE_TOTAL)
        self.reconcile_errors: Final = counter(d.RECONCILE_ERRORS)
        self.terminal_errors: Final = counter(d.TERMINAL_ERRORS)
        self.reconcile_panics: Final = counter(d.RECONCILE_PANICS)
        self.reconcile_timeouts: Final = counter(d.RECONCILE_TIMEOUTS)
        self.reconcile_time: Final = histogram(d.RECONCILE_TIME)
        self.max_concurrent: Final = gauge(d.MAX_CONCURRENT)
        self.active_workers: Final = gauge(d.ACTIVE_WORKERS)
        self.queue_depth: Final = gauge(d.QUEUE_DEPTH)
        self.queue_adds: Final = counter(d.QUEUE_ADDS)
        self.queue_duration: Final = histogram(d.QUEUE_DURATION)
        self.work_duration: Final = histogram(d.WORK_DURATION)
        self.unfinished_work: Final = gauge(d.UNFINISHED_WORK)
        self.longest_running: Final = gauge(d.LONGEST_RUNNING)
        self.queue_retries: Final = counter(d.QUEUE_RETRIES)
        self.webhook_requests: Final = counter(d.WEBHOOK_REQUESTS)
        self.webhook_latency: Final = histogram(d.WEBHOOK_LATENCY)
        self.webhook_in_flight: Final = gauge(d.WEBHOOK_IN_FLIGHT)
        self.webhook_panics: Final = counter(d.WEBHOOK_PANICS).labelled()
        self.conversion_panics: Final = counter(d.CONVERSION_PANICS).labelled()
        self.client_requests: Final = counter(d.CLIENT_REQUESTS)
        self.client_duration: Final = histogram(d.CLIENT_DURATION)
        self.client_throttle: Final = histogram(d.CLIENT_THROTTLE)
        self.client_resolution: Final = histogram(d.CLIENT_RESOLUTION)
        self.client_request_size: Final = histogram(d.CLIENT_REQUEST_SIZE)
        self.client_response_size: Final = histogram(d.CLIENT_RESPONSE_SIZE)
        self.client_retries: Final = counter(d.CLIENT_RETRIES)
        self.leader: Final = gauge(d.LEADER)
        self.leader_slow_path: Final = counter(d.LEADER_SLOW_PATH)
        self.informer_queued: Final = gauge(d.INFORMER_QUEUED)
        self.informer_latency: Final = histogram(d.INFORMER_LATENCY)
        self.informer_version: Final = gauge(d.INFORMER_VERSION)
        self.certificate_reads: Final = counter(d.CERTIFICATE_READS).labelled()
        self.certificate_errors: Final = counter(d.CERTIFICATE_ERRORS).labelled()
        self.informer_synced: Final = gauge(d.SYNCED)
        self.informer_last_event: Final = gauge(d.LAST_EVENT)
        self.informer_relists: Final = counter(d.RELISTS)
        self.informer_handler_errors: Final = counter(d.HANDLER_ERRORS)
        self.informer_objects: Final = gauge(d.OBJECTS)
        self.informer_bytes: Final = gauge(d.BYTES)
        self.informer_forbidden: Final = gauge(d.FORBIDDEN)
        self.consistency_waits: Final = counter(d.CONSISTENCY_WAITS)
        self.consistency_seconds: Final = histogram(d.CONSISTENCY_SECONDS)
        self.consistency_timeouts: Final = counter(d.CONSISTENCY_TIMEOUTS)
        self.loop_lag: Final = gauge(d.LOOP_LAG).labelled()
        self.events_dropped: Final = counter(d.EVENTS_DROPPED).labelled()
        self.requeue_reasons: Final = counter(d.REQUEUE_REASONS)
        self.certificate_expiry: Final = gauge(d.CERTIFICATE_EXPIRY)

    def controller(self, name: str) -> ControllerMetrics:
        """The recorder of a controller; all its series exist from now on."""
        return ControllerMetrics(name, self)

    def queue(self, name: str) -> WorkQueueMetrics:
        """The recorder of a work queue."""
        return WorkQueueMetrics(name, self)

    def webhook(self, path: str) -> WebhookMetrics:
        """The recorder of a webhook path."""
        return WebhookMetrics(path, self)

    def election(self, name: str) -> ElectionMetrics:
        """The recorder of a lease."""
        return ElectionMetrics(name, self)

    def observe_request(self, record: RequestRecord) -> None:
        """Count one answer of the API server: pass it to ``Client.connect(observer=…)``."""
        self.client_requests.labelled(record.code, record.method, record.host).value += 1
        if not self.has_client_details:
            return
        verb, host = record.verb or record.method, record.host
        self.client_duration.labelled(verb, host).observe(record.seconds)
        self.client_request_size.labelled(verb, host).observe(record.request_bytes)
        self.client_response_size.labelled(verb, host).observe(record.response_bytes)
        if record.throttled is not None:
            self.client_throttle.labelled(verb, host).observe(record.throttled)
        if record.retry:
            self.client_retries.labelled(record.code, verb, host).inc()

    def observe_resolution(self, host: str, seconds: float) -> None:
        """Time one look-up of a host name: pass it to ``Client.connect(on_resolved=…)``."""
        if self.has_client_details:
            self.client_resolution.labelled(host).observe(seconds)

    def _counter(self, what: Definition) -> Family[Counter]:
        return self.registry.counter(what.name, what.help, what.labels)

    def _gauge(self, what: Definition) -> Family[Gauge]:
        return self.registry.gauge(what.name, what.help, what.labels)

    def _histogram(self, what: Definition) -> Family[Histogram]:
        return self.registry.histogram(what.name, what.help, what.labels, buckets=what.buckets)
