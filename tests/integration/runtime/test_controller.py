"""Controllers and the manager that runs them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from quarterdeck.api import Key, Model, ObjectMeta, Resource, omitempty, set_controller_reference
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from quarterdeck.client import Client
from quarterdeck.runtime import CacheOptions, Context, Manager, ManagerOptions, Result
from quarterdeck.runtime.cache import HealthState
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.handler import mapped
from quarterdeck.runtime.controller.source import KindSource
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.cluster import Cluster
from quarterdeck.runtime.manager.option import GracePeriodExceeded
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import (
    DelayEvents,
    EventLog,
    FaultPlan,
    SilenceWatch,
    TestCluster,
    eventually,
    run_until_idle,
)

from .gadget import GADGETS, Gadget, GadgetSpec, Wire, gadget


async def test_reconcile_after_own_write_never_sees_older_state(wire: Wire) -> None:
    """Every event is late, and still each run builds on what the one before has written."""
    written: dict[str, int] = {}
    children: list[str] = []

    async def count_up(ctx: Context[Gadget]) -> Result | None:
        name, size = ctx.key.name, ctx.obj.spec.size
        assert size >= written.get(name, 0), f"{name} shows {size}, written was {written[name]}"
        if size == 5:
            return None
        if not await ctx.list(ConfigMap, namespace=ctx.key.namespace, labels={"of": name}):
            metadata = ObjectMeta(generate_name=f"{name}-", namespace=ctx.key.namespace, labels={"of": name})
            children.append((await ctx.create(ConfigMap(metadata=metadata))).metadata.name)
        await ctx.update(ctx.obj.evolve(spec=GadgetSpec(size=size + 1)))
        written[name] = size + 1
        return Result(requeue=True)

    manager = wire.cluster.manager(
        plan=FaultPlan(5, DelayEvents((0.2, 0.5))), cache=CacheOptions(namespaces=(wire.namespace,))
    )
    manager.add(manager.controller(Gadget).owns(ConfigMap).build(count_up))
    await wire.create("a", "b", "c")
    async with wire.cluster.serving(manager):
        await eventually(lambda: sorted(written.values()) == [5, 5, 5], timeout=60)
        await run_until_idle(manager)
    assert len(children) == 3, "a child that the cache has not shown yet is not created again"


@pytest.mark.cluster(crds=[Gadget])
async def test_a_cache_that_does_not_catch_up_is_waited_for_5_s_and_counted(
    cluster: TestCluster,
) -> None:
    metrics = RuntimeMetrics()
    manager = cluster.manager(metrics=metrics)
    runs: list[float] = []

    async def reconcile(ctx: Context[Gadget]) -> Result | None:
        runs.append(asyncio.get_running_loop().time())
        if len(runs) == 2:
            cluster.links[-1].plan = FaultPlan(0, SilenceWatch((0.0, 0.0)))
            cluster.links[-1].end_watches()
            await asyncio.sleep(1)
            await ctx.update(ctx.obj.evolve(spec=GadgetSpec(size=len(runs))))
        return Result(requeue=True) if len(runs) < 3 else None

    manager.add(manager.controller(Gadget).build(reconcile))
    await cluster.client.create(gadget("a"))
    async with cluster.serving(manager):
        await eventually(lambda: len(runs) == 3)
        assert runs[2] - runs[1] == pytest.approx(1 + 5, abs=0.1)
    assert metrics.registry.value("quarterdeck_consistency_waits_total", "gadget") == 1
    assert metrics.registry.value("quarterdeck_consistency_timeouts_total", "gadget") == 1


@pytest.mark.cluster(crds=[Gadget])
async def test_an_object_that_the_server_no_longer_has_is_not_reconciled_again_and_again(
    cluster: TestCluster,
) -> None:
    """Its watch is late, those of its children are not: each change of a child would wake it."""
    late = FaultPlan(0, DelayEvents((60.0, 60.0), resources=frozenset({GADGETS}), since=1.0))
    manager = cluster.manager(plan=late)
    runs: list[float] = []

    async def reconcile(ctx: Context[Gadget]) -> None:
        runs.append(asyncio.get_running_loop().time())
        ctx.status.ready = max(len(runs), 2)

    manager.add(manager.controller(Gadget).owns(ConfigMap).build(reconcile))
    owner = await cluster.client.create(gadget("a"))
    async with cluster.serving(manager):
        await eventually(lambda: runs)
        await asyncio.sleep(2)
        await cluster.client.delete(owner)
        before = len(runs)
        for i in range(200):
            metadata = set_controller_reference(owner, ObjectMeta(name=f"c{i}", namespace="default"))
            await cluster.client.create(ConfigMap(metadata=metadata))
            await asyncio.sleep(0.1)
        assert len(runs) - before <= 6, "one run, and one each time it has waited 5 s for the cache"


async def _grant(client: Client, user: str, name: str, *rules: PolicyRule) -> None:
    await client.create(ClusterRole(metadata=ObjectMeta(name=name), rules=rules))
    await client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name=name),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=name),
            subjects=(Subject(kind="User", name=user, api_group="rbac.authorization.k8s.io"),),
        )
    )


def _reads(group: str, resource: str) -> PolicyRule:
    return PolicyRule(verbs=("get", "list", "watch"), api_groups=(group,), resources=(resource,))


@pytest.mark.parametrize("optional", [False, True], ids=["needed", "optional"])
async def test_missing_permission_is_named_by_readiness_within_10_s_and_others_keep_working(
    wire: Wire, optional: bool
) -> None:
    cluster, user = wire.cluster, f"user-of-{wire.namespace}"
    await _grant(cluster.client, user, f"{user}-config", _reads("", "configmaps"))
    manager = cluster.manager(link=cluster.link(user=user), cache=CacheOptions(namespaces=(wire.namespace,)))
    seen: list[str] = []
    woken: list[str] = []

    async def watch_config(ctx: Context[ConfigMap]) -> None:
        seen.append(ctx.key.name)

    async def watch_gadget(ctx: Context[Gadget]) -> None:
        woken.append(ctx.key.name)

    def to(context: Any, obj: Gadget) -> list[Key]:
        woken.append(obj.metadata.name)
        return []

    builder = manager.controller(ConfigMap)
    if optional:
        manager.add(builder.watches(Gadget, to=to, optional=True).build(watch_config))
    else:
        manager.add(builder.build(watch_config))
        manager.add(manager.controller(Gadget).build(watch_gadget))
    await wire.create("g")
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="first", namespace=wire.namespace)))
    checks = manager.checks.readiness()
    async with cluster.serving(manager):
        informer = manager.cache.informer(Gadget)
        await eventually(lambda: informer.health.state is HealthState.FORBIDDEN, timeout=10)
        assert (informer.health.verb, informer.health.resource) == ("watch", GADGETS)
        reason = checks["informers"]()
        if optional:
            assert reason is None
        else:
            assert f"cannot watch {GADGETS}" in str(reason)
        await eventually(lambda: "first" in seen, timeout=10)
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="second", namespace=wire.namespace)))
        await eventually(lambda: "second" in seen, timeout=10)
        await _grant(cluster.client, user, f"{user}-gadgets", _reads("guarantee.example.com", "gadgets"))
        await eventually(lambda: woken == ["g"], timeout=60)
        assert checks["informers"]() is None


class Traced:
    """A runnable that writes down when it starts and ends."""

    def __init__(self, name: str, log: list[str], **attributes: Any) -> None:
        self.name, self._log = name, log
        self.__dict__.update(attributes)

    async def run(self) -> None:
        self._log.append(f"+{self.name}")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._log.append(f"-{self.name}")


@pytest.mark.cluster(crds=[Gadget])
async def test_start_order_and_stop_order(cluster: TestCluster) -> None:
    log: list[str] = []

    class Election:
        async def run(self, on_started: Any, on_stopped: Any) -> None:
            log.append("+election")
            try:
                await on_started()
                await asyncio.get_running_loop().create_future()
            finally:
                log.append("-election")

        def may_write(self) -> bool:
            return True

    async def reconcile(ctx: Context[Gadget]) -> None:
        log.append(f"reconcile {ctx.key.name}")

    await cluster.client.create(gadget("a"))
    manager = cluster.manager(elector=Election())
    manager.add(Traced("server", log, is_serving=True), group=Group.SERVERS)
    manager.add(Traced("webhooks", log, is_serving=True), group=Group.WEBHOOKS)
    manager.add(Traced("cache", log), group=Group.CACHES)
    manager.add(Traced("other", log, needs_leader_election=False))
    manager.add(Traced("leader", log))
    manager.add(manager.controller(Gadget).build(reconcile))
    async with cluster.serving(manager):
        await eventually(lambda: "reconcile a" in log)
        assert log == ["+server", "+webhooks", "+cache", "+other", "+election", "+leader", "reconcile a"]
        log.clear()
    assert log == ["-other", "-leader", "-cache", "-webhooks", "-server", "-election"]


@pytest.mark.cluster(crds=[Gadget])
async def test_grace_overrun_names_the_period_and_the_runnable(cluster: TestCluster) -> None:
    async def stuck(ctx: Context[Gadget]) -> None:
        await asyncio.sleep(3600)

    await cluster.client.create(gadget("a"))
    manager = cluster.manager(options=ManagerOptions(watch_loop=False, graceful_shutdown_timeout=30.0))
    manager.add(manager.controller(Gadget).options(reconcile_timeout=None).build(stuck))
    started = 0.0

    async def stop_in_the_middle() -> None:
        nonlocal started
        async with cluster.serving(manager):
            await eventually(lambda: manager.statistics().controllers[0].active == 1)
            started = asyncio.get_running_loop().time()

    message = "failed waiting for all runnables to end within grace period of 30s: Controller gadget"
    with pytest.raises(GracePeriodExceeded, match=message):
        await stop_in_the_middle()
    assert asyncio.get_running_loop().time() - started == pytest.approx(30)


STUBBORN = """
import asyncio, sys
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.apiserver import ApiServer
from quarterdeck.runtime import Manager

class Stubborn:
    async def run(self):
        print("running", flush=True)
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                print("asked", flush=True)

async def main():
    server = ApiServer()
    await server.start(listen=False)
    async with Manager(Client.over(InProcessTransport(server.local()))) as manager:
        manager.add(Stubborn())
        return await manager.run()

sys.exit(asyncio.run(main()))
"""


def test_second_signal_ends_the_process_with_code_1_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "running\n"
            os.kill(process.pid, signal.SIGTERM)
            assert process.stdout.readline() == "asked\n"
            assert process.poll() is None, "it is given its grace period"
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(5) == 1
        finally:
            process.kill()


class VisitorSpec(Model):
    size: int = 0


class Visitor(Resource, group="guarantee.example.com", version="v1"):
    """A kind that is installed and removed again and again."""

    spec: VisitorSpec = omitempty(VisitorSpec())


def _runtime_objects() -> Counter[str]:
    """The objects of the runtime and its client, and all tasks; what a server remembers is its own affair."""
    gc.collect()
    rooms = ("quarterdeck.runtime", "quarterdeck.client")
    found = [kind for each in gc.get_objects() if str((kind := type(each)).__module__).startswith(rooms)]
    return Counter([kind.__qualname__ for kind in found] + ["Task" for _ in asyncio.all_tasks()])


@pytest.mark.usefixtures("young_heap")
@pytest.mark.cluster(crds=[Gadget])
async def test_watches_crds_and_clusters_that_come_and_go_leave_neither_tasks_nor_memory(
    cluster: TestCluster, manager: Manager, recorder: EventLog
) -> None:
    async def reconcile(ctx: Context[Gadget]) -> None:
        seen.append(str(ctx.key))

    def to_a(context: Any, obj: Any) -> list[Key]:
        return [Key("default", "a")]

    seen: list[str] = []
    controller = Builder(Gadget).watches(Visitor, to=to_a, optional=True).build(reconcile)
    manager.add(controller)
    await cluster.client.create(gadget("a"))
    await cluster.start(manager)
    await run_until_idle(manager)

    async def visit(number: int) -> None:
        await cluster.install(Visitor)
        visitor = Visitor(metadata=ObjectMeta(name=f"v{number}", namespace="default"))
        informer = manager.cache.informer(Visitor)
        await eventually(lambda: informer.health.is_good)
        await cluster.client.create(visitor)
        handle = controller.watch(KindSource(ConfigMap, mapped(to_a)))
        async with TestCluster(crds=[Gadget]) as other:
            await other.client.create(gadget(f"g{number}"))
            await manager.engage(Cluster(other.link().client, name=f"c{number}"))
            await eventually(lambda: f"c{number}" in "".join(seen))
            await run_until_idle(manager)
            await manager.disengage(f"c{number}")
        await controller.unwatch(handle)
        await manager.cache.remove_informer(ConfigMap)
        await cluster.client.delete(CustomResourceDefinition, "visitors.guarantee.example.com")
        await eventually(lambda: informer.health.state is HealthState.KIND_MISSING)
        seen.clear()
        cluster.links[-1].log.clear()

    counts: list[Counter[str]] = []
    for number in range(10):
        await visit(number)
        await asyncio.sleep(1000)  # timers that were cancelled lie in the loop's heap until they are due
        counts.append(_runtime_objects())
    assert counts[9] == counts[3], (counts[9] - counts[3], counts[3] - counts[9])
    assert counts[3]["Task"] > 3
    assert recorder.events == []
