"""Controllers: what outcomes do, what writes cost, how sources come and go."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.errors import ConfigError, Conflict, Terminal
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait, until_condition, until_gone
from quarterdeck.testing import TestCluster, VirtualLoop, eventually
from tests.unit.runtime.controlkit import Script, Spy, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster, widget_cluster

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Up",
    "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}


async def test_present_objects_are_reconciled_and_later_changes_too(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    script = Script()
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: sorted(script.names) == ["a", "b"])
        await api.put(Widget, "c")
        await api.put(Widget, "a", spec={"replicas": 2})
        await until(lambda: sorted(script.names) == ["a", "a", "b", "c"])


async def test_object_that_is_gone_calls_the_deleted_hook_and_nothing_else(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: script.names == ["a"])
        await api.remove(Widget, "a")
        await until(lambda: script.gone == [Key("ns", "a")])
        assert script.names == ["a"]


async def test_error_is_retried_with_back_off_and_success_forgets_it(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    failures = 4

    def fail(ctx: Context[Widget]) -> None:
        assert ctx.attempt == len(script.runs) - 1
        if len(script.runs) <= failures:
            raise Conflict("not now")

    script = Script(fail)
    controller = Builder(Widget).build(script)
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: len(script.runs) == failures + 1)
        await asyncio.sleep(0)
        assert controller.queue.failures(Key("ns", "a")) == 0
    times = [moment for moment, _ in script.runs]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    for gap, expected in zip(gaps, [0.005, 0.01, 0.02, 0.04], strict=True):
        assert gap == pytest.approx(expected, rel=0.12, abs=0.001)
    assert spy.results == ["error"] * failures + ["success"]
    assert spy.told == []


async def test_terminal_error_rests_until_something_changes_and_keeps_its_count(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()

    def fail(ctx: Context[Widget]) -> None:
        raise Terminal("hopeless")

    script = Script(fail)
    async with serving(manager_on(api.link, metrics=spy), Builder(Widget).build(script)):
        await until(lambda: script.names == ["a"])
        await asyncio.sleep(1000)
        assert script.names == ["a"]
        await api.put(Widget, "a", spec={"replicas": 2})
        await until(lambda: script.names == ["a", "a"])
    assert spy.told == ["terminal", "terminal"]
    assert spy.results == ["error", "error"]


async def test_unexpected_exception_is_a_panic_and_listed_ones_are_errors(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    raised: list[Exception] = [ValueError("bug"), KeyError("listed"), TimeoutError("slow")]

    def fail(ctx: Context[Widget]) -> None:
        if raised:
            raise raised.pop(0)

    controller = Builder(Widget).options(errors=(KeyError,)).build(Script(fail))
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: "success" in spy.results)
    assert spy.told == ["panic"]
    assert spy.results == ["error"] * 3 + ["success"]


async def test_requeue_after_forgets_failures_and_comes_back_in_time(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    answers: list[Any] = [Requeue(30, "waiting"), Result(requeue_after=5), Requeue(7, "raised"), None]

    def answer(ctx: Context[Widget]) -> Any:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    script = Script(answer)
    async with serving(manager_on(api.link, metrics=spy), Builder(Widget).build(script)):
        await until(lambda: len(script.runs) == 4)
    times = [moment for moment, _ in script.runs]
    assert [round(b - a) for a, b in itertools.pairwise(times)] == [30, 5, 7]
    assert spy.results == ["requeue_after"] * 3 + ["success"]
    assert spy.told == ["requeue waiting", "requeue raised"]


async def test_earlier_wake_up_wins_over_a_later_requeue(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script(lambda ctx: Requeue(1000) if len(script.runs) < 3 else None)
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: len(script.runs) == 1)
        await api.put(Widget, "a", spec={"replicas": 2})
        await until(lambda: len(script.runs) == 2, within=1)


async def test_reconcile_beyond_its_timeout_is_cancelled_counted_and_retried(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()

    async def hang(ctx: Context[Widget]) -> None:
        if len(script.runs) == 1:
            await asyncio.sleep(100)

    script = Script(hang)
    controller = Builder(Widget).options(reconcile_timeout=10).build(script)
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: spy.results == ["error", "success"])
    assert spy.told == ["timeout"]
    again = script.runs[1][0] - script.runs[0][0]
    assert again == pytest.approx(11, abs=0.1), "what used up its time waits a second at least"


async def test_requeue_keeps_the_priority_unless_the_result_sets_one(api: WidgetCluster) -> None:
    await api.fill("a")
    seen: list[int] = []

    def answer(ctx: Context[Widget]) -> Result | None:
        seen.append(ctx.priority)
        return [Requeue(1), Result(requeue_after=1, priority=7), None][len(seen) - 1]

    async with serving(manager_on(api.link), Builder(Widget).build(Script(answer))):
        await until(lambda: len(seen) == 3)
    assert seen == [LOW_PRIORITY, LOW_PRIORITY, 7]


async def test_one_worker_per_key_with_a_manager_and_32_workers(api: WidgetCluster) -> None:
    await api.fill(*(f"w{i}" for i in range(20)))
    chance = random.Random(5)
    running: set[str] = set()
    counts: Counter[str] = Counter()

    async def work(ctx: Context[Widget]) -> None:
        assert ctx.key.name not in running
        running.add(ctx.key.name)
        counts[ctx.key.name] += 1
        await asyncio.sleep(chance.random())
        running.remove(ctx.key.name)
        if chance.random() < 0.2:
            raise Conflict("again")

    spy = Spy()
    controller = Builder(Widget).options(max_concurrent_reconciles=32).build(Script(work))
    async with serving(manager_on(api.link, metrics=spy), controller) as manager:
        for _ in range(500):
            await api.put(Widget, f"w{chance.randrange(20)}", spec={"replicas": chance.randrange(100)})
            await asyncio.sleep(0.05)
        await until(lambda: manager.is_idle())
    assert len(counts) == 20
    assert spy.max_concurrent.value == 32
    assert 1 < spy.active_workers.highest <= 20


async def test_wait_parks_the_key_until_a_condition_is_seen(api: WidgetCluster) -> None:
    await api.fill("a", "b")

    def wait(ctx: Context[Widget]) -> Result | None:
        if ctx.key.name == "a" and script.names.count("a") == 1:
            return Wait(until_condition(Widget, "b", "ns", "Ready"), timeout=500, reason="b")
        return None

    script = Script(wait)
    controller = Builder(Widget).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: sorted(script.names) == ["a", "b"])
        await asyncio.sleep(60)
        assert controller.statistics().waiting == 1
        assert script.names.count("a") == 1
        await api.put(Widget, "b", status={"conditions": [READY]})
        await until(lambda: script.names.count("a") == 2, within=1)
        assert controller.statistics().waiting == 0


async def test_wait_that_is_fulfilled_already_or_never_comes_back(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    answers: list[Any] = []

    def wait(ctx: Context[Widget]) -> Result | None:
        if ctx.key.name == "b":
            return None
        answers.append(asyncio.get_running_loop().time())
        if len(answers) == 1:
            absent = Widget(metadata=ObjectMeta(name="ghost", namespace="ns", uid="u"))
            return Wait(until_gone(absent, Widget))
        if len(answers) == 2:
            return Wait(until_condition(Widget, "b", "ns", "Never"), timeout=50)
        return None

    async with serving(manager_on(api.link), Builder(Widget).build(Script(wait))):
        await until(lambda: len(answers) == 3)
    assert answers[1] - answers[0] < 1
    assert answers[2] - answers[1] == pytest.approx(50, abs=0.1)


async def test_plain_function_runs_in_a_thread_and_can_use_the_context(api: WidgetCluster) -> None:
    await api.fill("a")
    threads: list[str] = []

    async def is_ready() -> bool:
        return (await api.client.get(Widget, "a", "ns")).status.ready == 1

    class Blocking(Reconciler[Widget]):
        def reconcile(self, ctx: Context[Widget]) -> None:
            time.sleep(0.01)
            threads.append(threading.current_thread().name)
            ctx.status.ready = ctx.obj.spec.replicas
            found = ctx.block_on(ctx.get(Widget, "a", "ns"))
            assert found.metadata.name == "a"

    async with serving(manager_on(api.link), Builder(Widget).build(Blocking())):
        await eventually(is_ready)
    assert threads[0].startswith("quarterdeck")


@pytest.mark.parametrize(
    ("timeout", "result", "told"),
    [(None, "success", []), (2.0, "success", []), (0.001, "error", ["timeout"])],
)
async def test_a_plain_function_fails_when_it_takes_too_long(
    api: WidgetCluster, timeout: float | None, result: str, told: list[str]
) -> None:
    await api.fill("a")
    await asyncio.sleep(50)
    spy = Spy()

    async def pass_time() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.advance(1.0)  # by hand: the clock stands still while a thread works

    class Blocking(Reconciler[Widget]):
        def reconcile(self, ctx: Context[Widget]) -> None:
            ctx.block_on(pass_time())

    controller = Builder(Widget).options(reconcile_timeout=timeout).build(Blocking())
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: spy.results)
    assert spy.results == [result]
    assert spy.told == told


def test_builder_refuses_what_does_not_fit() -> None:
    script: Any = Script()
    with pytest.raises(ConfigError, match=r"For\(...\) should only be called once"):
        Builder(Widget).for_(Widget)
    with pytest.raises(ConfigError, match=r"Owns\(\) can only be used together with For\(\)"):
        Builder(name="x").owns(Pod).build(script)
    with pytest.raises(ConfigError, match=r"one of For\(\) or Named\(\) must be called"):
        Builder().watches(Pod).build(script)
    with pytest.raises(ConfigError, match="there are no watches configured"):
        Builder(name="x").build(script)
    with pytest.raises(ValueError, match='finalizer for key "f" already registered'):
        Builder(Widget).finalizer("f", _cleanup).finalizer("f", _cleanup)
    assert Builder().for_(Widget).build(script).name == "widget"
    assert Builder(Widget).named("other").build(script).name == "other"


async def _requeue_or_refuse(ctx: Context[ConfigMap]) -> Result | None:
    if ctx.obj.metadata.name == "bad":
        raise Terminal("bad")
    return Requeue(7)


async def _cleanup(ctx: Context[Any]) -> None:
    return None


async def test_controller_cannot_be_added_twice_and_names_are_unique(api: WidgetCluster) -> None:
    manager = manager_on(api.link)
    controller = Builder(Widget).build(Script())
    manager.add(controller)
    with pytest.raises(ConfigError, match="controller with name widget already exists"):
        manager.add(Builder(Widget).build(Script()))
    with pytest.raises(RuntimeError, match="controller was started more than once"):
        manager_on(api.link).add(controller)


async def test_one_reconcile_past_the_queue_gives_its_result_and_error_through(
    cluster: TestCluster,
) -> None:
    controller = Builder(ConfigMap).build(_requeue_or_refuse)
    with pytest.raises(RuntimeError, match="configmap belongs to no manager yet"):
        await controller.reconcile_once(Key("default", "a"))
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="bad", namespace="default")))
    assert await cluster.reconcile_once(controller, Key("default", "a")) == Requeue(7)
    with pytest.raises(Terminal, match="bad"):
        await cluster.reconcile_once(Builder(ConfigMap).build(_requeue_or_refuse), Key("default", "bad"))


async def test_controller_without_a_kind_gets_keys_only(api: WidgetCluster) -> None:
    await api.fill("a")
    keys = []

    async def reconcile(ctx: Context[Any]) -> None:
        keys.append(ctx.key)
        with pytest.raises(RuntimeError, match="no kind of its own"):
            _ = ctx.obj

    controller: Controller[Any] = Builder(name="keys").watches(Widget).build(reconcile)
    async with serving(manager_on(api.link), controller):
        await until(lambda: keys == [Key("ns", "a")])


async def test_workers_follow_the_manager_by_kind(api: WidgetCluster) -> None:
    spy = Spy()
    options = ManagerOptions(watch_loop=False, concurrency_by_kind={"Widget.example.com": 9})
    async with serving(manager_on(api.link, metrics=spy, options=options), Builder(Widget).build(Script())):
        await until(lambda: spy.max_concurrent.value == 9)


@pytest.mark.real_time
async def test_a_thread_beyond_its_time_holds_its_key_and_no_worker() -> None:
    """It cannot be stopped: others go on meanwhile, and its own key is not worked on twice at a time."""
    release, inside, most, runs = threading.Event(), 0, 0, []
    refused: list[BaseException] = []

    async with widget_cluster() as api:
        await api.fill("slow", "quick")

        def reconcile(ctx: Context[Widget]) -> None:
            nonlocal inside, most
            runs.append(ctx.key.name)
            if ctx.key.name != "slow":
                return
            inside += 1
            most = max(most, inside)
            release.wait(30)
            inside -= 1
            try:
                ctx.block_on(ctx.get(Widget, "slow", "ns"))
            except TimeoutError as error:
                refused.append(error)

        builder = Builder(Widget).options(max_concurrent_reconciles=1, reconcile_timeout=0.2)
        controller = builder.build(reconcile)
        async with serving(manager_on(api.link), controller):
            await until(lambda: "quick" in runs and "slow" in runs)
            controller.queue.add(Key("ns", "slow"))
            controller.queue.add(Key("ns", "quick"))
            await until(lambda: runs.count("quick") == 2)
            assert runs.count("slow") == 1
            release.set()
            await until(lambda: runs.count("slow") >= 2)
    assert most == 1
    assert refused, "a run that has used up its time does not act any more"
