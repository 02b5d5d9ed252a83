"""One handler of an informer: its own buffer, its own pace.

Deltas are appended to an unbounded buffer and handled one by one, in order, by a task of the registration.
A slow handler therefore delays neither the watch nor other handlers; its backlog is a statistic.

``has_synced`` turns true when the initial state has been *handled*, not when it was stored: a marker travels
through the buffer behind it. A handler that raises keeps its event: it is logged, counted and handled again
later, after a growing delay, while newer events go on.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from time import perf_counter
from typing import Final, Protocol

import msgspec

from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.wire.timeslice import TimeSlice

__all__ = ["EventHandler", "Registration", "RegistrationStatistics", "retry_wait"]

_log: Final = get_logger(__name__)
_FIRST_RETRY: Final = 0.1
_LAST_RETRY: Final = 30.0


def retry_wait(attempt: int) -> float:
    """Seconds before an event that a handler has failed on ``attempt`` times is handled again."""
    return min(_FIRST_RETRY * 2.0 ** min(attempt - 1, 16), _LAST_RETRY)


class EventHandler(Protocol):
    """What is told about every change."""

    def handle(self, delta: Delta) -> Awaitable[None] | None:
        """Take one change; may be a coroutine function. An exception means: tell me again later."""
        ...


class RegistrationStatistics(msgspec.Struct, frozen=True):
    """How a handler keeps up."""

    queued: int
    handled: int
    failures: int
    retrying: int
    has_synced: bool
    is_handling: bool
    """Whether the handler is at work on a change."""


class _Present:
    """Objects that are there, handed on as initial additions one by one.

    The list is shared by all handlers, and the change of an object is made when its turn comes: a million
    changes that wait would take as much memory as the objects.
    """

    __slots__ = ("_entries", "_place")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._place = 0

    def __len__(self) -> int:
        return len(self._entries) - self._place

    def take(self) -> Delta:
        entry = self._entries[self._place]
        self._place += 1
        return Delta(Change.ADDED, None, entry, True)


class _Marker:
    """Behind the last initial delta of one shard."""

    __slots__ = ("shard",)

    def __init__(self, shard: Hashable) -> None:
        self.shard = shard


class Registration:
    """A handler registered with an informer; made by ``Informer.add_handler``."""

    def __init__(
        self,
        handler: EventHandler,
        *,
        name: str,
        wants_initial: bool = True,
        observe: Callable[[float], None],
        failed: Callable[[], None],
    ) -> None:
        """``observe`` is told the seconds the handler took for each change, ``failed`` that it raised."""
        self._handler: Final = handler
        self._name: Final = name
        self._wants_initial: Final = wants_initial
        self._observe: Final = observe
        self._failed: Final = failed
        self._buffer: deque[Delta | _Present | _Marker] = deque()
        self._filled: Final = asyncio.Event()
        self._synced: Final = asyncio.Event()
        self._missing: set[Hashable] | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._attempts: dict[int, int] = {}
        self._handled = 0
        self._failures = 0
        self._is_handling = False
        self._closed = False

    @property
    def has_synced(self) -> bool:
        """Whether the whole initial state has been handled."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the whole initial state has been handled."""
        await self._synced.wait()

    def statistics(self) -> RegistrationStatistics:
        """Backlog, work done and trouble."""
        return RegistrationStatistics(
            queued=sum(len(item) if isinstance(item, _Present) else 1 for item in self._buffer),
            handled=self._handled,
            failures=self._failures,
            retrying=len(self._timers),
            has_synced=self._synced.is_set(),
            is_handling=self._is_handling,
        )

    def expect(self, shards: Iterable[Hashable]) -> None:
        """The initial state comes in these parts; each ends with a marker."""
        self._missing = set(shards)
        if not self._missing:
            self._synced.set()

    def push(self, deltas: Iterable[Delta]) -> None:
        """Append changes."""
        if not self._closed:
            self._buffer.extend(deltas)
            self._filled.set()

    def present(self, entries: Sequence[Entry]) -> None:
        """Append what is there, as initial additions; the sequence must not change."""
        if entries and self._wants_initial and not self._closed:
            self._buffer.append(_Present(entries))
            self._filled.set()

    def mark(self, shard: Hashable) -> None:
        """The initial state of a shard is complete."""
        if not self._closed:
            self._buffer.append(_Marker(shard))
            self._filled.set()

    def close(self) -> None:
        """Forget what is queued; the task that runs this registration is cancelled by its owner."""
        self._closed = True
        self._buffer.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._attempts.clear()

    async def run(self) -> None:
        """Handle deltas until cancelled."""
        buffer = self._buffer
        turn = TimeSlice()
        while not self._closed:
            while buffer:
                item = buffer.popleft()
                if isinstance(item, _Present):
                    if len(item) > 1:
                        buffer.appendleft(item)
                    item = item.take()
                if isinstance(item, _Marker):
                    self._reach(item)
                else:
                    waiting = self._handle(item)
                    if waiting is not None:
                        await waiting
                if turn.is_over:
                    await turn.end()
            self._filled.clear()
            await self._filled.wait()
            turn = TimeSlice()

    def _reach(self, marker: _Marker) -> None:
        if self._missing is None:
            return
        self._missing.discard(marker.shard)
        if not self._missing:
            self._synced.set()

    def _handle(self, delta: Delta) -> Awaitable[None] | None:
        """Hand one delta over; what is left to wait for comes back, which for most handlers is nothing."""
        self._is_handling = True
        started = perf_counter()
        try:
            waiting = self._handler.handle(delta)
        except Exception as error:  # noqa: BLE001  supervision point: user code; the event is kept
            self._retry_later(delta, error)
        else:
            if waiting is not None:
                return self._finish(delta, waiting, started)
            self._succeeded(delta)
        self._is_handling = False
        self._observe(perf_counter() - started)
        return None

    async def _finish(self, delta: Delta, waiting: Awaitable[None], started: float) -> None:
        try:
            await waiting
        except Exception as error:  # noqa: BLE001  supervision point: user code; the event is kept
            self._retry_later(delta, error)
        else:
            self._succeeded(delta)
        finally:
            self._is_handling = False
            self._observe(perf_counter() - started)

    def _succeeded(self, delta: Delta) -> None:
        self._handled += 1
        if self._attempts:
            self._attempts.pop(id(delta), None)

    def _retry_later(self, delta: Delta, error: Exception) -> None:
        self._failures += 1
        self._failed()
        # The timer keeps the delta alive, so its id cannot be taken by another one meanwhile.
        number = id(delta)
        attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
        wait = retry_wait(attempt)
        _log.error(
            "event handler failed",
            error,
            handler=self._name,
            change=delta.change.value,
            object=str(delta.entry.key),
            attempt=attempt,
            retry=wait,
        )
        loop = asyncio.get_running_loop()
        self._timers[number] = loop.call_later(wait, self._again, delta)

    def _again(self, delta: Delta) -> None:
        self._timers.pop(id(delta), None)
        self.push((delta,))
