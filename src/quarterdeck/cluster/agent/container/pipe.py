"""Pipes to programs, as streams of the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

NULL: Final = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
"""/dev/null, for programs without input, or whose output is not kept."""


@asynccontextmanager
async def read_end(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Read from a pipe; it is closed at the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def write_end(descriptor: int) -> AsyncIterator[asyncio.StreamWriter]:
    """Write to a pipe; it is closed at the end."""
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    try:
        yield asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        transport.close()
