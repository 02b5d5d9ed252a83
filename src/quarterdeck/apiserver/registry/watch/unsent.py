"""What watches have not sent yet, over all of them.

A stream that keeps up owns nothing: it is handed bytes that it shares with others. One that does not is a
place in the history, which the store keeps anyway, and what is in its socket's buffer. Only an object that is
larger than that buffer has to be held while it is sent, and all streams that send it hold the same bytes. All
of that has one budget; when it is used up, the streams that are furthest behind are cut off, and resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakValueDictionary

from quarterdeck.apiserver.memory import give_back

#: bytes, for all streams together
BUDGET = 256 * 1024 * 1024
#: so many are worth being given back to the system, and seconds after which that is done
MUCH = 16 * 1024 * 1024
_A_WHILE = 1.0


class Behind(Protocol):
    """A stream that waits for its reader."""

    @property
    def rev(self) -> int:
        """How far it is."""
        ...

    def cut(self) -> None:
        """Hang up: the reader can come back."""
        ...


class Large:
    """Encoded events that are sent piece by piece, by however many streams."""

    __slots__ = ("__weakref__", "data", "holders")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.holders = 0


class Unsent:
    """The budget, and who uses it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._peak = 0
        self._waiting: dict[Behind, int] = {}
        self._large: WeakValueDictionary[object, Large] = WeakValueDictionary()

    def find(self, key: object, make: Callable[[], bytes]) -> Large:
        """A large event, encoded once for all who send it at a time."""
        large = self._large.get(key)
        if large is None:
            large = self._large[key] = Large(make())
        return large

    @contextmanager
    def holding(self, large: Large) -> Iterator[None]:
        """Something large is being sent; it counts once, however many send it."""
        if not large.holders:
            self.bytes += len(large.data)
        large.holders += 1
        try:
            yield
        finally:
            large.holders -= 1
            if not large.holders:
                self.bytes -= len(large.data)
                self._look_at_peak()

    def wait(self, stream: Behind, size: int) -> None:
        """A stream waits with so many bytes of its own; `go_on` when it does not."""
        self.bytes += size
        self._waiting[stream] = size
        self._peak = max(self._peak, self.bytes)
        while self.bytes > BUDGET and self._waiting:
            slowest = min(self._waiting, key=_progress)
            self.go_on(slowest)
            slowest.cut()

    def go_on(self, stream: Behind) -> None:
        self.bytes -= self._waiting.pop(stream, 0)
        self._look_at_peak()

    def _look_at_peak(self) -> None:
        """After a lot was unsent and is not any more, the memory goes back to the system."""
        if self.bytes < self._peak // 8:
            if self._peak > MUCH:
                # when those who sent it have let go of it, too
                asyncio.get_running_loop().call_later(_A_WHILE, give_back)
            self._peak = 0


def _progress(stream: Behind) -> int:
    return stream.rev
