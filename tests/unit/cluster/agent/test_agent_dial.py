"""Webhooks in pods whose network only their node reaches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509

from quarterdeck.apiserver.nodelink import NodeLink
from quarterdeck.apiserver.state.clusterstate import StoredState
from quarterdeck.apiserver.state.host import resolve_service
from quarterdeck.apiserver.webhookclient import CallFault, Place, WebhookClient, endpoint
from quarterdeck.cluster.agent.agent import NodeAgent
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.cluster.agent.server import NodeServer
from quarterdeck.wire.localnode import node_socket
from tests.unit.apiserver.admission.hookendpoint import hook_endpoint, http

from .podkit import pod


@asynccontextmanager
async def node(folder: Path, gone: asyncio.Event | None = None) -> AsyncIterator[NodeLink]:
    """A node with the pod ``p`` of uid ``u``, and the API server's way to it."""
    worker = SimpleNamespace(pod=pod(), ip="127.0.0.1", gone=gone or asyncio.Event())
    agent = SimpleNamespace(workers={"u": worker}, dialer=Dialer())
    server = NodeServer(cast(NodeAgent, agent), node_socket(folder, "box"))
    await server.start()
    link = NodeLink()
    link.folder = folder
    try:
        yield link
    finally:
        await server.stop()


async def test_a_webhook_is_called_through_the_node_of_its_pod(tmp_path: Path) -> None:
    def answer(path: str, _body: bytes) -> bytes:
        return http({"at": path})

    names = [x509.DNSName("hook.n.svc")]
    async with node(tmp_path) as link, hook_endpoint(answer, names=names) as server:
        dial = partial(link.dial, "box", "p", "u", server.port)
        client = WebhookClient(lambda *_: Place("10.244.0.9", server.port, dial))
        config = {"service": {"namespace": "n", "name": "hook"}, "caBundle": server.ca_bundle}
        for _ in range(2):
            assert await client.post(endpoint(config), b"{}", timeout=5) == {"at": "/?timeout=5s"}
        client.close()
    assert server.connections == 1


@pytest.mark.parametrize(("uid", "port"), [("another", 443), ("u", 1)])
async def test_what_the_node_does_not_reach_is_refused(tmp_path: Path, uid: str, port: int) -> None:
    async with node(tmp_path) as link:
        client = WebhookClient(
            lambda *_: Place("10.244.0.9", port, partial(link.dial, "box", "p", uid, port))
        )
        config = endpoint({"service": {"namespace": "n", "name": "hook", "port": port}})
        with pytest.raises(CallFault, match=f"dial tcp 10.244.0.9:{port}: connect: connection refused"):
            await client.post(config, b"{}", timeout=5)


@pytest.mark.real_time
async def test_a_connection_ends_with_the_pod_it_was_opened_for(tmp_path: Path) -> None:
    """Whoever has the address now is another pod; here it is even the same server."""
    gone, hung_up = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        hung_up.set()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, node(tmp_path, gone) as link:
        connection = await link.dial("box", "p", "u", port)
        with connection:
            gone.set()
            async with asyncio.timeout(5):
                assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
                await hung_up.wait()
        with pytest.raises(ConnectionRefusedError):
            await link.dial("box", "p", "u", port)


class Stored:
    """A Service with one endpoint."""

    def __init__(self, **endpoint: Any) -> None:
        self._endpoint = endpoint

    def get(self, *words: str) -> dict[str, Any]:
        if "pods" in words:
            return {"metadata": {"uid": "u"}}
        return {"spec": {"ports": [{"port": 443}]}}

    def list(self, *_words: str) -> list[dict[str, Any]]:
        labels = {"kubernetes.io/service-name": "hook"}
        return [{"metadata": {"labels": labels}, "ports": [{"port": 8443}], "endpoints": [self._endpoint]}]


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ({"addresses": ["127.64.0.7"]}, ("127.64.0.7", 8443, False)),
        ({"addresses": ["127.64.0.7"], "conditions": {"ready": False}}, None),
        ({"addresses": ["10.1.2.3"]}, None),
        ({"addresses": ["10.1.2.3"], "nodeName": "box"}, None),
        (
            {"addresses": ["10.1.2.3"], "nodeName": "box", "targetRef": {"kind": "Pod"}},
            ("10.1.2.3", 8443, True),
        ),
        (
            {"addresses": ["10.1.2.3"], "nodeName": "box", "targetRef": {"kind": "Pod", "uid": "u"}},
            ("10.1.2.3", 8443, True),
        ),
        ({"addresses": ["10.1.2.3"], "nodeName": "box", "targetRef": {"kind": "Pod", "uid": "old"}}, None),
        ({"addresses": ["10.1.2.3"], "nodeName": "far", "targetRef": {"kind": "Pod"}}, None),
    ],
)
def test_only_loopback_and_pods_of_nodes_of_this_machine_are_dialled(
    tmp_path: Path, endpoint: dict[str, Any], found: tuple[str, int, bool] | None
) -> None:
    link = NodeLink()
    link.folder = tmp_path
    node_socket(tmp_path, "box").touch()
    place = resolve_service(cast(StoredState, Stored(**endpoint)), "n", "hook", 443, link)
    assert (place and (place.host, place.port, place.dial is not None)) == found
