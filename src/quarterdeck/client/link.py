"""All requests on one connection, to a server on the same machine that is part of the same program.

The controllers of `quarterdeck up` talk to its server in this way; see ``quarterdeck.wire.link``. Streams are
few and last; they take the way of everybody.
"""

import asyncio
from pathlib import Path
from typing import Final

from quarterdeck.client.transport import Headers, Response, Stream, Transport
from quarterdeck.errors import ConnectError, ReadTimeout, StreamClosed
from quarterdeck.wire.link import Answer, Ask, Link

__all__ = ["LinkTransport"]

_LOOK_PERIOD: Final = 1.0
"""Seconds between two looks for exchanges that take too long."""


class LinkTransport:
    """A transport to the server that listens at a path; implements ``Transport``."""

    def __init__(self, path: Path, streams: Transport, *, timeout: float = 60.0) -> None:
        """``timeout`` is the default for exchanges, seconds; streams have a transport of their own."""
        self._path: Final = path
        self._streams: Final = streams
        self._timeout: Final = timeout
        self._link: Link[Answer] | None = None
        self._connecting: Final = asyncio.Lock()
        self._pending: Final[dict[int, tuple[asyncio.Future[Response], float]]] = {}
        """By number: who waits for the answer, and until when."""
        self._number = 0
        self._look: asyncio.TimerHandle | None = None
        self._is_closed = False

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
        """One exchange; see ``Transport.request``."""
        link = self._link
        if link is None or not link.is_open:
            link = await self._connect()
        loop = asyncio.get_running_loop()
        limit = timeout if timeout is not None else self._timeout
        self._number = number = self._number + 1
        answer: asyncio.Future[Response] = loop.create_future()
        self._pending[number] = (answer, loop.time() + limit)
        if self._look is None:
            self._look = loop.call_later(min(_LOOK_PERIOD, limit), self._give_up, loop)
        link.send(Ask(number, method, path, query, tuple(headers), body))
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

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
        """Open a streamed exchange; see ``Transport.stream``."""
        return await self._streams.stream(
            method, path, query=query, headers=headers, body=body, timeout=timeout
        )

    async def aclose(self) -> None:
        """Hang up; running exchanges fail with ``StreamClosed``."""
        self._is_closed = True
        if self._link is not None:
            self._link.close()
        self._lost()
        await self._streams.aclose()

    async def _connect(self) -> Link[Answer]:
        async with self._connecting:
            if self._is_closed:
                raise ConnectError("the transport is closed")
            if self._link is not None and self._link.is_open:
                return self._link  # somebody else was quicker
            loop = asyncio.get_running_loop()
            try:
                _, self._link = await loop.create_unix_connection(
                    lambda: Link(Answer, self._answered, self._lost), str(self._path)
                )
            except OSError as error:
                raise ConnectError(f"cannot connect to {self._path}: {error}") from error
            return self._link

    def _answered(self, answer: Answer) -> None:
        waiting = self._pending.get(answer.number)
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(Response(answer.status, answer.body, answer.headers))

    def _lost(self) -> None:
        for answer, _ in self._pending.values():
            if not answer.done():
                answer.set_exception(StreamClosed("the connection closed before the answer was complete"))

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for answer, until in self._pending.values():
            if until <= now and not answer.done():
                answer.set_exception(ReadTimeout("no answer in time"))
        self._look = loop.call_later(_LOOK_PERIOD, self._give_up, loop) if self._pending else None
