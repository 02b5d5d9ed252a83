"""The API server may call at any time: before caches are filled, while the operator restarts, in bulk."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s import Node, Secret
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client
from quarterdeck.client.inprocess import InProcessTransport
from quarterdeck.errors import ApiError, Forbidden
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.operators.nodegroup.index import NODES_BY_GROUP
from quarterdeck.operators.nodegroup.types import ModuleConfig
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, NodeGroupConverter, SyncedReader
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator.program import Program, ProgramOptions
from quarterdeck.runtime.webhook.convert_endpoint import ConversionEndpoint
from quarterdeck.wire.http import Request

from .clusterfake import FakeCluster

Json = dict[str, Any]
OLD = GroupVersionKind(names.GROUP, "v1alpha1", names.KIND)


def document(name: str, version: str = names.V1, **spec: Any) -> DynamicObject:
    return DynamicObject(
        {"apiVersion": version, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    )


@asynccontextmanager
async def embedded() -> AsyncIterator[Client]:
    server = ApiServer()
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    try:
        yield client
    finally:
        await client.aclose()
        await server.stop()


@asynccontextmanager
async def serving(client: Client, port: int) -> AsyncIterator[Program]:
    program = Program(
        client,
        [NodeGroupOperator()],
        ProgramOptions(
            is_embedded=True, installs=True, webhook_port=port, webhook_url=f"https://127.0.0.1:{port}"
        ),
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.serve())
        try:
            yield program
        finally:
            program.manager.request_stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_state_comes_from_the_server_until_the_cache_is_filled_and_then_never_again() -> None:
    live = FakeCluster()
    live.configure("defaultCRI: ContainerdV2")
    async with embedded() as client:
        for name in (names.CLUSTER_CONFIGURATION_SECRET, names.PROVIDER_SECRET):
            metadata = ObjectMeta(name=name, namespace=names.SYSTEM_NAMESPACE)
            await client.create(Secret(metadata=metadata))
        labels = {names.GROUP_LABEL: "worker", names.CONTAINERD_CONFIG_LABEL: names.CUSTOM_CONFIG}
        await client.create(Node(metadata=ObjectMeta(name="n-1", labels=labels)))
        manager = Manager(client)
        cache = manager.cache
        reader = ClusterReader(SyncedReader(cache, live), live=live)
        assert (await reader.configuration()).default_cri == "ContainerdV2", "nobody caches it"
        cache.informer(Secret)
        cache.informer(ModuleConfig, optional=True)
        await cache.informer(Node).add_index(NODES_BY_GROUP)
        assert (await reader.configuration()).default_cri == "ContainerdV2", "cached, but not filled"
        assert await reader.custom_nodes("worker") == []
        assert await reader.toleration_keys() == frozenset()
        before = list(live.reads)
        assert len(before) == 4
        running = asyncio.create_task(cache.run())
        async with asyncio.timeout(10):
            await cache.informer(Secret).wait_synced()
            await cache.informer(Node).wait_synced()
            await cache.informer(ModuleConfig).wait_readable()  # there is no such kind on this server
        assert (await reader.configuration()).default_cri == ""
        assert await reader.custom_nodes("worker") == ["n-1"]
        assert await reader.custom_nodes("other") == []
        assert await reader.toleration_keys() == frozenset()
        assert live.reads == before
        running.cancel()
        await asyncio.wait([running])


def test_calls_during_a_restart_fail_or_are_answered_right() -> None:
    async def story() -> None:
        port = free_port()
        async with embedded() as client:
            async with serving(client, port) as program:
                await program.wait_ready()
                await client.create(document("w", nodeType="Static", update={"maxConcurrent": 3}))
            outcomes: list[str] = []
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                for call in (read_old, write_docker):
                    tasks.create_task(repeat(client, call, outcomes, stop))
                await asyncio.sleep(0.05)
                assert set(outcomes) <= {"nobody answers"}, "the operator is not there yet"
                async with serving(client, port) as program:
                    await program.wait_ready()
                    ready = len(outcomes)
                    await asyncio.sleep(0.1)
                    stop.set()
            assert set(outcomes) <= {"nobody answers", "read", "refused"}
            assert {"read", "refused"} <= set(outcomes)
            first = min(outcomes.index("read"), outcomes.index("refused"))
            assert "nobody answers" not in outcomes[ready:]
            assert first <= ready, "webhooks are served before the caches are filled"

    asyncio.run(story())


async def repeat(
    client: Client, call: Callable[[Client], Any], outcomes: list[str], stop: asyncio.Event
) -> None:
    while not stop.is_set():
        async with asyncio.timeout(10):
            try:
                outcomes.append(await call(client))
            except Forbidden as error:
                outcomes.append("refused" if "cri type to Docker" in str(error) else str(error))
            except ApiError as error:
                text = str(error)
                is_away = "failed calling webhook" in text or "conversion webhook" in text
                outcomes.append("nobody answers" if is_away else text)
        await asyncio.sleep(0.005)


async def read_old(client: Client) -> str:
    (group,) = await client.list(OLD)
    assert group.at("spec") == {
        "nodeType": "Static",
        "kubelet": {"containerLogMaxSize": "50Mi", "containerLogMaxFiles": 4},
    }
    assert "maxConcurrent" in group.metadata.annotations[names.CONVERSION_DATA]
    return "read"


async def write_docker(client: Client) -> str:
    await client.create(document("probe", nodeType="Static", cri={"type": "Docker"}), dry_run=True)
    return "a write was let through"


def test_no_secret_and_a_broken_one_on_a_server() -> None:
    async def story() -> None:
        async with embedded() as client, serving(client, free_port()) as program:
            await program.wait_ready()
            static = await client.create(document("static", names.V1ALPHA2, nodeType="Static"))
            hybrid = await client.create(document("hybrid", names.V1ALPHA2, nodeType="Hybrid"))
            assert (static.at("spec", "nodeType"), hybrid.at("spec", "nodeType")) == ("Static", "Hybrid")
            broken = {names.PROVIDER_CONFIGURATION_KEY: b"nodeGroups: {{"}
            metadata = ObjectMeta(name=names.PROVIDER_SECRET, namespace=names.SYSTEM_NAMESPACE)
            await client.create(Secret(metadata=metadata, data=broken))
            await until_refused(client, "failed to load provider config: failed to parse")
            assert len(await client.list(OLD)) == 2, "reads do not need it"
            assert (await client.get(OLD, "hybrid")).at("spec", "nodeType") == "Hybrid"
            await client.delete(Secret, names.PROVIDER_SECRET, names.SYSTEM_NAMESPACE)
            twice = {names.CLUSTER_CONFIGURATION_KEY: b"bm90IGJhc2U2NCBhdCBhbGw=="}
            metadata = ObjectMeta(name=names.CLUSTER_CONFIGURATION_SECRET, namespace=names.SYSTEM_NAMESPACE)
            await client.create(Secret(metadata=metadata, data=twice))
            await until_refused(client, "failed to load cluster config: failed to parse")
            await client.delete(Secret, names.CLUSTER_CONFIGURATION_SECRET, names.SYSTEM_NAMESPACE)

    asyncio.run(story())


async def until_refused(client: Client, words: str) -> None:
    """The operator learns of a Secret a moment after it was written."""
    async with asyncio.timeout(10):
        while True:
            outcome = await attempt(client)
            if outcome:
                assert words in outcome
                return
            await asyncio.sleep(0.01)


async def attempt(client: Client) -> str:
    try:
        await client.create(document("late", names.V1ALPHA2, nodeType="Hybrid"), dry_run=True)
    except ApiError as error:
        return str(error)
    return ""


def whole_group(index: int) -> Json:
    """Every fourth one takes the long way."""
    spec: Json = {
        "nodeType": "CloudPermanent",
        "update": {"maxConcurrent": 2},
        "gpu": {"sharing": "Exclusive"},
    }
    if index % 4 == 0:
        spec["cri"] = {"type": "Containerd", "docker": {}}
    return {
        "apiVersion": names.V1,
        "kind": names.KIND,
        "metadata": {"name": f"g{index}", "uid": f"u{index}"},
        "spec": spec,
    }


async def test_five_thousand_objects_in_one_review_there_and_back_without_holding_up_the_loop() -> None:
    endpoint = ConversionEndpoint()
    endpoint.add(NodeGroupConverter(ClusterReader(FakeCluster())))
    groups = [whole_group(index) for index in range(5000)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def convert(objects: list[Json], target: str) -> list[Json]:
        request = {"uid": "u", "desiredAPIVersion": target, "objects": objects}
        body = json.dumps({"request": request}).encode()
        answer = await endpoint.handle(Request("POST", names.CONVERT_PATH, body=body))
        converted: list[Json] = json.loads(answer.body)["response"]["convertedObjects"]
        return converted

    counting = asyncio.create_task(count())
    old = await convert(groups, names.V1ALPHA1)
    back = await convert(old, names.V1)
    counting.cancel()
    await asyncio.wait([counting])
    assert {one["spec"]["nodeType"] for one in old} == {"Hybrid"}
    assert back == groups
    assert turns > 5
