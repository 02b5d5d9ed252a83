"""One stream of a link under a fault plan: the server's chunks, until somebody ends it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from quarterdeck.client import Clock, Stream
from quarterdeck.testing.fault import FaultPlan, RequestTarget, SilenceWatch, WatchEnd, WatchError

ALL_EVENTS: Final = "*"
"""What is held if the events of every resource are, while requests go on."""

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


class _Event(msgspec.Struct):
    type: str = ""


_decode_event: Final = msgspec.json.Decoder(_Event).decode


class WatchedStream:
    """What the server sends, disturbed as a plan and a test want it."""

    def __init__(
        self,
        stream: Stream,
        target: RequestTarget,
        plan: FaultPlan,
        clock: Clock,
        closed: Callable[["WatchedStream"], None],
        released: Callable[..., Awaitable[None]],
    ) -> None:
        """``closed`` is told when the reader has had enough; ``released`` waits for the end of a hold."""
        self.target: Final = target
        self.is_over = False
        """Whether nothing more of the server arrives."""
        self._stream: Final = stream
        self._plan: Final = plan
        self._clock: Final = clock
        self._closed: Final = closed
        self._released: Final = released
        self._error: Exception | None = None
        self._last = b""
        self._foreign: Final[deque[bytes]] = deque()
        self._rest = b""
        self._wake: asyncio.Future[None] | None = None
        self._is_silent = False
        self._is_late = False
        self._timer: asyncio.TimerHandle | None = None
        ending = plan.watch_end(target, clock.monotonic()) if target.verb == "watch" else None
        if ending is not None:
            self._timer = asyncio.get_running_loop().call_later(ending[0], self._strike_as_planned, ending[1])

    def _strike_as_planned(self, rule: WatchEnd) -> None:
        self._plan.ended(rule)
        self.strike(rule)

    @property
    def is_holding(self) -> bool:
        """Whether the client has not got what the server has sent."""
        return self._is_late or self._is_silent

    def strike(self, rule: WatchEnd) -> None:
        """End now, in the way of a rule."""
        if self.is_over:
            return
        self._is_silent = isinstance(rule, SilenceWatch)
        if isinstance(rule, WatchError):
            status = failure(rule.code, "", "a fault of the plan", rule.retry_after)
            self._last = b'{"type":"ERROR","object":%b}\n' % status
        self.end()

    def end(self, error: Exception | None = None) -> None:
        """End as a connection does that is closed, or that breaks with an error."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._wake_up()

    def deliver(self, chunk: bytes) -> None:
        """Let the client read something that the server has not sent."""
        if not self.is_over:
            self._foreign.append(chunk)
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """What the client reads."""
        source = aiter(self._stream)
        reading: asyncio.Future[bytes] | None = None
        try:
            while not self.is_over:
                if self._foreign:
                    yield self._foreign.popleft()
                    continue
                if reading is None:
                    reading = asyncio.ensure_future(_as_coroutine(anext(source)))
                self._wake = asyncio.get_running_loop().create_future()
                await asyncio.wait((reading, self._wake), return_when=asyncio.FIRST_COMPLETED)
                if self.is_over or not reading.done():
                    continue  # what arrived in the very moment of the cut is lost, too
                chunk, reading = reading.result(), None
                self._is_late = True
                await self._released(self.target.resource, ALL_EVENTS, "")
                self._is_late = False
                if self.is_over:
                    break
                async for part in self._disturbed(chunk):
                    yield part
        except StopAsyncIteration:
            return
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.wait((reading,))
        if self._is_silent:
            await asyncio.get_running_loop().create_future()
        if self._error is not None:
            raise self._error
        if self._last:
            yield self._last

    async def _disturbed(self, chunk: bytes) -> AsyncIterator[bytes]:
        plan, target = self._plan, self.target
        has_events = target.verb == "watch" and self._stream.status == 200
        if not has_events or not (plan.touches_events or self._rest):
            yield chunk
            return
        arrived = self._clock.monotonic()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in filter(None, lines):
            event = _decode_event(line).type
            await self._wait_until(arrived + plan.event_delay(target, event, arrived))
            for _ in range(plan.copies(target, event, arrived)):
                yield line + b"\n"

    async def _wait_until(self, moment: float) -> None:
        left = moment - self._clock.monotonic()
        if left > 0:
            self._is_late = True
            await self._clock.sleep(left)
            self._is_late = False

    async def aclose(self) -> None:
        """The client has read enough."""
        if self._timer is not None:
            self._timer.cancel()
        self._closed(self)
        await self._stream.aclose()


async def _as_coroutine(chunk: Awaitable[bytes]) -> bytes:
    return await chunk


def failure(code: int, reason: str, message: str, retry_after: int) -> bytes:
    """The Status of an error, as a server writes it."""
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
