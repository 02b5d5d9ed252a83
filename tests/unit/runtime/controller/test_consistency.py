"""Reconciles after own writes: what they see, what they wait for, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.runtime.cache import owned_by, owner_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.testing import DelayEvents
from tests.unit.runtime.controlkit import Script, Spy, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget, WidgetSpec
from tests.unit.runtime.widgetcluster import WidgetCluster, owner_of


def late(seconds: float, *types: str) -> DelayEvents:
    """The cache is so far behind."""
    return DelayEvents((seconds, seconds), types=frozenset(types))


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


async def test_a_write_that_is_only_tried_out_is_not_seen(api: WidgetCluster) -> None:
    await api.fill("a")
    seen: list[str] = []

    async def try_out(ctx: Context[Widget]) -> None:
        changed = ctx.obj.evolve(spec=WidgetSpec(color="tried"))
        assert (await ctx.client.update(changed, dry_run=True)).spec.color == "tried"
        seen.append((await ctx.get(Widget, "a", "ns")).spec.color)

    async with serving(manager_on(api.link), Builder(Widget).build(Script(try_out))):
        await until(lambda: seen)
    assert "tried" not in seen


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
