"""What a controller watches, and which keys a change wakes."""

from __future__ import annotations

import asyncio
from typing import Any

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.client import metadata_of
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import SyncTimeout
from quarterdeck.runtime.controller.predicate import generation_changed, labels_changed
from quarterdeck.runtime.controller.source import (
    Channel,
    ChannelSource,
    FunctionSource,
    KindSource,
    TimerSource,
)
from quarterdeck.testing import FaultPlan, Refuse
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import PODS, WidgetCluster, owner_of


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
            handle = controller.watch(KindSource(ConfigMap, _AlwaysA()))
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
