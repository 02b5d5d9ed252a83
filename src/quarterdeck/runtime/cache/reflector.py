"""The reflector: keeps a sink equal to what the server holds, for as long as the process lives.

A list, then a watch from the version of the list, reopened from the last version seen whenever it ends.
The first list is a stream where the server offers one (``sendInitialEvents``), a paged list otherwise.

The loop never ends but by cancellation. What can go wrong, and what is done about it:

=============================================  =========================================================
the watch ends, or its connection is lost      reopen from the last version
… within a second and without any event        back off, list again: the server may be refusing to serve us
410 in the stream or when opening              list again, from the last version
410 for that list, or "too large version"      list again at once, from any version
429, connection refused, 5xx when opening      back off, reopen; never a list
500 in the stream                              reopen while within ``internal_error_window``, else list
401, 403                                       back off, try again, and say so in ``health``
404                                            the kind is gone: empty the sink, look again every 10 s
nothing at all for ``silence`` seconds         the connection is dead though nobody said so: reopen
an object we cannot read                       log it, skip it
=============================================  =========================================================

A server that sends no bookmarks is silent without being dead. If the silence alarm goes off twice and
there has never been a bookmark, it is switched off.
"""

import random
from collections.abc import Callable
from typing import Final, NoReturn

from quarterdeck.client.clock import Clock
from quarterdeck.client.discovery import ResourceMapping
from quarterdeck.client.watchline import bookmark_of, error_of, split_line
from quarterdeck.errors import (
    ApiError,
    ConnectError,
    Forbidden,
    Gone,
    InternalError,
    NoKindMatch,
    NotFound,
    QuarterdeckError,
    SchemaError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.feed import Feed, Silence, Silent
from quarterdeck.runtime.cache.health import Health, HealthState
from quarterdeck.runtime.cache.listwatch import ListWatch
from quarterdeck.runtime.cache.reflectoroption import ReflectorOptions, ReflectorStatistics
from quarterdeck.runtime.cache.sink import Opener, Sink
from quarterdeck.runtime.log.field import FieldLogger, get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.loop.supervision import contained
from quarterdeck.wire.timeslice import TimeSlice

SHORT_WATCH: Final = 1.0
"""A watch that ends sooner than this, without an event, is a refusal in disguise."""
MISSING_KIND_PERIOD: Final = 10.0
RELIST_SPACING: Final = 10.0
"""A 410 sooner than this after the last list waits for the back-off: no storm of lists."""
LONG_LIST: Final = 500
"""Objects after which a streamed list is taken for a long one, which may come in bigger pieces."""
LIST_PACE: Final = 0.005
"""Seconds between two looks at a long list. The server sends every object by itself, and being woken for each
costs more than the object does."""
ERROR_WINDOW_QUIET: Final = 60.0


class _ListNeeded(QuarterdeckError):
    """Leave the watch, list again; ``reason`` labels the metric."""

    def __init__(self, reason: str, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at_once = at_once


def log_missing(log: FieldLogger, error: Exception, *, is_needed: bool) -> None:
    """Say that a kind is missing; where nobody needs it, that is nothing to be warned of."""
    if is_needed:
        log.warning("kind is missing: if kind is a CRD, it should be installed before calling Start", error)
    else:
        log.info("optional kind is missing: waiting for its CRD")


class Reflector:
    """Lists and watches one resource into one sink."""

    def __init__(
        self,
        *,
        opener: Opener,
        mapping: ResourceMapping,
        sink: Sink,
        options: ReflectorOptions | None = None,
        is_needed: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._sink: Final = sink
        self._options: Final = options if options is not None else ReflectorOptions()
        self._is_needed: Final = is_needed
        self._clock: Final = clock if clock is not None else LoopClock()
        self._random: Final = rng if rng is not None else random.Random()  # noqa: S311  jitter, no secret
        self._backoff: Final = EndlessBackoff(
            base=0.8, cap=30.0, jitter=1.0, reset_after=120.0, clock=self._clock, rng=self._random
        )
        self._requests: Final = ListWatch(opener, mapping, self._options, clock=self._clock, rng=self._random)
        gvr = mapping.gvr
        self._resource: Final = f"{gvr.resource}.{gvr.group}" if gvr.group else gvr.resource
        self._log: Final[FieldLogger] = get_logger(__name__).bind(
            resource=self._resource,
            **({"namespace": self._options.namespace} if self._options.namespace else {}),
        )
        self._version = ""
        self._version_unavailable = False
        self._can_stream = self._options.stream_lists
        self._silence = self._options.silence if self._options.bookmarks else 0.0
        self._bookmarks_seen = False
        self._alarms = 0
        self._error_window_start: float | None = None
        self._last_error = 0.0
        self._last_list: float | None = None
        self._last_event: float | None = None
        self._lists = 0
        self._began_current = False
        self._relists: dict[str, int] = {}
        self._skipped = 0
        self._list_reason = "start"
        self._requested = ""
        self._listening: Silence | None = None
        self._health = Health(HealthState.STARTING)

    @property
    def health(self) -> Health:
        """How it is doing."""
        return self._health

    @property
    def silence(self) -> float:
        """Seconds without a byte after which the watch is reopened; 0 while the alarm is off."""
        return self._silence

    def statistics(self) -> ReflectorStatistics:
        """Lists, watches and trouble so far."""
        return ReflectorStatistics(
            health=self._health,
            version=self._version,
            last_event=self._last_event,
            lists=self._lists,
            relists=dict(self._relists),
            watches=self._requests.watches,
            skipped=self._skipped,
            is_watching=self._listening is not None,
            began_current=self._began_current,
        )

    def request_list(self, reason: str) -> None:
        """Leave the watch and list again; for somebody who knows that the sink is wrong."""
        self._requested = reason
        if self._listening is not None:
            self._listening.interrupt()

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except _ListNeeded as needed:
                wait = await self._before_list(needed)
            except QuarterdeckError as error:
                wait = await self._after_failure(error)
            except BaseException as raised:  # noqa: BLE001  supervision point: a bug must not end the watch
                self._log.error("reflector failed unexpectedly", contained(raised))
                wait = self._backoff.next()
            if wait > 0:
                await self._clock.sleep(wait)

    async def _before_list(self, needed: _ListNeeded) -> float:
        self._list_reason = needed.reason
        self._log.info("list needed", reason=needed.reason)
        if not needed.at_once:
            return self._backoff.next()
        now = self._clock.monotonic()
        recent = self._last_list is not None and now - self._last_list < RELIST_SPACING
        return self._backoff.next() if recent and self._lists > 1 else 0.0

    async def _after_failure(self, error: QuarterdeckError) -> float:
        """Say what is wrong; returns how long to wait before the next try."""
        self._list_reason = "error" if self._lists else "start"
        if isinstance(error, NotFound | NoKindMatch):
            if self._health.state is not HealthState.KIND_MISSING:
                log_missing(self._log, error, is_needed=self._is_needed())
                await self._sink.clear()
            self._version = ""
            self._version_unavailable = False
            self._set_health(HealthState.KIND_MISSING, error)
            return MISSING_KIND_PERIOD
        self._note(error)
        return max(self._backoff.next(), _retry_after(error))

    def _note(self, error: QuarterdeckError) -> None:
        if isinstance(error, Forbidden):
            state = HealthState.FORBIDDEN
        elif isinstance(error, Unauthorized):
            state = HealthState.UNAUTHORIZED
        else:
            state = HealthState.RETRYING
        if self._health.state is not state:
            self._log.warning("cannot list or watch", error, verb=self._requests.verb, state=state.value)
        self._set_health(state, error)

    def _set_health(self, state: HealthState, error: BaseException | None = None) -> None:
        if state is self._health.state and state in (HealthState.WATCHING, HealthState.STARTING):
            return
        since = self._health.since if state is self._health.state else self._clock.monotonic()
        self._health = Health(
            state,
            verb=self._requests.verb if error is not None else "",
            resource=self._resource if error is not None else "",
            message=str(error) if error is not None else "",
            since=since,
        )
        self._sink.health_changed(self._health)

    async def _list_and_watch(self) -> NoReturn:
        feed = await self._start_streaming() if self._can_stream else None
        if feed is None:
            await self._list()
        while True:
            if feed is None:
                feed = await self._open_watch()
            try:
                await self._follow(feed)
            finally:
                await feed.aclose()
            feed = None

    def _listed(self, version: str) -> None:
        self._version = version
        self._version_unavailable = False
        self._last_list = self._last_event = self._clock.monotonic()
        self._lists += 1
        if self._lists > 1:
            self._relists[self._list_reason] = self._relists.get(self._list_reason, 0) + 1
        self._set_health(HealthState.WATCHING)

    async def _start_streaming(self) -> Feed | None:
        """The first list as a stream; ``None`` if a plain list has to do for this start."""
        while True:
            version = "" if self._version_unavailable else self._version
            feed: Feed | None = None
            try:
                feed = await self._requests.watch(version, initial=True)
                entries, reached = await self._collect(feed)
                await self._sink.replace(entries, reached)
            except BaseException as error:
                if feed is not None:
                    await feed.aclose()
                if not isinstance(error, ApiError | TransportError):
                    raise
                if not await self._may_stream_again(error):
                    self._log.info("streamed list not possible, listing instead", cause=str(error))
                    return None
            else:
                self._began_current = self._began_current or not self._lists
                self._listed(reached)
                return feed

    async def _may_stream_again(self, error: ApiError | TransportError) -> bool:
        """Whether a streamed list should be tried once more; raises where a plain one would fail as well."""
        if isinstance(error, TooManyRequests | ConnectError):
            await self._wait(error)
            return True
        if _is_version_gone(error) and not self._version_unavailable:
            self._version_unavailable = True
            return True
        if isinstance(error, Forbidden | Unauthorized | NotFound):
            raise error
        if isinstance(error, ApiError) and error.code in (400, 405, 422):
            self._can_stream = False
        return False

    async def _collect(self, feed: Feed) -> tuple[list[Entry], str]:
        """Read the initial events up to the bookmark that ends them."""
        entries: dict[str, dict[str, Entry]] = {}
        silence = Silence(self._silence, lifetime=feed.lifetime, remind=self._warn_waiting)
        async with silence:
            async for lines in feed:
                silence.broken()
                version = await self._collect_lines(feed, lines, entries)
                if version is not None:
                    feed.gather(0.0)
                    return [entry for space in entries.values() for entry in space.values()], version
                if sum(map(len, entries.values())) >= LONG_LIST:
                    feed.gather(LIST_PACE)
        raise TransportError("the stream ended before the initial events did")

    async def _collect_lines(
        self, feed: Feed, lines: list[bytes], entries: dict[str, dict[str, Entry]]
    ) -> str | None:
        """Take in a batch, by namespace and name; returns the version if the last initial event was in it."""
        turn = TimeSlice()
        for i, line in enumerate(lines):
            kind, raw = split_line(line)
            if kind == "BOOKMARK":
                version, is_end = bookmark_of(raw)
                if is_end:
                    feed.unread = lines[i:]  # the watch goes on from this bookmark
                    return version
            elif kind == "ERROR":
                raise error_of(raw, self._resource)
            else:
                entry = self._make(raw)
                if entry is not None and kind == "DELETED":
                    entries.get(entry.namespace, {}).pop(entry.name, None)
                elif entry is not None:
                    entries.setdefault(entry.namespace, {})[entry.name] = entry
            if turn.is_over:
                await turn.end()
        return None

    def _warn_waiting(self) -> None:
        self._log.warning("still waiting for the bookmark that ends the initial events")

    async def _list(self) -> None:
        version = "" if self._version_unavailable else self._version or "0"
        try:
            entries, reached = await self._requests.list_all(version, self._make)
        except ApiError as error:
            if not _is_version_gone(error) or not version:
                raise
            self._version_unavailable = True
            entries, reached = await self._requests.list_all("", self._make)
        await self._sink.replace(entries, reached)
        self._listed(reached)

    async def _open_watch(self) -> Feed:
        """A watch from the last version, however long it takes; raises if a list is needed."""
        while True:
            try:
                feed = await self._requests.watch(self._version)
            except (Gone, NotFound) as error:
                if isinstance(error, NotFound):
                    raise
                raise _ListNeeded("expired", at_once=True) from error
            except (ApiError, TransportError) as error:
                if isinstance(error, ApiError) and error.code in (400, 405, 406, 422):
                    self._note(error)
                    raise _ListNeeded("refused") from error
                await self._wait(error)
                continue
            self._set_health(HealthState.WATCHING)
            return feed

    async def _wait(self, error: QuarterdeckError) -> None:
        """Back off before the same request is tried again."""
        self._note(error)
        await self._clock.sleep(max(self._backoff.next(), _retry_after(error)))

    async def _follow(self, feed: Feed) -> None:
        """Apply events until the stream ends; raises ``_ListNeeded`` if what follows must be a list."""
        # Events of a watch opened at no version are the present state in any order: their versions say
        # nothing about what was seen.
        synthetic = self._version in ("", "0")
        silence = self._listening = Silence(self._silence, lifetime=feed.lifetime)
        try:
            async with silence:
                async for lines in feed:
                    silence.broken()
                    feed.events += len(lines)
                    synthetic = await self._apply(lines, synthetic=synthetic)
                    self._alarms = 0
                    if self._requested:
                        break
        except Silent:
            if not self._requested:
                self._sound_alarm()
                return
        except TransportError as error:
            self._log.info("watch interrupted", cause=str(error))
        except ApiError as error:
            self._listening = None  # nobody listens while it backs off
            await self._stream_error(error)
            return
        finally:
            self._listening = None
        if self._requested:
            reason, self._requested = self._requested, ""
            raise _ListNeeded(reason, at_once=True)
        if feed.events == 0 and self._clock.monotonic() - feed.opened < SHORT_WATCH:
            raise _ListNeeded("short-watch")

    def _sound_alarm(self) -> None:
        self._alarms += 1
        self._log.warning("watch is silent, reconnecting", silence=self._silence)
        if self._alarms >= 2 and not self._bookmarks_seen:
            self._log.info("the server sends no bookmarks: silence alarm switched off")
            self._silence = 0.0

    async def _stream_error(self, error: ApiError) -> None:
        """An ``ERROR`` event: return to reopen, raise to list."""
        if isinstance(error, Gone):
            raise _ListNeeded("expired", at_once=True) from error
        if isinstance(error, TooManyRequests):
            await self._wait(error)
            return
        if isinstance(error, InternalError) or error.code == 500:
            now = self._clock.monotonic()
            if self._error_window_start is None or now - self._last_error > ERROR_WINDOW_QUIET:
                self._error_window_start = now
            self._last_error = now
            if now - self._error_window_start < self._options.internal_error_window:
                return
        self._note(error)
        raise _ListNeeded("error") from error

    async def _apply(self, lines: list[bytes], *, synthetic: bool) -> bool:
        sink = self._sink
        turn = TimeSlice()
        seen = ""
        for line in lines:
            kind, raw = split_line(line)
            if kind == "BOOKMARK":
                synthetic = False
                self._bookmarks_seen = True
                version, _ = bookmark_of(raw)
            elif kind == "ERROR":
                self._see(seen)
                raise error_of(raw, self._resource)
            else:
                entry = self._make(raw)
                if entry is None:
                    continue
                version = entry.resource_version
                if kind == "DELETED":
                    sink.remove(entry)
                else:
                    sink.put(entry)
                synthetic = synthetic and kind == "ADDED"
            if not synthetic:
                seen = version
            if turn.is_over:
                self._see(seen)
                await turn.end()
        self._see(seen)
        self._last_event = self._clock.monotonic()
        return synthetic

    def _see(self, version: str) -> None:
        """Everything up to ``version`` has been applied: said once for many events."""
        if version:
            self._version = version
            self._sink.see(version)

    def _make(self, raw: bytes) -> Entry | None:
        try:
            return self._sink.make(raw)
        except SchemaError as error:
            self._skipped += 1
            self._log.warning("object skipped", error)
            return None


def _retry_after(error: QuarterdeckError) -> float:
    return float(error.retry_after) if isinstance(error, ApiError) else 0.0


def _is_version_gone(error: QuarterdeckError) -> bool:
    """Whether the server cannot serve the version we asked for: too old, or (after a restore) too new."""
    if isinstance(error, Gone):
        return True
    return isinstance(error, ApiError) and (
        any(cause.reason == "ResourceVersionTooLarge" for cause in error.details.causes)
        or "Too large resource version" in error.message
    )
