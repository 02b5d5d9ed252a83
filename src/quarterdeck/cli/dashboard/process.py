"""The dashboard's process: ``python -m quarterdeck.cli.dashboard.process``, started by `ondemand`."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .ondemand import DashboardOrder

if TYPE_CHECKING:
    from quarterdeck.client import Config


def main() -> int:
    import uvloop

    from quarterdeck.runtime.log import configure

    configure(level="ERROR")
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=DashboardOrder)
    return uvloop.run(_serve(order, _config(order)))


def _config(order: DashboardOrder) -> Config:
    from quarterdeck.client import Config

    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as folder:  # for this user alone
        file = Path(folder, "kubeconfig")
        file.write_bytes(msgspec.json.encode(order.kubeconfig))
        return Config.load(file)


async def _serve(order: DashboardOrder, config: Config) -> int:
    from quarterdeck.client import Client
    from quarterdeck.dashboard import Board, DashboardServer, installed_planner

    listening = socket.socket(fileno=order.descriptor)
    async with Client.connect(config) as client, asyncio.TaskGroup() as group:
        board = Board(client, planner=installed_planner(), title=order.title)
        following = group.create_task(board.run(), name="board")
        async with DashboardServer(board, token=order.token, listening=listening):
            await _until_stdin_ends()
        following.cancel()
    return 0


async def _until_stdin_ends() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    sys.exit(main())
