"""Controllers: what outcomes do, what writes cost, how sources come and go."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.client import metadata_of
from quarterdeck.errors import ConfigError, Conflict, Terminal
from quarterdeck.errors import Requeue as RequeueError
from quarterdeck.runtime.cache import owned_by, owner_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller, SyncTimeout
from quarterdeck.runtime.controller.predicate import generation_changed, labels_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.result import Requeue, Result, Wait, until_condition, until_gone
from quarterdeck.runtime.controller.source import (
    Channel,
    ChannelSource,
    FunctionSource,
    KindSource,
    TimerSource,
)
from quarterdeck.runtime.manager.manager import ManagerOptions
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.testing import DelayEvents, FaultPlan, Refuse, VirtualLoop, eventually
from tests.unit.runtime.controlkit import Script, Spy, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget, WidgetSpec
from tests.unit.runtime.widgetcluster import WidgetCluster

PODS = frozenset({"pods"})
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Up",
    "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}
OWNED = {"apiVersion": "example.com/v1", "kind": "Widget", "controller": True}


def late(seconds: float, *types: str) -> DelayEvents:
    """The cache is so far behind."""
    return DelayEvents((seconds, seconds), types=frozenset(types))


async def owner_of(api: WidgetCluster, name: str) -> dict[str, Any]:
    return {**OWNED, "name": name, "uid": (await api.client.get(Widget, name, "ns")).metadata.uid}


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
    answers: list[Any] = [Requeue(30, "waiting"), Result(requeue_after=5), RequeueError(7, "raised"), None]

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
    assert script.runs[1][0] - script.runs[0][0] == pytest.approx(10, abs=0.1)


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


async def test_reconcile_after_own_write_never_sees_older_state(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    api.link.plan.add(late(2.0, "MODIFIED"))
    seen: list[int] = []

    async def count_up(ctx: Context[Widget]) -> Result | None:
        seen.append(ctx.obj.spec.replicas)
        if ctx.obj.spec.replicas < 5:
            draft = ctx.obj.draft()
            draft.spec.replicas += 1
            await ctx.update(draft.done())
            return Requeue(0.1)
        return None

    controller = Builder(Widget).build(Script(count_up))
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: 5 in seen)
        await asyncio.sleep(10)
    assert seen == sorted(set(seen))
    assert "error" not in spy.results
    assert all(in_time and 1 < seconds <= 2 for seconds, in_time in spy.waits)
    assert len(spy.waits) == 4


async def test_without_consistency_the_same_reconcile_meets_conflicts(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    api.link.plan.add(late(2.0, "MODIFIED"))

    async def count_up(ctx: Context[Widget]) -> Result | None:
        if ctx.obj.spec.replicas < 3:
            await ctx.update(ctx.obj.evolve(spec=WidgetSpec(replicas=ctx.obj.spec.replicas + 1)))
            return Requeue(0.1)
        return None

    controller = Builder(Widget).options(consistency="none").build(Script(count_up))
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: "success" in spy.results)
    assert "error" in spy.results


async def test_cache_that_never_catches_up_releases_the_key_and_is_counted(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()

    async def write(ctx: Context[Widget]) -> Result | None:
        if len(script.runs) == 1:
            api.link.silence_watches()
            await ctx.update(ctx.obj.evolve(spec=WidgetSpec(replicas=9)))
            return Requeue(0.1)
        return None

    script = Script(write)
    controller = Builder(Widget).build(script)
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: len(script.runs) == 2, within=6)
        statistics = controller.statistics().consistency
        assert statistics is not None
        assert statistics.timeouts == 1
    ((seconds, in_time),) = spy.waits
    assert seconds == pytest.approx(5)
    assert not in_time
    assert script.runs[1][0] - script.runs[0][0] == pytest.approx(5.1, abs=0.1)


async def test_parked_key_holds_no_worker(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    api.link.plan.add(late(3.0, "MODIFIED"))

    async def write(ctx: Context[Widget]) -> Result | None:
        if ctx.key.name == "a" and script.names.count("a") == 1:
            await ctx.update(ctx.obj.evolve(spec=WidgetSpec(replicas=9)))
            return Requeue(0.01)
        return None

    script = Script(write)
    controller = Builder(Widget).options(max_concurrent_reconciles=1).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: script.names == ["a", "b"], within=1)
        await until(lambda: controller.statistics().consistency.parked == 1, within=1)
        controller.queue.add(Key("ns", "b"))
        await until(lambda: script.names == ["a", "b", "b"], within=0.5)
        await until(lambda: script.names[-1] == "a", within=4)


async def test_deleted_child_is_waited_for_by_its_absence(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()
    await api.put(ConfigMap, "child", metadata={"ownerReferences": [await owner_of(api, "a")]})
    api.link.plan.add(late(2.0, "DELETED"))
    children: list[int] = []

    async def prune(ctx: Context[Widget]) -> Result | None:
        found = ctx.index(ConfigMap, owned_by(ctx.obj))
        children.append(len(found))
        for child in found:
            await ctx.delete(child)
            return Requeue(0.1)
        return None

    controller = Builder(Widget).owns(ConfigMap).indexes(ConfigMap, owner_uid).build(Script(prune))
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: 0 in children)
    assert children[:2] == [1, 0]
    assert api.link.count("delete", "configmaps") == 1


async def test_own_writes_are_seen_within_the_same_run(api: WidgetCluster) -> None:
    await api.fill("a")
    api.link.plan.add(late(5.0))
    seen: list[Any] = []

    async def write(ctx: Context[Widget]) -> None:
        if len(script.runs) > 1:
            return
        made = ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"), data={"x": "1"})
        await ctx.create(made)
        seen.append((await ctx.get(ConfigMap, "c", "ns")).data["x"])
        await ctx.delete(ConfigMap, "c", "ns")
        try:
            await ctx.get(ConfigMap, "c", "ns")
        except Exception as error:  # noqa: BLE001  the class is what is tested
            seen.append(type(error).__name__)

    script = Script(write)
    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(script)):
        await until(lambda: len(seen) == 2)
    assert seen == ["1", "NotFound"]


async def test_name_conflict_forces_a_live_read(api: WidgetCluster) -> None:
    await api.fill("a")
    found: list[str] = []

    async def create(ctx: Context[Widget]) -> None:
        if found:
            return
        api.link.hold("configmaps")
        await api.put(ConfigMap, "c", data={"from": "somebody else"})
        from quarterdeck.errors import AlreadyExists

        with pytest.raises(AlreadyExists):
            await ctx.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns")))
        found.append((await ctx.get(ConfigMap, "c", "ns")).data["from"])

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(Script(create))):
        await until(lambda: found == ["somebody else"])


async def test_change_of_a_child_wakes_its_owner_and_a_moved_child_wakes_both(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    script = Script()
    async with serving(manager_on(api.link), Builder(Widget).owns(Pod).build(script)):
        await until(lambda: sorted(script.names) == ["a", "b"])
        await api.put(Pod, "p", metadata={"ownerReferences": [await owner_of(api, "a")]})
        await until(lambda: script.names[2:] == ["a"])
        await api.put(Pod, "p", metadata={"ownerReferences": [await owner_of(api, "b")]})
        await until(lambda: sorted(script.names[3:]) == ["a", "b"])
        await api.put(
            Pod, "stranger", metadata={"ownerReferences": [{**await owner_of(api, "a"), "controller": False}]}
        )
        await asyncio.sleep(5)
        assert len(script.names) == 5


async def test_map_function_names_keys_for_old_and_new_state(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    script = Script()

    async def users(context: Any, config: ConfigMap) -> list[Key]:
        known = await context.cache.list(Widget)
        assert len(known) == 2
        return [Key("ns", config.data["user"])] * 2

    controller = Builder(Widget).watches(ConfigMap, to=users).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: len(script.names) == 2)
        await api.put(ConfigMap, "c", data={"user": "a"})
        await until(lambda: script.names[2:] == ["a"])
        await api.put(ConfigMap, "c", data={"user": "b"})
        await until(lambda: sorted(script.names[3:]) == ["a", "b"])


async def test_predicates_of_the_controller_filter_every_watch(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    controller = Builder(Widget).predicates(generation_changed | labels_changed).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: script.names == ["a"])
        await api.put(Widget, "a", status={"ready": 1})
        await asyncio.sleep(5)
        assert script.names == ["a"]
        await api.put(Widget, "a", spec={"replicas": 2})
        await until(lambda: len(script.names) == 2)
        await api.put(Widget, "a", metadata={"labels": {"x": "y"}}, spec={"replicas": 2})
        await until(lambda: len(script.names) == 3)


async def test_changes_are_gathered_for_as_long_as_the_watch_says(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    script = Script()
    delays = {"a": 10.0, "b": 0.0}
    watching: Builder[Any] = Builder(name="gather").watches(Widget, delay=lambda key: delays[key.name])
    controller = watching.build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: sorted(script.names) == ["a", "b"], within=11)
        for replicas in (2, 3, 4):
            await api.put(Widget, "a", spec={"replicas": replicas})
            await api.put(Widget, "b", spec={"replicas": replicas})
            await asyncio.sleep(3)
        assert script.names[2:] == ["b", "b", "b"]
        await until(lambda: script.names[5:] == ["a"], within=2)
        await asyncio.sleep(20)
        assert script.names[6:] == []


async def test_channel_timer_and_function_sources_enqueue(api: WidgetCluster) -> None:
    await api.fill("a", "b", "c")
    script = Script()
    channel = Channel()

    async def starter(context: Any) -> None:
        context.synced()
        await asyncio.sleep(50)
        context.enqueue(Key("ns", "c"), 0)

    controller = (
        Builder(Widget)
        .source(ChannelSource(channel))
        .source(TimerSource(100, [Key("ns", "b")], jitter=0))
        .source(FunctionSource(starter))
        .build(script)
    )
    async with serving(manager_on(api.link), controller):
        await until(lambda: len(script.names) == 3)
        await channel.send(Key("ns", "a"))
        await until(lambda: script.names[3:] == ["a"])
        await channel.send(Widget(metadata=ObjectMeta(name="a", namespace="ns")))
        await until(lambda: script.names[4:] == ["a"])
        await until(lambda: script.names[5:] == ["c"], within=51)
        await until(lambda: script.names[6:] == ["b"], within=101)


async def test_watches_come_and_go_while_running_without_leaving_tasks(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    controller = Builder(Widget).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: script.names == ["a"])
        tasks: list[int] = []
        for _ in range(5):
            handle = controller.watch(KindSource(ConfigMap, _always_a))
            count = len(script.names)
            await api.put(ConfigMap, "c", data={"n": str(count)})
            await until(lambda: len(script.names) > count)  # noqa: B023  used at once
            await controller.unwatch(handle)
            await asyncio.sleep(1)
            tasks.append(len(asyncio.all_tasks()))
        count = len(script.names)
        await api.put(ConfigMap, "c", data={"n": "last"})
        await asyncio.sleep(10)
        assert len(script.names) == count
        assert len(set(tasks)) == 1


class _AlwaysA:
    def keys(self, event: Any, context: Any) -> list[Key]:
        return [Key("ns", "a")]


_always_a = _AlwaysA()


async def test_optional_watch_without_permission_does_not_hold_the_controller(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    api.link.plan.add(Refuse(403, message="pods is forbidden", resources=PODS))
    manager = manager_on(api.link)
    controller = Builder(Widget).owns(Pod, optional=True).build(script)
    async with serving(manager, controller):
        await until(lambda: script.names == ["a"], within=10)
        assert all(check() is None for check in manager.checks.readiness().values())
        api.link.plan = FaultPlan()
        await api.put(Pod, "p", metadata={"ownerReferences": [await owner_of(api, "a")]})
        await until(lambda: len(script.names) == 2, within=120)


async def test_missing_permission_makes_readiness_false_and_names_verb_and_resource(
    api: WidgetCluster,
) -> None:
    await api.fill("a")
    blocked, free = Script(), Script()
    api.link.plan.add(Refuse(403, message="pods is forbidden", resources=PODS))
    manager = manager_on(api.link)
    controllers = (
        Builder(Widget, name="blocked").owns(Pod).build(blocked),
        Builder(Widget, name="free").build(free),
    )
    for controller in controllers:
        manager.add(controller)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_swallow(manager.serve()))
        await until(lambda: manager.checks.readiness()["informers"]() is not None, within=10)
        assert "cannot watch pods" in str(manager.checks.readiness()["informers"]())
        assert "not synced: Pod" in str(manager.checks.readiness()["caches"]())
        await until(lambda: free.names == ["a"], within=10)
        assert blocked.names == []
        error = await task
    assert isinstance(error, SyncTimeout)
    assert "failed to wait for blocked caches to sync" in str(error)
    assert "cannot watch pods" in str(error)
    await manager.client.aclose()


async def _swallow(work: Any) -> Exception | None:
    try:
        await work
    except Exception as error:  # noqa: BLE001  handed on to the test
        return error
    return None


async def test_optional_crd_attaches_when_it_appears_and_detaches_with_it(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    missing = Refuse(404, message="the server could not find the requested resource", resources=PODS)
    api.link.plan.add(missing)
    controller = Builder(Widget).owns(Pod, optional=True).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: script.names == ["a"])
        api.link.plan = FaultPlan()
        await api.put(Pod, "p", metadata={"ownerReferences": [await owner_of(api, "a")]})
        await until(lambda: len(script.names) == 2, within=11)
        api.link.plan.add(missing)
        api.link.end_watches("pods")
        await until(lambda: len(script.names) == 3, within=11)  # the tombstone wakes the owner


async def test_metadata_only_watch_maps_without_bodies(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    seen: list[str] = []

    def to(context: Any, config: Any) -> list[Key]:
        seen.append(type(config).__name__)
        return [Key("ns", "a")]

    controller = Builder(Widget).watches(ConfigMap, to=to, only_metadata=True).build(script)
    async with serving(manager_on(api.link), controller) as manager:
        await api.put(ConfigMap, "c", data={"x": "y"})
        await until(lambda: seen)
        assert seen[0] == "PartialObjectMetadata"
        assert manager.cache.informer(metadata_of(ConfigMap)).is_metadata_only


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
            import threading

            time.sleep(0.01)
            threads.append(threading.current_thread().name)
            ctx.status.ready = ctx.obj.spec.replicas
            found = ctx.block_on(ctx.get(Widget, "a", "ns"))
            assert found.metadata.name == "a"

    async with serving(manager_on(api.link), Builder(Widget).build(Blocking())):
        await eventually(is_ready)
    assert threads[0].startswith("quarterdeck")


@pytest.mark.parametrize(("timeout", "told"), [(None, []), (100.0, []), (0.001, ["timeout"])])
async def test_a_plain_function_is_counted_when_it_took_too_long_and_waited_for(
    api: WidgetCluster, timeout: float | None, told: list[str]
) -> None:
    await api.fill("a")
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
    assert spy.results == ["success"]
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
