"""Writing events to the server.

An ``EventBroadcaster`` decides what becomes of each event as soon as it is recorded: written, counted on an
earlier one, or left out (``correlation``, ``series``). What is to be written goes into a queue that a few
requests at a time work off; those about one event keep their order. Recording never waits: when thousands of
writes are queued, further ones are dropped and counted, with one warning a minute. Events may be recorded
from any thread.

Writes that do not reach the server are tried again, up to 12 times; what the server refuses is not. When the
broadcaster stops, it writes what is queued and the counts of open series, as long as the grace period lasts.
"""

import asyncio
import enum
import itertools
import random
import socket
import threading
from collections import deque
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import msgspec

from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import core, events
from quarterdeck.client import Client, StrategicMergePatch
from quarterdeck.client.clock import Clock
from quarterdeck.errors import AlreadyExists, ApiError, NotFound, TransportError
from quarterdeck.runtime.event.correlation import Correlator
from quarterdeck.runtime.event.recorder import EventRecorder
from quarterdeck.runtime.event.series import FINISH_AFTER, REFRESH_PERIOD, SeriesCache
from quarterdeck.runtime.event.subject import EventNames
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.log.repeat import RepeatGuard
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.runtime.metrics import RuntimeMetrics

QUEUE_SIZE: Final = 10_000
WRITERS: Final = 8
"""Requests at a time: enough to hide the way to the server, few beside what reconcilers send."""
MAX_TRIES: Final = 12
RETRY_DELAY: Final = 10.0
FLUSH_GRACE: Final = 5.0
REPORT_PERIOD: Final = 60.0
"""Seconds between two warnings about dropped events."""
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_log: Final = get_logger(__name__)

Api: TypeAlias = Literal["events.k8s.io", "core", "both"]
AnyEvent: TypeAlias = core.Event | events.Event


class _Write(msgspec.Struct, frozen=True):
    """One request to come."""

    event: AnyEvent
    is_repeat: bool
    """Whether the event was written before: then only what counts it changes."""

    @property
    def target(self) -> tuple[str, str]:
        """The object that is written; two writes of one keep their order."""
        return (self.event.metadata.namespace, self.event.metadata.name)


class EventBroadcaster:
    """Writes the events of a process; use it with ``async with``."""

    def __init__(
        self,
        client: Client,
        *,
        api: Api = "events.k8s.io",
        queue_size: int = QUEUE_SIZE,
        flush_grace: float = FLUSH_GRACE,
        metrics: RuntimeMetrics | None = None,
        host: str = "",
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``api`` chooses new events with series, legacy ones with counts, or legacy ones that have both.

        ``queue_size`` is how many writes may wait; ``flush_grace`` the seconds a stop may take; ``host``
        defaults to the host's name.
        """
        self._client: Final = client
        self.api: Final = api
        self.host: Final = host or socket.gethostname()
        self._size: Final = queue_size
        self._grace: Final = flush_grace
        self._metrics: Final = metrics
        self._clock: Final = clock if clock is not None else LoopClock()
        self._random: Final = rng if rng is not None else random.Random()  # noqa: S311  jitter, no secret
        self._names: Final = EventNames()
        self._correlator: Final = Correlator(now=self._clock.time, make_name=self.name_for)
        self._series: Final = SeriesCache()
        # Recorders are called on any thread; held for moments only, never across an await.
        self._lock: Final = threading.Lock()
        self._queue: Final[deque[_Write]] = deque()
        self._writing: Final[set[tuple[str, str]]] = set()
        self._dropped = 0
        self._report_at = 0.0
        self._refusals: Final = RepeatGuard(REPORT_PERIOD)
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._idle: asyncio.Event | None = None

    def recorder(self, controller: str, *, reasons: type[enum.Enum] | None = None) -> EventRecorder:
        """The recorder of a controller; with ``reasons`` every other reason is a mistake."""
        return EventRecorder(self, controller, reasons)

    @property
    def has_room(self) -> bool:
        """Whether less than half of the queue is taken."""
        return len(self._queue) * 2 < self._size

    def now(self) -> float:
        """The date in seconds since 1970."""
        return self._clock.time()

    def name_for(self, subject: str) -> str:
        """A new name for an event about an object of that name."""
        return self._names.make(subject, self._clock.time())

    def put(self, event: AnyEvent) -> None:
        """Queue an event; dropped and counted if there is no room, or nobody writes any more."""
        with self._lock:
            if self._is_stopping:
                self._drop()
            else:
                write = self._due(event)
                if write is None:
                    return
                if len(self._queue) >= self._size:
                    # If this was the first of a series, the next one finds it missing and creates it.
                    self._drop()
                else:
                    self._queue.append(write)
        wake, loop = self._wake, self._loop
        if loop is None:
            return  # not started yet: the writer begins with what is queued
        assert wake is not None
        if threading.get_ident() == self._thread:
            wake.set()
        else:
            loop.call_soon_threadsafe(wake.set)

    def _due(self, event: AnyEvent) -> _Write | None:
        """What has to be written for an event now."""
        if isinstance(event, core.Event):
            correlated = self._correlator.correlate(event)
            if correlated is not None:
                return _Write(correlated.event, correlated.is_repeat)
            self._count_dropped(1)
            return None
        made = self._series.add(event, self._clock.time())
        return _Write(made, bool(made.series)) if made is not None else None

    def _drop(self) -> None:
        self._dropped += 1
        self._count_dropped(1)

    def _count_dropped(self, count: int) -> None:
        if self._metrics is not None:
            self._metrics.events_dropped.inc(count)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to write."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._is_stopping = False
        self._report_at = 0.0
        self._task = asyncio.create_task(self._run(), name="events")

    async def stop(self, grace: float | None = None) -> None:
        """Write what is queued within ``grace`` seconds (the broadcaster's own by default), then end."""
        task, wake, idle = self._task, self._wake, self._idle
        if task is None:
            return
        assert wake is not None
        assert idle is not None
        self._is_stopping = True
        wake.set()
        try:
            async with asyncio.timeout(self._grace if grace is None else grace):
                await idle.wait()
        except TimeoutError:
            left = len(self._queue) + len(self._writing)
            _log.warning("events not written within the grace period", count=left)
            self._count_dropped(left)
        self._task = None
        task.cancel()
        await asyncio.wait([task])
        self._report(float("inf"))

    async def run(self) -> None:
        """Write until cancelled, then write what is queued."""
        await self.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.shield(self.stop())

    async def _run(self) -> None:
        assert self._idle is not None
        refreshed = swept = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            while True:
                now = self._clock.monotonic()
                with self._lock:
                    if self._is_stopping or now - refreshed >= REFRESH_PERIOD:
                        refreshed = now
                        self._queue.extend(_Write(event, True) for event in self._series.refresh())
                    if now - swept >= FINISH_AFTER:
                        swept = now
                        over = self._series.finish(self._clock.time())
                        self._queue.extend(_Write(event, True) for event in over)
                while (write := self._take()) is not None:
                    group.create_task(self._work(write))
                if self._is_stopping and not self._queue and not self._writing:
                    self._idle.set()
                report = self._report(now)
                await self._wait(min(refreshed + REFRESH_PERIOD, swept + FINISH_AFTER, report) - now)

    async def _wait(self, seconds: float) -> None:
        assert self._wake is not None
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _report(self, now: float) -> float:
        """Say how many were dropped, unless that was said a moment ago; returns when to look again."""
        if self._dropped == 0:
            return float("inf")
        if now >= self._report_at:
            with self._lock:
                count, self._dropped = self._dropped, 0
            self._report_at = now + REPORT_PERIOD
            _log.warning("Unable to record event: too many queued events, dropped event", count=count)
        return self._report_at

    def _take(self) -> _Write | None:
        """The next write to begin with: nothing that another is at work on, no more than a few at once."""
        if len(self._writing) >= WRITERS:
            return None
        with self._lock:
            for position, write in enumerate(self._queue):
                if write.target not in self._writing:
                    del self._queue[position]
                    self._writing.add(write.target)
                    return write
        return None

    async def _work(self, write: _Write) -> None:
        assert self._wake is not None
        try:
            await self._try(write)
        except BaseException as raised:  # noqa: BLE001  supervision point: one event must not end all others
            self._give_up("Unable to write event", write.event, contained(raised))
        finally:
            self._writing.discard(write.target)
            self._wake.set()

    def _give_up(self, why: str, event: AnyEvent, error: Exception) -> None:
        self._count_dropped(1)
        kind = f"{why} {error.reason if isinstance(error, ApiError) else type(error).__name__}"
        unsaid = self._refusals.admit(kind, self._clock.monotonic())
        if unsaid is not None:
            metadata = event.metadata
            more = {"before": unsaid} if unsaid else {}
            _log.warning(
                why, error, name=metadata.name, namespace=metadata.namespace, reason=event.reason, **more
            )

    async def _try(self, write: _Write) -> None:
        """Write one event, again and again while the server cannot be reached."""
        event = write.event
        for attempt in itertools.count(1):
            try:
                await self._send(write)
                return
            except AlreadyExists as error:
                if write.is_repeat and attempt == 1:
                    continue  # it was created between our patch and our create: patch again
                _log.debug("Server rejected event (will not retry!)", error=str(error))
                return
            except ApiError as error:
                if any(cause.reason == NAMESPACE_TERMINATING for cause in error.details.causes):
                    _log.debug("Server rejected event (will not retry!)", error=str(error))
                    return
                self._give_up("Server rejected event (will not retry!)", event, error)
                return
            except TransportError as error:
                if attempt == MAX_TRIES or self._is_stopping:
                    self._give_up("Unable to write event (retry limit exceeded!)", event, error)
                    return
                _log.debug("Unable to write event (may retry after sleeping)", error=str(error))
            # The first wait is random: many processes must not come back in step after an outage.
            await self._clock.sleep(RETRY_DELAY * (self._random.random() if attempt == 1 else 1.0))

    async def _send(self, write: _Write) -> None:
        event = write.event
        if write.is_repeat:
            try:
                changes = _repetition(event, has_series=self.api == "both")
                await self._client.patch(event, StrategicMergePatch(changes))
                return
            except NotFound:
                pass  # expired or removed: write it anew, counts included
        await self._client.create(event)


def _repetition(event: AnyEvent, *, has_series: bool) -> dict[str, object]:
    """What changes on an event that happened again."""
    if isinstance(event, events.Event):
        return {"series": event.series}
    changes: dict[str, object] = {
        "count": event.count,
        "lastTimestamp": event.last_timestamp,
        "message": event.message,
    }
    if has_series and event.last_timestamp:
        seen = MicroTime.of_timestamp(event.last_timestamp.timestamp())
        changes["series"] = core.EventSeries(count=event.count, last_observed_time=seen)
    return changes
