"""`quarterdeck dashboard`: the cluster as a page in the browser."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.cli.argument import add_cluster_arguments, add_log_level, port_number
from quarterdeck.cli.error import CommandError

if TYPE_CHECKING:
    from quarterdeck.client import Client, Config

DESCRIPTION = """\
Serve a page that shows a cluster live: GPUs by gang, queues, what waits and why, trainings, inference
services, address pools, node groups, events. It reads with your own credentials, listens on this machine
only, and is open only to whoever has the token in the address that is printed. It changes nothing.
"""
USUAL_PORT: Final = 7070
_PATIENCE: Final = 10.0
"""Seconds in which a server has to answer at first."""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("dashboard", help="show a cluster in the browser", description=DESCRIPTION)
    add_cluster_arguments(parser)
    parser.add_argument(
        "--port",
        type=port_number,
        help=f"port to listen on, 0 for a free one (default: {USUAL_PORT}, or a free one if that is in use)",
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    add_log_level(parser, "WARNING")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.runtime.log import configure

    configure(level=arguments.log_level)
    return uvloop.run(_serve(arguments))


async def _serve(arguments: argparse.Namespace) -> int:
    from quarterdeck.cli.apiserver import stop_signal
    from quarterdeck.cli.argument import free_port
    from quarterdeck.dashboard import Board, DashboardServer, installed_planner

    stopping = stop_signal()
    config = cluster_config(arguments)
    async with reachable(config) as client, asyncio.TaskGroup() as group:
        board = Board(client, planner=installed_planner(), title=arguments.context or config.server)
        following = group.create_task(board.run(), name="board")
        port = free_port("127.0.0.1", USUAL_PORT) if arguments.port is None else arguments.port
        try:
            async with DashboardServer(board, port=port) as server:
                print(f"dashboard: {server.url}", flush=True)
                if arguments.open:
                    await asyncio.to_thread(_open, server.url)
                await stopping.wait()
        except OSError as error:
            raise CommandError(f"--port {port}: {error.strerror or error}") from error
        finally:
            following.cancel()
    print("stopped", file=sys.stderr, flush=True)
    return 0


@asynccontextmanager
async def reachable(config: Config) -> AsyncIterator[Client]:
    """A client of a server that is there; raises ``TransportError`` at once if it is not."""
    from quarterdeck.client import Client

    async with Client.connect(config) as client:
        # once, and whatever the answer: somebody waits
        await client.rest.transport.request("GET", "/version", timeout=_PATIENCE)
        yield client


def cluster_config(arguments: argparse.Namespace) -> Any:
    """How to reach the cluster; raises CommandError if nobody says."""
    from quarterdeck.client import Config
    from quarterdeck.errors import ConfigError

    try:
        return Config.load(arguments.kubeconfig or "", context=arguments.context)
    except ConfigError as error:
        raise CommandError(str(error)) from error


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
