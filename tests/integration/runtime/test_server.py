"""The runtime against servers: the embedded one without sockets and over HTTPS, and kube-apiserver.

Each test runs on all of them: the runtime speaks the wire protocol only, and must not know the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from quarterdeck.api import UNSET, Condition, Key, Maybe, Model, ObjectMeta, Resource, Seq, crd, omitempty
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.api.k8s.core import ConfigMap, Namespace
from quarterdeck.apiserver.server import ApiServer
from quarterdeck.client import Call, Client, Config, Response, Stream, intercept
from quarterdeck.client.call import ProceedStream
from quarterdeck.client.inprocess import InProcessTransport
from quarterdeck.errors import Conflict, NotFound, TooManyRequests, ignore_already_exists
from quarterdeck.runtime.cache import Cache, CacheOptions, HealthState, field, label, owned_by, owner_uid
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue, Result

Test = Callable[[Client, str], Awaitable[None]]
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}\n'
_numbers = iter(range(1, 10_000))


class GadgetSpec(Model):
    parts: int = 1


class GadgetStatus(Model):
    ready: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Gadget(Resource, group="runtime.example.com", version="v1", status=True, selectable=[".spec.parts"]):
    """Something made of config maps."""

    spec: GadgetSpec = omitempty(GadgetSpec())
    status: GadgetStatus = omitempty(GadgetStatus())


@pytest.fixture(
    params=["in-process", "embedded", pytest.param("real", marks=pytest.mark.kube)],
)
def on_server(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test with a client and a fresh namespace; no task may be left behind."""
    kind: str = request.param
    kubeconfig: Path | None = None
    if kind != "in-process":
        kubeconfig = request.getfixturevalue("embedded_server" if kind == "embedded" else "real_server")

    def run(test: Test) -> None:
        async def main() -> None:
            async with asyncio.timeout(120), connected(kubeconfig) as client:
                namespace = f"rt-{next(_numbers)}-{random.randrange(10**6)}"
                await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
                await install(client)
                await test(client, namespace)
            await asyncio.sleep(0.05)
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not left, left

        uvloop.run(main()) if kubeconfig is not None else asyncio.run(main())

    return run


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path | None) -> AsyncIterator[Client]:
    if kubeconfig is not None:
        async with Client.connect(Config.load(kubeconfig)) as client:
            yield client
        return
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with Client.over(InProcessTransport(server.local())) as client:
            yield client
    finally:
        await server.stop()


async def install(client: Client) -> None:
    with ignore_already_exists():
        await client.create(CustomResourceDefinition.from_dict(crd(Gadget)))
    await eventually(lambda: served(client))


async def served(client: Client) -> bool:
    try:
        await client.list(Gadget, limit=1)
    except NotFound:
        return False
    return True


async def eventually(condition: Callable[[], Any], within: float = 30.0) -> None:
    deadline = asyncio.get_running_loop().time() + within
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return
        assert asyncio.get_running_loop().time() < deadline, f"not within {within} s"
        await asyncio.sleep(0.02)


def gadget(namespace: str, name: str, parts: int = 1) -> Gadget:
    return Gadget(metadata=ObjectMeta(name=name, namespace=namespace), spec=GadgetSpec(parts=parts))


@contextlib.asynccontextmanager
async def managed(
    client: Client, namespace: str, *controllers: Controller[Any], **options: Any
) -> AsyncIterator[Manager]:
    manager = Manager(client, cache=CacheOptions(namespaces=(namespace,)), **options)
    for controller in controllers:
        manager.add(controller)
    async with manager, asyncio.TaskGroup() as group:
        task = group.create_task(manager.serve())
        try:
            yield manager
        finally:
            manager.request_stop()
            await asyncio.wait([task])


async def assemble(ctx: Context[Gadget]) -> Result | None:
    """One config map per part, and a status that counts them."""
    wanted = {f"{ctx.key.name}-{i}" for i in range(ctx.obj.spec.parts)}
    for name in sorted(wanted):
        part = ConfigMap(
            metadata=ObjectMeta(name=name, namespace=ctx.key.namespace), data={"of": ctx.key.name}
        )
        await ctx.apply(part, owner=ctx.obj)
    await ctx.prune(ConfigMap, keep=wanted)
    ready = ctx.index(ConfigMap, owned_by(ctx.obj)).count(lambda part: part.data.get("of") == ctx.key.name)
    ctx.status.ready = ready
    ctx.conditions.set(
        "Complete", ready == len(wanted), reason="Counted", message=f"{ready} of {len(wanted)}"
    )
    return None


def assembler() -> Controller[Gadget]:
    return Builder(Gadget).owns(ConfigMap).indexes(ConfigMap, owner_uid).build(assemble)


async def names(client: Client, namespace: str) -> list[str]:
    found = await client.list(ConfigMap, namespace=namespace)
    return sorted(c.metadata.name for c in found if c.metadata.name != "kube-root-ca.crt")


def test_controller_reaches_the_desired_state_and_then_rests(on_server: Callable[[Test], None]) -> None:
    async def test(client: Client, namespace: str) -> None:
        await client.create(gadget(namespace, "a", 3))
        controller = assembler()
        async with managed(client, namespace, controller) as manager:

            async def complete(name: str, parts: int) -> bool:
                status = (await client.get(Gadget, name, namespace)).status
                return status.ready == parts and status.conditions[0].status == "True"

            await eventually(lambda: complete("a", 3))
            await client.create(gadget(namespace, "b", 1))
            await eventually(lambda: complete("b", 1))
            grown = await client.get(Gadget, "a", namespace)
            await client.update(grown.evolve(spec=GadgetSpec(parts=2)))
            await eventually(lambda: complete("a", 2))
            assert await names(client, namespace) == ["a-0", "a-1", "b-0"]
            await eventually(manager.is_idle)
            settled = await client.list(Gadget, namespace=namespace)
            controller.queue.add(Key(namespace, "a"))
            await asyncio.sleep(0.1)
            await eventually(manager.is_idle)
            again = await client.list(Gadget, namespace=namespace)
            assert [g.metadata.resource_version for g in settled] == [
                g.metadata.resource_version for g in again
            ]
            assert again[0].status.observed_generation == again[0].metadata.generation
            await client.delete(ConfigMap, "a-1", namespace)
            await eventually(lambda: _same(names(client, namespace), ["a-0", "a-1", "b-0"]))

    on_server(test)


async def _same(found: Awaitable[Any], wanted: Any) -> bool:
    return bool(await found == wanted)


def test_finalizer_runs_its_cleanup_before_the_object_goes(on_server: Callable[[Test], None]) -> None:
    async def test(client: Client, namespace: str) -> None:
        cleaned: list[str] = []

        async def cleanup(ctx: Context[Gadget]) -> Result | None:
            cleaned.append(ctx.key.name)
            return Requeue(0.1, "not yet") if len(cleaned) < 3 else None

        async def reconcile(ctx: Context[Gadget]) -> None:
            return None

        await client.create(gadget(namespace, "a"))
        controller = Builder(Gadget).finalizer("runtime.example.com/clean", cleanup).build(reconcile)
        async with managed(client, namespace, controller):

            async def guarded() -> bool:
                return bool((await client.get(Gadget, "a", namespace)).metadata.finalizers)

            await eventually(guarded)
            await client.delete(Gadget, "a", namespace)
            await eventually(lambda: _is_gone(client, namespace))
        assert cleaned == ["a"] * 3

    on_server(test)


async def _is_gone(client: Client, namespace: str) -> bool:
    try:
        await client.get(Gadget, "a", namespace)
    except NotFound:
        return True
    return False


def test_streamed_and_plain_lists_cache_the_same(on_server: Callable[[Test], None]) -> None:
    async def test(client: Client, namespace: str) -> None:
        for i in range(30):
            made = gadget(namespace, f"g{i}", i % 3)
            await client.create(made.evolve(metadata=made.metadata.evolve(labels={"app": f"a{i % 2}"})))
        seen: list[Any] = []
        for streamed in (True, False):
            options = CacheOptions(namespaces=(namespace,), stream_lists=streamed)
            cache = Cache(client, client.mapper, options=options)
            informer = cache.informer(Gadget)
            informer.declare_index(field("spec.parts"))
            informer.declare_index(label("app"))
            async with asyncio.TaskGroup() as group:
                task = group.create_task(cache.run())
                await asyncio.sleep(0)
                await cache.wait_synced()
                entries = sorted((e.name, e.uid, e.resource_version, e.raw) for e in informer.entries())
                twos = await cache.list(Gadget, fields="spec.parts=2")
                odd = await cache.list(Gadget, labels="app=a1", namespace=namespace)
                decoded = [g.to_dict() for g in await cache.list(Gadget)]
                seen.append((entries, len(twos), len(odd), decoded))
                task.cancel()
        assert len(seen[0][0]) == 30
        assert seen[0][1:3] == (10, 15)
        assert [e[:3] for e in seen[0][0]] == [e[:3] for e in seen[1][0]]
        assert sorted(seen[0][3], key=_name) == sorted(seen[1][3], key=_name)
        live = (await client.list(Gadget, namespace=namespace)).items
        for one, other in zip(
            sorted(seen[0][3], key=_name), sorted((g.to_dict() for g in live), key=_name), strict=True
        ):
            other["metadata"].pop("managedFields", None)
            assert one == other

    on_server(test)


def _name(document: dict[str, Any]) -> str:
    return str(document["metadata"]["name"])


def test_seeded_faults_lose_nothing_and_start_no_storm(on_server: Callable[[Test], None]) -> None:
    """Watches cut, expired and refused, writes refused: the state is reached, one worker per key."""

    async def test(client: Client, namespace: str) -> None:
        chance = random.Random(7)
        running: set[Key] = set()
        runs: Counter[str] = Counter()
        faults: Counter[str] = Counter()

        async def cut(call: Call, proceed: ProceedStream) -> Stream:
            dice = chance.random()
            if dice < 0.1:
                faults["429"] += 1
                raise TooManyRequests("slow down")
            stream = await proceed(call)
            if call.verb != "watch":
                return stream
            return Stream(stream.status, _cut_after(stream, chance, faults), stream.headers, stream.aclose)

        async def refuse(call: Call, proceed: Any) -> Response:
            if chance.random() < 0.1:
                faults["409"] += 1
                raise Conflict("the object has been modified")
            response: Response = await proceed(call)
            return response

        async def careful(ctx: Context[Gadget]) -> Result | None:
            assert ctx.key not in running
            running.add(ctx.key)
            runs[ctx.key.name] += 1
            try:
                return await assemble(ctx)
            finally:
                running.remove(ctx.key)

        faulty = intercept(client, watch=cut, patch=refuse, apply=refuse, delete=refuse)
        controller = (
            Builder(Gadget)
            .owns(ConfigMap)
            .indexes(ConfigMap, owner_uid)
            .options(max_concurrent_reconciles=8)
            .build(careful)
        )
        wanted: dict[str, int] = {}
        async with managed(faulty, namespace, controller):
            for i in range(10):
                wanted[f"g{i}"] = 1
                await client.create(gadget(namespace, f"g{i}"))
            for _ in range(30):
                await asyncio.sleep(0.1)
                name, parts = f"g{chance.randrange(10)}", chance.randrange(4)
                present = await client.get(Gadget, name, namespace)
                with contextlib.suppress(Conflict):
                    await client.update(present.evolve(spec=GadgetSpec(parts=parts)))
                    wanted[name] = parts

            async def settled() -> bool:
                found = await client.list(Gadget, namespace=namespace)
                return all(
                    g.status.ready == g.spec.parts == wanted[g.metadata.name]
                    and g.status.observed_generation == g.metadata.generation
                    for g in found
                )

            await eventually(settled, within=60)
            expected = sorted(f"{name}-{i}" for name, parts in wanted.items() for i in range(parts))
            await eventually(lambda: _same(names(client, namespace), expected))
        assert faults["cut"] >= 3
        assert faults["409"] >= 2
        assert sum(runs.values()) < 2000

    on_server(test)


async def _cut_after(stream: Stream, chance: random.Random, faults: Counter[str]) -> AsyncIterator[bytes]:
    """The stream for a second or two; then its end, or an expired version."""
    deadline = asyncio.get_running_loop().time() + 0.3 + chance.random()
    chunks = aiter(stream)
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                yield await anext(chunks)
        except TimeoutError:
            faults["cut"] += 1
            if chance.random() < 0.3:
                yield EXPIRED
            return
        except StopAsyncIteration:
            return


def test_optional_kind_attaches_when_its_definition_is_installed(on_server: Callable[[Test], None]) -> None:
    async def test(client: Client, namespace: str) -> None:
        number = next(_numbers)

        class Late(
            Resource,
            group=f"late{number}.example.com",
            version="v1",
            kind="Late",
            plural="lates",
            singular="late",
        ):
            """A kind that comes later."""

            spec: GadgetSpec = omitempty(GadgetSpec())

        woken: Counter[str] = Counter()

        async def reconcile(ctx: Context[Gadget]) -> None:
            woken[ctx.key.name] += 1

        def to(context: Any, obj: Any) -> list[Key]:
            return [Key(namespace, "a")]

        await client.create(gadget(namespace, "a"))
        controller = Builder(Gadget).watches(Late, to=to, optional=True).build(reconcile)
        async with managed(client, namespace, controller) as manager:
            await eventually(lambda: woken["a"] == 1)
            late = manager.cache.informer(Late)
            await eventually(lambda: late.health.state is HealthState.KIND_MISSING)
            assert all(check() is None for check in manager.checks.readiness().values())
            await client.create(CustomResourceDefinition.from_dict(crd(Late)))
            await eventually(lambda: late.has_synced, within=15)
            await client.create(Late(metadata=ObjectMeta(name="x", namespace=namespace)))
            await eventually(lambda: woken["a"] == 2)

    on_server(test)


def test_status_conflicts_and_restarts_leave_one_child_each(on_server: Callable[[Test], None]) -> None:
    """Two managers in turn on the same objects: the second finds the work done and changes nothing."""

    async def test(client: Client, namespace: str) -> None:
        for i in range(5):
            await client.create(gadget(namespace, f"g{i}", 2))

        async def done() -> bool:
            return all(g.status.ready == 2 for g in await client.list(Gadget, namespace=namespace))

        quiet = ManagerOptions(watch_loop=False)
        async with managed(client, namespace, assembler(), options=quiet):
            await eventually(done)
        before = {
            c.metadata.name: c.metadata.resource_version
            for c in await client.list(ConfigMap, namespace=namespace)
        }
        async with managed(client, namespace, assembler(), options=quiet) as manager:
            await eventually(lambda: manager.is_leading and manager.is_idle())
            await asyncio.sleep(0.2)
        after = {
            c.metadata.name: c.metadata.resource_version
            for c in await client.list(ConfigMap, namespace=namespace)
        }
        assert after == before

    on_server(test)
