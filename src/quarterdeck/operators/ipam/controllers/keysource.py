"""Sources that this program itself feeds: one controller learns something that another should look at."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key
from quarterdeck.runtime.controller.source import SourceContext
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY

PAGE: Final = 1000
"""Keys queued at once when there are many."""


class KeySource:
    """Puts keys on the queue of the controller it belongs to; silent while that does not run.

    ``ready`` holds the workers of its controller back until it is set.
    """

    def __init__(self, name: str, *, ready: asyncio.Event | None = None) -> None:
        self.name: Final = f"keys: {name}"
        self._ready: Final = ready
        self._context: SourceContext | None = None
        self._pages: Final[deque[Iterable[Key]]] = deque()
        self._filled: Final = asyncio.Event()

    def queue(self, key: Key) -> None:
        """Queue a key."""
        if self._context is not None:
            self._context.enqueue(key, 0)

    def queue_all(self, keys: Iterable[Key]) -> None:
        """Queue many keys behind everything else, in pages."""
        if self._context is not None:
            self._pages.append(keys)
            self._filled.set()

    async def run(self, context: SourceContext) -> None:
        """Queue until cancelled."""
        self._context = context
        try:
            if self._ready is not None:
                await self._ready.wait()
            context.synced()
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._pages:
                    await self._queue(self._pages.popleft(), context)
        finally:
            self._context = None
            self._pages.clear()

    async def _queue(self, keys: Iterable[Key], context: SourceContext) -> None:
        for count, key in enumerate(keys, 1):
            context.enqueue(key, LOW_PRIORITY)
            if count % PAGE == 0:
                await asyncio.sleep(0)
