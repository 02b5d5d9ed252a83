"""What a reconcile can do: status, conditions, finalizers, apply, upserts, children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quarterdeck.api import UNSET, DynamicObject, Key, ObjectMeta, Resource, UnsetType, encode
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.errors import Conflict, Terminal
from quarterdeck.runtime.cache.entry import EntryFactory
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.reconcile.application import AppliedMemory, holds
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result
from quarterdeck.runtime.reconcile.upsert import UpsertResult, create_or_patch
from quarterdeck.testing import Refuse, eventually
from tests.unit.runtime.controlkit import Script, Spy, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WIDGETS, WidgetCluster


async def stored(api: WidgetCluster, kind: type[Resource], name: str) -> dict[str, Any]:
    return (await api.client.get(kind.type_info.gvk, name, "ns")).to_dict()


async def until_widget(api: WidgetCluster, holds: Callable[[dict[str, Any]], object]) -> None:
    """Wait until something holds for the widget ``a``."""

    async def probe() -> object:
        return holds(await stored(api, Widget, "a"))

    await eventually(probe, timeout=600, interval=0.01)


async def until_gone(api: WidgetCluster) -> None:
    async def probe() -> bool:
        return not await api.names(Widget)

    await eventually(probe, timeout=600, interval=0.01)


class Events:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, regarding: Any, type: str, reason: str, action: str, note: str, **_: Any) -> None:
        self.seen.append((type, reason, note))


async def test_status_is_written_once_and_only_if_it_differs(api: WidgetCluster) -> None:
    await api.fill("a")

    def edit(ctx: Context[Widget]) -> None:
        ctx.status.ready = 1
        ctx.status.ready = 3
        ctx.conditions.set("Ready", True, reason="AllUp", message="3 of 3")

    script = Script(edit)
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: len(script.runs) == 2)  # the status write itself wakes the key once
        await asyncio.sleep(5)
        assert len(script.runs) == 2
    assert api.link.count("patch", WIDGETS) == 1
    written = (await stored(api, Widget, "a"))["status"]
    assert written["ready"] == 3
    assert written["observedGeneration"] == 1
    (condition,) = written["conditions"]
    assert condition["lastTransitionTime"].startswith("2030-01-01")
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == ("True", "AllUp", 1)


async def test_status_of_a_failed_reconcile_is_written_too(api: WidgetCluster) -> None:
    await api.fill("a")

    def fail(ctx: Context[Widget]) -> None:
        ctx.conditions.set("Ready", False, reason="Broken")
        raise Conflict("not now")

    async with serving(manager_on(api.link), Builder(Widget).build(Script(fail))):
        await until_widget(api, lambda widget: widget.get("status"))
    assert (await stored(api, Widget, "a"))["status"]["conditions"][0]["reason"] == "Broken"


async def test_fail_sets_a_condition_emits_an_event_and_rests(api: WidgetCluster) -> None:
    await api.fill("a")
    events = Events()
    script = Script(lambda ctx: ctx.fail("BadSpec", "replicas must be odd"))
    async with serving(manager_on(api.link, recorder=events), Builder(Widget).build(script)):
        await until_widget(api, lambda widget: widget.get("status"))
        await asyncio.sleep(1000)
        assert len(script.runs) <= 2  # once more for its own status write
    condition = (await stored(api, Widget, "a"))["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "False", "BadSpec")
    assert events.seen[0] == ("Warning", "BadSpec", "replicas must be odd")


async def test_a_status_written_in_the_middle_of_a_run_is_seen_in_its_object(api: WidgetCluster) -> None:
    await api.fill("a")

    async def work(ctx: Context[Widget]) -> tuple[str, int, str]:
        before = ctx.obj.metadata.resource_version
        ctx.status.ready = 4
        assert await ctx.write_status()
        status = ctx.obj.status
        assert not isinstance(status, UnsetType)
        assert not await ctx.write_status()
        return before, status.ready, ctx.obj.metadata.resource_version

    [(before, ready, after)] = await run_in_context(api, work)
    assert ready == 4
    assert int(after) > int(before)


async def test_status_of_an_object_that_went_away_is_no_error(api: WidgetCluster) -> None:
    await api.fill("a")

    async def edit(ctx: Context[Widget]) -> None:
        ctx.status.ready = 1
        await api.remove(Widget, "a")

    script = Script(edit)
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: script.gone == [Key("ns", "a")])
        assert len(script.runs) == 1


async def test_conditions_may_be_looked_at_while_they_are_edited(api: WidgetCluster) -> None:
    await api.fill("a")
    found = list[Any]()

    def edit(ctx: Context[Widget]) -> None:
        found.append(ctx.conditions.find("Ready"))
        assert not ctx.conditions.is_true("Ready")
        assert not ctx.conditions.is_false("Ready")
        ctx.conditions.set("Ready", False, reason="Waiting")
        assert ctx.conditions.is_false("Ready")
        assert not ctx.conditions.is_true("Ready")
        found.append(ctx.conditions.find("Ready"))

    script = Script(edit)
    async with serving(manager_on(api.link), Builder(Widget).build(script)):
        await until(lambda: len(found) >= 2)
    assert found[0] is None
    assert (found[1].status, found[1].reason) == ("False", "Waiting")


async def test_declared_finalizer_is_added_runs_its_cleanup_and_is_removed(api: WidgetCluster) -> None:
    await api.fill("a")
    cleaned: list[str] = []

    async def cleanup(ctx: Context[Widget]) -> Result | None:
        cleaned.append(ctx.key.name)
        return Requeue(5) if len(cleaned) == 1 else None

    script = Script()
    controller = Builder(Widget).finalizer("example.com/clean", cleanup).build(script)
    async with serving(manager_on(api.link), controller):
        await until_widget(api, lambda widget: widget["metadata"].get("finalizers") == ["example.com/clean"])
        await api.remove(Widget, "a")
        runs = len(script.runs)
        await until(lambda: cleaned == ["a"])
        assert (await stored(api, Widget, "a"))["metadata"]["finalizers"]
        await until_gone(api)
        assert cleaned == ["a", "a"]
        assert len(script.runs) <= runs + 1


async def test_failing_cleanup_keeps_its_finalizer_and_lets_the_others_go(api: WidgetCluster) -> None:
    await api.fill("a", metadata={"finalizers": ["f/bad", "f/good"]})
    await api.remove(Widget, "a")
    tries: list[Sequence[str]] = []

    async def bad(ctx: Context[Widget]) -> None:
        tries.append(ctx.obj.metadata.finalizers)
        if len(tries) < 3:
            raise Conflict("cannot clean")

    async def good(ctx: Context[Widget]) -> None:
        return None

    controller = Builder(Widget).finalizer("f/bad", bad).finalizer("f/good", good).build(Script())
    async with serving(manager_on(api.link), controller):
        await until_gone(api)
    assert tries == [("f/bad", "f/good"), ("f/bad",), ("f/bad",)]


@pytest.mark.parametrize(
    ("error", "told", "runs"),
    [
        (Terminal("never"), ["terminal"], 1),
        (KeyError("bug"), ["panic"], 2),
        (Conflict("slow"), [], 2),
        (Requeue(5, "later"), ["requeue later"], 2),
    ],
)
async def test_what_a_cleanup_raises_means_what_it_means_in_a_reconcile(
    api: WidgetCluster, error: Exception, told: list[str], runs: int
) -> None:
    await api.fill("a", metadata={"finalizers": ["f/x"]})
    await api.remove(Widget, "a")
    spy = Spy()
    tries: list[int] = []

    async def cleanup(ctx: Context[Widget]) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise error

    controller = Builder(Widget).finalizer("f/x", cleanup).build(Script())
    async with serving(manager_on(api.link, metrics=spy), controller):
        await until(lambda: len(spy.results) >= runs)
        await asyncio.sleep(60)
    assert (len(tries), spy.told) == (runs, told)
    assert spy.results[0] == ("requeue_after" if isinstance(error, Requeue) else "error")
    assert (await api.names(Widget) == ["a"]) == (runs == 1)


async def test_two_controllers_never_erase_each_others_finalizer(api: WidgetCluster) -> None:
    await api.fill("a")

    async def cleanup(ctx: Context[Widget]) -> None:
        return None

    controllers = [
        Builder(Widget, name=n).finalizer(f"f/{n}", cleanup).build(Script()) for n in ("x", "y", "z")
    ]
    wanted = {"f/x", "f/y", "f/z"}
    async with serving(manager_on(api.link), *controllers):
        await until_widget(api, lambda widget: set(widget["metadata"].get("finalizers", ())) == wanted)


async def test_finalizer_scope_adds_on_the_way_in_and_removes_on_the_way_out(api: WidgetCluster) -> None:
    await api.fill("a")
    cleaned: list[str] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        async with ctx.finalizer("f/scope") as scope:
            if scope.is_deleting:
                if not cleaned:
                    cleaned.append("begun")
                    scope.keep()
                else:
                    cleaned.append("done")

    async with serving(manager_on(api.link), Builder(Widget).build(Script(reconcile))) as manager:
        await until_widget(api, lambda widget: widget["metadata"].get("finalizers") == ["f/scope"])
        await api.remove(Widget, "a")
        await until(lambda: cleaned == ["begun"])
        manager.controllers[0].queue.add(Key("ns", "a"))
        await until_gone(api)
    assert cleaned == ["begun", "done"]


def config(value: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"), data={"value": value})


async def test_apply_is_sent_once_and_again_only_when_something_differs(api: WidgetCluster) -> None:
    await api.fill("a")
    wanted = ["1"]

    async def reconcile(ctx: Context[Widget]) -> None:
        applied = await ctx.apply(config(wanted[0]), owner=ctx.obj)
        assert applied.data["value"] == wanted[0]

    script = Script(reconcile)
    controller = Builder(Widget).owns(ConfigMap).build(script)
    async with serving(manager_on(api.link), controller) as manager:

        async def run_again() -> None:
            await until(manager.is_idle)
            count = len(script.runs)
            controller.queue.add(Key("ns", "a"))
            await until(lambda: len(script.runs) > count)
            await until(manager.is_idle)

        await until(lambda: api.link.count("apply", "configmaps") == 1)
        await run_again()
        assert api.link.count("apply", "configmaps") == 1
        annotated = await api.client.get(ConfigMap, "c", "ns")
        await api.client.update(annotated.evolve(metadata=annotated.metadata.evolve(annotations={"x": "y"})))
        await run_again()
        assert api.link.count("apply", "configmaps") == 1  # somebody else's field is no difference
        drifted = await api.client.get(ConfigMap, "c", "ns")
        await api.client.update(drifted.evolve(data={"value": "drift"}))
        await until(lambda: api.link.count("apply", "configmaps") == 2)
        await run_again()
        assert (await stored(api, ConfigMap, "c"))["data"] == {"value": "1"}
        wanted[0] = "2"
        await run_again()
        assert api.link.count("apply", "configmaps") == 3
    call = next(call for call in api.link.log if call.verb == "apply")
    assert call.query == {"force": "true", "fieldManager": "widget"}
    (reference,) = (await stored(api, ConfigMap, "c"))["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["controller"]) == ("Widget", True)


async def test_dynamic_objects_can_be_applied_with_an_owner(api: WidgetCluster) -> None:
    await api.fill("a")

    async def reconcile(ctx: Context[Widget]) -> None:
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": "ns"}}
        await ctx.apply(DynamicObject(document), owner=ctx.obj)

    manager = manager_on(api.link)
    async with serving(manager, Builder(Widget).build(Script(reconcile))):
        await eventually(lambda: stored(api, ConfigMap, "d"))
    assert (await stored(api, ConfigMap, "d"))["metadata"]["ownerReferences"][0]["name"] == "a"


def test_memory_of_applies_is_bounded_and_knows_incarnations() -> None:
    memory = AppliedMemory(limit=2)
    for i in range(5):
        obj = config(str(i)).evolve(metadata=ObjectMeta(name=f"c{i}", namespace="ns"))
        memory.applied(obj, obj.evolve(metadata=obj.metadata.evolve(uid="u", resource_version="1")), "m")
    assert len(memory) == 2


def test_what_was_applied_need_not_be_applied_again_to_the_same_object() -> None:
    memory, wanted = AppliedMemory(), config("1")
    answer = wanted.evolve(metadata=wanted.metadata.evolve(uid="u", resource_version="7"))
    memory.applied(wanted, answer, "m")

    def unchanged(**metadata: Any) -> bool:
        document = answer.to_dict()
        document["metadata"] |= metadata
        return memory.is_unchanged(wanted, EntryFactory().make(encode(document)), "m")

    assert unchanged()
    assert unchanged(resourceVersion="8"), "somebody wrote another field"
    assert not unchanged(uid="another"), "it was deleted and made anew"
    assert not unchanged(deletionTimestamp="2030-01-01T00:00:00Z"), "it is going, and will have to be made"
    assert not memory.is_unchanged(config("2"), EntryFactory().make(answer.to_bytes()), "m")
    assert not AppliedMemory().is_unchanged(wanted, EntryFactory().make(answer.to_bytes()), "m")


@pytest.mark.parametrize(
    ("present", "wanted", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"l": [{"n": "x", "default": 1}]}, {"l": [{"n": "x"}]}, True),
        ({"l": [1, 2]}, {"l": [1]}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": None}, {"a": {}}, False),
    ],
)
def test_document_holds_another_if_every_value_is_there(present: Any, wanted: Any, held: bool) -> None:
    assert holds(present, wanted) is held


async def test_prune_deletes_controlled_objects_that_are_not_kept(api: WidgetCluster) -> None:
    await api.fill("a")
    uid = (await stored(api, Widget, "a"))["metadata"]["uid"]
    mine = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": uid, "controller": True}
    for name, owners in (("keep", [mine]), ("old", [mine]), ("foreign", [])):
        await api.put(ConfigMap, name, metadata={"ownerReferences": owners})
    pruned: list[Any] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        pruned.append(await ctx.prune(ConfigMap, keep={"keep"}))

    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(Script(reconcile))):
        await until(lambda: pruned)
    assert pruned[0] == (Key("ns", "old"),)
    assert await api.names(ConfigMap) == ["foreign", "keep"]


async def run_in_context(api: WidgetCluster, work: Any) -> list[Any]:
    results: list[Any] = []

    async def reconcile(ctx: Context[Widget]) -> None:
        if not results:
            results.append(await work(ctx))

    async with serving(
        manager_on(api.link), Builder(Widget).owns(ConfigMap).owns(Pod).build(Script(reconcile))
    ):
        await until(lambda: results)
    return results


async def test_create_or_patch_creates_patches_and_leaves_alone(api: WidgetCluster) -> None:
    await api.fill("a")
    done: list[Any] = []

    async def work(ctx: Context[Widget]) -> Any:
        name = ConfigMap(metadata=ObjectMeta(name="c", namespace="ns"))

        def change(draft: Any) -> None:
            draft.data["x"] = "1"

        for _ in range(2):
            done.append((await create_or_patch(ctx, name, change)).result)
        done.append((await create_or_patch(ctx, name, lambda draft: draft.data.update(x="2"))).result)

        def rename(draft: Any) -> None:
            draft.metadata.name = "other"

        with pytest.raises(ValueError, match="MutateFn cannot mutate object name"):
            await create_or_patch(ctx, name, rename)
        return True

    await run_in_context(api, work)
    assert done == [UpsertResult.CREATED, UpsertResult.UNCHANGED, UpsertResult.UPDATED]


async def test_create_or_patch_writes_object_and_status_separately(api: WidgetCluster) -> None:
    await api.fill("a", spec={"replicas": 1})
    done: list[Any] = []

    async def work(ctx: Context[Widget]) -> Any:
        def both(draft: Any) -> None:
            draft.spec.replicas = 4
            draft.status.ready = 4

        def only_status(draft: Any) -> None:
            draft.status.ready = 5

        for change in (both, both, only_status):
            done.append((await create_or_patch(ctx, ctx.obj, change)).result)
        return True

    await run_in_context(api, work)
    assert done == [
        UpsertResult.UPDATED_STATUS,
        UpsertResult.UNCHANGED,
        UpsertResult.UPDATED_STATUS_ONLY,
    ]


async def test_create_or_patch_creates_what_is_not_there(api: WidgetCluster) -> None:
    await api.fill("a")
    done: list[Any] = []

    async def work(ctx: Context[Widget]) -> Any:
        def paint(draft: Any) -> None:
            draft.spec.color = "green"

        wanted = Widget(metadata=ObjectMeta(name="new", namespace="ns"))
        done.append(await create_or_patch(ctx, wanted, paint))
        return True

    await run_in_context(api, work)
    ((made, result),) = done
    assert result is UpsertResult.CREATED
    assert made.spec.color == (await api.client.get(Widget, "new", "ns")).spec.color == "green"


async def test_blocking_functions_leave_the_loop(api: WidgetCluster) -> None:
    await api.fill("a")
    assert UNSET is not None

    async def work(ctx: Context[Widget]) -> Any:
        return await ctx.run_blocking(pow, 2, 10)

    assert await run_in_context(api, work) == [1024]


async def test_refused_status_write_fails_the_reconcile_and_is_retried(api: WidgetCluster) -> None:
    await api.fill("a")
    api.link.plan.add(Refuse(500, verbs=frozenset({"patch"}), times=1))

    def edit(ctx: Context[Widget]) -> None:
        ctx.status.ready = 2

    async with serving(manager_on(api.link), Builder(Widget).build(Script(edit))):
        await until_widget(api, lambda widget: widget.get("status"))
    assert api.link.count("patch", WIDGETS) == 2


async def test_a_dry_run_and_another_manager_do_not_make_the_next_apply_do_nothing(
    api: WidgetCluster,
) -> None:
    await api.fill("a")
    wanted = config("1")

    async def reconcile(ctx: Context[Widget]) -> None:
        if len(script.runs) > 1:
            return
        await ctx.apply(config("0"), owner=ctx.obj)
        await ctx.apply(wanted, owner=ctx.obj, dry_run=True)
        await ctx.apply(wanted, owner=ctx.obj)
        await ctx.apply(wanted, owner=ctx.obj, field_manager="another")

    script = Script(reconcile)
    async with serving(manager_on(api.link), Builder(Widget).owns(ConfigMap).build(script)) as manager:
        await until(lambda: script.runs)
        await until(manager.is_idle)
    found = await stored(api, ConfigMap, "c")
    assert found["data"] == {"value": "1"}
    assert {each["manager"] for each in found["metadata"]["managedFields"]} == {"widget", "another"}
