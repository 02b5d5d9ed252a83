"""How long a request may take: a minute, or what its `timeout` says, as long as that is less.

The deadline is a scope around everything that is done for the request, webhooks and the commit included. What
is not in a batch of the store by then is not stored.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Final

import msgspec

from quarterdeck.api.duration import parse_duration
from quarterdeck.wire.http import Request, Response

from . import status
from .requestinfo import RequestInfo
from .storage import outlives_cancellation

LONGEST: Final = 60.0
_SECOND: Final = 10**9
_ENDLESS: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
#: without kind and version, as upstream's outermost handler writes it
_EXPIRED: Final = {
    "metadata": {},
    "status": "Failure",
    "message": "Timeout: request did not complete within the allotted timeout",
    "reason": "Timeout",
    "details": {},
    "code": 504,
}


#: of the request that is served in this task, by the clock of the loop
_end: Final[ContextVar[float | None]] = ContextVar("deadline", default=None)


def time_allowed(request: Request, info: RequestInfo) -> float | None:
    """Seconds that a request may take, None for no limit; raises StatusError for what is no duration."""
    if info.verb == "watch" or info.subresource in _ENDLESS:
        return None
    if "timeout" not in request.raw_query or not (text := request.param("timeout")):
        return LONGEST
    try:
        seconds = parse_duration(text) / _SECOND
    except ValueError as error:
        raise status.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return min(seconds, LONGEST) if seconds > 0 else LONGEST


def seconds_left(most: int) -> int:
    """Whole seconds that the request under way has left, rounded up, but not more than `most`."""
    end = _end.get()
    if end is None:
        return most
    return max(1, min(most, math.ceil(end - asyncio.get_running_loop().time())))


async def within(seconds: float | None, pending: Awaitable[Response]) -> Response:
    """The answer, or that there is none in time."""
    scope = asyncio.timeout(seconds)
    end = None if seconds is None else asyncio.get_running_loop().time() + seconds
    outer = _end.get()  # of a request that is served anew
    before = _end.set(end if outer is None or end is None else min(end, outer))
    outlived = outlives_cancellation.set(True)
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        async with scope:
            response = await pending
    except TimeoutError:
        if not scope.expired():
            raise
        return Response(504, msgspec.json.encode(_EXPIRED) + b"\n")
    finally:
        # in-process clients go on in the same task
        _end.reset(before)
        outlives_cancellation.reset(outlived)
    if task.cancelling() > cancelled:
        raise asyncio.CancelledError("the client has gone; what it asked for is decided")
    return response
