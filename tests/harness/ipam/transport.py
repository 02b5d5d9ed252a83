"""The line between the operator of a case and the server: it fails on demand, can be cut, counts writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from quarterdeck.client import Headers, Response, Stream, Transport
from quarterdeck.testing.fault import RequestTarget
from quarterdeck.testing.link import target_of

Json = dict[str, Any]

_LONG: Final = 10.0
_FRACTION: Final = 0.02


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be moved on: nobody waits two minutes for a request that hangs."""

    _ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Move the clock; timers that become due run in the next turn."""
        self._ahead += seconds


async def _hang(seconds: float) -> None:
    """Wait; second by second, each in a fraction of one, while the others go on working."""
    loop = asyncio.get_running_loop()
    if seconds < _LONG or not isinstance(loop, JumpingLoop):
        await asyncio.sleep(seconds)
        return
    for _ in range(int(seconds)):
        await asyncio.sleep(_FRACTION)
        loop.advance(1.0 - _FRACTION)


class Fault:
    """One fault of a case: what it strikes, how often, and what happens then."""

    def __init__(self, raw: Json) -> None:
        unknown = raw.keys() - {"verb", "resource", "code", "applyThenCode", "hangMs", "times", "after"}
        if unknown or raw.get("after", "settle") != "settle":
            raise ValueError(f"fault {raw} is not understood")
        self.is_armed = "after" not in raw
        self.code: Final[int] = raw.get("code", 0)
        self.code_after: Final[int] = raw.get("applyThenCode", 0)
        self.hang: Final[float] = raw.get("hangMs", 0) / 1000
        self._verb: Final = _words(raw["verb"])
        self._resource: Final = _words(raw["resource"])
        self._left: int = raw.get("times", 1)

    def strikes(self, target: RequestTarget) -> bool:
        """Whether this request is hit; counts."""
        if not self.is_armed or not self._left:
            return False
        if self._verb.isdisjoint({target.verb, "*"}) or self._resource.isdisjoint({_name(target), "*"}):
            return False
        self._left -= 1
        return True


def _name(target: RequestTarget) -> str:
    """The resource as cases name it: `subnets`, `subnets/status`."""
    resource = target.resource.partition(".")[0]
    return f"{resource}/{target.subresource}" if target.subresource else resource


def _words(text: str) -> frozenset[str]:
    """Alternatives such as `update|patch`; `*` is any."""
    return frozenset(text.split("|"))


class CaseTransport:
    """A transport around a transport."""

    def __init__(self, inner: Transport, faults: list[Fault]) -> None:
        self._inner: Final = inner
        self._faults: Final = faults
        self._is_cut = False
        self.writes = 0
        self.crash_after = ""
        """Resource whose next create is the last thing that happens; empty for none."""
        self.crashed: Final = asyncio.Event()

    def cut(self) -> None:
        """Let nothing through any more, and no answer back."""
        self._is_cut = True

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
        await self._gate()
        target = target_of(method, path, query, headers)
        fault = next((each for each in self._faults if each.strikes(target)), None)
        if fault is not None and fault.hang:
            await _hang(fault.hang)
        if fault is not None and fault.code:
            return _refusal(fault.code, target)
        response = await self._inner.request(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )
        if method != "GET":
            self.writes += 1
        if self.crash_after == _name(target) and target.verb == "create" and response.status == 201:
            self.cut()
            self.crashed.set()
        await self._gate()
        if fault is not None and fault.code_after:
            return _refusal(fault.code_after, target)
        return response

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
        await self._gate()
        target = target_of(method, path, query, headers)
        fault = next((each for each in self._faults if each.strikes(target)), None)
        if fault is not None and fault.code:
            refusal = _refusal(fault.code, target)
            return Stream(refusal.status, _once(refusal.body), refusal.headers)
        return await self._inner.stream(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _gate(self) -> None:
        if self._is_cut:
            await asyncio.get_running_loop().create_future()


def _refusal(code: int, target: RequestTarget) -> Response:
    reasons = {404: "NotFound", 409: "AlreadyExists" if target.verb == "create" else "Conflict"}
    reasons |= {403: "Forbidden", 429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout"}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reasons.get(code, "InternalError"),
        "message": "a fault of the case",
    }
    return Response(code, json.dumps(status).encode(), [("Content-Type", "application/json")])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
