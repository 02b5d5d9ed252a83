"""A name is not an identity: objects that are replaced under their names, and what others did meanwhile."""

from __future__ import annotations

import asyncio

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import MergePatch
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from tests.unit.runtime.controlkit import manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster


class Told(Reconciler[Widget]):
    """Remembers which incarnation it was told to be there or gone."""

    def __init__(self, failures: int = 0) -> None:
        self.log: list[tuple[str, str]] = []
        self.failures = failures

    async def reconcile(self, ctx: Context[Widget]) -> None:
        self.log.append(("there", ctx.obj.metadata.uid))

    async def deleted(self, ctx: DeleteContext) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("not now")
        self.log.append(("gone", ctx.uid))


async def replaced(api: WidgetCluster) -> tuple[str, str]:
    """The UIDs of the widget before and after; nobody sees the moment without one."""
    before = await api.client.get(Widget, "a", "ns")
    api.link.cut()
    await api.client.delete(before)
    after = await api.client.create(Widget(metadata=ObjectMeta(name="a", namespace="ns")))
    api.link.restore()
    return before.metadata.uid, after.metadata.uid


async def test_a_replaced_object_is_first_told_as_deleted_with_its_old_uid(api: WidgetCluster) -> None:
    await api.fill("a")
    told = Told()
    async with serving(manager_on(api.link), Builder(Widget).build(told)):
        await until(lambda: told.log)
        before, after = await replaced(api)
        await until(lambda: ("there", after) in told.log)
    assert told.log == [("there", before), ("gone", before), ("there", after)]


async def test_a_deletion_whose_handling_failed_is_told_again(api: WidgetCluster) -> None:
    await api.fill("a")
    told = Told(failures=3)
    async with serving(manager_on(api.link), Builder(Widget).build(told)):
        await until(lambda: told.log)
        before, after = await replaced(api)
        await until(lambda: ("there", after) in told.log)
    assert told.log == [("there", before), ("gone", before), ("there", after)]


async def test_the_status_of_a_replaced_object_is_not_written_to_its_successor(api: WidgetCluster) -> None:
    await api.fill("a")
    uids: list[str] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        uids.append(ctx.obj.metadata.uid)
        if len(uids) == 1:
            await api.client.delete(ctx.obj)
            await api.client.create(Widget(metadata=ObjectMeta(name="a", namespace="ns")))
            ctx.status.ready = 1
            ctx.conditions.set("Old", True, reason="Old")

    async with serving(manager_on(api.link), Builder(Widget).build(reconcile)):
        await until(lambda: len(set(uids)) == 2)
        await asyncio.sleep(60)
    found = (await api.client.get(Widget.type_info.gvk, "a", "ns")).to_dict()
    assert not found.get("status", {}).get("conditions")
    assert not found.get("status", {}).get("ready")


async def test_fields_that_others_write_meanwhile_are_kept(api: WidgetCluster) -> None:
    await api.fill("a")
    condition = {"type": "Other", "status": "True", "reason": "X", "message": "", "lastTransitionTime": None}
    condition["lastTransitionTime"] = "2030-01-01T00:00:00Z"

    async def reconcile(ctx: Context[Widget]) -> None:
        if not ctx.conditions.is_true("Ready"):
            patch = MergePatch({"status": {"conditions": [condition]}})
            await api.client.status.patch(ctx.obj, patch)
        ctx.conditions.set("Ready", True, reason="Up")
        ctx.status.ready = 2

    async with serving(manager_on(api.link), Builder(Widget).build(reconcile)):
        await asyncio.sleep(60)
    status = (await api.client.get(Widget.type_info.gvk, "a", "ns")).to_dict()["status"]
    assert sorted(each["type"] for each in status["conditions"]) == ["Other", "Ready"]
    assert status["ready"] == 2


async def test_a_name_that_becomes_free_wakes_who_wants_it(api: WidgetCluster) -> None:
    """The retries of a failed key come ever later; the deletion of what is in the way is seen at once."""
    await api.fill("a")
    theirs = await api.client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns")))

    async def reconcile(ctx: Context[Widget]) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns")), owner=ctx.obj)

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(reconcile)):
        await asyncio.sleep(2000)  # the waits have grown to minutes
        assert api.link.count("apply", "configmaps") == 0
        await api.client.delete(theirs)
        await until(lambda: api.link.count("apply", "configmaps") == 1, within=1)
