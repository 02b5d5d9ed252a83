"""All services on one manager: they fit its contracts, start before controllers and stop after them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.api import ObjectMeta, crd
from quarterdeck.api.k8s import ConfigMap, Lease, events
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.client import Client, Config
from quarterdeck.runtime.cache.metrics import follow_caches
from quarterdeck.runtime.certificate import SelfSigned
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.election import LeaderElection, ThreadedElector, election_client
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.health import HealthServer, MetricsServer, ping
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.webhook import (
    UrlTarget,
    Validator,
    WebhookOptions,
    WebhookServer,
    webhook_configurations,
)
from tests.unit.runtime.servicekit import Gang, Web, client_of, embedded, install, until

pytestmark = pytest.mark.real_time


class Greeter(Reconciler[ConfigMap]):
    async def reconcile(self, ctx: Context[ConfigMap]) -> None:
        if ctx.key.name == "greet":
            ctx.event("Normal", "Greeted", "hello", action="Greet")


async def test_a_manager_with_everything(tmp_path: Path) -> None:
    async with ApiServer(ServerOptions()) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(server.kubeconfig()))
        config = Config.load(path)
        metrics = RuntimeMetrics()
        settings = LeaderElection(name="crew", namespace="kube-system", identity="me")
        hooks = WebhookServer(
            WebhookOptions(host="127.0.0.1", port=0),
            certificates=SelfSigned("hook", "kube-system"),
            metrics=metrics,
        )
        hooks.add(Validator(Gang, lambda admission, gang: None))
        async with Client.connect(config, observer=metrics.observe_request) as client:
            hooks.bind(client)
            async with EventBroadcaster(client, metrics=metrics) as broadcaster:
                recorder = broadcaster.recorder("greeter")
                elector = ThreadedElector(
                    settings, election_client(config, settings), recorder=recorder, metrics=metrics
                )
                manager = Manager(
                    client, leader_election=elector, webhooks=hooks, metrics=metrics, recorder=recorder
                )
                health = HealthServer("127.0.0.1:0")
                health.readiness.add("webhooks", hooks.check)
                health.liveness.add("lease", elector.check)
                served = MetricsServer(metrics.registry, "127.0.0.1:0")
                manager.add(health)
                manager.add(served)
                follow_caches(metrics, lambda: {"manager": manager.cache})
                manager.add(manager.controller(ConfigMap, name="greeter").build(Greeter()))
                await _run(manager, client, health, served)
            lease = await client.get(Lease, "crew", "kube-system")
            assert not lease.spec.holder_identity, "given back at the end"
            notes = {event.note for event in await client.list(events.Event)}
            assert {"hello", "me became leader", "me stopped leading"} <= notes


async def _run(manager: Manager, client: Client, health: HealthServer, served: MetricsServer) -> None:
    async with manager:
        running = asyncio.create_task(manager.serve())
        await until(lambda: manager.is_leading or running.done(), seconds=20)
        await client.create(ConfigMap(metadata=ObjectMeta(name="greet", namespace="default")))
        web = await Web.connect(health.address[1], None)
        for path in ("/readyz", "/healthz"):
            assert await web.send("GET", path) == (200, b"ok"), await web.send("GET", f"{path}?verbose")
        await web.close()
        text = ""
        web = await Web.connect(served.address[1], None)
        async with asyncio.timeout(60):
            while 'reconcile_total{controller="greeter",result="success"} 0' in text or not text:
                _, body = await web.send("GET", "/metrics")
                text = body.decode()
        await web.close()
        for expected in (
            'leader_election_master_status{name="crew"} 1',
            'quarterdeck_informer_synced{kind="ConfigMap"} 1',
            'informer_store_resource_version{name="manager",group="",version="v1",resource="configmaps"}',
            'rest_client_requests_total{code="200",method="GET"',
            'workqueue_adds_total{name="greeter",controller="greeter"}',
        ):
            assert expected in text, expected
        manager.request_stop()
        await running


class Writer:
    """Writes as soon as it runs, as the controllers of an embedded cluster do."""

    group = Group.CACHES

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_serving = False

    async def run(self) -> None:
        await self._client.create(Gang(metadata=ObjectMeta(name="a", namespace="default")))
        self.is_serving = True
        await asyncio.get_running_loop().create_future()


async def test_nothing_is_written_while_configurations_of_an_earlier_run_are_in_force() -> None:
    async with embedded() as server:
        client = client_of(server)
        await install(client, crd(Gang))
        asked: list[str] = []
        validator = Validator(Gang, lambda admission, gang: asked.append(gang.metadata.name))
        for stale in webhook_configurations("gangs", [validator], UrlTarget("https://127.0.0.1:1")):
            await client.create(stale)
        source = SelfSigned("hook", "kube-system", dns_names=("127.0.0.1",))
        hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
        hooks.add(validator)

        async def publish(bundle: bytes) -> bool:
            await until(lambda: hooks.port)
            await asyncio.sleep(0.2)  # long enough for whoever does not wait
            return await hooks.installer(client, "gangs", UrlTarget(f"https://127.0.0.1:{hooks.port}"))(
                bundle
            )

        hooks.bind(client, publish)
        manager, writer = Manager(client, webhooks=hooks), Writer(client)
        manager.add(writer)
        async with manager:
            running = asyncio.create_task(manager.serve())
            await until(lambda: manager.is_leading or running.done())
            assert writer.is_serving, "what controllers stand on is there before they are"
            manager.request_stop()
            await running
        assert asked == ["a"]


def check_types(manager: Any) -> None:
    """The services are what the manager's protocols ask for; read by the type checker."""
    from quarterdeck.runtime.contract import Elector, Recorder
    from quarterdeck.runtime.loop.runnable import Runnable
    from quarterdeck.runtime.manager.option import ManagerMetrics

    metrics: ManagerMetrics = RuntimeMetrics()
    settings = LeaderElection(name="x")
    elector: Elector = ThreadedElector(settings, lambda: manager.client)
    recorder: Recorder = EventBroadcaster(manager.client).recorder("x")
    runnables: list[Runnable] = [WebhookServer(), HealthServer(), MetricsServer(RuntimeMetrics().registry)]
    del metrics, elector, recorder, runnables


async def test_a_health_server_has_the_checks_of_its_manager() -> None:
    async with embedded() as server:
        client = client_of(server)
        manager = Manager(client)
        plain, bare, strange = HealthServer("0"), HealthServer("0", built_in=False), HealthServer("0")
        plain.readiness.add_all(manager.checks.readiness())  # by hand is allowed, too
        strange.readiness.add("caches", ping)
        manager.add(plain)
        manager.add(bare)
        assert plain.readiness.names == ("caches", "informers", "loops")
        assert plain.liveness.names == ("event-loop", "watches")
        assert bare.readiness.names == bare.liveness.names == ("ping",)
        with pytest.raises(ValueError, match='health check "caches" exists already'):
            manager.add(strange)
