"""What is shown of caches: objects, versions, silence, lists and missing permissions."""

from __future__ import annotations

import asyncio

from quarterdeck.runtime.cache import CacheOptions, HealthState
from quarterdeck.runtime.cache.metrics import _low_digits, follow_caches
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import FaultPlan, Refuse
from tests.unit.runtime.cachekit import running, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WIDGETS, widget_cluster

KIND = "Widget.example.com"
LABELS = ("east", "example.com", "v1", "widgets")


async def test_objects_version_silence_and_lists_are_those_of_the_cache() -> None:
    metrics = RuntimeMetrics()
    value = metrics.registry.value
    both = CacheOptions(namespaces=["ns", "default"])
    async with widget_cluster("a", "b") as api, running(api.link, both) as cache:
        follow_caches(metrics, lambda: {"east": cache})
        informer = cache.informer(Widget)
        metrics.registry.expose()
        assert value("quarterdeck_informer_synced", KIND) == 0
        await informer.wait_synced()
        await until(lambda: api.link.open_watches(WIDGETS) == 2)
        api.link.fail_watches(410)
        await until(lambda: all(each.lists == 2 for each in informer.statistics().shards))
        await asyncio.sleep(7)
        metrics.registry.expose()
        assert value("quarterdeck_informer_synced", KIND) == 1
        assert value("quarterdeck_informer_objects", KIND) == 2
        assert value("quarterdeck_informer_bytes", KIND) == sum(len(e.body) for e in informer.entries())
        assert round(value("quarterdeck_informer_last_event_seconds", KIND)) == 7
        assert value("quarterdeck_informer_relists_total", KIND, "expired") == 2, "one in each namespace"
        assert value("informer_store_resource_version", *LABELS) == int(informer.statistics().version)
        assert value("informer_queued_items", *LABELS) == 0


async def test_a_missing_permission_is_shown_while_it_is_missing() -> None:
    metrics = RuntimeMetrics()
    denied = FaultPlan(0, Refuse(403, verbs=frozenset({"watch"})))
    async with widget_cluster("a", plan=denied) as api, running(api.link) as cache:
        follow_caches(metrics, lambda: {"": cache})
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.FORBIDDEN)
        shown = f'quarterdeck_informer_forbidden{{kind="{KIND}",verb="watch"}} 1'
        assert shown in metrics.registry.expose().decode()
        api.link.plan = FaultPlan()
        await informer.wait_synced()
        assert "quarterdeck_informer_forbidden{" not in metrics.registry.expose().decode()


def test_versions_too_long_for_a_float_are_shown_by_their_last_digits() -> None:
    assert _low_digits("12") == 12
    assert _low_digits("9" * 30) == float("9" * 15)
    assert _low_digits("abc") == 0
