"""Shards: several schedulers on one cluster; and the past usage that counts against shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from quarterdeck.api import from_dict
from quarterdeck.operators.kai.assembly import operator
from quarterdeck.operators.kai.controllers.usage import UsageSource
from quarterdeck.operators.kai.logic.shard import Pool, plan_of
from quarterdeck.operators.kai.logic.usage import UsageMemory, prometheus_query
from quarterdeck.operators.kai.settings import KaiSettings, UsageSettings
from quarterdeck.operators.kai.types import KINDS, SchedulingShard
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.scheduler import Action, Snapshot
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import NodeInfo, QueueInfo
from quarterdeck.testing import EventLog, TestCluster
from quarterdeck.wire.http import HttpServer, Request, Response, Route

from .kaikit import Json, Kai, group, kai, pod, queue

POOL = "kai.scheduler/node-pool"


def shard(name: str, value: str = "", **spec: Any) -> Json:
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": name},
        "spec": {"partitionLabelValue": value, **spec},
    }


def labelled(document: Json, value: str) -> Json:
    document["metadata"].setdefault("labels", {})[POOL] = value
    return document


def read(**spec: Any) -> SchedulingShard:
    return from_dict(shard("s", **spec), SchedulingShard)


@asynccontextmanager
async def running(settings: Json | None = None) -> AsyncIterator[Kai]:
    async with TestCluster(crds=KINDS) as cluster:
        log = EventLog()
        manager = cluster.manager(recorder=log)
        operator().setup(manager, OperatorEnvironment(name="kai", settings=settings or {}))
        async with cluster.serving(manager):
            yield Kai(cluster, manager, None, log)  # type: ignore[arg-type]  # the ticker has it


async def test_each_shard_schedules_its_nodes_groups_and_queues() -> None:
    async with running() as found:
        await found.add_nodes("a1", gpus=2, **{POOL: "a"})
        await found.add_nodes("plain", gpus=2)
        await found.create(
            shard("a", "a"),
            shard("rest"),
            labelled(queue("team-a"), "a"),
            queue("team"),
            labelled(group("ga", queue="team-a"), "a"),
            pod("ga-0", "ga"),
            group("g"),
            pod("g-0", "g"),
            group("lost", queue="team-a"),
            pod("lost-0", "lost"),
        )
        await found.cluster.clock.sleep(5)
        assert (await found.pod("ga-0")).spec.node_name == "a1"
        assert (await found.pod("g-0")).spec.node_name == "plain"
        (told,) = (await found.group("lost")).status.scheduling_conditions
        assert (told.node_pool, told.message) == (
            "default",
            "QueueDoesNotExist: Queue 'team-a' does not exist.",
        )
        requests = {each.metadata.name: dict(each.metadata.labels) for each in await found.requests()}
        assert requests["ga-0"] == {POOL: "a", "selected-node": "a1"}
        assert requests["g-0"] == {"selected-node": "plain"}
        await found.cluster.clock.sleep(5)
        assert len(await found.requests()) == 2  # nobody takes the other's for obsolete


async def test_a_shard_that_comes_or_changes_is_used_at_once() -> None:
    async with running() as found:
        await found.add_nodes("n1", "n2", gpus=4)
        await found.create(queue("team"), shard("all", placementStrategy={"gpu": "spread", "cpu": "binpack"}))
        await found.cluster.clock.sleep(2)
        await found.create(group("g", 2), pod("g-0", "g"), pod("g-1", "g"))
        await found.cluster.clock.sleep(3)
        assert {(await found.pod(f"g-{n}")).spec.node_name for n in range(2)} == {"n1", "n2"}


async def test_what_a_shard_asks_for_in_vain_is_in_its_status() -> None:
    async with running() as found:
        await found.create(shard("good"), shard("bad", "b", args={"v": "4"}))
        await found.cluster.clock.sleep(2)
        stored = {
            each.metadata.name: each.status.conditions[0] for each in await found.client.list(SchedulingShard)
        }
        assert stored["good"].status == "True"
        assert (stored["bad"].status, stored["bad"].message) == (
            "False",
            "args.v: this scheduler has no such flag",
        )


def test_settings_of_a_shard() -> None:
    plan = plan_of(
        read(
            value="a",
            args={"max-consolidation-preemptees": "4", "full-hierarchy-fairness": "false"},
            minRuntime={"preemptMinRuntime": "1m"},
            kValue=0.5,
            queueDepthPerAction={"allocate": 7},
            plugins={"minruntime": {"arguments": {"defaultReclaimMinRuntime": "2m"}}},
            actions={"preempt": {"priority": 450}, "stalegangeviction": {"enabled": False}},
            usageDBConfig={
                "clientType": "prometheus",
                "connectionString": "http://prometheus:9090",
                "usageParams": {"windowSize": "24h", "halfLifePeriod": "1h"},
            },
        ),
        KaiSettings(),
    )
    settings = plan.settings
    assert plan.problems == ()
    assert plan.pool == Pool(POOL, "a")
    assert (settings.max_consolidation_preemptees, settings.full_hierarchy_fairness) == (4, False)
    assert (settings.default_preempt_min_runtime, settings.default_reclaim_min_runtime) == (60, 120)
    assert (settings.k_value, dict(settings.queue_depth)) == (0.5, {Action.ALLOCATE: 7})
    assert settings.actions == (Action.ALLOCATE, Action.PREEMPT, Action.CONSOLIDATION, Action.RECLAIM)
    assert settings.usage is not None
    assert (settings.usage.window_size, settings.usage.half_life_period) == (86400, 3600)


def test_spread_pods_are_not_moved_together_unless_somebody_says_so() -> None:
    spread = {"gpu": "spread"}
    assert Action.CONSOLIDATION not in plan_of(read(placementStrategy=spread), KaiSettings()).settings.actions
    said = read(placementStrategy=spread, actions={"consolidation": {"enabled": True}})
    assert Action.CONSOLIDATION in plan_of(said, KaiSettings()).settings.actions


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"queueDepthPerAction": {"fly": 3}},
            "fly isn't one of them, making the queueDepthPerAction invalid",
        ),
        ({"plugins": {"mine": {}}}, "plugins.mine: there is no such plugin here"),
        ({"plugins": {"topology": {"enabled": False}}}, "plugins.topology.enabled: it cannot be left out"),
        ({"plugins": {"ray": {"arguments": {"a": "b"}}}}, "plugins.ray.arguments.a: not honoured"),
        ({"actions": {"fly": {}}}, "actions.fly: there is no such action"),
        ({"placementStrategy": {"gpu": "heap"}}, "placementStrategy: "),
        ({"minRuntime": {"preemptMinRuntime": "soon"}}, "'soon' is no duration"),
        ({"args": {"full-hierarchy-fairness": "maybe"}}, "'maybe' cannot be read"),
        ({"usageDBConfig": {"clientType": "prometheus"}}, "say where Prometheus is"),
        ({"usageDBConfig": {"clientType": "abacus"}}, "usageDBConfig: "),
        (
            {"usageDBConfig": {"clientType": "memory", "usageParams": {"windowType": "cron"}}},
            'cronString: schedule "": expected 5 fields, found 0',
        ),
    ],
)
def test_what_is_not_honoured_is_told(spec: Json, problem: str) -> None:
    (told,) = plan_of(read(**spec), KaiSettings()).problems
    assert problem in told


@pytest.mark.parametrize(
    ("value", "labels", "expected"),
    [
        (None, {POOL: "a"}, True),
        ("", {}, True),
        ("", {POOL: "a"}, False),
        ("a", {POOL: "a"}, True),
        ("a", {}, False),
        ("default", {}, True),
    ],
)
def test_what_is_in_a_pool(value: str | None, labels: dict[str, str], expected: bool) -> None:
    assert Pool(POOL, value).has(labels) is expected


def test_memory_weighs_the_past_and_forgets_it() -> None:
    settings = UsageSettings(window_size=100, query_resolution=10, half_life_period=10)
    memory = UsageMemory(settings)
    memory.see(0, {"a": (0, 0, 4)}, (0, 0, 8))
    memory.see(5, {"a": (0, 0, 8)}, (0, 0, 8))  # the same interval
    memory.see(10, {"a": (0, 0, 0), "b": (0, 0, 8)}, (0, 0, 8))
    found = memory.usage(10)
    assert found["a"] == pytest.approx((0, 0, 2 / 12))
    assert found["b"] == pytest.approx((0, 0, 8 / 12))
    memory.see(200, {"a": (0, 0, 8)}, (0, 0, 8))
    assert memory.usage(200) == {"a": (0, 0, 1)}


def test_a_tumbling_window_begins_anew() -> None:
    settings = UsageSettings(window_type="tumbling", window_size=100, tumbling_window_start_time=50)
    assert [settings.window_start(now) for now in (40, 60, 149, 151)] == [40, 50, 50, 150]


def test_a_window_by_schedule_begins_when_the_schedule_says_so() -> None:
    params = {"windowType": "cron", "cronString": "0 6 * * 1"}
    plan = plan_of(read(usageDBConfig={"clientType": "memory", "usageParams": params}), KaiSettings())
    assert plan.problems == ()
    settings = plan.settings.usage
    assert settings is not None
    monday = datetime(2030, 1, 7, 6, tzinfo=UTC)
    for moment, begin in (
        (monday + timedelta(seconds=1), monday),
        (monday + timedelta(days=6), monday),
        (monday - timedelta(minutes=1), monday - timedelta(days=7)),
    ):
        assert settings.window_start(moment.timestamp()) == begin.timestamp()


async def test_a_queue_that_used_much_gets_less() -> None:
    usage = UsageSettings(query_resolution=1)
    async with kai(usage=usage, k_value=1.0) as found:
        await found.add_nodes("n1", gpus=2)
        weight = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
        await found.create(queue("all"), queue("used", "all", gpu=weight), queue("fresh", "all", gpu=weight))
        await found.create(group("u", 2, queue="used"), pod("u-0", "u"), pod("u-1", "u"))
        for _ in range(5):
            await found.schedule()
            await found.cluster.clock.sleep(2)
        for number in range(2):
            await found.client.delete(await found.pod(f"u-{number}"), grace_period=0)
        await found.create(
            *(group(f"n{n}", queue="used") for n in range(2)),
            *(pod(f"n{n}-0", f"n{n}") for n in range(2)),
            *(group(f"f{n}", queue="fresh") for n in range(2)),
            *(pod(f"f{n}-0", f"f{n}") for n in range(2)),
        )
        await found.schedule()
        assert [(await found.pod(f"f{n}-0")).spec.node_name for n in range(2)] == ["n1", "n1"]


def test_the_query_sums_over_the_window() -> None:
    settings = UsageSettings(client_type="prometheus", window_size=3600, half_life_period=600)
    asked = parse_qs(prometheus_query(settings, "gpuAllocationMetric", 1000.0))
    assert asked == {
        "query": [
            "sum_over_time((((kai_queue_allocated_gpus) * (0.5^((1000 - time()) / 600.000000))))[3600s:60s])"
        ],
        "time": ["1000.000"],
    }


def prometheus(answers: Callable[[str], list[Json]]) -> Callable[[Request], Response]:
    def handle(request: Request) -> Response:
        (query,) = parse_qs(request.raw_query)["query"]
        data = {"resultType": "vector", "result": answers(query)}
        return Response(200, msgspec.json.encode({"status": "success", "data": data}))

    return handle


@pytest.mark.real_time
async def test_usage_is_fetched_from_prometheus_and_counts_until_it_is_stale() -> None:
    def answers(query: str) -> list[Json]:
        if "kube_node_status_capacity" in query:
            return [{"metric": {}, "value": [0, "80"]}]
        return [{"metric": {"queue_name": "team"}, "value": [0, "20"]}]

    server = HttpServer(lambda request: Route(prometheus(answers)))
    await server.start("127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.address[1]}"
        source = UsageSource(UsageSettings(client_type="prometheus", connection_string=url), LoopClock())
        await source.fetch_if_due()
        assert source.current() == {"team": (0.25, 0.25, 0.25)}
        snapshot = Snapshot(
            now=0,
            nodes=(NodeInfo(name="n", allocatable=Resources(1, 1, 1)),),
            queues=(QueueInfo(name="team"), QueueInfo(name="other")),
        )
        assert [each.usage for each in source.apply(snapshot).queues] == [(0.25, 0.25, 0.25), (0.0, 0.0, 0.0)]
        stale = UsageSettings(client_type="prometheus", connection_string=url, staleness_period=-1)
        source = UsageSource(stale, LoopClock())
        await source.fetch_if_due()
        assert source.current() == {}
    finally:
        await server.stop()


async def test_a_server_that_does_not_answer_stops_nobody() -> None:
    settings = UsageSettings(client_type="prometheus", connection_string="http://127.0.0.1:1")
    async with kai(usage=settings) as found:
        await found.add_nodes("n1")
        await found.create(queue("team"), group("g"), pod("g-0", "g"))
        await found.schedule()
        await asyncio.sleep(0)
        assert (await found.pod("g-0")).spec.node_name == "n1"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1w", 604800), ("7d", 604800), ("1d12h", 129600), ("90m", 5400), ("168h", 604800), ("1s500ms", 1.5)],
)
def test_the_window_is_written_as_prometheus_writes_spans(text: str, seconds: float) -> None:
    config = {"clientType": "memory", "usageParams": {"windowSize": text}}
    usage = plan_of(read(usageDBConfig=config), KaiSettings()).settings.usage
    assert usage is not None
    assert usage.window_size == seconds


def test_how_long_a_pod_may_terminate_is_a_flag_of_the_shard() -> None:
    plan = plan_of(read(args={"stuck-in-releasing-threshold": "5m"}), KaiSettings())
    assert plan.problems == ()
    assert plan.settings.for_cycle().stuck_in_releasing_threshold == 300
