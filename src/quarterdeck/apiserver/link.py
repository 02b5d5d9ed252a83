"""Requests of the cluster's own processes, many on one connection; see ``quarterdeck.wire.link``."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import Protocol

from quarterdeck.wire.link import Answer, Ask, Link

from .inprocess import Headers

__all__ = ["LinkServer"]

_AT_ONCE = 8
"""Requests of one connection that are begun before others have their turn."""


class Exchanges(Protocol):
    """Who answers requests: a ``LocalServer``."""

    async def exchange(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]: ...


class LinkServer:
    """Accepts links on a Unix socket: whoever can open it is the user of ``server``."""

    def __init__(self, server: Exchanges) -> None:
        self._server = server
        self._listener: asyncio.AbstractServer | None = None
        self._ends: set[_End] = set()

    async def start(self, path: Path) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(self._accept, str(path))

    def _accept(self) -> Link[Ask]:
        end = _End(self._server, self._ends)
        self._ends.add(end)
        return end.link

    async def stop(self, *, drain: float) -> None:
        """Finish what is under way within ``drain`` seconds, then hang up."""
        if self._listener is None:
            return
        self._listener.close()
        tasks = [task for end in self._ends for task in end.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=drain)
        for task in tasks:
            task.cancel()
        for end in tuple(self._ends):
            end.link.close()


class _End:
    """Our end of a connection."""

    def __init__(self, server: Exchanges, ends: set[_End]) -> None:
        self._server = server
        self._waiting: deque[Ask] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.link = Link(Ask, self._asked, lambda: ends.discard(self))

    def _asked(self, ask: Ask) -> None:
        if not self._waiting:
            self._loop.call_soon(self._begin)
        self._waiting.append(ask)

    def _begin(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            task = self._loop.create_task(self._serve(self._waiting.popleft()))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        if self._waiting:
            self._loop.call_soon(self._begin)

    async def _serve(self, ask: Ask) -> None:
        status, headers, body = await self._server.exchange(
            ask.method, ask.path, ask.query, ask.headers, ask.body
        )
        self.link.send(Answer(ask.number, status, tuple(headers), body))
