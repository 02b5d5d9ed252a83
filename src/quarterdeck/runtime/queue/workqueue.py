"""The work queue: keys to reconcile, each at most once, each with one worker at a time.

What it guarantees:

- **One key, one worker.** ``get()`` never hands out a key that has not been given back with ``done()``.
- **Nothing lost, everything merged.** However often a key is added while it waits, it comes out once; if
  it is added while it is being worked on, it comes out exactly once more after ``done()``.
- **Merging** keeps the earlier due time and the higher priority. A raised priority sends the entry to the
  back of its new band; otherwise it keeps its place. Bands are first-in-first-out by readiness.
- **Ageing.** An entry gains ``age_rate`` points of priority per second of waiting, so that a low band is
  served although a higher one never runs dry. All entries age alike, so their order never changes while
  they wait and one heap is enough. ``age_rate=0`` gives strict bands, which starve.

What it is not: a place for payloads (a key says *look*, never *what happened*), and not thread-safe: it
belongs to one event loop, other threads use ``add_threadsafe``. Shutting down abandons what is queued;
level-triggered work is found again by the next process.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.queue.ratelimit import ExponentialLimiter, RateLimiter

LOW_PRIORITY: Final = -100
"""Band of keys from an initial list or a resync: important, not urgent."""

DEFAULT_AGE_RATE: Final = 100 / 60
"""Points per second: the low band catches up with the normal one after a minute."""

K = TypeVar("K", bound=Hashable)


class QueueClosed(QuarterdeckError):
    """The queue was shut down; the worker that waited should end."""


class QueueMetrics(Protocol):
    """The observer of a queue; see the ``workqueue_*`` metrics."""

    def ready(self, priority: int) -> None:
        """An entry became ready (depth and adds go up)."""
        ...

    def moved(self, before: int, after: int) -> None:
        """A ready entry changed its priority."""
        ...

    def taken(self, priority: int, waited: float) -> None:
        """A ready entry was handed out after ``waited`` seconds (depth goes down)."""
        ...

    def dropped(self, priority: int) -> None:
        """A ready entry was discarded (depth goes down)."""
        ...

    def finished(self, worked: float) -> None:
        """A key was given back after ``worked`` seconds."""
        ...

    def retried(self) -> None:
        """A key was added with a delay."""
        ...


class QueueStatistics(msgspec.Struct, frozen=True):
    """A moment of a queue's life."""

    ready: int
    """Entries that could be taken, those held back by a running worker included."""
    waiting: int
    """Entries that are not due yet."""
    processing: int
    """Keys handed out and not given back."""
    getters: int
    """Workers waiting for a key."""
    next_due: float | None
    """Loop time at which the next delayed entry becomes ready."""
    unfinished_seconds: float
    """Sum of the ages of what is being processed."""
    longest_seconds: float
    """Age of the oldest of these."""


class _Entry(Generic[K]):
    """One key that wants attention.

    ``seq`` is unique per placement: a heap slot whose number differs from its entry's is stale.
    """

    __slots__ = ("at", "held", "key", "order", "priority", "seq")

    def __init__(self, key: K, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.seq = -1
        self.order = 0.0  # place among the ready entries; smaller is sooner
        self.at = -1.0  # when it became ready, or was taken; due time while it waits
        self.held = _WAITING


_WAITING: Final = 0  # in the heap of delayed entries
_READY: Final = 1  # in the heap of ready entries
_HELD: Final = 2  # ready, but its key is being processed: in no heap


class WorkQueue(Generic[K]):
    """A de-duplicating, delaying, rate-limiting, prioritised queue of keys.

    Options:

    - ``limiter``: how long failed keys wait; default exponential from 5 ms to 300 s.
    - ``age_rate``: points of priority gained per waiting second; default reaches from −100 to 0 in 60 s.
    - ``metrics``: an observer; without one nothing is measured.
    - ``has_priorities``: without, every key has the same: first in, first out.
    """

    def __init__(
        self,
        *,
        limiter: RateLimiter[K] | None = None,
        age_rate: float = DEFAULT_AGE_RATE,
        metrics: QueueMetrics | None = None,
        has_priorities: bool = True,
    ) -> None:
        self._limiter: Final[RateLimiter[K]] = limiter if limiter is not None else ExponentialLimiter()
        self._age_rate: Final = age_rate
        self._metrics: Final = metrics
        self._has_priorities: Final = has_priorities
        self._items: dict[K, _Entry[K]] = {}
        self._ready: list[tuple[float, int, _Entry[K]]] = []
        self._waiting: list[tuple[float, int, _Entry[K]]] = []
        self._processing: dict[K, _Entry[K]] = {}
        self._ready_count = 0
        self._getters: deque[asyncio.Future[None]] = deque()
        self._number: Final = itertools.count().__next__
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now: Callable[[], float] = time.monotonic
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._closed = False

    def add(
        self,
        key: K,
        *,
        after: float = 0.0,
        rate_limited: bool = False,
        at_least: float = 0.0,
        priority: int = 0,
    ) -> None:
        """Ask for attention to ``key``, now or in ``after`` seconds; nothing happens once shut down.

        ``rate_limited`` counts a failure and waits as the limiter says, ``at_least`` so many seconds; with
        ``after`` as well the smaller wins.
        """
        if self._closed:
            return
        if not self._has_priorities:
            priority = 0
        if rate_limited:
            delay = max(self._limiter.when(key), at_least)
            after = min(after, delay) if after > 0 else delay
        if after > 0 and self._metrics is not None:
            self._metrics.retried()
        entry = self._items.get(key)
        if entry is None:
            entry = self._items[key] = _Entry(key, priority)
            if after > 0:
                self._delay(entry, self._time() + after)
            else:
                self._make_ready(entry)
            return
        before = entry.priority
        if priority > before:
            entry.priority = priority
        if entry.held != _WAITING:
            if priority > before:
                self._raise(entry, before)
        elif after <= 0:
            self._make_ready(entry)
        else:
            due = self._time() + after
            if due < entry.at:
                self._delay(entry, due)

    def add_threadsafe(
        self, key: K, *, after: float = 0.0, rate_limited: bool = False, priority: int = 0
    ) -> None:
        """``add`` from another thread; the queue must be in use by its loop already."""
        if self._loop is None:
            raise RuntimeError("the queue has no event loop yet: use add() until its workers run")
        self._loop.call_soon_threadsafe(
            lambda: self.add(key, after=after, rate_limited=rate_limited, priority=priority)
        )

    async def get(self) -> K:
        """The next key; waits for one. Raises ``QueueClosed`` after ``shut_down()``."""
        if self._loop is None:
            self._bind()
        while not self._closed:
            ready = self._ready
            while ready:
                _, seq, entry = heappop(ready)
                if entry.seq == seq:
                    return self._take(entry)
            await self._wait()
        raise QueueClosed("the work queue was shut down")

    def done(self, key: K, *, takes_over: Callable[[K, int], bool] | None = None) -> None:
        """Give a key back; if it was added meanwhile it can be taken again.

        ``takes_over(key, priority)`` is asked first, if given: on a yes the key counts as taken once more,
        and whoever said so adds it again later.
        """
        taken = self._processing.pop(key, None)
        if taken is None:
            return
        if self._metrics is not None:
            self._metrics.finished(self._now() - taken.at)
        entry = self._items.get(key)
        if entry is None or entry.held != _HELD:
            return
        if takes_over is not None and not self._closed and takes_over(key, entry.priority):
            self._remove(entry)
            return
        entry.held = _READY
        heappush(self._ready, (entry.order, entry.seq, entry))
        self._wake()

    def forget(self, key: K) -> None:
        """Reset the failure count of a key; a queued entry stays."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """How often the key failed since it was last forgotten."""
        return self._limiter.failures(key)

    def priority_of(self, key: K) -> int:
        """The priority a key was handed out with; 0 if it is not being processed."""
        taken = self._processing.get(key)
        return taken.priority if taken is not None else 0

    def waited(self, key: K) -> float:
        """Seconds for which a key that is being processed was ready before; 0 if it is not."""
        taken = self._processing.get(key)
        return taken.at - taken.order if taken is not None else 0.0

    @property
    def processing(self) -> tuple[K, ...]:
        """The keys handed out and not given back."""
        return tuple(self._processing)

    def discard(self, unwanted: Callable[[K], bool]) -> int:
        """Drop queued entries, running ones excepted (a cluster left); returns how many."""
        doomed = [entry for key, entry in self._items.items() if unwanted(key)]
        for entry in doomed:
            del self._items[entry.key]
            entry.seq = -1
            self._limiter.forget(entry.key)
            if entry.held != _WAITING:
                self._ready_count -= 1
                if self._metrics is not None:
                    self._metrics.dropped(entry.priority)
        return len(doomed)

    def shut_down(self) -> None:
        """Refuse new keys and send all waiting workers home."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()

    @property
    def is_closed(self) -> bool:
        """Whether ``shut_down()`` was called."""
        return self._closed

    def __len__(self) -> int:
        """Ready entries; delayed ones do not count."""
        return self._ready_count

    def statistics(self) -> QueueStatistics:
        """What is queued, delayed and running right now."""
        now = self._time()
        ages = [now - entry.at for entry in self._processing.values()]
        waiting = self._waiting
        while waiting and waiting[0][2].seq != waiting[0][1]:
            heappop(waiting)
        return QueueStatistics(
            ready=self._ready_count,
            waiting=len(self._items) - self._ready_count,
            processing=len(self._processing),
            getters=len(self._getters),
            next_due=waiting[0][0] if waiting else None,
            unfinished_seconds=sum(ages),
            longest_seconds=max(ages, default=0.0),
        )

    def _time(self) -> float:
        if self._loop is None:
            self._bind()
        return self._now()

    def _bind(self) -> None:
        """Adopt the running loop; before there is one, time is the clock that loops use by default."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        # A loop may count from another zero (virtual time): what was added before keeps its distance.
        shift = loop.time() - self._now()
        self._loop = loop
        self._now = loop.time
        for entry in self._items.values():
            entry.at += shift
            entry.order += shift * self._age_rate
        self._ready = [(entry.order, seq, entry) for _, seq, entry in self._ready]
        self._waiting = [(due + shift, seq, entry) for due, seq, entry in self._waiting]
        if self._waiting:
            self._arm(self._waiting[0][0])

    def _make_ready(self, entry: _Entry[K]) -> None:
        now = self._time()
        entry.at = now
        entry.order = order = now * self._age_rate - entry.priority
        entry.seq = seq = self._number()
        self._ready_count += 1
        if self._metrics is not None:
            self._metrics.ready(entry.priority)
        if entry.key in self._processing:
            entry.held = _HELD
            return
        entry.held = _READY
        heappush(self._ready, (order, seq, entry))
        if self._getters:
            self._wake()

    def _raise(self, entry: _Entry[K], before: int) -> None:
        """Move a ready entry to the back of its new band, unless its age put it ahead already."""
        if self._metrics is not None:
            self._metrics.moved(before, entry.priority)
        order = self._time() * self._age_rate - entry.priority
        if order >= entry.order:
            return
        entry.order = order
        entry.seq = self._number()
        if entry.held == _READY:
            heappush(self._ready, (order, entry.seq, entry))

    def _delay(self, entry: _Entry[K], due: float) -> None:
        entry.held = _WAITING
        entry.at = due
        entry.seq = self._number()
        waiting = self._waiting
        heappush(waiting, (due, entry.seq, entry))
        if len(waiting) > 4 * (len(self._items) - self._ready_count):
            # Delays cut short by an immediate add leave their slots behind until they are due.
            waiting[:] = [slot for slot in waiting if slot[2].seq == slot[1]]
            heapify(waiting)
        self._arm(due)

    def _arm(self, due: float) -> None:
        if self._loop is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_at(due, self._release_due)

    def _release_due(self) -> None:
        self._timer = None
        now = self._now()
        waiting = self._waiting
        while waiting:
            due, seq, entry = waiting[0]
            if entry.seq != seq:
                heappop(waiting)
            elif due <= now or due <= self._timer_due:
                # A timer may fire a clock tick early; its own due time counts as reached.
                heappop(waiting)
                self._make_ready(entry)
            else:
                self._arm(due)
                return

    def _take(self, entry: _Entry[K]) -> K:
        entry.order = entry.at  # its place is history; since when it could have been taken is not
        entry.at = self._remove(entry)
        self._processing[entry.key] = entry
        return entry.key

    def _remove(self, entry: _Entry[K]) -> float:
        """A ready entry leaves the queue; returns when."""
        del self._items[entry.key]
        self._ready_count -= 1
        now = self._now()
        if self._metrics is not None:
            self._metrics.taken(entry.priority, now - entry.at)
        return now

    def _wake(self) -> None:
        getters = self._getters
        while getters:
            getter = getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    async def _wait(self) -> None:
        assert self._loop is not None
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.cancelled():
                with suppress(ValueError):  # shut_down() may have emptied the line meanwhile
                    self._getters.remove(getter)
            elif self._ready:
                # Woken and cancelled in the same moment: the wake-up belongs to somebody else.
                self._wake()
            raise
