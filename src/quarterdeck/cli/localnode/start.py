"""What a node of a running server needs: credentials, a socket, settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.cli.instance import directory as instance_directory
from quarterdeck.cli.kubeconfigfile import default_path

from .credential import allow_node, write_node_kubeconfig
from .message import NodeAssignment

if TYPE_CHECKING:
    from quarterdeck.apiserver import ApiServer

    from .settings import LocalNode

__all__ = ["node_assignment"]


def _hidden(private: Path, data: Path | None) -> tuple[str, ...]:
    """Where keys of clusters are: containers run as the same user, but need none of them."""
    places = [private, instance_directory(), default_path().parent, *([data] if data is not None else [])]
    return tuple(str(path.absolute()) for path in places)


async def node_assignment(
    server: ApiServer, wanted: LocalNode, private: Path, directory: Path, log_level: str
) -> NodeAssignment:
    """Make the node's credentials and bindings; what its agent is to do."""
    from quarterdeck.client import Client, InProcessTransport
    from quarterdeck.cluster.agent.agent import AgentSettings
    from quarterdeck.wire.nodesocket import node_socket

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
    settings = AgentSettings(
        name=wanted.name,
        directory=str(directory),
        server=(server.options.host, server.port),
        images=wanted.images,
        hidden=_hidden(private, data),
        is_writable=wanted.is_writable,
        taint=wanted.taint,
    )
    return NodeAssignment(
        kubeconfig=str(kubeconfig),
        settings=settings,
        socket=str(node_socket(server.nodes.folder, wanted.name)),
        outlives_server=data is not None,
        log_level=log_level,
    )
