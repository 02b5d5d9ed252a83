"""The server's end of the pipe to the controllers' process, which is started again if it dies."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final, Self

import msgspec

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.restart import Restarts, ending
from quarterdeck.cluster.node.profile import NodeSettings

from .message import Assignment, Metrics, Order, Refused, Request, State, decode_report, encode

_LINE_LIMIT: Final = 64 * 1024 * 1024
_STOP_SECONDS: Final = 60.0


class ControllerProcess:
    """The controllers of a cluster, running elsewhere; an async context manager.

    A process that ends is started again, but for one that ends by itself before it was ever ready: that would
    only happen again. Leaving stops the controllers in an orderly way, so the server must still be there.
    """

    def __init__(self, assignment: Assignment, *, stop_seconds: float = _STOP_SECONDS) -> None:
        """``stop_seconds``: how long an orderly stop may take, at most."""
        self._assignment = assignment
        self._stop_seconds: Final = stop_seconds
        self._changed: Final = asyncio.Condition()
        self._asked: Final[list[asyncio.Future[bytes]]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._failure = ""
        self._is_stopping = self._was_ready = False
        self.not_ready = "the controllers have not started"

    async def __aenter__(self) -> Self:
        self._supervising = asyncio.create_task(self._supervise(), name="controllers")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_stopping = True
        if self._process is None:  # it waits to be started again
            self._supervising.cancel()
        self._write(encode(Order()))
        # One that was never ready has nothing to put in order, and would first have to start.
        seconds = self._stop_seconds if self._was_ready else 0.0
        await asyncio.wait([self._supervising], timeout=seconds)
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait([self._supervising])
        if not self._supervising.cancelled():
            self._supervising.result()

    async def wait_ready(self) -> None:
        """Wait until the controllers do their work; raises CommandError if they never will."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.not_ready or self._failure)
        if self._failure:
            raise CommandError(self._failure)

    async def metrics(self) -> bytes:
        """What the controllers count; nothing while they do not run."""
        if self._process is None:
            return b""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._write(encode(Request()))
        return await answer

    def _write(self, line: bytes) -> None:
        pipe = self._process.stdin if self._process is not None else None
        if pipe is not None and not pipe.is_closing():  # one that has ended is noticed by `_listen`
            pipe.write(line)

    async def _supervise(self) -> None:
        restarts = Restarts("the process of the controllers")
        while True:
            restarts.begin()
            try:
                refusal, code = await self._run_once()
            except OSError as error:  # no memory, no number for a process
                refusal, code = f"it cannot be started: {error}", 1
            if self._is_stopping:
                return
            if not self._was_ready and code >= 0:
                await self._change(
                    failure=refusal or "the process of the controllers has ended; its log says why"
                )
                return
            await restarts.pause(f"has ended: {refusal}" if refusal else ending(code))

    async def _run_once(self) -> tuple[str, int]:
        """Start the process and listen to it until it ends; why it did, if it said so, and its exit code."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "quarterdeck.cli.controllers.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            # Signals to a terminal's process group are for the server, which decides when these stop.
            start_new_session=True,
        )
        self._write(encode(self._assignment))
        if self._is_stopping:  # while it was being started
            self._write(encode(Order()))
        try:
            refusal = await self._listen(self._process)
        except (msgspec.DecodeError, ValueError) as error:  # no report, or one without an end
            refusal = f"it said what nobody understands: {error}"
            with suppress(ProcessLookupError):
                self._process.kill()
        code = await self._process.wait()
        self._process = None
        for answer in self._asked:
            if not answer.done():
                answer.set_result(b"")
        self._asked.clear()
        await self._change(not_ready="the controllers have ended")
        return refusal, code

    async def _listen(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        refusal = ""
        while line := await process.stdout.readline():
            match decode_report(line):
                case State(not_ready=reason):
                    await self._change(not_ready=reason)
                case Metrics(text=text):
                    answer = self._asked.pop(0)
                    if not answer.done():
                        answer.set_result(text)
                case Refused(reason=reason):
                    refusal = reason
        return refusal

    async def _change(self, *, not_ready: str | None = None, failure: str = "") -> None:
        async with self._changed:
            if not_ready is not None:
                self.not_ready = not_ready
            if not_ready == "" and not self._was_ready:
                self._was_ready = True
                # They have been made: one that somebody deletes stays away.
                self._assignment = msgspec.structs.replace(self._assignment, nodes=NodeSettings())
            self._failure = failure
            self._changed.notify_all()
