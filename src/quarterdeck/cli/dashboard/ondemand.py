"""The dashboard of `quarterdeck up`: a port, and a process that is started when somebody comes.

Until the first browser comes it costs a socket. Then the page runs in a process of its own, like the
controllers: no request to the API server waits for somebody who looks. The process gets the listening socket,
and by its standard input the token and how to reach the cluster; it ends when that closes.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from .command import USUAL_PORT

_LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 5.0


class DashboardOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the process."""

    descriptor: int
    """The listening socket."""
    token: str
    title: str
    kubeconfig: dict[str, Any]


@asynccontextmanager
async def dashboard_on_demand(kubeconfig: dict[str, Any], title: str) -> AsyncIterator[str]:
    """Listen, and start the page when somebody connects. Gives the address to open."""
    with _listening() as listening:
        listening.setblocking(False)
        token = secrets.token_urlsafe(24)
        order = DashboardOrder(descriptor=listening.fileno(), token=token, title=title, kubeconfig=kubeconfig)
        waiting = asyncio.create_task(_serve_whoever_comes(listening, order), name="dashboard on demand")
        try:
            yield f"http://{_LOOPBACK}:{listening.getsockname()[1]}/?token={token}"
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])


def _listening() -> socket.socket:
    """A socket on the usual port, or on a free one if that is in use."""
    try:
        return socket.create_server((_LOOPBACK, USUAL_PORT))
    except OSError:
        return socket.create_server((_LOOPBACK, 0))


async def _serve_whoever_comes(listening: socket.socket, order: DashboardOrder) -> None:
    while True:
        await _somebody_comes(listening)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "quarterdeck.cli.dashboard.process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(listening.fileno(),),
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            await process.wait()  # should it fail, the next one who comes starts another
        finally:
            process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _somebody_comes(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(listening.fileno(), came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(listening.fileno())
