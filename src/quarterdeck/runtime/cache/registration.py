"""One handler of an informer: its own buffer, its own pace.

Deltas are appended to an unbounded buffer and handled one by one, in order, by a task of the registration.
A slow handler therefore delays neither the watch nor other handlers; its backlog is a statistic.

``has_synced`` turns true when the initial state has been *handled*, not when it was stored: a marker travels
through the buffer behind it. A handler that raises, or does not come back, keeps its change: it is logged,
counted and handled again after a growing delay, while changes of other objects go on. Later changes of the
same object join the one that waits and are tried with it, so that nothing overtakes and a handler that
always fails costs a few changes for each object, not every change that ever was.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from time import perf_counter
from typing import Final, Protocol

import msgspec

from quarterdeck.api import Key
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.store import Change, Delta
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.wire.timeslice import TimeSlice

_log: Final = get_logger(__name__)
_FIRST_RETRY: Final = 0.1
_LAST_RETRY: Final = 30.0
HANDLER_TIMEOUT: Final = 60.0
"""Seconds in which a handler must have taken a change; it waits for nothing but cached reads."""


def retry_wait(attempt: int) -> float:
    """Seconds before an event that a handler has failed on ``attempt`` times is handled again."""
    return min(_FIRST_RETRY * 2.0 ** min(attempt - 1, 16), _LAST_RETRY)


class EventHandler(Protocol):
    """What a handler is given for every change."""

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
        self._buffer: deque[Delta | _Present | _Marker | _Trouble] = deque()
        self._filled: Final = asyncio.Event()
        self._synced: Final = asyncio.Event()
        self._missing: set[Hashable] | None = None
        self._troubled: dict[Key, _Trouble] = {}
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
            retrying=len(self._troubled),
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
        for trouble in tuple(self._troubled.values()):
            self._forget(trouble)

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
                elif isinstance(item, _Trouble):
                    if item.deltas:  # it was not tried meanwhile, because of a later change
                        await self._try_again(item)
                else:
                    waiting = self._handle(item)
                    if waiting is not None:
                        await waiting
                if turn.is_over:
                    await turn.end()
            self._filled.clear()
            await self._filled.wait()
            turn.begin()

    def _reach(self, marker: _Marker) -> None:
        if self._missing is None:
            return
        self._missing.discard(marker.shard)
        if not self._missing:
            self._synced.set()

    def _handle(self, delta: Delta) -> Awaitable[None] | None:
        """Hand one delta over; what is left to wait for comes back, which for most handlers is nothing."""
        if self._troubled:
            trouble = self._troubled.get(delta.entry.key)
            if trouble is not None:
                trouble.join(delta)
                return self._try_again(trouble)
        self._is_handling = True
        started = perf_counter()
        try:
            waiting = self._handler.handle(delta)
        except BaseException as raised:  # noqa: BLE001  supervision point: user code; the change is kept
            self._is_handling = False
            self._observe(perf_counter() - started)
            self._retry_later(_Trouble(delta), contained(raised))
            return None
        if waiting is not None:
            return self._finish(delta, waiting, started)
        self._handled += 1
        self._is_handling = False
        self._observe(perf_counter() - started)
        return None

    async def _finish(self, delta: Delta, waiting: Awaitable[None], started: float) -> None:
        try:
            async with asyncio.timeout(HANDLER_TIMEOUT):
                await waiting
            self._handled += 1
        except BaseException as raised:  # noqa: BLE001  supervision point: user code; the change is kept
            self._retry_later(_Trouble(delta), contained(raised))
        finally:
            self._is_handling = False
            self._observe(perf_counter() - started)

    async def _try_again(self, trouble: "_Trouble") -> None:
        """Hand over what waits of one object, in order; what fails keeps waiting with all that follows."""
        self._forget(trouble)
        while trouble.deltas:
            self._is_handling = True
            started = perf_counter()
            try:
                waiting = self._handler.handle(trouble.deltas[0])
                if waiting is not None:
                    async with asyncio.timeout(HANDLER_TIMEOUT):
                        await waiting
            except BaseException as raised:  # noqa: BLE001  supervision point: user code; it is kept
                self._retry_later(trouble, contained(raised))
                return
            finally:
                self._is_handling = False
                self._observe(perf_counter() - started)
            del trouble.deltas[0]
            self._handled += 1

    def _retry_later(self, trouble: "_Trouble", error: Exception) -> None:
        if self._closed:
            return
        self._failures += 1
        self._failed()
        trouble.attempt += 1
        wait = retry_wait(trouble.attempt)
        delta = trouble.deltas[0]
        _log.error(
            "event handler failed",
            error,
            handler=self._name,
            change=delta.change.value,
            object=str(delta.entry.key),
            attempt=trouble.attempt,
            retry=wait,
        )
        self._troubled[delta.entry.key] = trouble
        trouble.timer = asyncio.get_running_loop().call_later(wait, self._again, trouble)

    def _forget(self, trouble: "_Trouble") -> None:
        self._troubled.pop(trouble.deltas[0].entry.key, None)
        if trouble.timer is not None:
            trouble.timer.cancel()
            trouble.timer = None

    def _again(self, trouble: "_Trouble") -> None:
        trouble.timer = None
        self._buffer.append(trouble)
        self._filled.set()


class _Trouble:
    """Changes of one object that its handler has yet to take: those it failed on, and what came after."""

    __slots__ = ("attempt", "deltas", "timer")

    def __init__(self, delta: Delta) -> None:
        self.deltas = [delta]
        self.attempt = 0
        self.timer: asyncio.TimerHandle | None = None

    def join(self, delta: Delta) -> None:
        """One more change; it melts into the last one where both together are one change."""
        last = self.deltas[-1]
        if delta.change is Change.UPDATED and last.new is not None:
            self.deltas[-1] = Delta(last.change, last.old, delta.new, last.is_initial)
            return
        if delta.change is Change.DELETED and last.change is Change.ADDED:
            self.deltas.pop()  # it came and went
        if delta.change is Change.DELETED and self.deltas and self.deltas[-1].change is Change.DELETED:
            self.deltas.pop()  # once more
        self.deltas.append(delta)
