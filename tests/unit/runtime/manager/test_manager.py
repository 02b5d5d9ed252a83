"""The manager: order of start and stop, grace, signals, leadership, clusters."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.events import Event
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.cluster import Cluster, ClusterEvent
from quarterdeck.runtime.manager.option import GracePeriodExceeded, LeaderElectionLost, ManagerOptions
from quarterdeck.runtime.manager.stopsignal import stop_on_signals
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.recording import NotLeading
from quarterdeck.runtime.webhook import WebhookServer
from quarterdeck.testing import Latency, eventually
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget, WidgetStatus
from tests.unit.runtime.widgetcluster import WidgetCluster, widget_cluster

QUIET = ManagerOptions(watch_loop=False)


class Traced:
    """A runnable that writes down when it starts and stops, and may take its time."""

    def __init__(self, name: str, log: list[str], **facts: Any) -> None:
        self.name = name
        self.log = log
        self.ending = facts.pop("ending", 0.0)
        self.error = facts.pop("error", None)
        for key, value in facts.items():
            setattr(self, key, value)

    async def run(self) -> None:
        self.log.append(f"+{self.name}")
        try:
            if self.error is not None:
                await asyncio.sleep(1)
                raise self.error
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(self.ending)
            self.log.append(f"-{self.name}")


class Gentle(Traced):
    """Ends by itself when asked."""

    async def run(self) -> None:
        self.stop = asyncio.Event()
        self.log.append(f"+{self.name}")
        await self.stop.wait()
        await asyncio.sleep(self.ending)
        self.log.append(f"-{self.name}")

    def request_stop(self) -> None:
        self.stop.set()


class Election:
    """An elector that tests drive."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = log if log is not None else []
        self.won = asyncio.Event()
        self.lost = asyncio.Event()
        self.leads = False

    async def run(
        self, on_started: Callable[[], Awaitable[None]], on_stopped: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            self.log.append("+election")
            await self.won.wait()
            self.leads = True
            await on_started()
            await self.lost.wait()
            self.leads = False
            await on_stopped()
        finally:
            self.log.append("-election")

    def may_write(self) -> bool:
        return self.leads


async def test_groups_start_and_stop_in_order(api: WidgetCluster) -> None:
    log: list[str] = []
    election = Election(log)
    election.won.set()
    await api.fill("a")
    webhooks = Traced("webhook", log, is_serving=True)
    manager = manager_on(api.link, leader_election=election, webhooks=webhooks)
    manager.add(Traced("leader", log))
    manager.add(Traced("other", log, needs_leader_election=False))
    manager.add(Traced("cache", log), group=Group.CACHES)
    manager.add(Traced("server", log, is_serving=True, group=Group.SERVERS))
    async with serving(manager):
        await until(lambda: "+leader" in log)
        assert log == ["+server", "+webhook", "+cache", "+other", "+election", "+leader"]
        log.clear()
    assert log == ["-other", "-leader", "-cache", "-webhook", "-server", "-election"]


async def test_a_webhook_server_starts_before_caches_however_it_was_added(api: WidgetCluster) -> None:
    log: list[str] = []

    class Webhooks(WebhookServer):
        @property
        def is_serving(self) -> bool:
            return True

        async def run(self) -> None:
            await Traced("webhook", log).run()

    await api.fill("a")
    manager = manager_on(api.link)
    manager.add(Webhooks())
    manager.add(Traced("server", log, is_serving=True, group=Group.SERVERS))
    manager.add(Traced("cache", log), group=Group.CACHES)
    async with serving(manager):
        await until(lambda: len(log) == 3)
        assert log == ["+server", "+webhook", "+cache"]


async def test_servers_answer_while_caches_sync_and_controllers_wait_for_them(api: WidgetCluster) -> None:
    log: list[str] = []
    await api.fill("a")
    script = Script()
    api.link.plan.add(Latency((30.0, 30.0)))
    manager = manager_on(api.link)
    manager.add(Traced("server", log, is_serving=True, group=Group.SERVERS))
    async with serving(manager, Builder(Widget).build(script)):
        await asyncio.sleep(10)
        assert log == ["+server"]
        assert script.runs == []
        assert manager.checks.readiness()["caches"]() is not None
        await until(lambda: script.names == ["a"])
        assert manager.checks.readiness()["caches"]() is None


async def test_grace_overrun_names_the_runnable_and_the_period(api: WidgetCluster) -> None:
    manager = manager_on(api.link)
    manager.add(Gentle("slow", [], ending=100.0, needs_leader_election=False))
    task = asyncio.ensure_future(manager.serve())
    await asyncio.sleep(1)
    started = asyncio.get_running_loop().time()
    manager.request_stop()
    with pytest.raises(
        GracePeriodExceeded,
        match="failed waiting for all runnables to end within grace period of 30s: Gentle slow",
    ):
        await task
    assert asyncio.get_running_loop().time() - started == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(
    ("grace", "ending", "ends"), [(30.0, 20.0, True), (0.0, 5.0, False), (-1.0, 900.0, True)]
)
async def test_grace_of_zero_does_not_wait_and_negative_waits_for_ever(
    api: WidgetCluster, grace: float, ending: float, ends: bool
) -> None:
    log: list[str] = []
    options = ManagerOptions(watch_loop=False, graceful_shutdown_timeout=grace)
    manager = manager_on(api.link, options=options)
    manager.add(Gentle("slow", log, ending=ending))
    task = asyncio.ensure_future(manager.serve())
    await asyncio.sleep(1)
    manager.request_stop()
    if ends:
        await task
        assert log == ["+slow", "-slow"]
    else:
        with pytest.raises(GracePeriodExceeded):
            await task
        assert log == ["+slow"]


async def test_running_reconcile_may_finish_within_the_grace_period(api: WidgetCluster) -> None:
    done: list[str] = []

    async def slow(ctx: Context[Widget]) -> None:
        await asyncio.sleep(20)
        done.append(ctx.key.name)

    await api.fill("a")
    manager = manager_on(api.link)
    async with serving(manager, Builder(Widget).build(Script(slow))):
        await until(lambda: manager.controllers[0].statistics().active == 1)
    assert done == ["a"]


async def test_first_failing_runnable_stops_the_manager_and_its_error_is_raised(api: WidgetCluster) -> None:
    log: list[str] = []
    manager = manager_on(api.link)
    manager.add(Traced("bad", log, error=ValueError("boom")))
    manager.add(Traced("good", log))
    manager.add(Traced("also bad", log, needs_leader_election=False, ending=0.5))
    with pytest.raises(ValueError, match="boom"):
        await manager.serve()
    assert sorted(log) == ["+also bad", "+bad", "+good", "-also bad", "-bad", "-good"]


async def test_what_fails_while_the_manager_stops_is_not_what_stopped_it(api: WidgetCluster) -> None:
    class FailsAtTheEnd:
        async def run(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise KeyError("late")

    log: list[str] = []
    manager = manager_on(api.link)
    manager.add(FailsAtTheEnd())
    manager.add(Traced("bad", log, error=ValueError("boom")))
    with pytest.raises(ValueError, match="boom"):
        await manager.serve()
    assert not manager.is_leading


async def test_a_manager_that_was_asked_to_stop_does_not_fail_for_what_fails_then(api: WidgetCluster) -> None:
    class FailsAtTheEnd:
        async def run(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise KeyError("late")

    manager = manager_on(api.link)
    async with serving(manager):
        manager.add(FailsAtTheEnd())
        await until(lambda: manager.is_started)
        await asyncio.sleep(1)


async def test_runnable_that_returns_is_fine(api: WidgetCluster) -> None:
    done: list[int] = []

    class Once:
        async def run(self) -> None:
            done.append(1)

    manager = manager_on(api.link)
    manager.add(Once())
    async with serving(manager):
        await until(lambda: done == [1])
        await asyncio.sleep(100)


async def test_adding_while_running_starts_at_once_and_while_stopping_fails(api: WidgetCluster) -> None:
    log: list[str] = []
    await api.fill("a")
    manager = manager_on(api.link)
    refused: list[str] = []

    class Late:
        needs_leader_election = False

        async def run(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                try:
                    manager.add(Traced("too late", log))
                except RuntimeError as error:
                    refused.append(str(error))

    manager.add(Late())
    script = Script()
    async with serving(manager):
        await until(lambda: manager.is_leading)
        manager.add(Traced("x", log))
        manager.add(Builder(Widget).build(script))
        await until(lambda: log == ["+x"] and script.names == ["a"])
    assert refused == ["can't accept new runnable as stop procedure is already engaged"]


async def test_a_signal_ends_with_code_0(api: WidgetCluster) -> None:
    manager = manager_on(api.link)
    assert not manager.is_started
    task = asyncio.ensure_future(manager.run())
    await until(lambda: manager.is_leading)
    assert manager.is_started
    os.kill(os.getpid(), signal.SIGTERM)
    assert await task == 0
    assert not manager.is_leading


@pytest.mark.parametrize("error", [ConfigError("boom"), ValueError("boom")])
async def test_a_failure_ends_with_code_1_whatever_failed(api: WidgetCluster, error: Exception) -> None:
    manager = manager_on(api.link)
    manager.add(Traced("bad", [], error=error))
    assert await manager.run() == 1


async def test_second_signal_ends_the_process_at_once() -> None:
    codes: list[object] = []
    stops: list[int] = []
    with stop_on_signals(lambda: stops.append(1), end_now=codes.append):
        with pytest.raises(RuntimeError, match="installed already"), stop_on_signals(lambda: None):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)
        assert (stops, codes) == ([1], [])
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
    assert (stops, codes) == ([1], [1])


async def test_controllers_wait_for_the_lease_and_warm_ones_have_their_sources_ready(
    api: WidgetCluster,
) -> None:
    await api.fill("a")
    cold, warm = Script(), Script()
    election = Election()
    manager = manager_on(api.link, leader_election=election)
    cold_controller = Builder(Widget, name="cold").build(cold)
    warm_controller = Builder(Widget, name="warm").options(enable_warmup=True).build(warm)
    everywhere = Script()
    follower = Builder(Widget, name="all").options(need_leader_election=False).build(everywhere)
    async with serving(manager, cold_controller, warm_controller, follower):
        await asyncio.sleep(60)
        assert warm_controller.statistics().is_synced
        assert warm_controller.statistics().queue.ready == 1
        assert not cold_controller.statistics().is_synced
        assert everywhere.names == ["a"]
        assert (warm.names, cold.names) == ([], [])
        election.won.set()
        await until(lambda: warm.names == ["a"] and cold.names == ["a"])


async def test_losing_the_lease_skips_the_grace_and_ends_with_an_error(api: WidgetCluster) -> None:
    await api.fill("a")
    election = Election()
    election.won.set()
    manager = manager_on(api.link, leader_election=election)

    async def slow(ctx: Context[Widget]) -> None:
        await asyncio.sleep(1000)

    manager.add(Builder(Widget).options(reconcile_timeout=None).build(Script(slow)))
    task = asyncio.ensure_future(manager.serve())
    await until(lambda: manager.controllers[0].statistics().active == 1)
    started = asyncio.get_running_loop().time()
    election.lost.set()
    with pytest.raises(LeaderElectionLost, match="leader election lost"):
        await task
    assert asyncio.get_running_loop().time() - started < 1


async def test_writes_are_refused_when_the_lease_is_no_longer_sure(api: WidgetCluster) -> None:
    await api.fill("a")
    election = Election()
    election.won.set()
    errors: list[Exception] = []

    async def write(ctx: Context[Widget]) -> None:
        if errors:
            return
        election.leads = False  # the renew deadline has passed, nobody has noticed yet
        try:
            await ctx.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns")))
        except NotLeading as error:
            errors.append(error)
            raise

    manager = manager_on(api.link, leader_election=election)
    async with serving(manager, Builder(Widget).build(Script(write))):
        await until(lambda: errors)
        assert "not sending create configmaps c" in str(errors[0])
    assert api.link.count("create", "configmaps") == 0


@pytest.mark.parametrize("warm", [False, True])
async def test_restart_mode_stops_controllers_and_runs_them_again_in_the_next_term(
    api: WidgetCluster, warm: bool
) -> None:
    await api.fill("a")
    script = Script()
    elections: list[Election] = []

    class Terms:
        async def run(self, on_started: Any, on_stopped: Any) -> None:
            election = Election()
            elections.append(election)
            await election.run(on_started, on_stopped)

        def may_write(self) -> bool:
            return elections[-1].leads

    options = ManagerOptions(watch_loop=False, restart_on_lost_lease=True)
    manager = manager_on(api.link, leader_election=Terms(), options=options)
    async with serving(manager, Builder(Widget).options(enable_warmup=warm).build(script)):
        await until(lambda: len(elections) == 1)
        elections[0].won.set()
        await until(lambda: script.names == ["a"])
        elections[0].lost.set()
        await until(lambda: len(elections) == 2)
        assert not manager.is_leading
        await api.put(Widget, "b")
        await asyncio.sleep(10)
        assert script.names == ["a"]
        elections[1].won.set()
        await until(lambda: sorted(script.names) == ["a", "a", "b"])


async def test_manager_that_never_led_does_not_start_leader_runnables_while_stopping(
    api: WidgetCluster,
) -> None:
    log: list[str] = []
    election = Election()
    manager = manager_on(api.link, leader_election=election)
    manager.add(Traced("leader", log))
    async with serving(manager):
        await asyncio.sleep(5)
        manager.request_stop()
        election.won.set()
    assert log == []


def fleet_member(name: str, api: WidgetCluster) -> Cluster:
    """Another cluster, over a connection of its own."""
    transport = InProcessTransport(api.cluster.server.local())
    client = Client.over(transport, clock=LoopClock(), random=random.Random(1))
    return Cluster(client, name=name, owns_client=True)


async def has_status(api: WidgetCluster, name: str, wanted: WidgetStatus) -> bool:
    return (await api.client.get(Widget, name, "ns")).status == wanted


async def test_clusters_join_and_leave_and_keys_carry_their_name(api: WidgetCluster) -> None:
    script = Script()
    seen: list[Key] = []
    changes: asyncio.Queue[ClusterEvent] = asyncio.Queue()

    class Provider:
        async def events(self) -> AsyncIterator[ClusterEvent]:
            while True:
                yield await changes.get()

    async def write(ctx: Context[Widget]) -> None:
        seen.append(ctx.key)
        ctx.status.ready = 7

    script.function = write
    await api.fill("a")
    manager = manager_on(api.link)
    manager.add_provider(Provider())
    controller = Builder(Widget).build(script)
    async with widget_cluster("a", "e") as east_api, serving(manager, controller):
        east = Cluster(east_api.link.client, name="east", owns_client=True)
        await until(lambda: Key("ns", "a") in seen)
        await changes.put(ClusterEvent("engaged", east))
        await until(lambda: {Key("ns", "a", "east"), Key("ns", "e", "east")} <= set(seen))
        await eventually(lambda: has_status(east_api, "e", WidgetStatus(ready=7, observed_generation=1)))
        controller.queue.add(Key("ns", "e", "east"), after=50)
        controller.queue.add(Key("ns", "a"), after=50)
        await changes.put(ClusterEvent("disengaged", east))
        await until(lambda: "east" not in manager.clusters)
        count = len(seen)
        await asyncio.sleep(100)
        assert seen[count:] == [Key("ns", "a")], "what is queued of other clusters stays"
        assert not east_api.link.open_streams
        await api.put(Widget, "b")
        await until(lambda: Key("ns", "b") in seen)


@pytest.mark.usefixtures("young_heap")
async def test_clusters_that_come_and_go_leave_no_tasks_and_no_memory(api: WidgetCluster) -> None:
    await api.fill("a")
    manager = manager_on(api.link)
    controller = Builder(Widget).owns(ConfigMap).build(Script())
    many = (f"w{i}" for i in range(20))
    async with widget_cluster(*many) as east, serving(manager, controller):
        await until(lambda: manager.is_leading)
        await asyncio.sleep(1)
        tasks = len(asyncio.all_tasks())
        counts = []
        for _ in range(20):
            member = fleet_member("m", east)
            await manager.engage(member)
            await member.cache.wait_synced()
            await until(manager.is_idle)
            await manager.disengage("m")
            del member
            await asyncio.sleep(1)
            gc.collect()
            counts.append(len(gc.get_objects()))
        assert len(asyncio.all_tasks()) == tasks
        # what the server has still to let go of comes and goes, so the lowest marks are compared
        assert min(counts[-5:]) - min(counts[5:10]) < 500, counts


async def test_statistics_and_idle_tell_the_state_of_the_queues(api: WidgetCluster) -> None:
    await api.fill("a")
    manager = manager_on(api.link)
    controller = Builder(Widget).build(Script())
    async with serving(manager, controller):
        await until(lambda: manager.is_leading and manager.is_idle())
        statistics = manager.statistics()
        assert statistics.controllers[0].name == "widget"
        assert statistics.caches[""].objects == 1
        assert statistics.is_idle()
        (informer,) = statistics.caches[""].informers
        for trouble in ({"queued": 1}, {"handling": 1}):
            busy = msgspec.structs.replace(informer, **trouble)
            cache = msgspec.structs.replace(statistics.caches[""], informers=(busy,))
            assert not msgspec.structs.replace(statistics, caches={"": cache}).is_idle()
        working = msgspec.structs.replace(statistics.controllers[0], active=1)
        assert not msgspec.structs.replace(statistics, controllers=(working,)).is_idle()
        controller.queue.add(Key("ns", "a"), after=60)
        assert manager.is_idle()
        assert manager.is_idle(until=asyncio.get_running_loop().time() + 30)
        assert not manager.is_idle(until=asyncio.get_running_loop().time() + 90)


async def test_leader_election_needs_a_connection_of_its_own(api: WidgetCluster) -> None:
    from quarterdeck.runtime.election import LeaderElection

    with pytest.raises(ConfigError, match="leader election needs a connection of its own"):
        manager_on(api.link, leader_election=LeaderElection(name="x", namespace="ns"))


async def test_events_are_written_and_flushed_before_the_manager_ends(api: WidgetCluster) -> None:
    await api.fill("a")

    def note(ctx: Context[Widget]) -> None:
        ctx.event("Normal", "Seen", "hello")

    async with serving(manager_on(api.link), Builder(Widget).build(Script(note))) as manager:
        await until(lambda: manager.is_leading and manager.is_idle())
    (event,) = await api.client.list(Event, namespace="ns")
    assert (event.reason, event.note, event.reporting_controller) == ("Seen", "hello", "widget")


async def test_metrics_of_controllers_queues_and_informers_are_exposed(api: WidgetCluster) -> None:
    from quarterdeck.runtime.metrics import RuntimeMetrics

    metrics = RuntimeMetrics()
    await api.fill("a", "b")
    async with serving(manager_on(api.link, metrics=metrics), Builder(Widget).build(Script())) as manager:
        await until(lambda: manager.is_leading and manager.is_idle())
        text = metrics.registry.expose().decode()
    for line in (
        'controller_runtime_reconcile_total{controller="widget",result="success"} 2',
        'controller_runtime_max_concurrent_reconciles{controller="widget"} 4',
        'workqueue_adds_total{name="widget",controller="widget"} 2',
        'quarterdeck_informer_objects{kind="Widget.example.com"} 2',
    ):
        assert line in text, text
