"""Helpers of the controller tests: a manager in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from quarterdeck.api import Key
from quarterdeck.client import Client, Transport
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

from .cachekit import until
from .runtimewidget import Widget

__all__ = ["Script", "Spy", "manager_on", "serving", "until"]


class Spy:
    """Metrics of a controller and its queue, as a list of what was told."""

    class Level:
        value = 0.0
        highest = 0.0

        def set(self, value: float) -> None:
            self.value = value
            self.highest = max(self.highest, value)

        def inc(self, amount: float = 1.0) -> None:
            self.set(self.value + amount)

        def dec(self, amount: float = 1.0) -> None:
            self.set(self.value - amount)

    def __init__(self) -> None:
        self.results: list[str] = []
        self.told: list[str] = []
        self.waits: list[tuple[float, bool]] = []
        self.max_concurrent = Spy.Level()
        self.active_workers = Spy.Level()

    def controller(self, name: str) -> Spy:
        return self

    def queue(self, name: str) -> Any:
        return None

    def reconciled(self, result: str, seconds: float) -> None:
        assert 0 <= seconds < 3600
        self.results.append(result)

    def terminal(self) -> None:
        self.told.append("terminal")

    def panicked(self) -> None:
        self.told.append("panic")

    def timed_out(self) -> None:
        self.told.append("timeout")

    def requeued(self, reason: str) -> None:
        self.told.append(f"requeue {reason}")

    def consistency_waited(self, seconds: float, *, in_time: bool) -> None:
        self.waits.append((seconds, in_time))


class Script(Reconciler[Widget]):
    """Calls a function, and remembers which keys ran and when."""

    def __init__(self, function: Callable[[Context[Widget]], Any] | None = None) -> None:
        self.function = function
        self.runs: list[tuple[float, str]] = []
        self.gone: list[Key] = []

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.runs]

    async def reconcile(self, ctx: Context[Widget]) -> Result | None:
        self.runs.append((asyncio.get_running_loop().time(), ctx.key.name))
        if self.function is None:
            return None
        outcome = self.function(ctx)
        result: Result | None = await outcome if asyncio.iscoroutine(outcome) else outcome
        return result

    async def deleted(self, ctx: Any) -> None:
        self.gone.append(ctx.key)


def manager_on(
    transport: Transport, *, seed: int = 1, cache: CacheOptions | None = None, **options: Any
) -> Manager:
    client = Client.over(transport, clock=LoopClock(), random=random.Random(seed))
    chosen = options.pop("options", ManagerOptions(watch_loop=False))
    return Manager(client, cache=cache, options=chosen, rng=random.Random(seed), **options)


@asynccontextmanager
async def serving(manager: Manager, *controllers: Controller[Any]) -> AsyncIterator[Manager]:
    for controller in controllers:
        manager.add(controller)
    async with manager, asyncio.TaskGroup() as group:
        task = group.create_task(manager.serve())
        try:
            yield manager
        finally:
            manager.request_stop()
            await asyncio.wait([task])
            await manager.client.aclose()
