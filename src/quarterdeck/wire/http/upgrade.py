"""A connection that speaks another protocol after 101: bytes both ways, with back pressure.

A handler answers ``Response(101, headers=…, takeover=talk)``; ``talk`` is a coroutine function that gets a
``RawStream`` when the head of the answer is on its way. The connection closes when it returns, and is cut
when it raises.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from quarterdeck.errors import StreamClosed

_HIGH: Final = 256 * 1024
"""Bytes that may wait for the reader before the socket is left alone."""


class _Transport(Protocol):
    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class RawStream:
    """Both directions of a taken-over connection; its ``feed…`` side belongs to the connection."""

    def __init__(self, transport: _Transport, early: bytes = b"") -> None:
        """``early`` is what arrived behind the request."""
        self._transport = transport
        self._received = bytearray(early)
        self._is_paused = False
        self._is_ended = False
        self._is_lost = False
        self._can_write = True
        self._reader: asyncio.Future[None] | None = None
        #: those who answer what they read, and those who speak by themselves, may wait at once
        self._writers: set[asyncio.Future[None]] = set()

    async def read(self) -> bytes:
        """Everything that has arrived, at least one byte; empty at the end."""
        while not self._received and not self._is_ended:
            await self._more()
        data = bytes(self._received)
        self._received.clear()
        self._go_on()
        return data

    def write(self, data: bytes) -> None:
        """Send; what a slow peer has not taken yet is kept, so ``drain`` where there is much."""
        if not self._is_lost:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the peer has taken most of what was written; raises ``StreamClosed`` if it is gone."""
        if not self._can_write and not self._is_lost:
            waiter = asyncio.get_running_loop().create_future()
            self._writers.add(waiter)
            try:
                await waiter
            finally:
                self._writers.discard(waiter)
        if self._is_lost:
            raise StreamClosed("the peer is gone")

    async def send(self, data: bytes) -> None:
        """Send, and wait while the peer is slow; raises ``StreamClosed`` if it is gone."""
        self.write(data)
        await self.drain()

    async def _more(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def _go_on(self) -> None:
        if len(self._received) < _HIGH:
            self._resume()

    def _resume(self) -> None:
        if self._is_paused and not self._is_lost:
            self._is_paused = False
            self._transport.resume_reading()

    def feed(self, data: bytes) -> None:
        """Bytes arrived."""
        self._received += data
        if len(self._received) >= _HIGH and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def feed_end(self, *, is_lost: bool = True) -> None:
        """The connection is gone, or will be soon: what was to be said must be said now."""
        self._is_ended = True
        self._is_lost = self._is_lost or is_lost
        _wake(self._reader)
        if is_lost:
            self._wake_writers()

    def feed_writable(self, can_write: bool) -> None:
        """The peer is slow, or has caught up."""
        self._can_write = can_write
        if can_write:
            self._wake_writers()

    def _wake_writers(self) -> None:
        for waiter in self._writers:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


Takeover: TypeAlias = Callable[[RawStream], Awaitable[None]]
