"""The line between one client and the cluster: it can be cut, slowed and falsified, and it keeps a log.

A ``Link`` is a transport around a transport. What a ``FaultPlan`` decides happens here, on the level of HTTP,
so that retries, lanes and error handling of the client are the real ones. ``cut()`` is the partition: until
``restore()`` nothing gets through, and open watches end (or, with ``silently=True``, just fall silent).
``hold()`` is the pause: until ``release()`` requests and events wait, and nothing is lost. ``show_past()``
is the server that lags behind: until ``show_present()`` who takes any version gets an old one, and no news.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from math import inf
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from quarterdeck.apiserver.requestinfo import RequestInfo
from quarterdeck.client import Client, Clock, Config, Observer, Response, Stream, Transport
from quarterdeck.client.call import WRITES
from quarterdeck.client.clock import Random
from quarterdeck.client.transport import Headers
from quarterdeck.errors import ConnectError, ReadTimeout, StreamClosed
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing.fault import (
    Break,
    FaultPlan,
    LoseAnswer,
    Refuse,
    RefuseConnection,
    RequestTarget,
    SilenceWatch,
    WatchError,
)
from quarterdeck.testing.stream import ALL_EVENTS, WatchedStream, failure

SWALLOW: Final = 60.0
"""Seconds after which a request into a silent cut gives up, unless it brings a time-out of its own."""

_FORMS: Final = {"application/apply-patch+yaml": "apply"}


class Exchange(msgspec.Struct, frozen=True):
    """One request that went over a link, and how it ended."""

    at: float
    """Loop time at which it was sent."""
    target: RequestTarget
    query: dict[str, str]
    accept: str
    """The form of the answer that was asked for."""
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
        self.after_write: Callable[[Exchange], Awaitable[None]] | None = None
        """Called when the server has done what it was asked to change, before the client has its answer."""
        self._past = 0
        self._inner = inner
        self._clock: Final = clock if clock is not None else LoopClock()
        self._streams: Final[set[WatchedStream]] = set()
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
                stream.strike(SilenceWatch((0.0, 0.0)))
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
        """Let everything wait, requests and events; or only events: of one resource, or of all (``*``)."""
        self._holds.setdefault(resource, asyncio.Event())

    def release(self, resource: str = "") -> None:
        """Let go on what ``hold`` has held."""
        held = self._holds.pop(resource, None)
        if held is not None:
            held.set()

    def show_past(self, revision: int) -> None:
        """Be a server that is behind others: who asks for any version gets this one, watches tell nothing.

        Who asks for the latest version gets it, as everywhere. Refuse ``sendInitialEvents`` in the plan to
        have clients list as they do with older servers.
        """
        self._past = revision
        self.hold(ALL_EVENTS)

    def show_present(self) -> None:
        """Catch up."""
        self._past = 0
        self.release(ALL_EVENTS)

    async def _wait_released(self, *resources: str) -> None:
        for resource in resources:
            while (held := self._holds.get(resource)) is not None:
                await held.wait()

    def end_watches(self, resource: str = "", *, reset: bool = False) -> None:
        """End the open streams (of a resource), as the server does or, with ``reset``, in mid-flight."""
        for stream in self._open(resource):
            stream.end(StreamClosed("connection reset by the test") if reset else None)

    def silence_watches(self, resource: str = "") -> None:
        """Let nothing arrive any more on the open streams (of a resource), not even their end."""
        for stream in self._open(resource):
            stream.strike(SilenceWatch((0.0, 0.0)))

    def fail_watches(self, code: int, resource: str = "", *, retry_after: int = 0) -> None:
        """End the open watches (of a resource) with an ``ERROR`` event."""
        for stream in self._open(resource):
            stream.strike(WatchError(code, (0.0, 0.0), retry_after=retry_after))

    def deliver(self, chunk: bytes, resource: str = "") -> None:
        """Let the open watches (of a resource) receive what the server has not sent: late events, garbage."""
        for stream in self._open(resource):
            stream.deliver(chunk)

    def move_to(self, other: Transport) -> None:
        """Reach what another link or transport reaches: the same address, but a server from a backup."""
        self._inner = other._inner if isinstance(other, Link) else other

    def _open(self, resource: str) -> list[WatchedStream]:
        return [each for each in self._streams if not resource or each.target.resource == resource]

    def open_watches(self, resource: str = "") -> int:
        """Streams (of a resource) that are open and not known to be over."""
        return sum(not each.is_over for each in self._open(resource))

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
            if self._past and target.verb == "list":
                query = _as_of(query, self._past)
            response = await self._inner.request(
                method, path, query=query, headers=headers, body=body, timeout=timeout
            )
            status = response.status
            if self.after_write is not None and target.verb in WRITES:
                await self.after_write(_exchange(started, target, query, headers, body, status))
            if isinstance(fault, Break):
                self.cut(silently=True)
                await self._gate(timeout)
            if isinstance(fault, Refuse):
                return _refusal(fault)
            if isinstance(fault, LoseAnswer) or self._is_cut:
                raise StreamClosed("the answer was lost: a fault of the plan")
            return response
        finally:
            self._note(started, target, query, headers, body, status)

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
            self._note(started, target, query, headers, body, status)
        watched = WatchedStream(
            stream, target, self.plan, self._clock, self._streams.discard, self._wait_released
        )
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

    def _note(
        self, at: float, target: RequestTarget, query: str, headers: Headers, body: bytes, status: int
    ) -> None:
        exchange = _exchange(at, target, query, headers, body, status)
        self.log.append(exchange)
        if exchange.is_write and status:
            self.last_write = self._clock.monotonic()


def _exchange(
    at: float, target: RequestTarget, query: str, headers: Headers, body: bytes, status: int
) -> Exchange:
    return Exchange(at, target, dict(parse_qsl(query)), _header(headers, "accept"), body, status)


def _as_of(query: str, revision: int) -> str:
    """The query of a list that takes any version, made to take that one; others are left as they are."""
    parameters = parse_qsl(query, keep_blank_values=True)
    if ("resourceVersion", "0") not in parameters:
        return query
    kept = [each for each in parameters if each[0] not in ("resourceVersion", "resourceVersionMatch")]
    return urlencode([*kept, ("resourceVersion", str(revision)), ("resourceVersionMatch", "Exact")])


def target_of(method: str, path: str, query: str, headers: Iterable[tuple[str, str]] = ()) -> RequestTarget:
    """What a request is about."""
    parameters = parse_qsl(query)
    watches = ("watch", "true") in parameters or ("watch", "1") in parameters
    info = RequestInfo(method, path, watch=watches)
    verb = info.verb
    if verb == "patch":
        verb = _FORMS.get(_header(headers, "content-type"), verb)
    resource = f"{info.resource}.{info.group}" if info.group and info.resource else info.resource
    names = frozenset(name for name, _ in parameters)
    return RequestTarget(verb, resource, info.namespace, info.name, info.subresource, names)


def _header(headers: Iterable[tuple[str, str]], wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")


def _refusal(fault: Refuse) -> Response:
    body = failure(fault.code, fault.reason, fault.message, fault.retry_after)
    headers = [("Content-Type", "application/json")]
    if fault.retry_after:
        headers.append(("Retry-After", str(fault.retry_after)))
    return Response(fault.code, body, headers)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
