"""Informers, read at each scrape.

A cache keeps all of this anyway, so it is read when somebody asks instead of being written at each event.
A kind that leaves the cache leaves the metrics with the next reading.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from quarterdeck.client.clock import Clock
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics.runtime import RuntimeMetrics

if TYPE_CHECKING:
    from quarterdeck.runtime.cache import Cache, Informer

_DIGITS: Final = 15
"""Least significant digits of a resource version that a float holds exactly."""


def follow_caches(
    metrics: RuntimeMetrics, caches: Callable[[], Mapping[str, "Cache"]], *, clock: Clock | None = None
) -> Callable[[], None]:
    """Show the informers of all caches, by the caches' names, at each scrape.

    Call it once per ``metrics``: metrics by kind are sums over all caches. Returns the function that ends it.
    """
    now = (clock or LoopClock()).monotonic

    def refresh() -> None:
        for family in (
            metrics.informer_queued,
            metrics.informer_latency,
            metrics.informer_version,
            metrics.informer_synced,
            metrics.informer_last_event,
            metrics.informer_objects,
            metrics.informer_bytes,
            metrics.informer_forbidden,
        ):
            family.clear()
        relists: dict[tuple[str, str], int] = {}
        failures: dict[str, int] = {}
        for name, cache in caches().items():
            for informer in cache.informers:
                _show(metrics, informer, name, now(), relists)
                kind = str(informer.gvk.group_kind)
                failures[kind] = failures.get(kind, 0) + informer.statistics().handler_failures
        for labels, count in relists.items():
            counter = metrics.informer_relists.labelled(*labels)
            counter.value = max(counter.value, float(count))
        for kind, count in failures.items():
            counter = metrics.informer_handler_errors.labelled(kind)
            counter.value = max(counter.value, float(count))

    return metrics.registry.before_expose(refresh)


def _show(
    metrics: RuntimeMetrics,
    informer: "Informer",
    name: str,
    now: float,
    relists: dict[tuple[str, str], int],
) -> None:
    statistics = informer.statistics()
    gvk, mapping = statistics.gvk, informer.mapping
    kind = str(gvk.group_kind)
    labels = (name, gvk.group, gvk.version, mapping.gvr.resource if mapping is not None else "")
    metrics.informer_queued.labelled(*labels).set(statistics.queued)
    metrics.informer_latency.labelled(*labels).absorb(informer.processing)
    metrics.informer_version.labelled(*labels).set(_low_digits(statistics.version))
    metrics.informer_objects.labelled(kind).inc(statistics.objects)
    metrics.informer_bytes.labelled(kind).inc(statistics.bytes)
    known = dict(metrics.informer_synced.items()).get((kind,))
    synced = metrics.informer_synced.labelled(kind)
    synced.set(float(statistics.has_synced and (known is None or known.value > 0)))
    if statistics.last_event is not None:
        quiet = metrics.informer_last_event.labelled(kind)
        quiet.set(max(quiet.value, now - statistics.last_event))
    for shard in statistics.shards:
        if shard.health.state.value == "Forbidden":
            metrics.informer_forbidden.labelled(kind, shard.health.verb).set(1.0)
        for reason, count in shard.relists.items():
            relists[kind, reason] = relists.get((kind, reason), 0) + count


def _low_digits(version: str) -> float:
    return float(version[-_DIGITS:]) if version.isdigit() else 0.0
