"""The line between one client and the cluster: it can be cut, slowed and made to lie, and it keeps a log.

A ``Link`` is a transport around a transport. What a ``FaultPlan`` decides happens here, on the level of HTTP,
so that retries, lanes and error handling of the client are the real ones. ``cut()`` is the partition: until
``restore()`` nothing gets through, and open watches end (or, with ``silently=True``, just fall silent).
``hold()`` is the pause: until ``release()`` requests and events wait, and nothing is lost.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from math import inf
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from quarterdeck.apiserver.requestinfo import RequestInfo
from quarterdeck.client import Client, Clock, Config, Headers, Observer, Response, Stream, Transport
from quarterdeck.client.clock import Random
from quarterdeck.errors import ConnectError, ReadTimeout, StreamClosed
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing.fault import (
    WRITES,
    Break,
    FaultPlan,
    LoseAnswer,
    Refuse,
    RefuseConnection,
    RequestTarget,
    SilenceWatch,
    WatchEnd,
    WatchError,
)

__all__ = ["Exchange", "Link"]

SWALLOW: Final = 60.0
"""Seconds after which a request into a silent cut gives up, unless it brings a time-out of its own."""

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_FORMS: Final = {"application/apply-patch+yaml": "apply"}


class Exchange(msgspec.Struct, frozen=True):
    """One request that went over a link, and how it ended."""

    at: float
    """Loop time at which it was sent."""
    target: RequestTarget
    query: dict[str, str]
    body: bytes
    status: int
    """The server's answer; 0 if there was none, or the plan swallowed it."""

    @property
    def verb(self) -> str:
        """The verb."""
        return self.target.verb

    @property
    def is_write(self) -> bool:
        """Whether it changes something."""
        return self.target.verb in WRITES

    def __str__(self) -> str:
        target = self.target
        name = "/".join(part for part in (target.namespace, target.name, target.subresource) if part)
        return f"{self.at:.3f} {target.verb} {target.resource} {name} → {self.status}".replace("  ", " ")


class Link:
    """A transport with faults and a memory; ``client`` speaks over it."""

    def __init__(
        self,
        inner: Transport,
        *,
        plan: FaultPlan | None = None,
        name: str = "",
        config: Config | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
        observer: Observer | None = None,
    ) -> None:
        """``inner`` does the work; ``config`` has the headers of the client, if it is not the default."""
        self.name: Final = name
        self.plan = plan if plan is not None else FaultPlan()
        """Read at each request; put another one here at any time."""
        self.log: Final[list[Exchange]] = []
        """Everything that was sent, in the order of the answers."""
        self.last_write = -inf
        """Loop time of the latest request that reached the server to change something."""
        self._inner: Final = inner
        self._clock: Final = clock if clock is not None else LoopClock()
        self._streams: Final[set[_Watched]] = set()
        self._is_cut = False
        self._is_silent = False
        self._holds: Final[dict[str, asyncio.Event]] = {}
        """What those wait for that are held, by resource; everything by the empty one."""
        self.client: Final = Client.over(
            self, config=config, clock=self._clock, random=rng, observer=observer
        )

    def cut(self, *, silently: bool = False) -> None:
        """Let nothing through: connections fail and streams end, or with ``silently`` all just hangs."""
        self._is_cut, self._is_silent = True, silently
        for stream in tuple(self._streams):
            if silently:
                stream.fall_silent()
            else:
                stream.end()

    def restore(self) -> None:
        """Let everything through again; streams that fell silent stay dead."""
        self._is_cut = self._is_silent = False

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through."""
        return self._is_cut

    def hold(self, resource: str = "") -> None:
        """Let everything wait: requests and events; or only the events of a resource (``pods``)."""
        self._holds.setdefault(resource, asyncio.Event())

    def release(self, resource: str = "") -> None:
        """Let go on what ``hold`` has held."""
        held = self._holds.pop(resource, None)
        if held is not None:
            held.set()

    async def _wait_released(self, *resources: str) -> None:
        for resource in resources:
            while (held := self._holds.get(resource)) is not None:
                await held.wait()

    def end_watches(self) -> None:
        """End every open stream once."""
        for stream in tuple(self._streams):
            stream.end()

    @property
    def open_streams(self) -> int:
        """Streams that were opened and not closed by their reader."""
        return len(self._streams)

    @property
    def pending(self) -> int:
        """Streams with events on their way to the client: held back by the plan, or lost in silence."""
        return sum(stream.is_holding for stream in self._streams)

    @property
    def writes(self) -> list[Exchange]:
        """The exchanges of the log that reached the server to change something."""
        return [each for each in self.log if each.is_write and each.status]

    def count(self, verb: str, resource: str = "") -> int:
        """How many requests of a verb (on a resource) were sent."""
        return sum(
            each.verb == verb and (not resource or each.target.resource == resource) for each in self.log
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """One exchange, if the plan lets it."""
        target = target_of(method, path, query, headers)
        started = self._clock.monotonic()
        status = 0
        try:
            await self._wait_released("")
            await self._gate(timeout)
            await self._delay(target)
            fault = self._fault(target)
            if isinstance(fault, Refuse) and not fault.is_done:
                return _refusal(fault)
            response = await self._inner.request(
                method, path, query=query, headers=headers, body=body, timeout=timeout
            )
            status = response.status
            if isinstance(fault, Break):
                self.cut(silently=True)
                await self._gate(timeout)
            if isinstance(fault, Refuse):
                return _refusal(fault)
            if isinstance(fault, LoseAnswer) or self._is_cut:
                raise StreamClosed("the answer was lost: a fault of the plan")
            return response
        finally:
            self._note(started, target, query, body, status)

    async def stream(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Stream:
        """Open a stream, if the plan lets it; it ends when the plan says so."""
        target = target_of(method, path, query, headers)
        started = self._clock.monotonic()
        status = 0
        try:
            await self._wait_released("")
            await self._gate(timeout)
            await self._delay(target)
            fault = self._fault(target)
            if isinstance(fault, Refuse):
                refusal = _refusal(fault)
                return Stream(refusal.status, _once(refusal.body), refusal.headers)
            stream = await self._inner.stream(
                method, path, query=query, headers=headers, body=body, timeout=timeout
            )
            status = stream.status
            if isinstance(fault, LoseAnswer | Break):
                await stream.aclose()
                if isinstance(fault, Break):
                    self.cut(silently=True)
                raise StreamClosed("the answer was lost: a fault of the plan")
        finally:
            self._note(started, target, query, body, status)
        watched = _Watched(stream, target, self.plan, self._clock, self._streams.discard, self._wait_released)
        self._streams.add(watched)
        return Stream(stream.status, watched.chunks(), stream.headers, watched.aclose, stream.gather)

    async def aclose(self) -> None:
        """Close what is behind."""
        await self._inner.aclose()

    async def _gate(self, timeout: float | None) -> None:
        if not self._is_cut:
            return
        if self._is_silent:
            await self._clock.sleep(timeout if timeout is not None else SWALLOW)
            raise ReadTimeout("no answer: the link is cut")
        raise ConnectError("the link is cut")

    async def _delay(self, target: RequestTarget) -> None:
        delay = self.plan.delay(target, self._clock.monotonic())
        if delay > 0:
            await self._clock.sleep(delay)

    def _fault(self, target: RequestTarget) -> Refuse | LoseAnswer | Break | None:
        fault = self.plan.fault(target, self._clock.monotonic())
        if isinstance(fault, RefuseConnection):
            raise ConnectError("connection refused: a fault of the plan")
        return fault

    def _note(self, at: float, target: RequestTarget, query: str, body: bytes, status: int) -> None:
        exchange = Exchange(at, target, dict(parse_qsl(query)), body, status)
        self.log.append(exchange)
        if exchange.is_write and status:
            self.last_write = self._clock.monotonic()


class _Watched:
    """A stream under a plan: the server's chunks, until somebody ends it."""

    def __init__(
        self,
        stream: Stream,
        target: RequestTarget,
        plan: FaultPlan,
        clock: Clock,
        closed: Callable[["_Watched"], None],
        released: Callable[..., Awaitable[None]],
    ) -> None:
        self._stream: Final = stream
        self._target: Final = target
        self._plan: Final = plan
        self._clock: Final = clock
        self._closed: Final = closed
        self._released: Final = released
        self._end: WatchEnd | None = None
        self._interrupted: Final = asyncio.Event()
        self._is_silent = False
        self._is_late = False
        self._timer: asyncio.TimerHandle | None = None
        ending = plan.watch_end(target, clock.monotonic()) if target.verb == "watch" else None
        if ending is not None:
            self._timer = asyncio.get_running_loop().call_later(ending[0], self._strike, ending[1])

    def _strike(self, rule: WatchEnd) -> None:
        self._end = rule
        self._plan.ended(rule)
        if isinstance(rule, SilenceWatch):
            self._is_silent = True
        self._interrupted.set()

    @property
    def is_holding(self) -> bool:
        """Whether the client has not got what the server has sent."""
        return self._is_late or self._is_silent

    def end(self) -> None:
        """End as a closed connection does."""
        self._interrupted.set()

    def fall_silent(self) -> None:
        """Deliver nothing more and do not end."""
        self._is_silent = True
        self._interrupted.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What the client reads."""
        interrupted = asyncio.ensure_future(self._interrupted.wait())
        source = aiter(self._stream)
        try:
            while True:
                chunk = await _first(anext(source), interrupted)
                if chunk is None or self._interrupted.is_set():
                    break  # what arrived in the very moment of the cut is lost, too
                self._is_late = True
                await self._released(self._target.resource, "")
                self._is_late = False
                async for part in self._disturbed(chunk):
                    yield part
        except StopAsyncIteration:
            return
        finally:
            interrupted.cancel()
        if self._is_silent:
            await asyncio.get_running_loop().create_future()
        if isinstance(self._end, WatchError):
            yield _error_line(self._end)

    async def _disturbed(self, chunk: bytes) -> AsyncIterator[bytes]:
        if self._target.verb != "watch" or not self._plan.touches_events:
            yield chunk
            return
        now = self._clock.monotonic()
        delay = self._plan.event_delay(self._target, now)
        if delay > 0:
            self._is_late = True
            await self._clock.sleep(delay)
            self._is_late = False
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield line + b"\n"
            if line and self._plan.repeats(self._target, now):
                yield line + b"\n"
        if rest:
            yield rest

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._closed(self)
        await self._stream.aclose()


async def _first(chunk: Awaitable[bytes], interrupted: "asyncio.Future[Any]") -> bytes | None:
    """The next chunk, or ``None`` if the stream is interrupted before it comes."""
    if interrupted.done():
        _drop(chunk)
        return None
    reading = asyncio.ensure_future(_as_coroutine(chunk))
    try:
        await asyncio.wait((reading, interrupted), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))
    return None if reading.cancelled() else reading.result()


async def _as_coroutine(chunk: Awaitable[bytes]) -> bytes:
    return await chunk


def _drop(chunk: Awaitable[bytes]) -> None:
    close = getattr(chunk, "close", None)
    if close is not None:
        close()


def target_of(method: str, path: str, query: str, headers: Iterable[tuple[str, str]] = ()) -> RequestTarget:
    """What a request is about."""
    watches = ("watch", "true") in parse_qsl(query) or ("watch", "1") in parse_qsl(query)
    info = RequestInfo(method, path, watch=watches)
    verb = info.verb
    if verb == "patch":
        content = next((value for name, value in headers if name.lower() == "content-type"), "")
        verb = _FORMS.get(content, verb)
    resource = f"{info.resource}.{info.group}" if info.group and info.resource else info.resource
    return RequestTarget(verb, resource, info.namespace, info.name, info.subresource)


def _refusal(fault: Refuse) -> Response:
    body = _status(fault.code, fault.reason, fault.message, fault.retry_after)
    headers = [("Content-Type", "application/json")]
    if fault.retry_after:
        headers.append(("Retry-After", str(fault.retry_after)))
    return Response(fault.code, body, headers)


def _error_line(rule: WatchError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % _status(rule.code, "", "a fault of the plan", 0)


def _status(code: int, reason: str, message: str, retry_after: int) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "code": code,
            "reason": reason or _REASONS.get(code, "InternalError"),
            "message": message,
            "details": {"retryAfterSeconds": retry_after} if retry_after else {},
        }
    )


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
