"""Metrics: names, labels and buckets are those of controller-runtime; series exist from the start."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quarterdeck.client import RequestRecord
from quarterdeck.client.lane import LaneName
from quarterdeck.runtime.metrics import GROUPS, Registry, RuntimeMetrics, follow_process
from quarterdeck.runtime.metrics.registry import format_number
from quarterdeck.runtime.queue.workqueue import WorkQueue

pytestmark = pytest.mark.real_time

RECONCILE = [
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    *(1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
]
DECADES = [1e-8 * 10**i for i in range(12)]
LATENCY = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
SIZES: list[float] = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]
INFORMER = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
OBJECT = ("name", "group", "version", "resource")

# the tables of the specification
EXPECTED: dict[str, tuple[str, tuple[str, ...], list[float]]] = {
    "controller_runtime_reconcile_total": ("counter", ("controller", "result"), []),
    "controller_runtime_reconcile_errors_total": ("counter", ("controller",), []),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", ("controller",), []),
    "controller_runtime_reconcile_panics_total": ("counter", ("controller",), []),
    "controller_runtime_reconcile_timeouts_total": ("counter", ("controller",), []),
    "controller_runtime_reconcile_time_seconds": ("histogram", ("controller",), RECONCILE),
    "controller_runtime_max_concurrent_reconciles": ("gauge", ("controller",), []),
    "controller_runtime_active_workers": ("gauge", ("controller",), []),
    "workqueue_depth": ("gauge", ("name", "controller", "priority"), []),
    "workqueue_adds_total": ("counter", ("name", "controller"), []),
    "workqueue_queue_duration_seconds": ("histogram", ("name", "controller"), DECADES),
    "workqueue_work_duration_seconds": ("histogram", ("name", "controller"), DECADES),
    "workqueue_unfinished_work_seconds": ("gauge", ("name", "controller"), []),
    "workqueue_longest_running_processor_seconds": ("gauge", ("name", "controller"), []),
    "workqueue_retries_total": ("counter", ("name", "controller"), []),
    "controller_runtime_webhook_requests_total": ("counter", ("webhook", "code"), []),
    "controller_runtime_webhook_latency_seconds": ("histogram", ("webhook",), DECADES),
    "controller_runtime_webhook_requests_in_flight": ("gauge", ("webhook",), []),
    "controller_runtime_webhook_panics_total": ("counter", (), []),
    "controller_runtime_conversion_webhook_panics_total": ("counter", (), []),
    "rest_client_requests_total": ("counter", ("code", "method", "host"), []),
    "rest_client_request_duration_seconds": ("histogram", ("verb", "host"), LATENCY),
    "rest_client_rate_limiter_duration_seconds": ("histogram", ("verb", "host"), LATENCY),
    "rest_client_dns_resolution_duration_seconds": ("histogram", ("host",), LATENCY),
    "rest_client_request_size_bytes": ("histogram", ("verb", "host"), SIZES),
    "rest_client_response_size_bytes": ("histogram", ("verb", "host"), SIZES),
    "rest_client_request_retries_total": ("counter", ("code", "verb", "host"), []),
    "leader_election_master_status": ("gauge", ("name",), []),
    "leader_election_slowpath_total": ("counter", ("name",), []),
    "informer_queued_items": ("gauge", OBJECT, []),
    "informer_processing_latency_seconds": ("histogram", OBJECT, INFORMER),
    "informer_store_resource_version": ("gauge", OBJECT, []),
    "certwatcher_read_certificate_total": ("counter", (), []),
    "certwatcher_read_certificate_errors_total": ("counter", (), []),
    "quarterdeck_informer_synced": ("gauge", ("kind",), []),
    "quarterdeck_informer_last_event_seconds": ("gauge", ("kind",), []),
    "quarterdeck_informer_relists_total": ("counter", ("kind", "reason"), []),
    "quarterdeck_informer_objects": ("gauge", ("kind",), []),
    "quarterdeck_informer_bytes": ("gauge", ("kind",), []),
    "quarterdeck_informer_forbidden": ("gauge", ("kind", "verb"), []),
    "quarterdeck_consistency_waits_total": ("counter", ("controller",), []),
    "quarterdeck_consistency_wait_seconds": ("histogram", (), RECONCILE),
    "quarterdeck_event_loop_lag_seconds": ("gauge", (), []),
    "quarterdeck_events_dropped_total": ("counter", (), []),
    "quarterdeck_reconcile_requeue_reason_total": ("counter", ("controller", "reason"), []),
}


def samples(registry: Registry) -> dict[str, float]:
    """The exposition read back: sample name with labels → value."""
    found: dict[str, float] = {}
    for line in registry.expose().decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_metric_names_labels_and_buckets_equal_the_tables() -> None:
    registered = {family.name: family for family in RuntimeMetrics().registry.families}
    for name, (kind, labels, buckets) in EXPECTED.items():
        family = registered[name]
        assert (family.kind, family.labels) == (kind, labels), name
        if buckets:
            child: Any = family.labelled(*("x" for _ in labels))
            assert child.bounds == pytest.approx(buckets), name
    ours = {name for name in registered if name not in EXPECTED}
    assert ours == {
        "quarterdeck_consistency_timeouts_total",
        "quarterdeck_informer_handler_errors_total",
        "quarterdeck_webhook_certificate_expiry_timestamp_seconds",
    }


def test_the_reference_table_describes_what_is_registered() -> None:
    described = {definition.name for group in GROUPS.values() for definition in group}
    assert described == {family.name for family in RuntimeMetrics().registry.families}


def test_a_controller_starts_with_all_its_counters_at_zero() -> None:
    metrics = RuntimeMetrics()
    metrics.controller("gang")
    found = samples(metrics.registry)
    for result in ("success", "error", "requeue", "requeue_after"):
        key = f'controller_runtime_reconcile_total{{controller="gang",result="{result}"}}'
        assert found[key] == 0
    for name in ("reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"):
        assert found[f'controller_runtime_{name}_total{{controller="gang"}}'] == 0
    assert found['controller_runtime_reconcile_time_seconds_count{controller="gang"}'] == 0


def test_reconcile_outcomes_count_where_upstream_counts_them() -> None:
    metrics = RuntimeMetrics()
    gang = metrics.controller("gang")
    gang.reconciled("success", 0.02)
    gang.reconciled("error", 70)
    gang.terminal()
    gang.requeued("waiting-for-pods")
    gang.consistency_waited(0.3, in_time=False)
    found = samples(metrics.registry)
    assert found['controller_runtime_reconcile_total{controller="gang",result="error"}'] == 1
    assert found['controller_runtime_reconcile_errors_total{controller="gang"}'] == 1
    assert found['controller_runtime_terminal_reconcile_errors_total{controller="gang"}'] == 1
    bucket = 'controller_runtime_reconcile_time_seconds_bucket{controller="gang",le="%s"}'
    assert [found[bucket % le] for le in ("0.01", "0.025", "60", "+Inf")] == [0, 1, 1, 2]
    assert found['controller_runtime_reconcile_time_seconds_sum{controller="gang"}'] == pytest.approx(70.02)
    reason = 'quarterdeck_reconcile_requeue_reason_total{controller="gang",reason="waiting-for-pods"}'
    assert found[reason] == 1
    assert found['quarterdeck_consistency_timeouts_total{controller="gang"}'] == 1


@pytest.mark.virtual_time
async def test_a_queue_reports_depth_by_priority_latency_and_running_ages() -> None:
    import asyncio

    metrics = RuntimeMetrics()
    recorder = metrics.queue("gang")
    queue: WorkQueue[str] = WorkQueue(metrics=recorder, age_rate=0)
    end = recorder.follow(queue.statistics)
    queue.add("a", priority=-100)
    queue.add("b")
    queue.add("c", after=5)
    found = samples(metrics.registry)
    assert found['workqueue_depth{name="gang",controller="gang",priority="-100"}'] == 1
    assert found['workqueue_depth{name="gang",controller="gang",priority="0"}'] == 1
    assert found['workqueue_retries_total{name="gang",controller="gang"}'] == 1
    await asyncio.sleep(2)
    assert await queue.get() == "b"
    await asyncio.sleep(3)
    found = samples(metrics.registry)
    assert found['workqueue_queue_duration_seconds_sum{name="gang",controller="gang"}'] == pytest.approx(2)
    assert found['workqueue_unfinished_work_seconds{name="gang",controller="gang"}'] == pytest.approx(3)
    assert found[
        'workqueue_longest_running_processor_seconds{name="gang",controller="gang"}'
    ] == pytest.approx(3)
    queue.done("b")
    end()
    assert metrics.registry.value("workqueue_work_duration_seconds", "gang", "gang") == 1
    queue.shut_down()


def test_priorities_beyond_25_share_one_series_and_known_ones_keep_theirs() -> None:
    metrics = RuntimeMetrics()
    recorder = metrics.queue("gang")
    for priority in range(40):
        recorder.ready(priority)
    for priority in range(40):
        recorder.taken(priority, 0.0)
    depth = {
        key: value for key, value in samples(metrics.registry).items() if key.startswith("workqueue_depth")
    }
    assert len(depth) == 26
    assert 'workqueue_depth{name="gang",controller="gang",priority="exceeded_cardinality_limit"}' in depth
    assert set(depth.values()) == {0.0}


def test_webhook_codes_200_and_500_exist_before_the_first_request() -> None:
    metrics = RuntimeMetrics()
    hook = metrics.webhook("/validate")
    found = samples(metrics.registry)
    assert found['controller_runtime_webhook_requests_total{webhook="/validate",code="200"}'] == 0
    assert found['controller_runtime_webhook_requests_total{webhook="/validate",code="500"}'] == 0
    hook.answered(404, 0.1)
    assert metrics.registry.value("controller_runtime_webhook_requests_total", "/validate", "404") == 1


def test_client_details_are_recorded_only_when_asked_for() -> None:
    record = RequestRecord(
        "GET", "list", "api:443", "200", 0.3, 10, 5000, 1, LaneName.DEFAULT, "/api/v1/pods", 0.2
    )
    plain, detailed = RuntimeMetrics(), RuntimeMetrics(client_details=True)
    for metrics in (plain, detailed):
        metrics.observe_request(record)
        metrics.observe_resolution("api", 0.01)
        assert metrics.registry.value("rest_client_requests_total", "200", "GET", "api:443") == 1
    assert "rest_client_request_duration_seconds" not in plain.registry.expose().decode()
    assert detailed.registry.value("rest_client_request_duration_seconds", "list", "api:443") == 1
    assert detailed.registry.value("rest_client_request_retries_total", "200", "list", "api:443") == 1
    assert detailed.registry.value("rest_client_rate_limiter_duration_seconds", "list", "api:443") == 1
    assert detailed.registry.value("rest_client_dns_resolution_duration_seconds", "api") == 1
    assert "rest_client_dns_resolution_duration_seconds" not in plain.registry.expose().decode()
    marked = {each.name for each in GROUPS["Client"] if each.opt_in}
    assert {name for name in marked if name in plain.registry.expose().decode()} == set()
    assert {each.name for each in GROUPS["Client"]} - marked == {"rest_client_requests_total"}


def test_exposition_is_valid_prometheus_text() -> None:
    registry = Registry()
    registry.gauge("odd", 'with "quotes"\nand lines', ["label"]).labelled('a"b\\c\nd').set(float("nan"))
    registry.counter("plain_total", "Plain.").labelled().inc(3)
    follow_process(registry)
    text = registry.expose().decode()
    assert '# HELP odd with "quotes"\\nand lines' in text
    assert 'odd{label="a\\"b\\\\c\\nd"} NaN' in text
    assert "plain_total 3\n" in text
    assert text.endswith("\n")
    for line in text.splitlines():
        assert re.fullmatch(r'#.*|[a-z_]+(\{[a-z]+="(\\.|[^"\\])*"\})? \S+', line), line


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.005, "0.005"), (1e-8, "1e-08"), (1e6, "1e+06"), (1048576, "1.048576e+06"),
     (float("inf"), "+Inf"), (-2.5, "-2.5"), (1e21, "1e+21"), (123456, "123456")],
)  # fmt: skip
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert format_number(value) == text


def test_a_metric_name_can_be_registered_once() -> None:
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="a_total is registered already"):
        registry.gauge("a_total", "A.")
    with pytest.raises(ValueError, match="must ascend"):
        registry.histogram("b", "B.", buckets=[1, 1])
    with pytest.raises(ValueError, match="got 1 values"):
        registry.counter("c_total", "C.", ["x", "y"]).labelled("only")
