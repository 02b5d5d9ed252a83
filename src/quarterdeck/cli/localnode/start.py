"""What a node of a running server needs: credentials, a socket, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quarterdeck.cli.instance.instance import directory as instance_directory
from quarterdeck.cli.instance.kubeconfigfile import default_path

from .credential import allow_node, write_node_kubeconfig
from .message import NodeAssignment

if TYPE_CHECKING:
    from quarterdeck.apiserver import ApiServer

    from .settings import LocalNode


async def node_assignment(
    server: ApiServer, wanted: LocalNode, private: Path, directory: Path, log_level: str
) -> NodeAssignment:
    """Make the node's credentials and bindings; what its agent is to do."""
    from quarterdeck.client import Client, InProcessTransport

    assert server.nodes.folder is not None
    kubeconfig = private / "node.kubeconfig"
    await asyncio.to_thread(
        write_node_kubeconfig,
        kubeconfig,
        server=server.url,
        authority=server.credentials.authority,
        node=wanted.name,
    )
    async with Client.over(InProcessTransport(server.local())) as client:
        await allow_node(client, wanted.name)
    data = server.options.data_dir
    return make_assignment(
        wanted,
        url=server.url,
        kubeconfig=kubeconfig,
        sockets=server.nodes.folder,
        directory=directory,
        hidden=(private, data) if data is not None else (private,),
        outlives_server=data is not None,
        log_level=log_level,
    )


def make_assignment(
    wanted: LocalNode,
    *,
    url: str,
    kubeconfig: Path,
    sockets: Path,
    directory: Path,
    hidden: Iterable[Path],
    outlives_server: bool = True,
    log_level: str,
) -> NodeAssignment:
    """What an agent is to do; containers see none of the ``hidden`` folders, nor those with others' keys."""
    from quarterdeck.cluster.agent.agent import AgentSettings
    from quarterdeck.cluster.image.store import default_store
    from quarterdeck.wire.localnode import node_socket

    parts = urlsplit(url)
    # Containers run as the same user, but need none of the keys that are there.
    places = [*hidden, instance_directory(), default_path().parent]
    settings = AgentSettings(
        name=wanted.name,
        directory=str(directory),
        server=(parts.hostname or "127.0.0.1", parts.port or 443),
        images=wanted.images,
        hidden=tuple(str(path.absolute()) for path in places),
        is_writable=wanted.is_writable,
        taint=wanted.taint,
        runtime=wanted.runtime,
        oci_program=wanted.oci_runtime,
        image_store=str(default_store()),
        eviction=wanted.eviction,
        pressure_seconds=wanted.pressure_seconds,
    )
    return NodeAssignment(
        kubeconfig=str(kubeconfig),
        settings=settings,
        socket=str(node_socket(sockets, wanted.name)),
        outlives_server=outlives_server,
        log_level=log_level,
    )
