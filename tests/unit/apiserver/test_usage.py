"""`metrics.k8s.io`: what pods of simulated nodes use."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.cluster.controllers import ClusterControllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import NotFound
from quarterdeck.testing import run
from tests.unit.cluster.workloadkit import NAMESPACE, pod

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
BASE = "/apis/metrics.k8s.io/v1beta1"
USAGE = {"quarterdeck.dev/usage-cpu": "250m", "quarterdeck.dev/usage-memory": "64Mi"}


async def ask(client: Client, path: str, query: str = "") -> Any:
    return json.loads((await client.rest.request("GET", path, query=query)).body)


async def _usage() -> None:
    server = ApiServer(ServerOptions(usage=True))
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    controllers = ClusterControllers(
        Client.over(InProcessTransport(server.local()), on_warning=lambda _: None),
        root_ca=b"",
        workloads=Workloads(nodes=NodeSettings(count=2)),
    )
    running = asyncio.create_task(controllers.run())
    try:
        await client.create(pod("busy", annotations=USAGE))
        await client.create(pod("idle"))
        await asyncio.sleep(5)
        listed = await ask(client, f"{BASE}/namespaces/{NAMESPACE}/pods")
        assert listed["kind"] == "PodMetricsList"
        shown = {item["metadata"]["name"]: item["containers"] for item in listed["items"]}
        assert shown == {
            "busy": [{"name": "c", "usage": {"cpu": "250m", "memory": "64Mi"}}],
            "idle": [{"name": "c", "usage": {"cpu": "1m", "memory": "1Mi"}}],
        }
        nodes = await ask(client, f"{BASE}/nodes")
        assert {item["metadata"]["name"]: item["usage"] for item in nodes["items"]} == {
            "node-0": {"cpu": "251m", "memory": "65Mi"},
            "node-1": {"cpu": "0", "memory": "0"},
        }
        one = await ask(client, f"{BASE}/namespaces/{NAMESPACE}/pods/busy")
        assert one["kind"] == "PodMetrics"
        none = await ask(client, f"{BASE}/namespaces/{NAMESPACE}/pods", "labelSelector=no%3Dsuch")
        assert none["items"] == []
        with pytest.raises(NotFound):
            await ask(client, f"{BASE}/namespaces/{NAMESPACE}/pods/none")
        groups = [group["name"] for group in (await ask(client, "/apis"))["groups"]]
        assert "metrics.k8s.io" in groups
        service = await ask(client, f"{SERVICES}/v1beta1.metrics.k8s.io")
        assert "service" not in service["spec"]
        [condition] = service["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
        resources = (await ask(client, BASE))["resources"]
        assert [(each["name"], each["kind"]) for each in resources] == [
            ("nodes", "NodeMetrics"),
            ("pods", "PodMetrics"),
        ]
        log = await client.rest.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/busy/log")
        text = b"simulated node node-0: image x would have run the command of the image\n"
        assert bytes(log.body) == text
    finally:
        controllers.request_stop()
        await running
        await client.aclose()
        await server.stop()


def test_pods_use_what_their_annotations_say_and_log_what_would_have_run() -> None:
    run(_usage())


async def _without() -> None:
    async with ApiServer() as server:
        client = Client.over(InProcessTransport(server.local()))
        with pytest.raises(NotFound):
            await ask(client, f"{BASE}/nodes")
        with pytest.raises(NotFound):
            await ask(client, f"{SERVICES}/v1beta1.metrics.k8s.io")
        await client.aclose()


def test_a_bare_server_serves_no_usage() -> None:
    asyncio.run(_without())
