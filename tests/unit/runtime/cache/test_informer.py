"""Informers: handlers, resyncs, verification, and kinds that come and go."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise

import pytest

from quarterdeck.api import GroupVersionKind, ObjectMeta
from quarterdeck.errors import CacheError, NotFound, NotSynced
from quarterdeck.runtime.cache import (
    Cache,
    CacheOptions,
    Delta,
    HealthState,
    label,
)
from quarterdeck.testing import FaultPlan, LoseEvents, TestCluster
from tests.unit.runtime.cachekit import Recorder, running, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import MISSING, WIDGET, colored_widgets


async def test_a_handler_may_do_without_what_is_there_from_the_beginning() -> None:
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        early, late = Recorder(), Recorder()
        await informer.add_handler(early, initial=False).wait_synced()
        await informer.add_handler(late, initial=False).wait_synced()
        await api.client.create(Widget(metadata=ObjectMeta(name="a3", namespace="ns")))
        await until(lambda: early.deltas and late.deltas)
        assert [delta.entry.name for delta in (*early.deltas, *late.deltas)] == ["a3", "a3"]


async def test_handler_is_synced_only_when_it_has_handled_the_initial_list() -> None:
    release = asyncio.Event()

    class Slow:
        handled = 0

        async def handle(self, delta: Delta) -> None:
            await release.wait()
            self.handled += 1

    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        slow, fast = Slow(), Recorder()
        slow_registration = informer.add_handler(slow)
        fast_registration = informer.add_handler(fast)
        await fast_registration.wait_synced()
        await asyncio.sleep(5)
        assert informer.has_synced
        assert not slow_registration.has_synced
        assert slow_registration.statistics().queued == 2
        release.set()
        await slow_registration.wait_synced()
        assert slow.handled == 2


async def test_late_handler_gets_the_store_as_initial_additions_and_can_be_removed() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await informer.wait_synced()
        recorder = Recorder()
        registration = informer.add_handler(recorder)
        await registration.wait_synced()
        assert recorder.texts == ["+a1i"]
        informer.remove_handler(registration)
        await api.put(Widget, "a2")
        await until(lambda: len(list(informer.entries())) == 2)
        await asyncio.sleep(1)
        assert recorder.texts == ["+a1i"]


async def test_handler_that_raises_gets_the_event_again_and_later_events_do_not_wait() -> None:
    seen: list[str] = []

    class Moody:
        failures = 3

        def handle(self, delta: Delta) -> None:
            if delta.entry.name == "a1" and self.failures:
                self.failures -= 1
                raise RuntimeError("not now")
            seen.append(delta.entry.name)

    async with colored_widgets("a1", "b1") as api, running(api.link) as cache:
        registration = cache.informer(Widget).add_handler(Moody())
        await until(lambda: len(seen) == 2)
        assert seen == ["b1", "a1"]
        assert registration.has_synced
        assert registration.statistics().failures == 3
        assert registration.statistics().retrying == 0


async def test_a_handler_that_fails_again_and_again_gets_twice_the_time_each_time() -> None:
    asked: list[float] = []

    class Failing:
        def handle(self, delta: Delta) -> None:
            asked.append(asyncio.get_running_loop().time())
            if len(asked) < 5:
                raise RuntimeError("not now")

    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(Widget).add_handler(Failing())
        await until(lambda: len(asked) == 5)
    assert [b - a for a, b in pairwise(asked)] == pytest.approx([0.1, 0.2, 0.4, 0.8])


async def test_how_long_a_handler_takes_is_observed() -> None:
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await informer.add_handler(Recorder()).wait_synced()
        assert informer.processing.count == 2
        assert 0 < informer.processing.sum < 60


async def test_resyncs_come_a_tenth_before_or_after_their_period() -> None:
    async with colored_widgets("a1") as api, running(api.link, CacheOptions(resync_period=1.5)) as cache:
        times: list[float] = []

        class Noting:
            def handle(self, delta: Delta) -> None:
                times.append(asyncio.get_running_loop().time())

        await cache.informer(Widget).add_handler(Noting()).wait_synced()
        await until(lambda: len(times) == 8)
    gaps = [b - a for a, b in pairwise(times[1:])]
    assert all(1.35 <= gap <= 1.65 for gap in gaps), gaps
    assert len(set(gaps)) > 1


async def test_resync_reports_every_object_as_updated_without_a_request() -> None:
    async with (
        colored_widgets("a1", "a2") as api,
        running(api.link, CacheOptions(resync_period=100)) as cache,
    ):
        recorder = Recorder()
        await cache.informer(Widget).add_handler(recorder).wait_synced()
        calls = len(api.link.log)
        await asyncio.sleep(115)
        assert recorder.texts == ["+a1i", "+a2i", "~a1", "~a2"]
        update = recorder.deltas[2]
        assert update.old is update.new
        assert len(api.link.log) == calls


async def test_verification_finds_a_lost_event_and_repairs_it() -> None:
    async with (
        colored_widgets("a1", "a2") as api,
        running(api.link, CacheOptions(verify_period=50, silence=0)) as cache,
    ):
        informer = cache.informer(Widget)
        recorder = Recorder()
        await informer.add_handler(recorder).wait_synced()
        await asyncio.sleep(60)
        assert informer.statistics().differences == 0
        api.link.plan.add(LoseEvents(types=frozenset({"MODIFIED"}), times=1))
        await api.put(Widget, "a1", spec={"color": "lost"})  # the server forgets to tell us one change …
        await api.put(Widget, "b1")  # … and goes on as if nothing had happened
        await until(lambda: informer.statistics().differences == 1, within=120)
        await until(lambda: "~a1" in recorder.texts, within=1)
        assert informer.statistics().shards[0].relists == {"verify": 1}


async def test_dynamic_kind_is_discovered_and_waited_for() -> None:
    async with TestCluster() as cluster:
        link = cluster.link()
        async with running(link) as cache:
            informer = cache.informer(WIDGET)
            await until(lambda: informer.health.state is HealthState.KIND_MISSING)
            await asyncio.sleep(60)
            assert not informer.has_synced
            await cluster.install(Widget)
            await cluster.client.create(Widget(metadata=ObjectMeta(name="a1", namespace="default")))
            await informer.wait_synced()
            found = await cache.get(WIDGET, "a1", "default")
            assert found.kind == "Widget"
    assert not any("PartialObjectMetadata" in call.accept for call in link.log)


async def test_statistics_tell_objects_bytes_and_age() -> None:
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await informer.wait_synced()
        await asyncio.sleep(10)
        statistics = cache.statistics()
        assert statistics.objects == 2
        assert statistics.bytes == sum(len(entry.raw) for entry in informer.entries())
        last = statistics.informers[0].last_event
        assert last is not None
        assert asyncio.get_running_loop().time() - last == pytest.approx(10)
        await cache.get(Widget, "a1", "ns")
        await cache.get(Widget, "a1", "ns")
        decoding = cache.statistics().informers[0].decoding[0]
        assert (decoding.hits, decoding.misses, decoding.remembered) == (1, 1, 1)


async def test_a_cache_tells_whether_it_runs_and_holds_everything() -> None:
    async with colored_widgets("a1") as api:
        async with running(api.link) as cache:
            assert cache.is_running
            informer = cache.informer(Widget)
            assert not cache.has_synced
            await informer.wait_synced()
            assert cache.has_synced
        assert not cache.is_running
        with pytest.raises(CacheError, match="started more than once"):
            await cache.run()


async def test_trouble_with_discovery_counts_from_its_beginning() -> None:
    async with TestCluster() as cluster, running(cluster.link()) as cache:
        informer = cache.informer(WIDGET)
        await until(lambda: informer.health.state is HealthState.KIND_MISSING)
        first = informer.health.since
        await asyncio.sleep(60)
        assert informer.health.since == first


async def test_handlers_are_named_after_their_class_unless_they_have_a_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Clumsy:
        def handle(self, delta: Delta) -> None:
            raise RuntimeError("oops")

    async with colored_widgets("a1") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        for name in ("", "given"):
            informer.add_handler(Clumsy(), name=name)
        await informer.wait_synced()
        await asyncio.sleep(0.1)
    fields = [getattr(record, "fields", {}) for record in caplog.records]
    assert {each["handler"] for each in fields if "handler" in each} == {"Clumsy", "given"}


async def test_what_waits_for_a_handler_is_counted_object_by_object() -> None:
    release = asyncio.Event()

    class Slow:
        async def handle(self, delta: Delta) -> None:
            await release.wait()

    async with colored_widgets("a1") as api, running(api.link) as cache:
        registration = cache.informer(Widget).add_handler(Slow())
        await until(lambda: registration.statistics().is_handling)
        for name in ("b1", "b2", "b3"):
            await api.put(Widget, name)
        await asyncio.sleep(1)
        assert registration.statistics().queued == 4, "the first of them is still in its hands"
        release.set()
        await until(lambda: registration.statistics().handled == 4)
        assert registration.statistics().queued == 0
        assert not registration.statistics().is_handling
        assert 0 <= cache.informer(Widget).processing.sum < 600


@pytest.mark.parametrize(("options", "limit"), [(CacheOptions(), 70.0), (CacheOptions(silence=0), 0.0)])
async def test_the_silence_that_is_borne_is_told(options: CacheOptions, limit: float) -> None:
    async with colored_widgets("a1") as api, running(api.link, options) as cache:
        informer = cache.informer(Widget)
        assert informer.silence_limit == 0
        await informer.wait_synced()
        assert informer.silence_limit == limit
        assert informer.statistics().differences == 0


async def test_an_object_is_expected_where_its_labels_and_fields_belong() -> None:
    chosen = CacheOptions(labels="app=a", fields="spec.color=red")
    async with colored_widgets() as api, running(api.link, chosen) as cache:
        informer = cache.informer(Widget)
        await until(lambda: list(informer.shards))
        (shard,) = informer.shards

        def holding(app: str, body: bytes) -> object:
            return informer.shard_holding("ns", {"app": app}, body)

        assert holding("a", b'{"spec":{"color":"red"}}') is shard
        assert holding("b", b'{"spec":{"color":"red"}}') is None
        assert holding("a", b'{"spec":{"color":"blue"}}') is None
        assert holding("a", b'{"spec":"odd"}') is None


@pytest.mark.usefixtures("young_heap")
async def test_informers_that_come_and_go_leave_no_tasks_and_no_memory() -> None:
    async with colored_widgets(*(f"w{i}" for i in range(20))) as api, running(api.link) as cache:
        await asyncio.sleep(0)
        tasks = len(asyncio.all_tasks())
        counts = []
        for _ in range(30):
            informer = cache.informer(Widget)
            informer.declare_index(label("app"))
            registrations = [informer.add_handler(Recorder()) for _ in range(3)]
            for registration in registrations:
                await registration.wait_synced()
            for registration in registrations:
                informer.remove_handler(registration)
            await cache.remove_informer(Widget)
            del informer, registrations, registration
            gc.collect()
            counts.append(len(gc.get_objects()))
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        assert not api.link.open_streams
        assert counts[-1] - counts[5] < 500


async def test_optional_kind_that_is_absent_reads_as_empty_until_it_comes() -> None:
    async with colored_widgets("a1", plan=FaultPlan(0, MISSING)) as api, running(api.link) as cache:
        informer = cache.informer(Widget, optional=True)
        informer.declare_index(label("app"))
        started = asyncio.get_running_loop().time()
        assert len(await cache.list(Widget)) == 0
        with pytest.raises(NotFound):
            await cache.get(Widget, "a1", "ns")
        assert len(cache.lookup(Widget, label("app")("x"))) == 0
        assert asyncio.get_running_loop().time() - started < 1
        assert not informer.has_synced
        api.link.plan = FaultPlan()
        await informer.wait_synced()
        assert len(await cache.list(Widget)) == 1


async def test_absent_kind_that_somebody_needs_is_an_error_to_read() -> None:
    async with colored_widgets(plan=FaultPlan(0, MISSING)) as api, running(api.link) as cache:
        informer = cache.informer(Widget, optional=True)
        assert cache.informer(Widget) is informer
        assert len(await cache.list(Widget)) == 0
        cache.informer(Widget, optional=False)
        with pytest.raises(NotSynced, match="KindMissing"):
            await cache.list(Widget)


async def test_optional_dynamic_kind_that_nobody_serves_reads_as_empty() -> None:
    async with TestCluster() as cluster:
        absent = GroupVersionKind("late.example.com", "v1", "Late")
        cache = Cache(cluster.client, cluster.client.mapper)
        cache.informer(absent, optional=True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(cache.run())
            await asyncio.sleep(0)
            assert len(await cache.list(absent)) == 0
            assert len(await cache.list(absent, namespace="default")) == 0
            with pytest.raises(NotFound):
                await cache.get(absent, "x", "default")
            task.cancel()
