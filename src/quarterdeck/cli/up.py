"""`quarterdeck up`: the embedded server and the cluster's controllers in one process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import Any

from .apiserver import add_server_arguments, server_options, stop_signal
from .error import CommandError

DESCRIPTION = """\
Run the embedded API server together with the controllers every cluster has (garbage collection, namespace
termination). The kubeconfig is written when everything is ready. Ctrl-C or SIGTERM stops it cleanly.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "up", help="the embedded server and its controllers in one process", description=DESCRIPTION
    )
    add_server_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    import uvloop

    return uvloop.run(_up(arguments))


async def _up(arguments: argparse.Namespace) -> int:
    from quarterdeck.apiserver import ApiServer, StorageError
    from quarterdeck.client import Client, InProcessTransport
    from quarterdeck.cluster.controllers import ClusterControllers

    stopping = stop_signal()
    server = ApiServer(server_options(arguments))
    try:
        await server.start()
    except (StorageError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    try:
        controllers = ClusterControllers(Client.over(InProcessTransport(server.local())))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(controllers.run())
            await controllers.cache.wait_synced()
            if arguments.kubeconfig is not None:
                server.write_kubeconfig(arguments.kubeconfig)
            where = f", kubeconfig {arguments.kubeconfig}" if arguments.kubeconfig else ""
            print(f"ready: {server.url}{where}", flush=True)
            await stopping.wait()
            running.cancel()
    finally:
        await server.stop()
    print("stopped", file=sys.stderr, flush=True)
    return 0
