"""An operator beside synchronous code: a manager in a thread of its own, on a link that can fail."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from quarterdeck.client import Clock, Config, Observer
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.testing import FaultPlan, Link, ManagerRun

from .case import CaseFailure

T = TypeVar("T")

START_TIMEOUT: Final = 60.0


class OperatorThread(ABC):
    """One life of an operator; ``assemble`` says what it consists of."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        name: str,
        plan: FaultPlan | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Returns when it works; raises RuntimeError with its error when it does not start."""
        self._kubeconfig: Final = kubeconfig
        self._name: Final = name
        self._plan: Final = plan
        self._loop_factory: Final = loop_factory
        self._ready: Final = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: asyncio.Task[None] | None = None
        self._stop: asyncio.Event | None = None
        self._link: Link | None = None
        self._manager: Manager | None = None
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT) or self._error is not None:
            raise RuntimeError(f"the operator {name} did not start: {self._error}")

    @abstractmethod
    async def assemble(self, link: Link, stack: AsyncExitStack) -> Manager:
        """The manager with everything on it; ``stack`` ends after it."""

    async def has_started(self) -> None:
        """Called once when the manager works."""
        return

    def make_link(
        self, config: Config, *, clock: Clock | None = None, observer: Observer | None = None
    ) -> Link:
        """The line to the cluster."""
        return Link(
            config.transport(),
            plan=self._plan,
            name=self._name,
            config=config,
            clock=clock,
            observer=observer,
        )

    def call(self, coroutine: Coroutine[Any, Any, T], limit: float) -> T:
        """Run something on the operator's loop; raises CaseFailure when it takes longer."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(limit)
        except TimeoutError as error:
            future.cancel()
            raise CaseFailure(f"{self._name} did not come to it within {limit:g} s") from error

    def stop(self) -> None:
        """End in order."""
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_TIMEOUT)
        if self._thread.is_alive():
            self.kill()

    def kill(self) -> None:
        """End without any clean-up: from here on nothing gets through."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._die)
        self._thread.join(START_TIMEOUT)

    @property
    def link(self) -> Link:
        """The line to the cluster, for use on the operator's loop."""
        assert self._link is not None
        return self._link

    @property
    def manager(self) -> Manager:
        """The manager, for use on the operator's loop."""
        assert self._manager is not None
        return self._manager

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._life = asyncio.current_task()
        self._stop = asyncio.Event()
        config = Config.load(kubeconfig=str(self._kubeconfig))
        async with AsyncExitStack() as stack:
            self._link = self.make_link(config)
            await stack.enter_async_context(self._link.client)
            self._manager = await self.assemble(self._link, stack)
            async with ManagerRun(self._manager, name=self._name):
                await self.has_started()
                self._ready.set()
                await self._stop.wait()

    def _die(self) -> None:
        self.link.cut(silently=True)
        assert self._life is not None
        self._life.cancel()
