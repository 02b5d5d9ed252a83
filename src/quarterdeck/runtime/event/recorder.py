"""Telling users what happens to their objects.

An ``EventBroadcaster`` owns a queue and the task that writes it; each controller has an ``EventRecorder``
made by it. Recording never waits: an event goes into the queue, or is dropped and counted when a thousand
are waiting. Events may be recorded from any thread.

Writes that do not reach the server are tried again, up to 12 times; what the server refuses is not. When the
broadcaster stops, it writes what is queued and the counts of open series, as long as the grace period lasts.
"""

import asyncio
import enum
import random
import socket
import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from quarterdeck.api import MicroTime, ObjectMeta, Time, Writable
from quarterdeck.api.k8s import core, events
from quarterdeck.api.k8s.core import EventSource
from quarterdeck.client import Client, StrategicMergePatch
from quarterdeck.errors import AlreadyExists, ApiError, NotFound, TransportError
from quarterdeck.runtime._logfield import get_logger
from quarterdeck.runtime.clock import Clock, LoopClock
from quarterdeck.runtime.event.correlation import Correlated, Correlator
from quarterdeck.runtime.event.series import FINISH_AFTER, REFRESH_PERIOD, SeriesCache
from quarterdeck.runtime.event.subject import EventNames, namespace_of, reference_to
from quarterdeck.runtime.metrics import RuntimeMetrics

__all__ = ["EventBroadcaster", "EventRecorder", "EventType"]

QUEUE_SIZE: Final = 1000
MAX_TRIES: Final = 12
RETRY_DELAY: Final = 10.0
MAX_NOTE: Final = 1024
FLUSH_GRACE: Final = 5.0
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_log: Final = get_logger(__name__)

EventType = Literal["Normal", "Warning"]
Api: TypeAlias = Literal["events.k8s.io", "core"]
AnyEvent: TypeAlias = core.Event | events.Event


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
        """``api`` chooses new events with series, or legacy ones with counts.

        ``queue_size`` is how many may wait; ``flush_grace`` the seconds a stop may take; ``host`` defaults to
        the host's name.
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
        self._queue: Final[deque[AnyEvent]] = deque()
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._idle: asyncio.Event | None = None

    def recorder(self, controller: str, *, reasons: type[enum.Enum] | None = None) -> "EventRecorder":
        """The recorder of a controller; with ``reasons`` every other reason is a mistake."""
        return EventRecorder(self, controller, reasons)

    # -- for recorders --------------------------------------------------------------------------------

    def now(self) -> float:
        """The date in seconds since 1970."""
        return self._clock.time()

    def name_for(self, subject: str) -> str:
        """A new name for an event about an object of that name."""
        return self._names.make(subject, self._clock.time())

    def put(self, event: AnyEvent) -> None:
        """Queue an event; dropped and counted if there is no room, or nobody writes any more."""
        if len(self._queue) >= self._size or self._is_stopping:
            self._drop("Unable to record event: too many queued events, dropped event", event)
            return
        self._queue.append(event)
        wake, loop = self._wake, self._loop
        if wake is None or loop is None:
            return  # not started yet: the writer begins with what is queued
        if threading.get_ident() == self._thread:
            wake.set()
        else:
            loop.call_soon_threadsafe(wake.set)

    def _drop(self, why: str, event: AnyEvent, error: Exception | None = None) -> None:
        if self._metrics is not None:
            self._metrics.events_dropped.inc()
        metadata = event.metadata
        _log.warning(why, error, name=metadata.name, namespace=metadata.namespace, reason=event.reason)

    # -- life -----------------------------------------------------------------------------------------

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
        self._task = asyncio.create_task(self._run(), name="events")

    async def stop(self, grace: float | None = None) -> None:
        """Write what is queued within ``grace`` seconds (the broadcaster's own by default), then end."""
        task, wake, idle = self._task, self._wake, self._idle
        if task is None or wake is None or idle is None:
            return
        self._is_stopping = True
        wake.set()
        try:
            async with asyncio.timeout(self._grace if grace is None else grace):
                await idle.wait()
        except TimeoutError:
            _log.warning("events not written within the grace period", count=len(self._queue))
            if self._metrics is not None:
                self._metrics.events_dropped.inc(len(self._queue))
        self._task = None
        task.cancel()
        await asyncio.wait([task])

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
        while True:
            while self._queue:
                await self._process(self._queue.popleft())
            now = self._clock.monotonic()
            if self._is_stopping or now - refreshed >= REFRESH_PERIOD:
                refreshed = now
                await self._write_all(self._series.refresh())
            if now - swept >= FINISH_AFTER:
                swept = now
                await self._write_all(self._series.finish(self._clock.time()))
            if self._is_stopping and not self._queue:
                self._idle.set()
            await self._wait(min(refreshed + REFRESH_PERIOD, swept + FINISH_AFTER) - now)

    async def _wait(self, seconds: float) -> None:
        assert self._wake is not None
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    # -- writing --------------------------------------------------------------------------------------

    async def _process(self, event: AnyEvent) -> None:
        if isinstance(event, core.Event):
            correlated = self._correlator.correlate(event)
            if correlated is None:
                if self._metrics is not None:
                    self._metrics.events_dropped.inc()
                return
            await self._try(correlated.event, correlated)
            return
        due = self._series.add(event, self._clock.time())
        if due is not None:
            await self._try(due, None)

    async def _write_all(self, due: list[events.Event]) -> None:
        for event in due:
            await self._try(event, None)

    async def _try(self, event: AnyEvent, correlated: Correlated | None) -> None:
        """Write one event, again and again while the server cannot be reached."""
        for attempt in range(1, MAX_TRIES + 1):
            try:
                if isinstance(event, core.Event):
                    await self._write_legacy(event, is_repeat=correlated is not None and correlated.is_repeat)
                else:
                    await self._write(event)
                return
            except AlreadyExists as error:
                if isinstance(event, events.Event) and event.series and attempt == 1:
                    continue  # it was created between our patch and our create: patch again
                _log.debug("Server rejected event (will not retry!)", error=str(error))
                return
            except ApiError as error:
                if any(cause.reason == NAMESPACE_TERMINATING for cause in error.details.causes):
                    _log.debug("Server rejected event (will not retry!)", error=str(error))
                    return
                self._drop("Server rejected event (will not retry!)", event, error)
                return
            except TransportError as error:
                if attempt == MAX_TRIES or self._is_stopping:
                    self._drop("Unable to write event (retry limit exceeded!)", event, error)
                    return
                _log.debug("Unable to write event (may retry after sleeping)", error=str(error))
            # The first wait is random: many processes must not come back in step after an outage.
            await self._clock.sleep(RETRY_DELAY * (self._random.random() if attempt == 1 else 1.0))

    async def _write(self, event: events.Event) -> None:
        if event.series:
            try:
                await self._client.patch(event, StrategicMergePatch({"series": event.series}))
                return
            except NotFound:
                pass  # expired or removed: write it anew, series included
        await self._client.create(event)

    async def _write_legacy(self, event: core.Event, *, is_repeat: bool) -> None:
        if is_repeat:
            changes = {
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            }
            try:
                await self._client.patch(event, StrategicMergePatch(changes))
                return
            except NotFound:
                pass
        await self._client.create(event)


class EventRecorder:
    """Records the events of one controller; the ``Recorder`` of ``quarterdeck.runtime.seam``."""

    def __init__(
        self, broadcaster: EventBroadcaster, controller: str, reasons: type[enum.Enum] | None
    ) -> None:
        self._broadcaster: Final = broadcaster
        self._controller: Final = controller
        self._instance: Final = f"{controller}-{broadcaster.host}"
        self._reasons: Final = (
            frozenset(str(member.value) for member in reasons) if reasons is not None else None
        )

    def event(
        self,
        regarding: Writable,
        type: EventType,
        reason: str | enum.Enum,
        action: str,
        note: str,
        *,
        related: Writable | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Queue an event about an object; ``reason`` is short and fixed, ``note`` says the rest.

        Raises ``ValueError`` for a type or reason that does not exist; never for lack of room.
        """
        if type not in ("Normal", "Warning"):
            raise ValueError(f'unsupported event type "{type}": it must be Normal or Warning')
        text = str(reason.value) if isinstance(reason, enum.Enum) else reason
        if self._reasons is not None and text not in self._reasons:
            raise ValueError(f'"{text}" is not among the declared event reasons of {self._controller}')
        owner = self._broadcaster
        subject = reference_to(regarding)
        metadata = ObjectMeta(
            name=owner.name_for(subject.name),
            namespace=namespace_of(subject),
            annotations=dict(annotations or {}),
        )
        if owner.api == "core":
            owner.put(self._legacy(metadata, regarding, type, text, action, note, related))
            return
        made = events.Event(
            metadata=metadata,
            event_time=MicroTime.of_timestamp(owner.now()),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=action,
            reason=text,
            regarding=subject,
            note=_cut(note),
            type=type,
        )
        owner.put(made.evolve(related=reference_to(related)) if related is not None else made)

    def _legacy(
        self,
        metadata: ObjectMeta,
        regarding: Writable,
        type: EventType,
        reason: str,
        action: str,
        note: str,
        related: Writable | None,
    ) -> core.Event:
        owner = self._broadcaster
        time = Time.of_timestamp(owner.now())
        made = core.Event(
            metadata=metadata,
            involved_object=reference_to(regarding),
            reason=reason,
            message=_cut(note),
            action=action,
            source=EventSource(component=self._controller, host=owner.host),
            reporting_component=self._controller,
            reporting_instance=owner.host,
            first_timestamp=time,
            last_timestamp=time,
            count=1,
            type=type,
        )
        return made.evolve(related=reference_to(related)) if related is not None else made


def _cut(note: str) -> str:
    """Notes beyond a limit are refused by the server; the beginning says most."""
    return note if len(note) <= MAX_NOTE else f"{note[: MAX_NOTE - 3]}..."
