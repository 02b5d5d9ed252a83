"""The server that all cases of an operator share, from the first one to the end of the run.

An embedded server runs in this process on virtual time: a case that waits a minute takes as long as its
work. A server of somebody else is used over the wire, in real time.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from quarterdeck.api import DynamicObject
from quarterdeck.client import Client
from quarterdeck.errors import ApiError, NotFound
from quarterdeck.testing import TestCluster, VirtualLoop

from .case import CaseFailure
from .run import Run

__all__ = ["SharedServer"]

T = TypeVar("T")

_TIMEOUT: Final = 30.0


class SharedServer(ABC):
    """Used by one thread at a time: all cases are in one lane."""

    def __init__(self, run: Run, *, is_embedded: bool) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # faults are what cases are about
        self.is_embedded: Final = is_embedded
        self._runner: Final = asyncio.Runner(loop_factory=VirtualLoop if is_embedded else None)
        self.cluster: Final = self._runner.run(self._make_cluster(run))
        self._stop: Final = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    @abstractmethod
    async def _set_up(self, stack: AsyncExitStack) -> None:
        """Make what all cases share, on a cluster that is up; what ``stack`` holds ends with it."""

    @property
    def client(self) -> Client:
        """The administrator."""
        return self.cluster.client

    def start(self) -> None:
        """Begin what all cases share."""
        self._life = self._runner.run(self._begin())

    def play(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a case to its end."""
        return self._runner.run(main)

    def close(self) -> None:
        """End what all cases share."""
        self._runner.run(self._end())
        self._runner.close()

    async def _make_cluster(self, run: Run) -> TestCluster:
        return TestCluster(use_existing=False if self.is_embedded else run.kubeconfig())

    async def _begin(self) -> asyncio.Task[None]:
        ready = asyncio.Event()
        life = asyncio.create_task(self._live(ready), name="shared server")
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((life, waiting), return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            waiting.cancel()
            life.result()
        return life

    async def _live(self, ready: asyncio.Event) -> None:
        """Holds everything open; in one task, because some of it must end where it began."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.cluster)
            await self._set_up(stack)
            ready.set()
            await self._stop.wait()

    async def _end(self) -> None:
        self._stop.set()
        if self._life is not None:
            await self._life

    async def _wait_in_force(self, probe: Mapping[str, Any]) -> None:
        """Wait until the webhooks refuse an object that they must refuse."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while loop.time() < deadline:
            try:
                await self.client.create(DynamicObject(dict(probe)), dry_run=True)
            except NotFound:
                pass  # the kind is not served yet
            except ApiError as error:
                if error.code == 403:
                    return
                raise
            await asyncio.sleep(0.05)
        raise CaseFailure(f"the webhooks are not in force after {_TIMEOUT:g} s")
