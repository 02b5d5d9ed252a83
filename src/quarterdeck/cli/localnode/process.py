"""The agent's process: ``python -m quarterdeck.cli.localnode.process``, started by `link`.

It reads its assignment from standard input, says ``ready`` on standard output and ends when it reads
``stop``, or when standard input ends: then the server has gone.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from .message import READY, NodeAssignment

_LOOK_SECONDS = 0.05
_LIMIT = 16 * 1024 * 1024


def main() -> int:
    import uvloop

    from quarterdeck.cli.collector import relax_collector
    from quarterdeck.cli.restart import leave_signals_to_server

    relax_collector()
    leave_signals_to_server()
    return uvloop.run(_run())


async def _run() -> int:
    from quarterdeck.runtime.log import configure

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    line = await reader.readline()
    if not line:
        return 3
    assignment = msgspec.json.decode(line, type=NodeAssignment)
    configure(level=assignment.log_level)
    stopping = asyncio.Event()
    was_told = False

    async def listen() -> None:
        nonlocal was_told
        was_told = bool(await reader.readline())
        stopping.set()

    listening = asyncio.create_task(listen())

    def ends_pods() -> bool:
        return was_told or not assignment.outlives_server

    await serve_node(assignment, stopping, lambda: os.write(1, READY), ends_pods=ends_pods)
    listening.cancel()
    return 0


async def serve_node(
    assignment: NodeAssignment,
    stopping: asyncio.Event,
    on_ready: Callable[[], object],
    *,
    ends_pods: Callable[[], bool],
) -> None:
    """Run the agent until ``stopping``; ``on_ready`` is called once it does its work."""
    from quarterdeck.client import Client, Config
    from quarterdeck.cluster.agent.agent import NodeAgent
    from quarterdeck.cluster.agent.container.container import usable_namespaces
    from quarterdeck.cluster.agent.oci.runtime import start_fabric
    from quarterdeck.cluster.agent.server import NodeServer

    config = Config.load(assignment.kubeconfig)
    async with Client.connect(config) as client:
        settings = assignment.settings
        fabric = await asyncio.to_thread(start_fabric, Path(settings.directory), settings.oci_program)
        agent = NodeAgent(client, settings, await usable_namespaces(), fabric)
        server = NodeServer(agent, Path(assignment.socket))
        await server.start()
        try:
            running = asyncio.create_task(agent.run(ends_pods))
            waiting = asyncio.create_task(stopping.wait())
            while not (agent.is_ready or running.done() or stopping.is_set()):  # noqa: ASYNC110  any of them
                await asyncio.sleep(_LOOK_SECONDS)
            if agent.is_ready:
                on_ready()
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            agent.request_stop()
            await running
        finally:
            await server.stop()


if __name__ == "__main__":
    sys.exit(main())
