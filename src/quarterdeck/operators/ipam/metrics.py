"""What the operator measures: the design's own metrics, plexaubnet's under their names, and ours.

Labels beyond upstream's: ``ns``, because two namespaces may have pools of one name. Series of a pool go
with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from quarterdeck.api import Key
from quarterdeck.runtime.metrics import Family, Gauge, Registry

RECONCILE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 90.0)
WRITE_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
STATUS_BUCKETS: Final = (*WRITE_BUCKETS, 1.0)
ALLOCATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
REBUILD_BUCKETS: Final = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
STATIC_SIZES: Final = ("20", "24", "28")
EVENT_TYPES: Final = (
    "create",
    "update",
    "delete",
    "child_create",
    "child_update",
    "child_delete",
    "external",
)


class IpamMetrics:
    """Made once per registry."""

    def __init__(self, registry: Registry) -> None:
        self._add_pool_metrics(registry)
        self._add_gauges(registry)
        self._add_claim_metrics(registry)
        self._add_subnet_metrics(registry)

    def _add_pool_metrics(self, registry: Registry) -> None:
        self.requeues = registry.counter(
            "subnetpool_parent_requeue_total",
            "Pools put on the PoolStatus queue by a mapper, by what happened.",
            ["event_type"],
        )
        for kind in EVENT_TYPES:
            self.requeues.labelled(kind)
        self._durations = registry.histogram(
            "subnetpool_parent_reconcile_duration_seconds",
            "Length of PoolStatus reconciles.",
            ["result"],
            buckets=RECONCILE_BUCKETS,
        )
        for result in ("success", "error"):
            self._durations.labelled(result)  # a ratio needs both from the beginning
        self._inflight = registry.gauge(
            "subnetpool_parent_reconcile_inflight", "PoolStatus reconciles under way."
        ).labelled()
        self._timestamps = registry.gauge(
            "subnetpool_parent_status_last_timestamp_seconds",
            "When the status of a pool was last written or confirmed, in Unix time.",
            ["ns", "name"],
        )
        self._updates = registry.counter(
            "aquanaut_ipam_pool_status_update_total",
            "Writes of a pool's status, retries included in one.",
            ["ns", "pool", "result"],
        )
        self._update_latency = registry.histogram(
            "aquanaut_ipam_pool_status_update_latency_seconds",
            "Length of these writes.",
            ["result"],
            buckets=STATUS_BUCKETS,
        )
        self._update_retries = registry.counter(
            "aquanaut_ipam_pool_status_retry_total",
            "Conflicts of these writes.",
            ["ns", "pool", "retries"],
        )
        self.drift = registry.counter(
            "subnetpool_status_drift_total", "Audits that found a difference.", ["ns", "name"]
        )
        self.rebuilds = registry.histogram(
            "subnetpool_index_rebuild_seconds",
            "Length of loading or rebuilding an index.",
            buckets=REBUILD_BUCKETS,
        ).labelled()
        self.overlaps = registry.counter(
            "subnetpool_overlap_detected_total", "Subnets found to overlap an older one."
        ).labelled()
        self.list_pages = registry.counter(
            "subnet_list_pages_total", "Pages of Subnets read to load the index."
        ).labelled()
        self.skipped_pages = registry.counter(
            "subnet_list_continue_skipped_total", "Lists of Subnets that had to begin anew."
        ).labelled()

    def _add_gauges(self, registry: Registry) -> None:
        self._free: tuple[Family[Gauge], ...] = tuple(
            registry.gauge(name, "Free aligned blocks by prefix length.", ["ns", "pool", "size"])
            for name in ("aquanaut_subnet_free", "aquanaut_subnet_pool_free_blocks")
        )
        self._static = registry.gauge(
            "aquanaut_subnet_pool_free_blocks_static",
            "Free aligned blocks of three usual sizes.",
            ["ns", "pool", "size"],
        )
        self._allocated = registry.gauge(
            "plexaubnet_pool_allocated_total", "Subnets of a pool.", ["ns", "pool"]
        )
        self._utilization = registry.gauge(
            "subnetpool_utilization_ratio", "Share of a pool's addresses that is taken.", ["ns", "name"]
        )
        self._sizes: dict[Key, tuple[str, ...]] = {}

    def _add_claim_metrics(self, registry: Registry) -> None:
        self._allocations = registry.counter(
            "aquanaut_subnet_alloc_total",
            "Decisions about claims.",
            ["ns", "pool", "size", "result"],
        )
        self._allocation_retries = registry.counter(
            "aquanaut_subnet_alloc_retry_total", "Blocks that had to be chosen again.", ["pool", "retries"]
        )
        self.allocation_latency = registry.histogram(
            "aquanaut_subnet_alloc_latency_seconds",
            "Length of allocations.",
            ["result"],
            buckets=ALLOCATION_BUCKETS,
        ).labelled("all")
        self._creates = registry.counter(
            "aquanaut_ipam_allocation_create_total", "Subnets created by the allocator.", ["result"]
        )
        self._create_latency = registry.histogram(
            "aquanaut_ipam_allocation_create_latency_seconds",
            "Length of these creates.",
            ["result"],
            buckets=WRITE_BUCKETS,
        )
        self._phases = registry.gauge("plexaubnet_claim_phase", "Claims by phase.", ["ns", "phase"])

    def _add_subnet_metrics(self, registry: Registry) -> None:
        self._subnet_updates = registry.counter(
            "aquanaut_ipam_subnet_status_update_total", "Looks at a Subnet's status.", ["result"]
        )
        for result in ("success", "unchanged", "error", "skipped_deleted", "skipped_deleting"):
            self._subnet_updates.labelled(result)
        self._subnet_latency = registry.histogram(
            "aquanaut_ipam_subnet_status_update_latency_seconds",
            "Length of these looks.",
            ["result"],
            buckets=STATUS_BUCKETS,
        )
        self._subnet_retries = registry.counter(
            "aquanaut_ipam_subnet_status_retry_total",
            "Looks that met conflicts, by their number.",
            ["retries"],
        )

    @contextmanager
    def pool_reconcile(self) -> Iterator[None]:
        """One PoolStatus reconcile; whatever ends it early counts as an error."""
        self._inflight.inc()
        started = perf_counter()
        result = "error"
        try:
            yield
            result = "success"
        finally:
            self._inflight.dec()
            self._durations.labelled(result).observe(perf_counter() - started)

    def pool_status_written(self, pool: Key, result: str, seconds: float) -> None:
        """The status of a pool was written, or could not be."""
        self._updates.labelled(pool.namespace, pool.name, result).inc()
        self._update_latency.labelled(result).observe(seconds)

    def pool_status_conflict(self, pool: Key) -> None:
        """The status of a pool met a conflict."""
        self._update_retries.labelled(pool.namespace, pool.name, "conflict").inc()

    def pool_measured(
        self, pool: Key, free: Mapping[str, int], allocated: int, utilization: float, now: float
    ) -> None:
        """The status of a pool is right, and says this."""
        namespace, name = pool.namespace, pool.name
        sizes = tuple(size for size in free if not size.startswith("/"))
        for size in set(self._sizes.get(pool, ())) - set(sizes):
            self._forget_size(pool, size)
        self._sizes[pool] = sizes
        for size in sizes:
            for family in self._free:
                family.labelled(namespace, name, size).set(free[size])
            if size in STATIC_SIZES:
                self._static.labelled(namespace, name, size).set(free[size])
        self._allocated.labelled(namespace, name).set(allocated)
        self._utilization.labelled(namespace, name).set(utilization)
        self._timestamps.labelled(namespace, name).set(now)

    def forget_pool(self, pool: Key) -> None:
        """A pool is gone, and its gauges with it."""
        for size in self._sizes.pop(pool, ()):
            self._forget_size(pool, size)
        for family in (self._allocated, self._utilization, self._timestamps):
            family.remove(pool.namespace, pool.name)

    def _forget_size(self, pool: Key, size: str) -> None:
        for family in (*self._free, self._static):
            family.remove(pool.namespace, pool.name, size)

    def allocation(self, pool: Key, size: str, result: str) -> None:
        """A claim was granted or refused."""
        self._allocations.labelled(pool.namespace, pool.name, size, result).inc()

    def allocation_retry(self, attempt: int) -> None:
        """A block that was chosen turned out to be taken."""
        self._allocation_retries.labelled("all", str(attempt)).inc()

    def subnet_created(self, result: str, seconds: float) -> None:
        """The allocator tried to create a Subnet."""
        self._creates.labelled(result).inc()
        self._create_latency.labelled(result).observe(seconds)

    def claim_moved(self, namespace: str, before: str | None, after: str | None) -> None:
        """A claim changed its phase; ``None`` for not being there."""
        if before is not None:
            self._phases.labelled(namespace, before or "None").dec()
        if after is not None:
            self._phases.labelled(namespace, after or "None").inc()

    def subnet_status(self, result: str, seconds: float, retries: int) -> None:
        """A look at a Subnet's status is over."""
        self._subnet_updates.labelled(result).inc()
        self._subnet_latency.labelled(result).observe(seconds)
        if retries:
            self._subnet_retries.labelled(str(retries)).inc()
