"""What user code does wrong, in every hook that it is called from: contained, counted, and the loop goes on.

Every hook of a controller is set up; one of them is armed with a fault, which happens twice for the object
``bad`` and never for ``good``. What must hold afterwards is always the same: ``good`` was not held up,
``bad`` was served in the end, all workers are alive, and the manager is ready.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.runtime import Channel, ChannelSource
from quarterdeck.runtime.cache import Index
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.predicate import object_matches
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.controller.source import FunctionSource, SourceContext
from quarterdeck.runtime.health.check import HealthChecks
from quarterdeck.runtime.loop.supervision import Loop, Policy, Stray, end_all
from quarterdeck.runtime.manager.cluster import Cluster, ClusterEvent
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Result
from quarterdeck.runtime.webhook import Admission, Defaulter, Validator
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.testing import FaultPlan, RefuseConnection
from quarterdeck.wire.http import Request, Response
from tests.unit.runtime.controlkit import manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster, widget_cluster


@pytest.fixture
async def api() -> AsyncIterator[WidgetCluster]:
    async with widget_cluster() as made:
        yield made


class OwnBase(BaseException):
    """An exception that user code has derived from the wrong class."""


async def await_a_cancelled_task() -> None:
    task = asyncio.get_running_loop().create_task(asyncio.sleep(1000))
    task.cancel()
    await task


async def cancel_itself() -> None:
    """The task that runs the hook, which is none of the hook's business."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def leave_a_cancellation() -> None:
    """As timeouts of libraries do that know nothing of ``uncancel``; then one comes that nobody asked for."""
    with suppress(asyncio.CancelledError):
        await cancel_itself()
    await await_a_cancelled_task()


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


RAISED: dict[str, type[BaseException]] = {
    "an error": KeyError,
    "a cancellation": asyncio.CancelledError,
    "an exit": SystemExit,
    "the end of a generator": GeneratorExit,
    "a base exception": OwnBase,
}
AWAITED: dict[str, Callable[[], Awaitable[None]]] = {
    "awaits a cancelled task": await_a_cancelled_task,
    "cancels itself": cancel_itself,
    "leaves a cancellation": leave_a_cancellation,
    "hangs": hang,
}
GARBAGE = object()


class Hooks:
    """Where the fault is, and how often it has happened."""

    def __init__(self, armed: str, fault: str) -> None:
        self.armed = armed
        self.fault = fault
        self.happened = 0

    def strikes(self, hook: str, name: str) -> bool:
        if hook != self.armed or name != "bad" or self.happened >= 2:
            return False
        self.happened += 1
        return True

    def call(self, hook: str, name: str) -> Any:
        """In a plain function; what comes back, if anything, is what the hook shall return."""
        if not self.strikes(hook, name):
            return None
        if self.fault in RAISED:
            raise RAISED[self.fault]("a fault")
        return GARBAGE

    async def wait(self, hook: str, name: str) -> Any:
        """In an async function."""
        if not self.strikes(hook, name):
            return None
        if self.fault in AWAITED:
            await AWAITED[self.fault]()
        if self.fault in RAISED:
            raise RAISED[self.fault]("a fault")
        return GARBAGE


class World(Reconciler[Widget]):
    """A controller with every hook there is; it counts how often each widget was reconciled."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.runs: list[str] = []
        self.deletions: list[str] = []
        self.cleaned: list[str] = []
        self.channel = Channel()
        self.begun = 0

    async def reconcile(self, ctx: Context[Widget]) -> Result | None:
        found = await self.hooks.wait("reconcile", ctx.key.name)
        if found is not None:
            return found  # type: ignore[no-any-return]  # garbage is what is tried
        self.runs.append(ctx.key.name)
        return None

    async def deleted(self, ctx: DeleteContext) -> None:
        await self.hooks.wait("deleted", ctx.key.name)
        self.deletions.append(ctx.key.name)

    async def clean(self, ctx: Context[Widget]) -> Result | None:
        found = await self.hooks.wait("finalizer", ctx.key.name)
        if found is None:
            self.cleaned.append(ctx.key.name)
        return None

    def wants(self, obj: ConfigMap) -> bool:
        self.hooks.call("predicate", obj.metadata.name)
        return True

    def map_plainly(self, _: object, obj: ConfigMap) -> Iterable[Key]:
        found = self.hooks.call("mapper", obj.metadata.name)
        return [Key("ns", obj.metadata.name)] if found is None else found

    async def map_later(self, _: object, obj: ConfigMap) -> Iterable[Key]:
        found = await self.hooks.wait("async mapper", obj.metadata.name)
        return [Key("ns", obj.metadata.name)] if found is None else found

    def index(self, obj: ConfigMap) -> Iterator[str]:
        self.hooks.call("index", obj.metadata.name)
        yield obj.metadata.name

    def delay(self, key: Key) -> float:
        found = self.hooks.call("delay", key.name)
        return 0.0 if found is None else found

    async def source(self, context: SourceContext) -> None:
        self.begun += 1
        context.synced()
        await self.hooks.wait("source", "bad")
        await hang()

    def build(self) -> Builder[Widget]:
        return (
            Builder(Widget)
            .finalizer("example.com/clean", self.clean)
            .watches(
                ConfigMap, to=self.map_plainly, predicates=[object_matches(self.wants)], delay=self.delay
            )
            .watches(ConfigMap, to=self.map_later)
            .indexes(ConfigMap, Index("by-name", self.index))
            .source(ChannelSource(self.channel, _Mapped(self)))
            .source(FunctionSource(self.source))
            .options(max_concurrent_reconciles=2)
        )


class _Mapped:
    def __init__(self, world: World) -> None:
        self.world = world

    def keys(self, event: Any, context: Any) -> Any:
        found = self.world.hooks.call("channel mapper", event.key.name)
        return [event.key] if found is None else found


def config(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns"))


ASYNC_HOOKS = ["reconcile", "deleted", "finalizer", "async mapper", "source"]
PLAIN_HOOKS = ["predicate", "mapper", "index", "delay", "channel mapper"]
RETURNING = {"reconcile", "mapper", "async mapper", "delay", "channel mapper"}
CASES = [
    *((hook, fault) for hook in ASYNC_HOOKS for fault in (*RAISED, *AWAITED)),
    *((hook, fault) for hook in PLAIN_HOOKS for fault in RAISED),
    *((hook, "garbage") for hook in (*ASYNC_HOOKS, *PLAIN_HOOKS) if hook in RETURNING),
]


@pytest.mark.parametrize(("hook", "fault"), [case for case in CASES if case != ("source", "hangs")])
async def test_a_fault_in_a_hook_is_contained(hook: str, fault: str) -> None:
    hooks = Hooks(hook, fault)
    world = World(hooks)
    async with widget_cluster() as api:
        await api.fill("good", "bad")
        manager = manager_on(api.link)
        controller = world.build().build(world)
        async with serving(manager, controller):
            await until(lambda: {"good", "bad"} <= set(world.runs))
            for name in ("bad", "good"):
                world.runs.clear()
                await api.client.create(config(name))
                await until(lambda name=name: world.runs.count(name) >= 1)  # type: ignore[misc]
                world.runs.clear()
                await world.channel.send(await api.client.get(ConfigMap, name, "ns"))
                await until(lambda name=name: name in world.runs)  # type: ignore[misc]
            for name in ("bad", "good"):
                await api.client.delete(await api.client.get(Widget, name, "ns"))
            await until(lambda: {"good", "bad"} <= set(world.deletions))
            assert {"good", "bad"} <= set(world.cleaned)
            assert hooks.happened >= 1, "the hook was called and the fault happened"
            if hook == "source":
                await until(lambda: world.begun == 3)  # started again after each fault
            await until(lambda: controller.trouble() is None)
            assert controller.statistics().workers == 2
            assert manager.checks.readiness()["loops"]() is None


async def test_a_failed_source_is_reported_until_it_runs_again(api: WidgetCluster) -> None:
    await api.fill("a")
    begun: list[float] = []

    async def source(context: SourceContext) -> None:
        begun.append(asyncio.get_running_loop().time())
        context.synced()
        await asyncio.sleep(5)
        if len(begun) == 1:
            raise OSError("the inventory is away")
        await hang()

    controller = Builder(Widget).source(FunctionSource(source, name="inventory")).build(World(Hooks("", "")))
    manager = manager_on(api.link)
    async with serving(manager, controller):
        ready = manager.checks.readiness()["loops"]
        await until(lambda: ready() is not None)
        assert ready() == "widget func source: inventory: the inventory is away"
        await until(lambda: len(begun) == 2)
        assert ready() is None


@pytest.mark.parametrize("fault", [*RAISED, *AWAITED])
async def test_a_plain_reconcile_that_fails_does_not_end_its_worker(api: WidgetCluster, fault: str) -> None:
    if fault in AWAITED:
        return  # a thread awaits nothing
    await api.fill("good", "bad")
    hooks, runs = Hooks("plain", fault), []

    def reconcile(ctx: Context[Widget]) -> None:
        hooks.call("plain", ctx.key.name)
        runs.append(ctx.key.name)

    controller = Builder(Widget).options(max_concurrent_reconciles=1).build(reconcile)
    async with serving(manager_on(api.link), controller):
        await until(lambda: {"good", "bad"} <= set(runs))
        assert controller.statistics().workers == 1


@pytest.mark.parametrize("fault", [*RAISED, *AWAITED])
async def test_a_runnable_that_is_to_be_restarted_is(api: WidgetCluster, fault: str) -> None:
    if fault == "hangs":
        return  # a runnable may take as long as it likes
    hooks, begun = Hooks("runnable", fault), []

    class Sweeper:
        needs_leader_election = True

        async def run(self) -> None:
            begun.append(1)
            await hooks.wait("runnable", "bad")
            await hang()

    manager = manager_on(api.link)
    manager.add(Sweeper(), policy=Policy.RESTART)
    async with serving(manager):
        await until(lambda: len(begun) == 3)
        await until(lambda: manager.checks.readiness()["loops"]() is None)


@pytest.mark.parametrize("fault", [*RAISED, "awaits a cancelled task"])
async def test_a_runnable_that_fails_stops_the_manager_and_is_named(api: WidgetCluster, fault: str) -> None:
    """It must not just be gone while everything else looks well."""
    hooks = Hooks("runnable", fault)

    class Sweeper:
        async def run(self) -> None:
            await hooks.wait("runnable", "bad")
            await hang()

    manager = manager_on(api.link)
    manager.add(Sweeper())
    with pytest.raises((Stray, KeyError)):
        await manager.serve()


@pytest.mark.parametrize("fault", [*RAISED, "awaits a cancelled task"])
async def test_a_provider_that_fails_is_asked_again(api: WidgetCluster, fault: str) -> None:
    await api.fill("a")
    hooks, ran = Hooks("provider", fault), []
    member = Cluster(api.cluster.link(name="member").client, name="member")
    dead = Cluster(api.cluster.link(FaultPlan(0, RefuseConnection()), name="dead").client, name="dead")

    class Provider:
        async def events(self) -> AsyncIterator[ClusterEvent]:
            yield ClusterEvent("engaged", dead)
            await hooks.wait("provider", "bad")
            yield ClusterEvent("engaged", member)
            await hang()

    async def reconcile(ctx: Context[Widget]) -> None:
        ran.append(ctx.key.cluster)

    manager = manager_on(api.link)
    manager.add_provider(Provider())
    async with serving(manager, Builder(Widget).build(reconcile)):
        await until(lambda: {"", "member"} <= set(ran))
        assert hooks.happened == 2
        assert manager.checks.readiness()["caches"]() is None, "a cluster that is away is its own trouble"


@pytest.mark.parametrize("fault", [*RAISED, *AWAITED])
async def test_a_health_check_that_fails_is_a_failed_check(fault: str) -> None:
    hooks, checks = Hooks("check", fault), HealthChecks("readyz")

    async def check() -> str | None:
        await hooks.wait("check", "bad")
        return None

    checks.add("mine", check)
    for _ in range(2):
        answer = await _response(checks.handle(Request("GET", "/readyz", "", {}, b"")))
        assert answer.status == 500
    assert (await _response(checks.handle(Request("GET", "/readyz", "", {}, b"")))).status == 200


async def _response(answer: Response | Awaitable[Response]) -> Response:
    return answer if isinstance(answer, Response) else await answer


async def _review(endpoint: AdmissionEndpoint) -> dict[str, Any]:
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "bad", "namespace": "ns"},
    }
    request = {"uid": "u", "operation": "CREATE", "name": "bad", "namespace": "ns", "object": widget}
    request["kind"] = {"group": "example.com", "version": "v1", "kind": "Widget"}
    request["resource"] = {"group": "example.com", "version": "v1", "resource": "widgets"}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    headers = {"content-type": "application/json"}
    answer = await _response(endpoint.handle(Request("POST", "/x", "", headers, json.dumps(body).encode())))
    decoded: dict[str, Any] = json.loads(answer.body)["response"]
    return decoded


@pytest.mark.parametrize("is_mutating", [False, True], ids=["validator", "defaulter"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("fault", [*RAISED, *AWAITED, "garbage"])
async def test_a_webhook_that_fails_refuses_and_answers_the_next(
    fault: str, is_async: bool, is_mutating: bool
) -> None:
    if (fault in AWAITED and not is_async) or (fault == "garbage" and not is_mutating):
        return  # a plain function awaits nothing; what a validator returns means nothing
    hooks, metrics = Hooks("webhook", fault), RuntimeMetrics()

    def plain(admission: Admission, widget: Widget) -> Any:
        return hooks.call("webhook", widget.metadata.name) or (widget if is_mutating else None)

    async def later(admission: Admission, widget: Widget) -> Any:
        return await hooks.wait("webhook", widget.metadata.name) or widget

    kind = Defaulter if is_mutating else Validator
    webhook: Any = kind(Widget, later if is_async else plain)
    endpoint = AdmissionEndpoint(webhook, panics=metrics.webhook_panics)
    for _ in range(2):
        answer = await _review(endpoint)
        assert not answer["allowed"]
        assert answer["status"]["message"]
    assert (await _review(endpoint))["allowed"]
    assert metrics.webhook_panics.value == (0 if fault == "hangs" else 2)


@pytest.mark.parametrize("policy", [Policy.RESTART, Policy.ISOLATE, Policy.STOP])
async def test_a_loop_that_fails_while_it_is_ended_ends(policy: Policy) -> None:
    begun: list[None] = []

    async def run() -> None:
        begun.append(None)
        try:
            await hang()
        finally:
            raise KeyError("its clean-up fails")

    task = asyncio.ensure_future(Loop("untidy", run, policy=policy).run())
    await asyncio.sleep(1)
    await end_all([task])
    assert task.done()
    assert len(begun) == 1
