"""Bytes carried both ways between a stream and a connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol

from quarterdeck.errors import TransportError

_CHUNK: Final = 64 * 1024


class ByteStream(Protocol):
    """Both directions of something that carries bytes."""

    async def read(self) -> bytes:
        """What has arrived, at least one byte; empty at the end."""
        ...

    async def send(self, data: bytes) -> None:
        """Send, and wait while the peer is slow."""
        ...


async def relay(stream: ByteStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes both ways until the connection has said everything, then close it."""

    async def inward() -> None:
        with suppress(OSError, TransportError):
            while data := await stream.read():
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    sending = asyncio.get_running_loop().create_task(inward())
    try:
        with suppress(OSError, TransportError):
            while data := await reader.read(_CHUNK):
                await stream.send(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
