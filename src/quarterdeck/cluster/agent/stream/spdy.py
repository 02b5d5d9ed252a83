"""SPDY/3.1, as far as clients of Kubernetes use it: streams with headers, data both ways, no flow control.

It is spoken on the bare connection by old clients, and inside a WebSocket by ``kubectl port-forward``.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from quarterdeck.errors import ProtocolError
from quarterdeck.wire.http import ByteStream

_VERSION: Final = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING = 1, 2, 3, 6
_FIN: Final = 1
_MAX_FRAME: Final = 1 << 24
_CHUNK: Final = 32 * 1024
_UNREAD: Final = 64
"""Pieces that may wait for a stream's reader before the connection is left alone."""

_WORDS: Final = (
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding",
    "accept-language", "accept-ranges", "age", "allow", "authorization", "cache-control", "connection",
    "content-base", "content-encoding", "content-language", "content-length", "content-location",
    "content-md5", "content-range", "content-type", "date", "etag", "expect", "expires", "from", "host",
    "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
    "last-modified", "location", "max-forwards", "pragma", "proxy-authenticate", "proxy-authorization",
    "range", "referer", "retry-after", "server", "te", "trailer", "transfer-encoding", "upgrade",
    "user-agent", "vary", "via", "warning", "www-authenticate", "method", "get", "status",
)  # fmt: skip
_MORE_WORDS: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(len(word).to_bytes(4, "big") + word.encode() for word in (*_WORDS, *_MORE_WORDS))
    + _REST.encode()
)
"""What both sides prime their compression of headers with (SPDY/3, section 2.6.10.1)."""


class SpdyStream:
    """One stream of a session."""

    def __init__(self, session: SpdySession, number: int, headers: Mapping[str, str]) -> None:
        self.number: Final = number
        self.headers: Final = headers
        self._session: Final = session
        self._received: Final[asyncio.Queue[bytes]] = asyncio.Queue(_UNREAD)
        self._is_ended = False
        self._is_finished = False

    async def read(self) -> bytes:
        """The next piece; empty at the end of the stream."""
        if self._is_ended and self._received.empty():
            return b""
        data = await self._received.get()
        if not data:
            self._is_ended = True
        return data

    async def send(self, data: bytes) -> None:
        """Send data on the stream."""
        for start in range(0, len(data), _CHUNK):
            await self._session.send_data(self.number, data[start : start + _CHUNK])

    async def finish(self) -> None:
        """End our side of the stream."""
        if not self._is_finished:
            self._is_finished = True
            await self._session.send_data(self.number, b"", is_last=True)

    async def feed(self, data: bytes) -> None:
        """For the session: a piece has come; empty at the end."""
        await self._received.put(data)


class SpdySession:
    """The server's end of a connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream: Final = stream
        self._inflate: Final = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate: Final = zlib.compressobj(zdict=DICTIONARY)
        self._streams: Final[dict[int, SpdyStream]] = {}
        self._buffer: Final = bytearray()

    async def accept(self) -> AsyncIterator[SpdyStream]:
        """Streams as the peer opens them; ends with the connection. Whoever iterates keeps it going."""
        try:
            while (frame := await self._read_frame()) is not None:
                head, flags, body = frame
                if head & 0x80000000:
                    opened = await self._control(head, flags, body)
                    if opened is not None:
                        yield opened
                else:
                    await self._data(head, flags, body)
        finally:
            for each in self._streams.values():
                if not each._received.full():
                    await each.feed(b"")

    async def _read_frame(self) -> tuple[int, int, bytes] | None:
        head = await self._take(8)
        if head is None:
            return None
        first, second = struct.unpack(">II", head)
        size = second & 0xFFFFFF
        body = await self._take(size)
        return None if body is None else (first, second >> 24, body)

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = await self._stream.read()
            if not data:
                return None
            self._buffer.extend(data)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _control(self, head: int, flags: int, body: bytes) -> SpdyStream | None:
        version, kind = (head >> 16) & 0x7FFF, head & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"SPDY/{version} is not spoken here")
        if kind == _SYN_STREAM:
            number = struct.unpack_from(">I", body)[0] & 0x7FFFFFFF
            stream = SpdyStream(self, number, self._headers(body[10:]))
            self._streams[number] = stream
            await self._send_control(_SYN_REPLY, struct.pack(">I", number) + self._block({}))
            if flags & _FIN:
                await stream.feed(b"")
            return stream
        if kind == _PING:
            await self._send_control(_PING, body[:4])
        elif kind == _RST_STREAM:
            gone = self._streams.pop(struct.unpack_from(">I", body)[0] & 0x7FFFFFFF, None)
            if gone is not None:
                await gone.feed(b"")
        elif kind in (_SYN_REPLY, 8):
            self._headers(body[4:])  # the compression remembers everything it has seen
        return None

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if body:
            await stream.feed(body)
        if flags & _FIN:
            await stream.feed(b"")

    def _headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block)
        if len(data) > _MAX_FRAME:
            raise ProtocolError("headers are too large")
        count = struct.unpack_from(">I", data)[0]
        place, made = 4, {}
        for _ in range(count):
            pair = []
            for _ in range(2):
                size = struct.unpack_from(">I", data, place)[0]
                pair.append(data[place + 4 : place + 4 + size].decode("latin-1"))
                place += 4 + size
            made[pair[0].lower()] = pair[1]
        return made

    def _block(self, headers: Mapping[str, str]) -> bytes:
        data = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name.encode(), value.encode()):
                data += struct.pack(">I", len(text)) + text
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    async def _send_control(self, kind: int, body: bytes) -> None:
        head = struct.pack(">II", 0x80000000 | _VERSION << 16 | kind, len(body))
        await self._stream.send(head + body)

    async def send_data(self, number: int, data: bytes, *, is_last: bool = False) -> None:
        """For streams."""
        head = struct.pack(">II", number, (_FIN if is_last else 0) << 24 | len(data))
        await self._stream.send(head + data)

    async def forget(self, stream: SpdyStream) -> None:
        """Both sides are done with a stream."""
        self._streams.pop(stream.number, None)
