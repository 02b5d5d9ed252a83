"""Where a stream writes: the body of one answer on one connection."""

from typing import Protocol

from .framing import frame, unframe
from .message import Stream
from .tls import ByteTransport


class Owner(Protocol):
    """The connection."""

    @property
    def can_write(self) -> bool:
        """Whether the peer has taken enough of what was written."""
        ...

    async def drain(self) -> None:
        """Wait until it has, or is gone."""
        ...

    def stream_finished(self) -> None:
        """The body has ended."""
        ...


class ConnectionWriter:
    """A body in chunks or, for HTTP/1.0, as it is."""

    __slots__ = ("_is_chunked", "_owner", "_stream", "_transport")

    def __init__(self, owner: Owner, transport: ByteTransport, stream: Stream, *, is_chunked: bool) -> None:
        self._owner = owner
        self._transport = transport
        self._stream: Stream | None = stream
        self._is_chunked = is_chunked

    def write(self, data: bytes) -> None:
        if self._stream is not None:
            self._transport.write(frame(data) if self._is_chunked else data)

    def write_framed(self, chunk: bytes) -> None:
        if self._stream is not None:
            self._transport.write(chunk if self._is_chunked else unframe(chunk))

    def buffered(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        return not self._owner.can_write

    async def drain(self) -> None:
        await self._owner.drain()

    def finish(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            if self._is_chunked:
                self._transport.write(b"0\r\n\r\n")
            stream.closed()
            self._owner.stream_finished()

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()
