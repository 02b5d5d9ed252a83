"""Port-forward: connections to a pod's ports, carried by WebSocket channels or by SPDY streams."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from quarterdeck.cluster.agent.network.dial import Dialer, Stream
from quarterdeck.errors import StreamClosed, TransportError
from quarterdeck.wire.http import ByteStream, RawStream, Request, Response, relay, text

from .spdy import SpdySession, SpdyStream
from .websocket import WebSocket, accept_headers, choose_protocol, is_websocket

_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
_CHANNELS: Final = ("v4.channel.k8s.io", "portforward.k8s.io")
_CHUNK: Final = 32 * 1024
_CONNECT_SECONDS: Final = 10.0


def take_forward(request: Request, dialer: Dialer, host: str, pod: str) -> Response:
    """The answer to a request for port-forward to the pod at ``host``."""
    if is_websocket(request):
        protocol = choose_protocol(request, (_TUNNEL, *_CHANNELS))
        if protocol is None:
            return text(403, "unable to upgrade: none of the protocols is supported\n")
        if protocol == _TUNNEL:

            async def tunnel(stream: RawStream) -> None:
                await _serve_spdy(_TunnelBytes(WebSocket(stream)), dialer, host, pod)

            return Response(101, headers=accept_headers(request, protocol), takeover=tunnel)
        ports = [int(each) for value in request.query.get("ports", ()) for each in value.split(",")]
        if not ports or not all(0 < port < 65536 for port in ports):
            return text(400, 'query parameter "ports" is required')

        async def by_channels(stream: RawStream) -> None:
            await _ChannelForward(WebSocket(stream), dialer, host, pod, ports).serve()

        return Response(101, headers=accept_headers(request, protocol), takeover=by_channels)
    if request.header("upgrade").lower() == "spdy/3.1":

        async def by_spdy(stream: RawStream) -> None:
            await _serve_spdy(stream, dialer, host, pod)

        headers = [
            ("Upgrade", "SPDY/3.1"),
            ("Connection", "Upgrade"),
            ("X-Stream-Protocol-Version", "portforward.k8s.io"),
        ]
        return Response(101, headers=headers, takeover=by_spdy)
    return text(400, "Upgrade request required")


class _TunnelBytes:
    """SPDY inside a WebSocket: messages are pieces of one stream of bytes."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket: Final = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message:
                return message

    async def send(self, data: bytes) -> None:
        await self._socket.send(data)


async def _connect(dialer: Dialer, host: str, port: int) -> Stream:
    async with asyncio.timeout(_CONNECT_SECONDS):
        return await dialer.open(host, port)


def _problem(pod: str, port: int, error: Exception) -> str:
    words = (
        os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error) or "timeout"
    )
    return f"error forwarding port {port} to pod {pod}: failed to connect: {words.lower()}"


async def _serve_spdy(carrier: ByteStream, dialer: Dialer, host: str, pod: str) -> None:
    """Streams come in pairs, one for data and one for errors, with the number of their request."""
    session = SpdySession(carrier)
    pairs: dict[str, dict[str, SpdyStream]] = {}
    tasks: set[asyncio.Task[None]] = set()

    def begin(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        with suppress(TransportError):
            async for stream in session.accept():
                request = stream.headers.get("requestid", str(stream.number))
                pair = pairs.setdefault(request, {})
                pair[stream.headers.get("streamtype", "")] = stream
                if {"data", "error"} <= pair.keys():
                    begin(_forward_streams(session, pairs.pop(request), dialer, host, pod))
    finally:
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward_streams(
    session: SpdySession, pair: dict[str, SpdyStream], dialer: Dialer, host: str, pod: str
) -> None:
    data, error = pair["data"], pair["error"]
    port = int(data.headers.get("port", "0"))
    with suppress(StreamClosed):
        try:
            reader, writer = await _connect(dialer, host, port)
        except (OSError, TimeoutError) as problem:
            await error.send(_problem(pod, port, problem).encode())
        else:
            await relay(data, reader, writer)
        await error.finish()
        await data.finish()
    await session.forget(data)
    await session.forget(error)


class _ChannelForward:
    """Two channels a port: data and errors; each begins with the port's number, little endian."""

    def __init__(self, socket: WebSocket, dialer: Dialer, host: str, pod: str, ports: list[int]) -> None:
        self._socket: Final = socket
        self._dialer: Final = dialer
        self._host: Final = host
        self._pod: Final = pod
        self._ports: Final = ports
        self._writers: Final[dict[int, asyncio.StreamWriter]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def serve(self) -> None:
        """Until the client goes."""
        try:
            for place, port in enumerate(self._ports):
                number = struct.pack("<H", port)
                await self._socket.send(bytes([2 * place]) + number)
                await self._socket.send(bytes([2 * place + 1]) + number)
                try:
                    reader, writer = await _connect(self._dialer, self._host, port)
                except (OSError, TimeoutError) as problem:
                    words = _problem(self._pod, port, problem)
                    await self._socket.send(bytes([2 * place + 1]) + words.encode())
                    continue
                self._writers[2 * place] = writer
                task = asyncio.get_running_loop().create_task(self._carry(2 * place, reader))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            while (message := await self._socket.receive()) is not None:
                target = self._writers.get(message[0]) if message else None
                if target is not None:
                    with suppress(OSError):
                        target.write(message[1:])
                        await target.drain()
        except StreamClosed:
            pass
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            for writer in self._writers.values():
                writer.close()

    async def _carry(self, channel: int, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, StreamClosed):
            while data := await reader.read(_CHUNK):
                await self._socket.send(bytes([channel]) + data)
        if len(self._writers) == 1:  # its port has hung up: nothing more to say
            await self._socket.close()
