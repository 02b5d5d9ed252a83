"""What a reconcile reads, and from where: the cache, the server, no earlier than a version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.client import Response
from quarterdeck.errors import NotCached, NotFound
from quarterdeck.runtime.cache import CacheOptions, owner_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.recording import head_of
from quarterdeck.testing import EventLog
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WIDGET, WidgetCluster


async def test_live_lists_ask_the_server_and_know_no_index(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    await api.put(Pod, "p", metadata={"labels": {"app": "x"}})
    seen: list[Any] = []

    async def read(ctx: Context[Widget]) -> None:
        found = await ctx.list(Pod, namespace="ns", live=True)
        seen.extend([found.object_keys(), [type(pod) for pod in found], found[0].metadata.labels])
        with pytest.raises(ValueError, match="index owner-uid is known to the cache only"):
            await ctx.list(Pod, index=owner_uid("u"), live=True)
        with pytest.raises(NotCached):
            await ctx.list(Pod)

    async with serving(manager_on(api.link), Builder(Widget).build(Script(read))):
        await until(lambda: len(seen) >= 3)
    assert seen[:3] == [[Key("ns", "p")], [Pod], {"app": "x"}]


async def test_kinds_the_cache_is_disabled_for_are_read_from_the_server(api: WidgetCluster) -> None:
    await api.fill("a")
    await api.put(ConfigMap, "c", data={"k": "v"})
    seen: list[Any] = []

    async def read(ctx: Context[Widget]) -> None:
        seen.append((await ctx.get(ConfigMap, "c", "ns")).data)
        seen.append(len(await ctx.list(ConfigMap, namespace="ns")))
        with pytest.raises(NotFound):
            await ctx.get(ConfigMap, "gone", "ns")

    cache = CacheOptions(disable_for=[ConfigMap])
    async with serving(
        manager_on(api.link, cache=cache), Builder(Widget).owns(ConfigMap).build(Script(read))
    ):
        await until(lambda: len(seen) == 2)
        gets = [call.target for call in api.link.log if call.verb == "get"]
    assert seen == [{"k": "v"}, 1]
    assert [call.name for call in gets] == ["c", "gone"]


async def test_a_read_may_wait_for_a_version(api: WidgetCluster) -> None:
    await api.fill("a")
    await api.put(ConfigMap, "c", data={"k": "old"})
    seen: list[Any] = []

    async def read(ctx: Context[Widget]) -> None:
        version = str(int(api.version) + 1)
        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            before = asyncio.get_running_loop().time()
            found = await ctx.get(ConfigMap, "c", "ns", min_version=version)
            seen.extend([found.data, asyncio.get_running_loop().time() - before])

    async def write() -> None:
        await asyncio.sleep(3)
        await api.put(ConfigMap, "c", data={"k": "new"})

    controller = Builder(Widget).watches(ConfigMap, to=lambda ctx, obj: []).build(Script(read))
    async with serving(manager_on(api.link), controller):
        await until(lambda: len(seen) == 2)
    assert seen[0] == {"k": "new"}
    assert seen[1] == pytest.approx(3)


async def test_events_carry_annotations(api: WidgetCluster) -> None:
    await api.fill("a")
    log = EventLog()
    script = Script(lambda ctx: ctx.event("Normal", "Seen", "here", annotations={"by": "test"}))
    async with serving(manager_on(api.link, recorder=log), Builder(Widget).build(script)):
        await until(lambda: log.reasons == ["Seen"])
    assert log.events[0].annotations == {"by": "test"}


async def test_a_dynamic_kind_is_listed_from_the_cache_like_any_other(api: WidgetCluster) -> None:
    await api.fill("a", "b")
    seen: list[Any] = []

    async def read(ctx: Context[Widget]) -> None:
        seen.append([each.metadata.name for each in await ctx.list(WIDGET, namespace="ns")])

    async with serving(manager_on(api.link), Builder(Widget).build(Script(read))):
        await until(lambda: seen)
    assert sorted(seen[0]) == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "kind", "name"),
    [(b'{"kind":"Pod","metadata":{"name":"a"}}', "Pod", "a"), (b"no object", "", "")],
)
def test_the_head_of_an_answer_is_empty_where_there_is_no_object(body: bytes, kind: str, name: str) -> None:
    head = head_of(Response(200, body=body))
    assert (head.kind, head.metadata.name) == (kind, name)
