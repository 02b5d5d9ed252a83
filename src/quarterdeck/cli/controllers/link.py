"""The server's end of the pipe to the controllers' process."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final, Self

from quarterdeck.cli.error import CommandError

from .message import Assignment, Metrics, Order, Refused, Request, State, decode_report, encode

__all__ = ["ControllerProcess"]

_LINE_LIMIT: Final = 64 * 1024 * 1024
_STOP_SECONDS: Final = 60.0


class ControllerProcess:
    """The controllers of a cluster, running elsewhere; an async context manager.

    Leaving it stops them in an orderly way, so the server must still be there.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment: Final = assignment
        self.ended: Final = asyncio.Event()
        self._changed: Final = asyncio.Condition()
        self._asked: Final[list[asyncio.Future[bytes]]] = []
        self._refusal = ""
        self._is_stopping = self._failed = False
        self.not_ready = "the controllers have not started"

    async def __aenter__(self) -> Self:
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
        self._listening = asyncio.create_task(self._listen(), name="controllers")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_stopping = True
        self._write(encode(Order()))
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._listening
                await self._process.wait()
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def wait_ready(self) -> None:
        """Wait until the controllers do their work; raises CommandError if they have ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.not_ready or self.ended.is_set())
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        """Raises CommandError if the process ended before it was told to."""
        if self._failed:
            raise CommandError(self._refusal or "the process of the controllers has ended; its log says why")

    async def metrics(self) -> bytes:
        """What the controllers count; nothing if they have ended."""
        if self.ended.is_set():
            return b""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._write(encode(Request()))
        return await answer

    def _write(self, line: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        if not pipe.is_closing():  # a process that has ended is noticed by `_listen`
            pipe.write(line)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            match decode_report(line):
                case State(not_ready=reason):
                    self.not_ready = reason
                case Metrics(text=text):
                    answer = self._asked.pop(0)
                    if not answer.done():
                        answer.set_result(text)
                case Refused(reason=reason):
                    self._refusal = reason
            async with self._changed:
                self._changed.notify_all()
        self._failed = not self._is_stopping
        self.ended.set()
        self.not_ready = "the controllers have ended"
        for answer in self._asked:
            if not answer.done():
                answer.set_result(b"")
        async with self._changed:
            self._changed.notify_all()
