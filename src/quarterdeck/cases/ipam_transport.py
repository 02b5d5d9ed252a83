"""The line between the operator of a case and the server: it fails on demand, can be cut, counts writes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from quarterdeck.client import Headers, Response, Stream, Transport

Json = dict[str, Any]

_PATH: Final = re.compile(
    r"/apis?/(?:[^/]+/)?[^/]+/(?:namespaces/[^/]+/)?(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)
_LONG: Final = 10.0
_FRACTION: Final = 0.02
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


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


class Target(NamedTuple):
    """What a request is about: verb, and resource with its subresource."""

    verb: str
    resource: str


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
        self._verb: Final = re.compile(raw["verb"])
        self._resource: Final[str] = raw["resource"]
        self._left: int = raw.get("times", 1)

    def strikes(self, target: Target) -> bool:
        """Whether this request is hit; counts."""
        if not self.is_armed or not self._left or self._resource != target.resource:
            return False
        if self._verb.fullmatch(target.verb) is None:
            return False
        self._left -= 1
        return True


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
        target = _target(method, path, query)
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
        if self.crash_after == target.resource and target.verb == "create" and response.status == 201:
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
        target = _target(method, path, query)
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


def _target(method: str, path: str, query: str) -> Target:
    found = _PATH.match(path)
    if found is None:
        return Target(method.lower(), "")
    resource = found["resource"] + (f"/{found['sub']}" if found["sub"] else "")
    if method == "GET":
        watching = "watch=true" in query or "watch=1" in query
        return Target("get" if found["name"] else "watch" if watching else "list", resource)
    return Target(_VERBS.get(method, method.lower()), resource)


def _refusal(code: int, target: Target) -> Response:
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
