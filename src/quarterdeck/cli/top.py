"""`quarterdeck top`: the cluster on the terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from .argument import add_cluster_arguments
from .dashboard.command import cluster_config, reachable

DESCRIPTION = """\
Show a cluster in the terminal, live: GPUs by gang, queues, what waits and why, trainings, inference services,
events. Without a terminal, or with --once, the same is printed as lines. It changes nothing.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser("top", help="show a cluster in the terminal", description=DESCRIPTION)
    add_cluster_arguments(parser)
    parser.add_argument("--once", action="store_true", help="print it as lines, and exit")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.runtime.log import configure

    configure(level="ERROR")
    return uvloop.run(_top(arguments))


async def _top(arguments: argparse.Namespace) -> int:
    from quarterdeck.dashboard import Board, installed_planner

    from .apiserver import stop_signal
    from .screen.screen import plain, show

    stopping = stop_signal()
    config = cluster_config(arguments)
    async with reachable(config) as client, asyncio.TaskGroup() as group:
        board = Board(client, planner=installed_planner())
        following = group.create_task(board.run(), name="board")
        if arguments.once or not has_screen():
            await board.settled()
            print(plain(board))
        else:
            await show(board, config.server, stopping)
        following.cancel()
    return 0


def has_screen() -> bool:
    """Whether there is a terminal, and the library to draw on it (the extra ``terminal``)."""
    from importlib.util import find_spec

    return sys.stdout.isatty() and find_spec("rich") is not None
