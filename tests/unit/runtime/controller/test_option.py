"""Sources by the calendar, queues and loggers of one's own, shards among replicas."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import RFC_4122, UUID
from zoneinfo import ZoneInfo

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.cron import CronSchedule
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import Client
from quarterdeck.errors import ConfigError
from quarterdeck.runtime import Context, DeleteContext, Manager, Reconciler, Result
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.cron import CronSource
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.election import LeaderElection, ShardedElector
from quarterdeck.runtime.log import FieldLogger
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY, WorkQueue
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.trace import NO_TRACER, Span
from quarterdeck.testing import Link, TestCluster, eventually, run_until_idle
from tests.unit.runtime.controlkit import manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget, WidgetSpec
from tests.unit.runtime.widgetcluster import WidgetCluster


def widget(name: str, color: str = "") -> Widget:
    return Widget(metadata=ObjectMeta(name=name, namespace="default"), spec=WidgetSpec(color=color))


@pytest.mark.parametrize(
    ("schedule", "moment", "expected"),
    [
        ("*/15 * * * *", "2030-01-01 10:07", "2030-01-01 10:15"),
        ("*/15 * * * *", "2030-01-01 10:45", "2030-01-01 11:00"),
        ("0 0 * * *", "2030-12-31 00:00", "2031-01-01 00:00"),
        ("30 4 1,15 * *", "2030-01-02 00:00", "2030-01-15 04:30"),
        ("0 12 * * MON-FRI", "2030-01-04 12:00", "2030-01-07 12:00"),
        ("0 0 13 * 5", "2030-01-01 00:00", "2030-01-04 00:00"),
        ("5 4 * * 7", "2030-01-01 00:00", "2030-01-06 04:05"),
        ("0 0 29 2 *", "2030-01-01 00:00", "2032-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),
        ("0 0 1 JAN,jul ?", "2030-01-01 00:00", "2030-07-01 00:00"),
        ("10-20/5 8 * * *", "2030-01-01 08:15", "2030-01-01 08:20"),
        ("50/5 * * * *", "2030-01-01 08:51", "2030-01-01 08:55"),
        ("@hourly", "2030-01-01 08:51", "2030-01-01 09:00"),
        ("@weekly", "2030-01-01 08:51", "2030-01-06 00:00"),
        ("@yearly", "2030-01-01 00:00", "2031-01-01 00:00"),
    ],
)
def test_the_next_time_of_a_schedule(schedule: str, moment: str, expected: str) -> None:
    found = CronSchedule.parse(schedule).next_after(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "moment", "expected"),
    [
        ("*/5 * * * *", "2030-01-01 00:00", "2029-12-31 23:55"),
        ("0 6 * * 1", "2030-01-08 05:00", "2030-01-07 06:00"),
        ("0 0 29 2 *", "2030-01-01 00:00", "2028-02-29 00:00"),
        ("@hourly", "2030-01-01 08:00:01", "2030-01-01 08:00"),
    ],
)
def test_the_last_time_of_a_schedule(schedule: str, moment: str, expected: str) -> None:
    found = CronSchedule.parse(schedule).last_before(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_clock_changes_skip_and_do_not_repeat() -> None:
    zone = ZoneInfo("Europe/Berlin")
    daily = CronSchedule.parse("30 2 * * *")
    before = datetime(2030, 3, 30, 12, tzinfo=UTC)
    skipped = daily.next_after(before, zone)
    assert skipped == datetime(2030, 4, 1, 0, 30, tzinfo=UTC), "02:30 does not exist on the 31st of March"
    autumn = daily.next_after(datetime(2030, 10, 26, 12, tzinfo=UTC), zone)
    assert autumn == datetime(2030, 10, 27, 0, 30, tzinfo=UTC)
    assert daily.next_after(autumn, zone) == datetime(2030, 10, 28, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * *", "expected 5 fields, found 4"),
        ("60 * * * *", 'minute: "60" is no number from 0 to 59'),
        ("* * 0 * *", "day of month"),
        ("* * * FOO *", 'month: "FOO"'),
        ("5-1 * * * *", "minute: 5-1 goes backwards"),
        ("*/0 * * * *", 'minute: "0"'),
        ("1/ * * * *", 'minute: ""'),
        ("@never", "expected 5 fields"),
    ],
)
def test_bad_schedules_name_their_field(schedule: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CronSchedule.parse(schedule)
    assert problem in str(caught.value)


def test_a_day_that_never_comes_is_an_error() -> None:
    with pytest.raises(ConfigError, match="never comes"):
        CronSchedule.parse("0 0 30 2 *").next_after(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.cluster(crds=[Widget])
async def test_a_cron_source_wakes_its_keys_on_time(
    cluster: TestCluster, manager: Manager, clock: LoopClock
) -> None:
    runs: list[str] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        runs.append(f"{datetime.fromtimestamp(clock.time(), UTC):%d %H:%M:%S}")

    source = CronSource("30 6 * * *", lambda: [Key("default", "a")])
    await cluster.client.create(widget("a"))
    manager.add(manager.controller(Widget).source(source).build(reconcile))
    await cluster.start(manager)
    await clock.sleep(timedelta(days=3).total_seconds())
    assert runs == ["01 00:00:00", "01 06:30:00", "02 06:30:00", "03 06:30:00"]
    assert source.name == "cron source: 30 6 * * *"


@pytest.mark.cluster(crds=[Widget])
async def test_a_controller_may_bring_its_own_queue_and_logger(
    cluster: TestCluster, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []

    def new_queue(name: str, limiter: Any, metrics: Any) -> WorkQueue[Key]:
        made.append(name)
        return WorkQueue(limiter=limiter, metrics=metrics, age_rate=0.0)

    def log_constructor(key: Key | None) -> FieldLogger:
        return FieldLogger(logging.getLogger("mine"), {"about": str(key)})

    async def reconcile(ctx: Context[Widget]) -> None:
        ctx.log.info("seen")

    builder = manager.controller(Widget).options(new_queue=new_queue, log_constructor=log_constructor)
    manager.add(builder.build(reconcile))
    await cluster.client.create(widget("a"))
    with caplog.at_level(logging.INFO, "mine"):
        await cluster.start(manager)
        await run_until_idle(manager)
    assert made == ["widget"]
    abouts = {
        record.getMessage(): vars(record)["fields"]["about"]
        for record in caplog.records
        if record.name == "mine"
    }
    assert abouts["Starting workers"] == "None"
    assert abouts["seen"] == "default/a"


@pytest.mark.cluster(crds=[Widget])
async def test_the_classic_queue_is_first_in_first_out_with_a_bucket_for_retries(
    cluster: TestCluster, clock: LoopClock
) -> None:
    metrics = RuntimeMetrics()
    manager = cluster.manager(metrics=metrics)
    runs: list[float] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        runs.append(clock.monotonic())
        raise ValueError("again")

    options = {"use_priority_queue": False, "backoff_cap": 0.005, "max_concurrent_reconciles": 1}
    controller = manager.controller(Widget).options(**options).build(reconcile)  # type: ignore[arg-type]
    manager.add(controller)
    await cluster.client.create(widget("a"))
    await cluster.start(manager)
    await clock.sleep(30)
    assert 350 < len(runs) < 450, "a burst of a hundred, then ten a second"
    seen = len(runs)
    await eventually(lambda: len(runs) > seen)  # just now, so that the key is not due again
    controller.queue.add(Key("default", "x"), priority=50)
    assert (
        'workqueue_depth{name="widget",controller="widget",priority=""} 1'
        in metrics.registry.expose().decode()
    )
    assert 'priority="0"' not in metrics.registry.expose().decode()


@pytest.mark.cluster(crds=[Widget])
async def test_time_that_handlers_take_is_measured_for_each_informer(cluster: TestCluster) -> None:
    metrics = RuntimeMetrics()
    manager = cluster.manager(metrics=metrics)

    async def reconcile(ctx: Context[Widget]) -> None:
        return None

    manager.add(manager.controller(Widget).watches(ConfigMap, to=lambda ctx, obj: []).build(reconcile))
    for i in range(7):
        await cluster.client.create(widget(f"w{i}"))
    await cluster.start(manager)
    await run_until_idle(manager)
    name = "informer_processing_latency_seconds_count"
    line = f'{name}{{name="default",group="example.com",version="v1",resource="widgets"}} 7'
    assert line in metrics.registry.expose().decode()
    assert line in metrics.registry.expose().decode(), "a second reading adds nothing"
    await cluster.client.create(widget("late"))
    await run_until_idle(manager)
    assert line[:-1] + "8" in metrics.registry.expose().decode()


@pytest.mark.cluster(crds=[Widget])
async def test_handlers_that_fail_are_counted_for_each_kind(cluster: TestCluster) -> None:
    metrics = RuntimeMetrics()
    manager = cluster.manager(metrics=metrics)
    failures = [KeyError("one"), ValueError("two")]

    async def reconcile(ctx: Context[Widget]) -> None:
        return None

    def to(context: MapContext, obj: ConfigMap) -> list[Key]:
        if failures:
            raise failures.pop()
        return []

    manager.add(manager.controller(Widget).watches(ConfigMap, to=to).build(reconcile))
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))
    await cluster.start(manager)
    await eventually(lambda: not failures)
    await run_until_idle(manager)
    metrics.registry.expose()
    assert metrics.registry.value("quarterdeck_informer_handler_errors_total", "ConfigMap") == 2
    assert metrics.registry.value("quarterdeck_informer_handler_errors_total", "Widget.example.com") == 0


class SpanLog:
    """A tracer that remembers the attributes of its spans."""

    is_enabled = True

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, Any] | None = None, *, parent: str = ""
    ) -> Iterator[Span]:
        self.spans.append((name, dict(attributes or {})))
        with NO_TRACER.span(name) as span:
            yield span

    def completed(self, name: str, seconds: float, attributes: Mapping[str, Any]) -> None:
        raise AssertionError(name)

    def inject(self) -> dict[str, str]:
        return {}


async def test_the_span_of_a_reconcile_says_whose_it_is_and_how_long_the_key_waited(
    api: WidgetCluster,
) -> None:
    tracer = SpanLog()
    await api.fill("a", "b")

    async def slow(ctx: Context[Widget]) -> None:
        await asyncio.sleep(2)

    controller = Builder(Widget).options(max_concurrent_reconciles=1).build(slow)
    async with serving(manager_on(api.link, tracer=tracer), controller):
        await until(lambda: len(tracer.spans) == 2)
    (_, first), (_, second) = tracer.spans
    assert [name for name, _ in tracer.spans] == ["reconcile", "reconcile"]
    assert first.keys() == {
        *("controller", "k8s.kind", "k8s.namespace", "k8s.name"),
        *("reconcileID", "attempt", "priority", "queueWait"),
    }
    assert (first["controller"], first["k8s.kind"], first["priority"]) == ("widget", "Widget", LOW_PRIORITY)
    ids = [UUID(each["reconcileID"]) for each in (first, second)]
    assert [str(each) for each in ids] == [first["reconcileID"], second["reconcileID"]], "as Go writes them"
    assert {(each.version, each.variant) for each in ids} == {(4, RFC_4122)}
    assert ids[0] != ids[1]
    assert first["queueWait"] < 1
    assert second["queueWait"] - first["queueWait"] == pytest.approx(2)


class Replica:
    """A manager that shares its keys with others."""

    def __init__(self, cluster: TestCluster, name: str, shards: int) -> None:
        self.name = name
        self.lease: Link = cluster.link(name=f"{name} lease")
        self.link: Link = cluster.link(name=name)
        options = LeaderElection(name="crew", namespace="default", identity=name, shards=shards)
        self.elector = ShardedElector(self.lease.client, options, clock=LoopClock(), rng=random.Random(name))
        self.manager = cluster.manager(link=self.link, elector=self.elector)
        self.refused = 0
        self.manager.add(Builder(Widget, name="widget").build(self.reconcile))

    async def reconcile(self, ctx: Context[Widget]) -> Result | None:
        found = ctx.obj.spec.color
        if len(found) < 3:
            try:
                await ctx.update(ctx.obj.evolve(spec=WidgetSpec(color=f"{found}{self.name}")))
            except NotLeading:
                self.refused += 1
        return None


@pytest.mark.cluster(crds=[Widget])
async def test_replicas_share_keys_and_write_only_their_own(cluster: TestCluster) -> None:
    replicas = {name: Replica(cluster, name, shards=12) for name in "ab"}
    for i in range(24):
        await cluster.client.create(widget(f"w{i}"))

    async def colors() -> dict[str, str]:
        return {each.metadata.name: each.spec.color for each in await cluster.client.list(Widget)}

    async with cluster.serving(*(replica.manager for replica in replicas.values())):
        await asyncio.sleep(60)
        held = {name: set(replica.elector.held) for name, replica in replicas.items()}
        assert held["a"] | held["b"] == set(range(12))
        assert all(held.values())
        settled = await colors()
        assert all(len(color) == 3 for color in settled.values())
        assert set("".join(settled.values())) == {"a", "b"}

        replicas["b"].link.log.clear()
        replicas["b"].lease.cut()
        await asyncio.sleep(11)
        quiet_since = asyncio.get_running_loop().time()
        for name in settled:
            found = await cluster.client.get(Widget, name, "default")
            await cluster.client.update(found.evolve(spec=WidgetSpec(color="")))
        await asyncio.sleep(60)
        assert set(replicas["a"].elector.held) == set(range(12)), "the shards of the one that is cut off"
        assert set("".join((await colors()).values())) == {"a"}
        assert not [each for each in replicas["b"].link.writes if each.at > quiet_since]


@pytest.mark.cluster(crds=[Widget])
async def test_deleted_objects_belong_to_their_shard_and_other_writes_to_none(cluster: TestCluster) -> None:
    replica, outcomes = Replica(cluster, "a", shards=2), []
    clients: list[Client] = []

    class Mourner(Reconciler[Widget]):
        async def reconcile(self, ctx: Context[Widget]) -> None:
            clients.append(ctx.client)

        async def deleted(self, ctx: DeleteContext) -> None:
            await ctx.client.create(ConfigMap(metadata=ObjectMeta(name=ctx.key.name, namespace="default")))
            outcomes.append(ctx.key.name)

    replica.manager.add(Builder(Widget, name="mourner").build(Mourner()))
    await cluster.client.create(widget("w", "xyz"))
    async with cluster.serving(replica.manager):
        await eventually(lambda: clients)
        await cluster.client.delete(Widget, "w", "default")
        await eventually(lambda: outcomes == ["w"])
        with pytest.raises(NotLeading):
            await clients[0].create(ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))


@pytest.mark.cluster(crds=[Widget])
async def test_with_shards_what_has_no_keys_runs_on_one_replica_at_a_time(cluster: TestCluster) -> None:
    replicas = {name: Replica(cluster, name, shards=12) for name in "ab"}
    running: list[str] = []

    class Sweeper:
        needs_leader_election = True

        def __init__(self, name: str) -> None:
            self.name = name

        async def run(self) -> None:
            running.append(self.name)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                running.remove(self.name)

    for name, replica in replicas.items():
        replica.manager.add(Sweeper(name))
    async with cluster.serving(*(replica.manager for replica in replicas.values())):
        await asyncio.sleep(60)
        assert all(replica.elector.held for replica in replicas.values()), "both have shards"
        (first,) = running
        assert 0 in replicas[first].elector.held
        (other,) = replicas.keys() - {first}
        replicas[first].lease.cut()
        await asyncio.sleep(60)
        assert running == [other]
