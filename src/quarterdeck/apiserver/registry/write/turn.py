"""Writers of one object that have lost a race go one after the other.

Ten of them need twenty attempts then, not a hundred. Nobody's first attempt waits, so an object with one
writer at a time costs nothing. Turns are courtesy: what is stored is checked against its revision in any
case. So nobody waits for ever either, for instance for a write whose webhook wants to write the same object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quarterdeck.apiserver.storage import Bucket

#: seconds after which a writer goes on out of turn
PATIENCE = 1.0


class Turns:
    """The writers that wait, by object."""

    def __init__(self) -> None:
        self._queues: dict[tuple[Bucket, str, str], _Queue] = {}

    @asynccontextmanager
    async def take(self, bucket: Bucket, namespace: str, name: str) -> AsyncIterator[None]:
        """Wait for a turn, have it, and let the next one have theirs."""
        place = (bucket, namespace, name)
        queue = self._queues.setdefault(place, _Queue())
        queue.members += 1
        has_turn = False
        try:
            try:
                async with asyncio.timeout(PATIENCE):
                    await queue.turn.acquire()
                has_turn = True
            except TimeoutError:
                pass
            yield
        finally:
            if has_turn:
                queue.turn.release()
            queue.members -= 1
            if not queue.members:
                del self._queues[place]


class _Queue:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.members = 0
