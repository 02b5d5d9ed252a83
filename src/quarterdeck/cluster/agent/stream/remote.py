"""Input, output and status of a command for somebody far away, by WebSocket or by SPDY."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from quarterdeck.errors import StreamClosed, TransportError
from quarterdeck.wire.http import Request

from .spdy import SpdySession, SpdyStream
from .websocket import WebSocket

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
COMMAND_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io")
_WITH_STATUS: Final = ("v4", "v5")
_STREAMS: Final = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_STREAM_SECONDS: Final = 30.0


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants of a command."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def of(cls, request: Request) -> StreamOptions:
        """As the query of ``pods/exec`` and ``pods/attach`` has it."""

        def flag(name: str) -> bool:
            return request.param(name).lower() in ("true", "1")

        tty = flag("tty")
        return cls(stdin=flag("stdin"), stdout=flag("stdout"), stderr=flag("stderr") and not tty, tty=tty)


class Event(NamedTuple):
    """Something the client said: input, its end, or the size of its terminal."""

    data: bytes = b""
    is_end: bool = False
    size: tuple[int, int] | None = None


class Remote(Protocol):
    """The client's side of a command."""

    async def receive(self) -> Event | None:
        """What the client says next; None when it is gone."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Output: 1 or 2. Raises ``StreamClosed`` when the client is gone."""
        ...

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Tell how it ended, and hang up."""
        ...


def success_status() -> dict[str, Any]:
    """The status of a command that ended well."""
    return {"metadata": {}, "status": "Success"}


def failure_status(code: int) -> dict[str, Any]:
    """The status of a command that ended otherwise."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _size_of(data: bytes) -> tuple[int, int] | None:
    try:
        found = json.loads(data)
        return int(found["Width"]), int(found["Height"])
    except (ValueError, KeyError, TypeError):
        return None


class WebSocketRemote:
    """By WebSocket: the first byte of a message is its channel."""

    def __init__(self, socket: WebSocket, protocol: str, options: StreamOptions) -> None:
        self._socket: Final = socket
        self._protocol: Final = protocol
        self._options: Final = options

    async def open(self) -> None:
        """Tell the client that the connection stands."""
        channel = STDOUT if self._options.stdout else STDERR if self._options.stderr else ERROR
        await self._socket.send(bytes([channel]))

    async def receive(self) -> Event | None:
        while True:
            message = await self._socket.receive()
            if message is None:
                return None
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == STDIN and self._options.stdin:
                if data:
                    return Event(data)
            elif channel == RESIZE and (size := _size_of(data)) is not None:
                return Event(size=size)
            elif channel == CLOSE and data[:1] == bytes([STDIN]) and self._protocol.startswith("v5"):
                return Event(is_end=True)

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        words = json.dumps(status)
        if not self._protocol.startswith(_WITH_STATUS):  # older ones know only words, and only of failures
            words = "" if status.get("status") == "Success" else str(status.get("message", ""))
        with suppress(StreamClosed):
            if words:
                await self._socket.send(bytes([ERROR]) + words.encode())
        await self._socket.close()


class SpdyRemote:
    """By SPDY: a stream for each channel, opened by the client."""

    def __init__(self, session: SpdySession, options: StreamOptions) -> None:
        self._session: Final = session
        self._options: Final = options
        self._streams: Final[dict[int, SpdyStream]] = {}
        self._events: Final[asyncio.Queue[Event | None]] = asyncio.Queue(8)
        self._all_open: Final = asyncio.Event()
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def open(self) -> None:
        """Wait until the client has opened what it wants; raises ``StreamClosed`` if it does not."""
        self._begin(self._accept())
        try:
            async with asyncio.timeout(_STREAM_SECONDS):
                await self._all_open.wait()
        except TimeoutError as error:
            raise StreamClosed("the client did not open the streams it asked for") from error

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _expected(self) -> set[int]:
        wanted = {ERROR}
        for channel, is_wanted in (
            (STDIN, self._options.stdin),
            (STDOUT, self._options.stdout),
            (STDERR, self._options.stderr),
            (RESIZE, self._options.tty),
        ):
            if is_wanted:
                wanted.add(channel)
        return wanted

    async def _accept(self) -> None:
        with suppress(TransportError):
            async for stream in self._session.accept():
                channel = _STREAMS.get(stream.headers.get("streamtype", ""), -1)
                self._streams[channel] = stream
                if channel in (STDIN, RESIZE):
                    self._begin(self._read(channel, stream))
                if self._expected() <= set(self._streams):
                    self._all_open.set()
        self._all_open.set()
        await self._events.put(None)

    async def _read(self, channel: int, stream: SpdyStream) -> None:
        while data := await stream.read():
            if channel == STDIN:
                await self._events.put(Event(data))
            elif (size := _size_of(data)) is not None:
                await self._events.put(Event(size=size))
        if channel == STDIN:
            await self._events.put(Event(is_end=True))

    async def receive(self) -> Event | None:
        return await self._events.get()

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None:
            await stream.send(data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        with suppress(StreamClosed):
            error = self._streams.get(ERROR)
            if error is not None:
                await error.send(json.dumps(status).encode())
            for stream in self._streams.values():
                await stream.finish()
            # The client hangs up when it has read everything; hanging up first would take it away.
            async with asyncio.timeout(_STREAM_SECONDS):
                while await self._events.get() is not None:
                    continue
        for task in tuple(self._tasks):
            task.cancel()
