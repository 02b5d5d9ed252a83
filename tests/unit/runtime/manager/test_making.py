"""What a manager makes of what it is given: clients, recorders, groups, checks."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quarterdeck.client import Client, Config, RequestRecord, rest
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.check import BLOCKED_LOOP
from quarterdeck.runtime.manager.cluster import Cluster
from quarterdeck.runtime.manager.making import choose_elector, connect, make_recorders
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.manager.runnable import describe, group_of
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.trace import NoTracer
from tests.unit.runtime.controlkit import manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WIDGETS, WidgetCluster

NOWHERE = Config(server="http://127.0.0.1:9")


@pytest.mark.real_time
async def test_requests_are_counted_unless_somebody_else_observes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rest, "_RETRY_DELAY", 0.0)
    seen: list[RequestRecord] = []

    async def requests(metrics: RuntimeMetrics | None, observer: Any) -> float:
        client = connect(NOWHERE, None, metrics, NoTracer(), observer)
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            await client.get(Widget, "a", "ns")
        await client.aclose()
        if metrics is None:
            return 0
        family: Any = metrics.registry.family("rest_client_requests_total")
        total: float = sum(child.value for _, child in family.items())
        return total

    assert await requests(RuntimeMetrics(), None) >= 1
    assert await requests(RuntimeMetrics(), seen.append) == 0
    counted = len(seen)
    assert counted >= 1
    await requests(None, seen.append)
    assert len(seen) == 2 * counted


async def test_no_events_are_recorded_where_the_options_say_so(api: WidgetCluster) -> None:
    def recorders(**options: Any) -> Any:
        given = ManagerOptions(**options)
        return make_recorders(api.client, given, None, clock=LoopClock(), rng=random.Random(1))

    assert isinstance(recorders(record_events=False), NoRecorder)
    assert isinstance(recorders(), EventBroadcaster)


def test_an_elector_that_is_given_is_used() -> None:
    given: Any = object()

    def choose(elector: Any) -> Any:
        return choose_elector(
            elector, None, recorder=lambda: pytest.fail("not needed"), metrics=None, rng=random.Random(1)
        )

    assert choose(None) is None
    assert choose(given) is given


@pytest.mark.parametrize(("owns", "is_closed"), [(True, True), (False, False)])
async def test_a_cluster_closes_the_client_that_is_its_own(
    api: WidgetCluster, owns: bool, is_closed: bool
) -> None:
    closed: list[bool] = []
    client = api.cluster.link(name="east").client

    async def close() -> None:
        closed.append(True)

    client.aclose = close  # type: ignore[method-assign]  # to see whether it is called
    async with Cluster(client, name="east", owns_client=owns) as cluster:
        assert cluster.name == "east"
        assert cluster.client is client
    assert bool(closed) is is_closed


@pytest.mark.real_time
async def test_a_cluster_by_its_address_has_a_client_of_its_own() -> None:
    cluster = Cluster.connect(NOWHERE, name="east")
    assert (cluster.name, cluster._owns_client) == ("east", True)
    await cluster.aclose()


class Plain:
    name = "p"

    async def run(self) -> None:
        return None


class Serving(Plain):
    is_serving = True


class LeaderServing(Serving):
    needs_leader_election = True


class Cached(Plain):
    cache: Cache | None = None


class Everywhere(Plain):
    needs_leader_election = False


class Declared(Plain):
    group = Group.WEBHOOKS


class LeaderDeclared(Declared):
    needs_leader_election = True


@pytest.mark.parametrize(
    ("runnable", "group"),
    [
        (Plain(), Group.LEADER),
        (Everywhere(), Group.OTHERS),
        (Serving(), Group.LEADER),
        (LeaderServing(), Group.LEADER),
        (Cached(), Group.LEADER),
        (Declared(), Group.WEBHOOKS),
        (LeaderDeclared(), Group.LEADER),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plain) else value.name,
)
def test_what_needs_leadership_runs_with_the_leader_whatever_else_it_has(runnable: Any, group: Group) -> None:
    assert group_of(runnable) is group
    assert describe(runnable) == f"{type(runnable).__name__} p"


async def test_a_loop_that_lags_is_named_in_the_checks(
    api: WidgetCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_on(api.link)
    loop_lag = manager.checks._loop_lag
    for lag, text in ((BLOCKED_LOOP, None), (12.34, "the event loop is blocked for 12.3s")):
        monkeypatch.setattr(type(loop_lag), "lag", lag)
        assert manager.checks._loop() == text
    await manager.client.aclose()


async def test_an_informer_that_stays_silent_is_named_with_its_silence(api: WidgetCluster) -> None:
    manager = manager_on(api.link)
    manager.cache.informer(Widget)
    async with serving(manager):
        await until(lambda: manager.cache.has_synced)
        await until(lambda: api.link.open_watches(WIDGETS))
        assert manager.checks._silent() is None
        informer = manager.cache.informer(Widget)
        for reflector in informer._reflectors.values():
            reflector._last_event = asyncio.get_running_loop().time() - 3 * informer.silence_limit
        assert manager.checks._silent() is None
        for reflector in informer._reflectors.values():
            reflector._last_event = asyncio.get_running_loop().time() - 300
        assert manager.checks._silent() == "silent: Widget.example.com for 300s"


async def test_a_manager_has_the_client_of_its_cluster(api: WidgetCluster) -> None:
    manager = manager_on(api.link)
    assert isinstance(manager.client, Client)
    assert manager.client is manager.cluster.client
    await manager.client.aclose()
