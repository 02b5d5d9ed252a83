"""What follows from what a reconcile returns, whoever returns it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.predicate import status_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import Channel
from quarterdeck.runtime.controller.worker import _new_id
from quarterdeck.runtime.queue.ratelimit import ExponentialLimiter
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result, Wait
from quarterdeck.runtime.reconcile.result import until as until_seen
from tests.unit.runtime.controlkit import Script, Spy, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster

DEFERRED = "example.com/deferred"


@pytest.mark.parametrize(
    ("result", "label", "after"),
    [
        (Result(requeue=True), "requeue", 7),
        (Requeue(after=30), "requeue_after", 30),
        (Result(requeue_after=0.0, requeue=True), "requeue", 7),
        (Wait(until_seen(Widget, "other", "ns", lambda seen: False), timeout=40), "requeue_after", 40),
        (Result(), "success", None),
        (Result(requeue_after=0.0), "requeue_after", 0),
        (Requeue(after=-1), "requeue_after", 0),
        (None, "success", None),
    ],
    ids=repr,
)
async def test_a_result_says_when_the_key_comes_back_and_how_it_is_counted(
    api: WidgetCluster, result: Result | None, label: str, after: float | None
) -> None:
    await api.fill("a")
    spy = Spy()
    script = Script(lambda ctx: result if len(script.runs) == 1 else None)
    controller = Builder(Widget).limiter(ExponentialLimiter(7, 7, jitter=0)).build(script)
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: spy.results)
        await asyncio.sleep(100)
    assert spy.results[0] == label
    gaps = [later - script.runs[0][0] for later, _ in script.runs[1:]]
    assert gaps == ([] if after is None else [pytest.approx(after, abs=0.1)])


async def test_a_plain_function_may_hand_back_something_to_wait_for(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()

    class Plain(Reconciler[Widget]):
        def reconcile(self, ctx: Context[Widget]) -> Any:
            async def later() -> Result:
                return Requeue(after=3600)

            return later()

    async with serving(manager_on(api.link, metrics=spy), Builder(Widget).build(Plain())):
        await until(lambda: spy.results)
    assert spy.results == ["requeue_after"]


async def test_a_kind_with_a_finalizer_comes_back_when_its_reconcile_says_so(api: WidgetCluster) -> None:
    await api.fill("a")
    spy = Spy()

    async def clean_up(ctx: Context[Widget]) -> None:
        return None

    script = Script(lambda ctx: Requeue(after=3600))
    controller = Builder(Widget).finalizer(DEFERRED, clean_up).build(script)
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: len(spy.results) >= 2)
    assert set(spy.results) == {"requeue_after"}
    assert (await api.client.get(Widget, "a", "ns")).metadata.finalizers == (DEFERRED,)


async def test_a_watch_asks_for_whole_objects_unless_metadata_is_enough(api: WidgetCluster) -> None:
    await api.fill("a")
    await api.put(ConfigMap, "c", data={"a": "b"})
    seen: list[Any] = []

    def whole(context: Any, obj: Any) -> list[Key]:
        seen.append(obj)
        return []

    builder = Builder(Widget).watches(ConfigMap, to=whole).owns(Pod)
    async with serving(manager_on(api.link), builder.build(Script())) as manager:
        await until(lambda: any(each.metadata.name == "c" for each in seen))
        assert manager.cache.has_informer(Pod)
    assert not any("PartialObjectMetadata" in call.accept for call in api.link.log)


async def test_a_channel_takes_what_everybody_has_room_for() -> None:
    channel = Channel(buffer=1)
    assert not channel.has_consumers
    first, second = channel.subscribe(), channel.subscribe()
    assert channel.has_consumers
    assert channel.offer(Key("ns", "a"))
    assert not channel.offer(Key("ns", "b"))
    first.get_nowait()
    assert not channel.offer(Key("ns", "b")), "one of them is full"
    assert (first.qsize(), second.qsize()) == (0, 1)
    channel.unsubscribe(first)
    channel.unsubscribe(second)
    assert not channel.has_consumers


async def test_a_controller_may_look_at_changes_of_the_status_alone(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    controller = Builder().for_(Widget, predicates=[status_changed()]).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: script.names == ["a"])
        await api.put(Widget, "a", spec={"replicas": 2})
        await asyncio.sleep(10)
        assert script.names == ["a"]
        await api.put(Widget, "a", spec={"replicas": 2}, status={"ready": 1})
        await until(lambda: script.names == ["a", "a"])


async def test_keys_that_become_ours_are_queued_at_a_low_priority(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    script = Script()
    controller = Builder(Widget).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: sorted(script.names) == ["a", "b"])
        await asyncio.sleep(1)
        controller.take_over(lambda key: key.name == "b")
        await until(lambda: sorted(script.names) == ["a", "b", "b"])
        assert controller.statistics().workers > 0
    assert controller.statistics().workers == 0


def test_the_name_of_a_run_is_a_random_uuid() -> None:
    names = {_new_id() for _ in range(500)}
    assert len(names) == 500
    form = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(form.fullmatch(name) for name in names)
    assert {name[19] for name in names} == set("89ab")
