"""The server's end of the pipe to the agent's process, which is started again if it dies."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final, Self

import msgspec

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.restart import Restarts, ending

from .message import READY, STOP, NodeAssignment

_STOP_SECONDS: Final = 60.0
_PATIENCE: Final = 60.0


class AgentProcess:
    """A node agent, running elsewhere; an async context manager. Leaving it ends the agent and its pods."""

    def __init__(self, assignment: NodeAssignment) -> None:
        self._assignment: Final = assignment
        self._is_stopping = False
        self._ready: Final = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._supervising = asyncio.create_task(self._supervise(), name="local node")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
                assert process.stdin is not None
                process.stdin.write(STOP)
                await process.stdin.drain()
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
        self._supervising.cancel()
        with suppress(asyncio.CancelledError):
            await self._supervising
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    @property
    def is_ready(self) -> bool:
        """Whether the agent does its work."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until the node is ready; raises CommandError if that takes too long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._ready.wait()
        except TimeoutError as error:
            raise CommandError("the local node did not become ready; its log says why") from error

    async def _supervise(self) -> None:
        restarts = Restarts("the process of the local node")
        while True:
            restarts.begin()
            code = await self._run_once()
            self._ready.clear()
            if self._is_stopping:
                return
            await restarts.pause(ending(code))

    async def _run_once(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "quarterdeck.cli.localnode.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self._assignment) + b"\n")
        while line := await process.stdout.readline():
            if line == READY:
                self._ready.set()
        return await process.wait()
