"""Sources: events from outside are not lost, keys belong to their cluster, metadata is enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta, PartialObjectMetadata
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.handler import MapContext, mapped
from quarterdeck.runtime.controller.source import Channel, ChannelSource, TimerSource
from quarterdeck.runtime.manager.cluster import Cluster
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY
from quarterdeck.runtime.reconcile.context import Context
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster


def named(name: str) -> Widget:
    return Widget(metadata=ObjectMeta(name=name, namespace="ns"))


async def test_an_event_of_a_channel_that_its_mapper_fails_on_is_mapped_again_later(
    api: WidgetCluster,
) -> None:
    await api.fill("a", "b")
    script, channel = Script(), Channel()
    asked: list[str] = []
    times: list[float] = []

    def to(context: MapContext, obj: Widget) -> Iterable[Key]:
        asked.append(obj.metadata.name)
        if obj.metadata.name == "a":
            times.append(asyncio.get_running_loop().time())
            if len(times) < 4:
                raise KeyError("not yet")
        return [Key("ns", obj.metadata.name)]

    controller = Builder[Widget](name="outside").source(ChannelSource(channel, mapped(to))).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: channel.has_consumers)
        await channel.send(named("a"))
        await channel.send(named("b"))
        await until(lambda: script.names == ["b"])
        await until(lambda: script.names == ["b", "a"])
    assert asked == ["a", "b", "a", "a", "a"]
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.1, 0.2, 0.4])


async def test_changes_come_at_the_usual_priority_and_what_was_there_before_at_a_low_one(
    api: WidgetCluster,
) -> None:
    await api.fill("a")
    seen: list[int] = []
    controller = Builder(Widget).build(Script(lambda ctx: seen.append(ctx.priority)))
    async with serving(manager_on(api.link), controller):
        await until(lambda: seen == [LOW_PRIORITY])
        await api.put(Widget, "a", spec={"color": "blue"})
        await until(lambda: seen == [LOW_PRIORITY, 0])


async def test_keys_from_outside_come_at_the_usual_priority(api: WidgetCluster) -> None:
    await api.fill("a")
    seen: list[int] = []
    channel = Channel()
    script = Script(lambda ctx: seen.append(ctx.priority))
    controller = Builder[Widget](name="outside").source(ChannelSource(channel)).build(script)
    async with serving(manager_on(api.link), controller):
        await until(lambda: channel.has_consumers)
        await channel.send(Key("ns", "a"))
        await until(lambda: seen == [0])


async def test_an_iterable_that_ends_leaves_no_event_behind(api: WidgetCluster) -> None:
    await api.fill("a")
    script = Script()
    asked: list[int] = []

    async def outside() -> AsyncIterator[Widget]:
        yield named("a")

    async def to(context: MapContext, obj: Widget) -> list[Key]:
        asked.append(1)
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise ValueError("not yet")
        return [Key("ns", "a")]

    source = ChannelSource(outside(), mapped(to))
    async with serving(manager_on(api.link), Builder[Widget](name="outside").source(source).build(script)):
        await until(lambda: script.names == ["a"])


async def test_keys_of_a_timer_belong_to_the_cluster_it_runs_for(api: WidgetCluster) -> None:
    seen: set[Key] = set()

    async def reconcile(ctx: Context[Any]) -> None:
        seen.add(ctx.key)

    east = api.cluster.link(name="east").client
    manager = manager_on(api.link)
    timer = TimerSource(1.0, [Key("ns", "tick"), Key("ns", "tock", "west")], at_start=True)
    async with serving(manager, Builder(name="clock").source(timer).build(reconcile)):
        await until(lambda: Key("ns", "tick") in seen)
        await manager.engage(Cluster(east, name="east", owns_client=True))
        await until(lambda: Key("ns", "tick", "east") in seen)
        await manager.disengage("east")
    assert {key.cluster for key in seen if key.name == "tick"} == {"", "east"}


async def test_a_controller_of_metadata_fetches_nothing_else(api: WidgetCluster) -> None:
    await api.fill("a", metadata={"labels": {"tier": "one"}})
    seen: list[Any] = []
    refused: list[str] = []

    async def reconcile(ctx: Context[Any]) -> None:
        seen.append(ctx.obj)
        try:
            ctx.status.ready = 1
        except ConfigError as error:
            refused.append(str(error))
        if "done" not in ctx.obj.metadata.finalizers:
            async with ctx.finalizer("done"):
                assert ctx.obj.metadata.finalizers == ("done",)

    manager = manager_on(api.link)
    controller = manager.controller(Widget, only_metadata=True).build(reconcile)
    async with serving(manager, controller):
        await until(lambda: len(seen) > 0 and seen[-1].metadata.finalizers == ("done",))
    assert all(type(obj) is PartialObjectMetadata for obj in seen)
    assert (seen[0].api_version, seen[0].kind) == ("example.com/v1", "Widget")
    assert seen[0].metadata.labels == {"tier": "one"}
    assert refused[0] == "Widget is watched by its metadata only: no status to edit"
    reads = [call for call in api.link.log if call.verb in ("list", "watch")]
    assert reads
    assert all("as=PartialObjectMetadata" in call.accept for call in reads)
    assert not any("widgets/status" in rule.resources for rule in controller.rules)


def test_metadata_alone_may_be_asked_for_once_like_any_kind() -> None:
    builder = Builder(name="heads").for_(Widget, only_metadata=True)
    with pytest.raises(ConfigError, match="should only be called once"):
        builder.for_(Widget)
