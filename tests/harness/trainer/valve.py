"""A transport that can be shut: nothing gets through until it is opened again, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from quarterdeck.client import Headers, Response, Stream, Transport
from quarterdeck.testing.link import target_of


class Valve:
    """A transport around a transport, shut as a whole or for the events of single resources."""

    def __init__(self, inner: Transport) -> None:
        self._inner: Final = inner
        self._open: Final = asyncio.Event()
        self._open.set()
        self._resources: Final[dict[str, asyncio.Event]] = {}

    def shut(self) -> None:
        """Hold requests and events."""
        self._open.clear()

    def open(self) -> None:
        """Let everything through that was held."""
        self._open.set()

    def shut_events(self, resource: str) -> None:
        """Hold the events of a resource (`jobsets.jobset.x-k8s.io`)."""
        self._gate(resource).clear()

    def open_events(self, resource: str) -> None:
        """Let them through."""
        self._gate(resource).set()

    def _gate(self, resource: str) -> asyncio.Event:
        gate = self._resources.get(resource)
        if gate is None:
            gate = self._resources[resource] = asyncio.Event()
            gate.set()
        return gate

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
        """One exchange, once the valve is open."""
        await self._open.wait()
        return await self._inner.request(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )

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
        """A stream whose chunks wait for the valve."""
        await self._open.wait()
        stream = await self._inner.stream(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )
        gate = self._gate(target_of(method, path, query).resource)
        return Stream(stream.status, self._held(stream, gate), stream.headers, stream.aclose)

    async def _held(self, stream: Stream, gate: asyncio.Event) -> AsyncIterator[bytes]:
        async for chunk in stream:
            await gate.wait()
            await self._open.wait()
            yield chunk

    async def aclose(self) -> None:
        """Close what is behind."""
        await self._inner.aclose()
