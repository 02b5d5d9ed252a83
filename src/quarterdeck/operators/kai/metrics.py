"""What the operator measures beyond what every controller and webhook does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Literal

from quarterdeck.runtime.metrics import Registry
from quarterdeck.scheduler.decision import CycleResult, Pipeline, QueueShare, Unschedulable
from quarterdeck.scheduler.settings import Action

CYCLE_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LATENCY_BUCKETS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
PARTS: Final = ("snapshot", "plan", "commit")
RESOURCES: Final = ("cpu", "memory", "gpu")

Part = Literal["snapshot", "plan", "commit"]


class KaiMetrics:
    """Made once per registry. CPU is in thousandths of a core, memory in bytes."""

    def __init__(self, registry: Registry) -> None:
        self._cycles: Final = registry.counter(
            "quarterdeck_kai_cycles_total", "Scheduling cycles, by how they ended.", ["result"]
        )
        for result in ("success", "error"):
            self._cycles.labelled(result)  # a ratio needs both from the beginning
        self._parts: Final = registry.histogram(
            "quarterdeck_kai_cycle_duration_seconds",
            "Length of the parts of a cycle.",
            ["part"],
            buckets=CYCLE_BUCKETS,
        )
        self._last: Final = registry.gauge(
            "quarterdeck_kai_last_cycle_timestamp_seconds", "When the last cycle ended well, in Unix time."
        ).labelled()
        self._binds: Final = registry.counter(
            "quarterdeck_kai_pods_bound_total", "Pods that were given a node."
        ).labelled()
        self._latency: Final = registry.histogram(
            "quarterdeck_kai_pod_scheduling_seconds",
            "Time from the creation of a pod until it was given a node.",
            buckets=LATENCY_BUCKETS,
        ).labelled()
        self._evictions: Final = registry.counter(
            "quarterdeck_kai_pods_evicted_total", "Pods evicted, by the action that wanted it.", ["action"]
        )
        self._pipelined: Final = registry.gauge(
            "quarterdeck_kai_pods_pipelined", "Pods that wait for room that is being freed."
        ).labelled()
        self._unschedulable: Final = registry.gauge(
            "quarterdeck_kai_unschedulable_pod_groups", "Groups that are ready and do not fit."
        ).labelled()
        self.failed_writes: Final = registry.counter(
            "quarterdeck_kai_failed_writes_total", "Decisions of a cycle that the server refused."
        ).labelled()
        self._attempts: Final = registry.counter(
            "quarterdeck_kai_bind_attempts_total", "Attempts to bind a pod.", ["result"]
        )
        for result in ("success", "error"):
            self._attempts.labelled(result)
        self._shares: Final = {
            what: registry.gauge(f"quarterdeck_kai_queue_{what}", text, ["queue", "resource"])
            for what, text in (
                ("fair_share", "What a queue is entitled to."),
                ("allocated", "What the pods of a queue have."),
                ("requested", "What the pods of a queue have or ask for."),
            )
        }
        self._queues: set[str] = set()

    @contextmanager
    def part(self, part: Part) -> Iterator[None]:
        """Measure a part of a cycle."""
        started = perf_counter()
        try:
            yield
        finally:
            self._parts.labelled(part).observe(perf_counter() - started)

    def cycle_ended(self, *, has_succeeded: bool, now: float) -> None:
        """A cycle is over."""
        self._cycles.labelled("success" if has_succeeded else "error").inc()
        if has_succeeded:
            self._last.set(now)

    def bound(self, waited: float) -> None:
        """A pod was given a node, so long after it was created."""
        self._binds.inc()
        self._latency.observe(waited)

    def evicted(self, action: Action) -> None:
        """A pod was evicted."""
        self._evictions.labelled(action.value).inc()

    def bind_attempt(self, *, has_succeeded: bool) -> None:
        """The binder tried."""
        self._attempts.labelled("success" if has_succeeded else "error").inc()

    def measure(self, result: CycleResult) -> None:
        """Take over the numbers of a cycle."""
        decisions = result.decisions
        self._pipelined.set(sum(isinstance(each, Pipeline) for each in decisions))
        self._unschedulable.set(sum(isinstance(each, Unschedulable) for each in decisions))
        self._measure_queues(result.queues)

    def _measure_queues(self, shares: Mapping[str, QueueShare]) -> None:
        """Queues that are gone are dropped."""
        for queue in self._queues - shares.keys():
            for family in self._shares.values():
                for resource in RESOURCES:
                    family.remove(queue, resource)
        self._queues = set(shares)
        for queue, share in shares.items():
            for what, family in self._shares.items():
                amounts = getattr(share, what)
                for resource in RESOURCES:
                    family.labelled(queue, resource).set(getattr(amounts, resource))
