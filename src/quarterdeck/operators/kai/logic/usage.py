"""What queues used in the past, as parts of the cluster: which past counts, and how it is asked for."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from quarterdeck.errors import SchemaError
from quarterdeck.operators.kai.settings import UsageSettings

Amounts: TypeAlias = tuple[float, float, float]
Usage: TypeAlias = Mapping[str, Amounts]
"""Parts of the cluster's CPU, memory and GPUs that queues used, by name."""

RESOURCES: Final = ("cpu", "memory", "gpu")
_METRICS: Final = {
    "gpuAllocationMetric": "kai_queue_allocated_gpus",
    "cpuAllocationMetric": "kai_queue_allocated_cpu_cores",
    "memoryAllocationMetric": "kai_queue_allocated_memory_bytes",
    "gpuCapacityMetric": 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
    "cpuCapacityMetric": 'sum(kube_node_status_capacity{resource="cpu"})',
    "memoryCapacityMetric": 'sum(kube_node_status_capacity{resource="memory"})',
}
_QUEUE_LABELS: Final = ("queue_name", "queue")


def prometheus_query(settings: UsageSettings, metric: str, now: float) -> str:
    """The query string for the sum of a metric over the window."""
    expression = settings.metrics.get(metric) or _METRICS[metric]
    if settings.half_life_period > 0:
        decay = f"0.5^(({int(now)} - time()) / {settings.half_life_period:f})"
        expression = f"(({expression}) * ({decay}))"
    window = max(1, math.ceil(now - settings.window_start(now)))
    query = f"sum_over_time(({expression})[{window}s:{settings.query_resolution:g}s])"
    return urlencode({"query": query, "time": f"{now:.3f}"})


def usage_of(answer: Mapping[str, Any]) -> dict[str, float]:
    """Sums by queue, out of the answer to a query; ``SchemaError`` if it is no vector."""
    return {
        next((str(labels[name]) for name in _QUEUE_LABELS if name in labels), ""): value
        for labels, value in _vector(answer)
    }


def capacity_of(answer: Mapping[str, Any]) -> float:
    """The sum over all that was there; 0 if nothing is known."""
    return next((value for _, value in _vector(answer)), 0.0)


def _vector(answer: Mapping[str, Any]) -> Iterable[tuple[Mapping[str, Any], float]]:
    data = answer.get("data") or {}
    if answer.get("status") != "success" or data.get("resultType") != "vector":
        raise SchemaError(f"unexpected query result: got {data.get('resultType')}, expected vector")
    for sample in data.get("result") or ():
        yield sample.get("metric") or {}, float(sample["value"][1])


class UsageMemory:
    """What was seen of the use of queues: one sample in each interval, as old as the window at most."""

    def __init__(self, settings: UsageSettings) -> None:
        self._settings: Final = settings
        self._samples: deque[tuple[float, Mapping[str, Amounts], Amounts]] = deque()

    def see(self, now: float, allocated: Mapping[str, Amounts], total: Amounts) -> None:
        """What queues have, and the cluster; more than one look in an interval counts once."""
        if self._samples and now - self._samples[-1][0] < self._settings.query_resolution:
            return
        self._samples.append((now, dict(allocated), total))
        start = self._settings.window_start(now)
        while self._samples and self._samples[0][0] < start:
            self._samples.popleft()

    def usage(self, now: float) -> dict[str, Amounts]:
        """Parts of what the cluster had, over the window."""
        had = [0.0, 0.0, 0.0]
        used: dict[str, list[float]] = {}
        for time, allocated, total in self._samples:
            weight = self._settings.weight(now - time)
            for resource, amount in enumerate(total):
                had[resource] += weight * amount
            for queue, amounts in allocated.items():
                sums = used.setdefault(queue, [0.0, 0.0, 0.0])
                for resource, amount in enumerate(amounts):
                    sums[resource] += weight * amount
        return {
            queue: (_part(sums[0], had[0]), _part(sums[1], had[1]), _part(sums[2], had[2]))
            for queue, sums in used.items()
        }


def _part(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
