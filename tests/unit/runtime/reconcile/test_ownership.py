"""Whose an object is: ours is written, anybody else's is left alone, and the owner says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta, OwnerReference
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import MergePatch, field_owner
from quarterdeck.errors import AlreadyExists, ForeignObject
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import delete_if_ours, ensure, is_ours, require_ours
from quarterdeck.runtime.reconcile.upsert import create_or_patch
from quarterdeck.testing import eventually
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster


def config(value: str, *references: OwnerReference) -> ConfigMap:
    metadata = ObjectMeta(name="c", namespace="ns", owner_references=references)
    return ConfigMap(metadata=metadata, data={"value": value})


def controlled(uid: str, kind: str = "Widget", name: str = "a") -> OwnerReference:
    return OwnerReference(api_version="example.com/v1", kind=kind, name=name, uid=uid, controller=True)


def owner(uid: str) -> OwnerReference:
    return OwnerReference(api_version="example.com/v1", kind="Widget", name="a", uid=uid)


@pytest.mark.parametrize(
    ("wanted", "present", "ours"),
    [
        ([controlled("1")], [controlled("1")], True),
        ([controlled("1")], [controlled("2")], False),
        ([controlled("1")], [], False),
        ([controlled("1")], [owner("1")], False),
        ([owner("1")], [owner("2"), owner("1")], True),
        ([owner("1")], [controlled("2")], False),
        ([owner("1")], [controlled("1")], True),
        ([owner("1")], [], False),
        ([], [controlled("2")], True),
    ],
)
def test_ours_is_what_our_owner_has(
    wanted: list[OwnerReference], present: list[OwnerReference], ours: bool
) -> None:
    assert is_ours(wanted, present) is ours


def test_what_nobody_controls_is_ours_if_we_have_written_it() -> None:
    assert is_ours([controlled("1")], [], written_by_us=True)
    assert not is_ours([controlled("1")], [controlled("2")], written_by_us=True)


Write = Callable[[Context[Widget], ConfigMap], Awaitable[object]]


async def apply(ctx: Context[Widget], wanted: ConfigMap) -> object:
    return await ctx.apply(wanted, owner=ctx.obj)


async def apply_dynamic(ctx: Context[Widget], wanted: ConfigMap) -> object:
    return await ctx.apply(DynamicObject(wanted.to_dict()), owner=ctx.obj)


async def create(ctx: Context[Widget], wanted: ConfigMap) -> object:
    return await ctx.create(wanted, owner=ctx.obj)


async def patch(ctx: Context[Widget], wanted: ConfigMap) -> object:
    made = wanted.evolve(metadata=wanted.metadata.evolve(owner_references=[controlled(ctx.obj.metadata.uid)]))
    return await create_or_patch(ctx, made, lambda draft: setattr(draft, "data", dict(wanted.data)))


@pytest.mark.parametrize("owns", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("write", [apply, apply_dynamic, create, patch])
@pytest.mark.parametrize(
    ("references", "said"),
    [
        ((), "nobody controls it; delete it or choose another name"),
        ((controlled("x", "Gadget", "g"),), "it is controlled by Gadget g"),
        ((controlled("x"),), "it was made for an earlier Widget of that name and goes with it"),
    ],
    ids=["nobody", "another", "earlier"],
)
async def test_nobody_elses_object_is_written(
    api: WidgetCluster, write: Write, references: tuple[OwnerReference, ...], said: str, owns: bool
) -> None:
    if write is patch and not owns:
        return  # it reads by way of the cache
    await api.fill("a")
    theirs = await api.client.create(config("theirs", *references))
    refused: list[ForeignObject] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        try:
            await write(ctx, config("ours"))
        except ForeignObject as error:
            refused.append(error)

    builder = Builder(Widget)
    builder = builder.owns(ConfigMap) if owns else builder
    async with serving(manager_on(api.link), builder.build(Script(reconcile))):
        await until(lambda: refused)
    found = await api.client.get(ConfigMap, "c", "ns")
    assert found.metadata.resource_version == theirs.metadata.resource_version
    assert refused[0].uid == theirs.metadata.uid
    assert str(refused[0]) == f"ConfigMap ns/c exists and does not belong to Widget a: {said}"


async def test_our_own_object_whose_reference_was_taken_away_gets_it_back(api: WidgetCluster) -> None:
    await api.fill("a")

    async def reconcile(ctx: Context[Widget]) -> None:
        await ctx.apply(config("1"), owner=ctx.obj)

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(Script(reconcile))):

        async def is_owned() -> bool:
            return bool((await api.client.get(ConfigMap, "c", "ns")).metadata.owner_references)

        await until(lambda: api.link.count("apply", "configmaps"))
        made = await api.client.get(ConfigMap, "c", "ns")
        await api.client.update(made.evolve(metadata=made.metadata.evolve(owner_references=())))
        await eventually(is_owned)


@pytest.mark.parametrize("written", ["status", "finalizers"])
async def test_a_status_or_a_finalizer_of_ours_does_not_make_an_object_ours(
    api: WidgetCluster, written: str
) -> None:
    """An operator writes those to everybody's objects of its kind."""
    await api.fill("a")
    people = field_owner(api.client, "kubectl")
    made = Widget(metadata=ObjectMeta(name="theirs", namespace="ns", labels={"of": "people"}))
    found = await people.create(made)
    ours = field_owner(api.client, "widget")
    if written == "status":
        await ours.status.patch(found, MergePatch({"status": {"ready": 1}}))
    else:
        await ours.patch(found, MergePatch({"metadata": {"finalizers": ["example.com/x"]}}))
    found = await api.client.get(Widget, "theirs", "ns")
    wanted = Widget(metadata=found.metadata.evolve(owner_references=(controlled("u"),)))
    with pytest.raises(ForeignObject):
        require_ours(wanted, found, manager="widget")
    await ours.patch(found, MergePatch({"metadata": {"labels": {"a": "b"}}}))
    require_ours(wanted, await api.client.get(Widget, "theirs", "ns"), manager="widget")


async def test_an_object_that_took_the_name_of_ours_is_not_applied_to(api: WidgetCluster) -> None:
    """The cache still shows ours: the UID that is sent along tells the server which one is meant."""
    await api.fill("a")
    wanted, outcome = ["1"], []

    async def reconcile(ctx: Context[Widget]) -> None:
        if wanted[0] == "2":
            ours = await api.client.get(ConfigMap, "c", "ns")
            await api.client.delete(ours)
            await api.client.create(config("theirs"))
        wanted[0], value = "3", wanted[0]
        try:
            await ctx.apply(config(value), owner=ctx.obj)
        except Exception as error:
            outcome.append(type(error).__name__)
            raise

    controller = Builder(Widget).owns(ConfigMap).build(Script(reconcile))
    async with serving(manager_on(api.link), controller) as manager:
        await until(lambda: api.link.count("apply", "configmaps"))
        await until(manager.is_idle)
        wanted[0] = "2"
        controller.queue.add((await api.client.get(Widget, "a", "ns")).key)
        await until(lambda: len(outcome) >= 2)
    assert outcome[:2] == ["Conflict", "ForeignObject"]
    assert (await api.client.get(ConfigMap, "c", "ns")).data == {"value": "theirs"}


async def test_an_object_that_comes_between_the_look_and_the_apply_is_not_taken(api: WidgetCluster) -> None:
    """The cache does not show it yet, and it has the very fields that we would apply."""
    await api.fill("a")
    outcome: list[str] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        if not outcome:
            await api.client.create(config("1"))
        try:
            await ctx.apply(config("1"), owner=ctx.obj)
        except ForeignObject as error:
            outcome.append(error.holder)

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(Script(reconcile))):
        await until(lambda: outcome)
    assert not (await api.client.get(ConfigMap, "c", "ns")).metadata.owner_references


async def test_creating_our_own_object_again_says_that_it_exists(api: WidgetCluster) -> None:
    await api.fill("a")
    outcome: list[str] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        try:
            await ctx.create(config("1"), owner=ctx.obj)
            outcome.append("created")
        except AlreadyExists:
            outcome.append("exists")

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(Script(reconcile))):
        await until(lambda: outcome == ["created", "exists"])


async def test_ensure_creates_updates_its_own_and_refuses_others(api: WidgetCluster) -> None:
    await api.fill("a")

    def double(present: ConfigMap) -> ConfigMap:
        return present.evolve(data={"value": present.data["value"] * 2})

    assert (await ensure(api.client, config("1", controlled("u")), double)).data == {"value": "1"}
    assert (await ensure(api.client, config("1", controlled("u")), double)).data == {"value": "11"}
    with pytest.raises(ForeignObject, match="made for an earlier Widget"):
        await ensure(api.client, config("1", controlled("another")), double)
    present = await api.client.get(ConfigMap, "c", "ns")
    assert present.data == {"value": "11"}
    assert not await delete_if_ours(api.client, config("1", controlled("another")), present)
    assert await delete_if_ours(api.client, config("1", controlled("u")), present)
    assert await delete_if_ours(api.client, config("1", controlled("u")), present), "gone is as good"
