"""What a server does beside requests: chores that nobody waits for, and so nobody would miss.

A chore is a round of work and a wait for the next one. A round that fails is logged and tried again, more
and more slowly; until one succeeds the server says that it is not ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

_log: Final = logging.getLogger("quarterdeck.apiserver")
#: seconds until a failed round is tried again, at first and in the end
FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 60.0

Step = Callable[[], Awaitable[object]]


def is_stopped(error: BaseException) -> bool:
    """Whether this task itself is cancelled, not only something that it waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class Supervisor:
    """Runs chores until it is stopped."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._well: dict[str, bool] = {}

    def checks(self) -> dict[str, bool]:
        """The chores by name, and whether the last round of each succeeded."""
        return dict(self._well)

    async def start(self, name: str, work: Step, wait: Step) -> None:
        """Do some work now, and again whenever `wait` returns; the first round is over, well or not."""
        await self._try(name, work)
        self._tasks.append(asyncio.create_task(self._repeat(name, work, wait), name=name))

    async def _repeat(self, name: str, work: Step, wait: Step) -> None:
        retry = FIRST_RETRY
        while True:
            if self._well[name] and await self._try(name, wait):
                retry = FIRST_RETRY
            else:
                await asyncio.sleep(retry)
                retry = min(2 * retry, LAST_RETRY)
            await self._try(name, work)

    async def _try(self, name: str, step: Step) -> bool:
        try:
            await step()
        except (Exception, asyncio.CancelledError) as error:  # supervision point: see above
            if is_stopped(error):
                raise
            self._well[name] = False
            _log.exception("a chore failed and will be tried again", extra={"chore": name})
        else:
            self._well[name] = True
        return self._well[name]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
