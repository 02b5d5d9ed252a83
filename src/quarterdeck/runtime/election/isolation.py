"""A thread for the election: its own event loop beside the one that does the work.

Whoever renews must not depend on whoever reconciles. The thread runs one coroutine, the campaign; it talks
to the loop that started it by posting functions and by calling coroutines there. It must not renew for ever
on behalf of a loop that does nothing, either: ``watch_caller`` tells when that loop no longer answers.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Final

from quarterdeck.runtime.log.field import get_logger

_log: Final = get_logger(__name__)


class ElectionThread:
    """Runs ``main`` on a thread of its own; made, started and stopped on the loop it works for."""

    def __init__(self, main: Callable[[], Coroutine[None, None, None]], *, lock: str) -> None:
        """``lock`` names the election in logs."""
        self._caller: Final = asyncio.get_running_loop()
        self._main: Final = main
        self._lock_name: Final = lock
        self._thread: Final = threading.Thread(target=self._run, name="leader-election", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._heard_at = 0.0
        self._guard: Final = threading.Lock()
        self.ended: Final[asyncio.Future[None]] = self._caller.create_future()
        """Done, on the calling loop, when the thread is."""
        self.error: Exception | None = None
        """What ended it, if nobody asked it to."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def stop(self, grace: float) -> None:
        """Cancel what runs on the thread and wait for it to end, ``grace`` seconds at most."""
        with self._guard:
            self._is_stopping = True
            loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with suppress(RuntimeError):  # its loop may be closed already
                loop.call_soon_threadsafe(task.cancel)
        try:
            async with asyncio.timeout(grace):
                await asyncio.shield(self.ended)
        except TimeoutError:
            _log.error("the election's thread did not end", lock=self._lock_name)

    def post(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called on the calling loop."""
        with suppress(RuntimeError):  # that loop is closed: nobody is left to tell
            self._caller.call_soon_threadsafe(function, *arguments)

    async def call(self, function: Callable[[int], Awaitable[None]], argument: int) -> None:
        """Run a coroutine on the calling loop and wait for it."""

        async def run() -> None:
            await function(argument)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._caller))

    async def watch_caller(self, limit: float) -> None:
        """Return when the calling loop has not answered for ``limit`` seconds."""
        self._hear()
        while time.monotonic() - self._heard_at <= limit:
            self.post(self._hear)
            await asyncio.sleep(min(1.0, limit / 4))
        _log.error("the main event loop is blocked: giving up leadership", seconds=limit)

    def _hear(self) -> None:
        self._heard_at = time.monotonic()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._supervise())
        except Exception as error:  # noqa: BLE001  supervision point: the thread's last words
            self.error = error
            _log.error("leader election failed unexpectedly", error)
        finally:
            self.post(_settle, self.ended)

    async def _supervise(self) -> None:
        task = asyncio.create_task(self._main(), name="leader election")
        with self._guard:
            self._loop, self._task = asyncio.get_running_loop(), task
            if self._is_stopping:
                task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
