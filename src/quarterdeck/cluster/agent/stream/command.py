"""Exec and attach: a command in a container, or the container's own program, joined to a client."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from quarterdeck.cluster.agent.container.container import Containers, Entered, RuntimeFailure
from quarterdeck.cluster.agent.container.pipe import NULL, read_end, write_end
from quarterdeck.cluster.agent.shim import attach
from quarterdeck.errors import StreamClosed
from quarterdeck.wire.http import RawStream, Request, Response, text

from .remote import (
    COMMAND_PROTOCOLS,
    Remote,
    SpdyRemote,
    StreamOptions,
    WebSocketRemote,
    failure_status,
    success_status,
)
from .spdy import SpdySession
from .websocket import WebSocket, accept_headers, choose_protocol, is_websocket

_CHUNK: Final = 32 * 1024
Serve = Callable[[Remote, StreamOptions], Awaitable[Mapping[str, Any]]]


def take_command(request: Request, serve: Serve) -> Response:
    """The answer to a request for exec or attach; ``serve`` gets the connection and gives the status."""
    options = StreamOptions.of(request)
    if is_websocket(request):
        protocol = choose_protocol(request, COMMAND_PROTOCOLS)
        if protocol is None:
            wanted = request.header("sec-websocket-protocol")
            return text(403, f"unable to upgrade: none of the protocols is supported: {wanted}\n")

        async def by_websocket(stream: RawStream) -> None:
            remote = WebSocketRemote(WebSocket(stream), protocol or "", options)
            with suppress(StreamClosed):
                await remote.open()
                await remote.finish(await serve(remote, options))

        return Response(101, headers=accept_headers(request, protocol), takeover=by_websocket)
    if request.header("upgrade").lower() == "spdy/3.1":
        offered = [each.strip() for each in request.header("x-stream-protocol-version").split(",")]
        chosen = next((each for each in COMMAND_PROTOCOLS[1:] if each in offered), "")
        if not chosen:
            return text(403, "unable to upgrade: none of the stream protocols is supported\n")

        async def by_spdy(stream: RawStream) -> None:
            remote = SpdyRemote(SpdySession(stream), options)
            with suppress(StreamClosed, TimeoutError):
                await remote.open()
                await remote.finish(await serve(remote, options))

        headers = [("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade"), ("X-Stream-Protocol-Version", chosen)]
        return Response(101, headers=headers, takeover=by_spdy)
    return text(400, "Upgrade request required")


async def run_in(
    runtime: Containers, folder: Path, command: Sequence[str], remote: Remote, options: StreamOptions
) -> Mapping[str, Any]:
    """Run a command in a container for a client; the status it ended with."""
    try:
        if options.tty:
            code = await _run_with_terminal(runtime, folder, command, remote)
        else:
            code = await _run_with_pipes(runtime, folder, command, remote, options)
    except RuntimeFailure as failure:
        return {"metadata": {}, "status": "Failure", "message": str(failure), "reason": "InternalError"}
    return success_status() if code == 0 else failure_status(code)


async def _run_with_pipes(
    runtime: Containers, folder: Path, command: Sequence[str], remote: Remote, options: StreamOptions
) -> int:
    input_theirs, input_ours = os.pipe()
    outputs = [os.pipe(), os.pipe()]
    stdin = input_theirs if options.stdin else NULL
    try:
        entered = await runtime.enter(
            folder,
            command,
            stdin=stdin,
            stdout=outputs[0][1] if options.stdout else NULL,
            stderr=outputs[1][1] if options.stderr else NULL,
        )
    except RuntimeFailure:
        for descriptor in (input_ours, outputs[0][0], outputs[1][0]):
            os.close(descriptor)
        raise
    finally:
        for descriptor in (input_theirs, outputs[0][1], outputs[1][1]):
            os.close(descriptor)

    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(write_end(input_ours))
        readers = [await stack.enter_async_context(read_end(each[0])) for each in outputs]

        async def send(channel: int, reader: asyncio.StreamReader) -> None:
            while data := await reader.read(_CHUNK):
                await remote.send(channel, data)

        async def receive() -> None:
            while (event := await remote.receive()) is not None:
                with suppress(OSError):
                    if event.data:
                        writer.write(event.data)
                        await writer.drain()
                    if event.is_end:
                        writer.close()
            raise StreamClosed("the client is gone")

        return await _accompany(entered, receive(), [send(1, readers[0]), send(2, readers[1])])


async def _accompany(
    entered: Entered, receive: Coroutine[Any, Any, None], sends: Sequence[Coroutine[Any, Any, None]]
) -> int:
    """Wait for a program and all it says; end it if the client goes first."""
    loop = asyncio.get_running_loop()
    receiving = loop.create_task(receive)
    sending = loop.create_task(_all(sends))
    try:
        await asyncio.wait([receiving, sending], return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
        await sending
        return await entered.wait()
    finally:
        for task in (receiving, sending):
            task.cancel()
        await asyncio.gather(receiving, sending, return_exceptions=True)
        entered.close()


async def _all(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works)


async def _run_with_terminal(
    runtime: Containers, folder: Path, command: Sequence[str], remote: Remote
) -> int:
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    try:
        entered = await runtime.enter(folder, command, stdin=theirs, stdout=theirs, stderr=theirs, tty=True)
    except RuntimeFailure:
        os.close(ours)
        raise
    finally:
        os.close(theirs)

    async def send() -> None:
        while data := await _read(ours):
            await remote.send(1, data)

    async def receive() -> None:
        while (event := await remote.receive()) is not None:
            if event.size is not None:
                set_size(ours, *event.size)
            if event.data:
                await _write(ours, event.data)
            if event.is_end:
                await _write(ours, b"\x04")
        raise StreamClosed("the client is gone")

    try:
        return await _accompany(entered, receive(), [send()])
    finally:
        os.close(ours)


def set_size(terminal: int, width: int, height: int) -> None:
    """Tell a terminal how large it is."""
    with suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


async def _read(descriptor: int) -> bytes:
    """What a terminal says; empty when nobody has it open any more."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            pass
        except OSError:
            return b""
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            await asyncio.sleep(0.01)
        except OSError:
            return


async def attach_to(folder: Path, remote: Remote, options: StreamOptions) -> Mapping[str, Any]:
    """Join a client to the program of a container until one of them ends."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # by way of the descriptor: the path of a socket must not be long
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{place}/{attach.SOCKET}")
    except OSError:
        return {**failure_status(1), "message": "the container is not running", "reason": "InternalError"}
    finally:
        os.close(place)

    async def send() -> None:
        buffer = bytearray()
        while data := await reader.read(_CHUNK):
            buffer += data
            for channel, piece in attach.take_frames(buffer):
                if (channel == 1 and options.stdout) or (channel == 2 and options.stderr):
                    await remote.send(channel, piece)

    async def receive() -> None:
        while (event := await remote.receive()) is not None:
            if event.data:
                writer.write(attach.frame(attach.INPUT, event.data))
            if event.is_end:
                writer.write(attach.frame(attach.END_OF_INPUT, b""))
            if event.size is not None:
                writer.write(attach.frame(attach.RESIZE, struct.pack(">HH", *event.size)))
            await writer.drain()

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(send()), loop.create_task(receive())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
    return success_status()
