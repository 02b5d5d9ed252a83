"""WebSocket messages over a connection that has been upgraded; the framing is that of ``websockets``."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from websockets.exceptions import ProtocolError as WebSocketError
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.utils import accept_key

from quarterdeck.errors import StreamClosed
from quarterdeck.wire.http import RawStream, Request

_MAX_MESSAGE: Final = 32 * 1024 * 1024


def is_websocket(request: Request) -> bool:
    """Whether a request asks for a WebSocket."""
    return request.header("upgrade").lower() == "websocket" and bool(request.header("sec-websocket-key"))


def choose_protocol(request: Request, known: Sequence[str]) -> str | None:
    """The first of our protocols that the client offers; empty if it offers none, None if none fits."""
    offered = [each.strip() for each in request.header("sec-websocket-protocol").split(",") if each.strip()]
    if not offered:
        return ""
    return next((each for each in known if each in offered), None)


def accept_headers(request: Request, protocol: str) -> list[tuple[str, str]]:
    """The headers of the answer 101."""
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept_key(request.header("sec-websocket-key"))),
    ]
    return [*headers, ("Sec-WebSocket-Protocol", protocol)] if protocol else headers


class WebSocket:
    """The server's end of an open WebSocket."""

    def __init__(self, stream: RawStream) -> None:
        self._stream: Final = stream
        self._protocol: Final = Protocol(Side.SERVER, state=State.OPEN, max_size=_MAX_MESSAGE)
        self._messages: Final[deque[bytes]] = deque()
        self._parts: list[bytes] = []
        self._is_over = False

    async def receive(self) -> bytes | None:
        """The next message, text or binary; None when the peer has closed."""
        while not self._messages:
            if self._is_over:
                return None
            data = await self._stream.read()
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
                self._is_over = True
            for event in self._protocol.events_received():
                if isinstance(event, Frame):
                    self._take(event)
            await self._flush()
        return self._messages.popleft()

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self._is_over = True
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                self._messages.append(b"".join(self._parts))
                self._parts = []

    async def send(self, message: bytes) -> None:
        """Send a binary message; raises ``StreamClosed`` when the peer is gone."""
        if self._protocol.state is not State.OPEN:
            raise StreamClosed("the peer has closed the WebSocket")
        self._protocol.send_binary(message)
        await self._flush()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye; what the peer still sends is not waited for."""
        if self._protocol.state is State.OPEN:
            try:
                self._protocol.send_close(code, reason)
                await self._flush()
            except (StreamClosed, WebSocketError):
                return

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._stream.write(data)
        if not self._is_over:
            await self._stream.drain()
