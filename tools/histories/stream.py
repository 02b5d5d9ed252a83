"""What a watch has shown so far, and waiting for more of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.harness.wire import Answer

Json = dict[str, Any]


class Stream:
    """An open watch. answer: the whole answer if it was refused, else its head.

    pump: begins to feed what the server sends; until then it stays where it is.
    """

    def __init__(
        self, answer: Answer, close: Callable[[], object], pump: Callable[[], object] | None = None
    ) -> None:
        self.answer = answer
        self.close = close
        self._pump = pump
        self.has_ended = answer.status != 200
        self._events: list[Json] = []
        self._partial = b""
        self._news = asyncio.Event()

    def begin(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump()

    def feed(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._events += [json.loads(line) for line in lines if line.strip()]
        self._news.set()

    def end(self) -> None:
        self.has_ended = True
        self._news.set()

    async def take_up_to(self, name: str, timeout: float) -> list[Json]:
        """The events up to the one about an object of this name, or all there are by then."""
        await self._until(lambda: self._place_of(name) is not None, timeout)
        place = self._place_of(name)
        count = len(self._events) if place is None else place + 1
        taken, self._events = self._events[:count], self._events[count:]
        return taken

    async def take_to_end(self, timeout: float) -> list[Json]:
        await self._until(lambda: False, timeout)
        taken, self._events = self._events, []
        return taken

    async def _until(self, is_there: Callable[[], bool], timeout: float) -> None:
        self.begin()
        try:
            async with asyncio.timeout(timeout):
                while not self.has_ended and not is_there():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return

    def _place_of(self, name: str) -> int | None:
        return next((place for place, event in enumerate(self._events) if name_of(event) == name), None)


def name_of(event: Json) -> str:
    """The name of the object an event is about, in whatever form it is shown."""
    shown = event.get("object") or {}
    if shown.get("kind") == "Table":
        rows = shown.get("rows") or [{}]
        shown = rows[0].get("object") or {}
    return str((shown.get("metadata") or {}).get("name", ""))
