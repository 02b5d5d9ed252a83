"""Helpers of the cache tests: a running cache, and a handler that writes everything down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from quarterdeck.client import Client, Transport
from quarterdeck.runtime.cache import Cache, CacheOptions, Change, Delta
from quarterdeck.runtime.loop.clock import LoopClock


class Recorder:
    """Remembers deltas as short texts: ``+a``, ``~a``, ``-a``; ``i`` marks initial, ``?`` unknown."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def handle(self, delta: Delta) -> None:
        self.deltas.append(delta)

    @property
    def texts(self) -> list[str]:
        signs = {Change.ADDED: "+", Change.UPDATED: "~", Change.DELETED: "-"}
        return [
            signs[d.change] + d.entry.name + ("i" if d.is_initial else "") + ("?" if d.is_unknown else "")
            for d in self.deltas
        ]


@asynccontextmanager
async def running(
    transport: Transport, options: CacheOptions | None = None, seed: int = 1
) -> AsyncIterator[Cache]:
    client = Client.over(transport, clock=LoopClock(), random=random.Random(seed))
    cache = Cache(client, client.mapper, options=options, rng=random.Random(seed))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        await asyncio.sleep(0)
        try:
            yield cache
        finally:
            task.cancel()
            await asyncio.wait([task])
            await client.aclose()


async def until(condition: Callable[[], object], *, within: float = 600.0, step: float = 0.01) -> None:
    """Wait (virtual time) until something holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not condition():
        assert loop.time() < deadline, f"not within {within} s: {condition}"
        await asyncio.sleep(step)
