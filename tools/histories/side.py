"""The two servers a history is told to: the real one over the wire, ours in this process.

Both listen on 127.0.0.1 at most, keep their files in a temporary directory, and end with the context manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from tests.harness.wire import Answer, Connection, Target, load_kubeconfig

from kube.server import RealServer
from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.inprocess import LocalServer, StreamReader
from quarterdeck.apiserver.storage import Durability

from .stream import Stream

_WATCH_SECONDS: Final = 600.0


class Side(Protocol):
    """A server. patience: seconds in which it does what it will do by itself."""

    patience: float

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer: ...

    async def watch(self, target: str, headers: Mapping[str, str]) -> Stream: ...

    async def restart(self, how: str) -> None: ...

    async def compact(self) -> None:
        """Forget all history up to now; a restart follows, which forgets what is kept in memory."""
        ...


class Real:
    """kube-apiserver and etcd."""

    patience = 60.0

    def __init__(self) -> None:
        self._server = RealServer(fsync=False)
        self._idle: list[Connection] = []
        self._target: Target | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._server.start)
        self._target = load_kubeconfig(self._server.kubeconfig)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._idle:
            connection.close()
        await asyncio.to_thread(self._server.stop)

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        assert self._target is not None
        connection = self._idle.pop() if self._idle else self._target.connect()
        deadline = time.monotonic() + self.patience
        try:
            while True:
                answer = await asyncio.to_thread(
                    connection.request, method, target, body=body, headers=headers
                )
                # 429: a cache that is not filled yet, after a restart
                if answer.status != 429 or time.monotonic() > deadline:
                    return answer
                await asyncio.sleep(0.05)
        finally:
            self._idle.append(connection)

    async def watch(self, target: str, headers: Mapping[str, str]) -> Stream:
        assert self._target is not None
        connection = http.client.HTTPSConnection(
            self._target.host, self._target.port, timeout=_WATCH_SECONDS, context=self._target.tls
        )
        deadline = time.monotonic() + self.patience
        while True:
            await asyncio.to_thread(connection.request, "GET", target, headers=dict(headers))
            response = await asyncio.to_thread(connection.getresponse)
            body = b"" if response.status == 200 else response.read()
            if response.status != 429 or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        answer = Answer(response.status, response.getheaders(), body)
        if response.status != 200:
            return Stream(answer, lambda: None)
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=lambda: _read_lines(response, stream, loop), daemon=True)
        stream = Stream(answer, lambda: _hang_up(connection), reader.start)
        return stream

    async def restart(self, how: str) -> None:
        await asyncio.to_thread(self._server.restart, signal.Signals[f"SIG{how}"])

    async def compact(self) -> None:
        await asyncio.to_thread(self._server.compact)


def _read_lines(response: http.client.HTTPResponse, stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
    """In a thread of its own: what a stream of the real server says, for the loop."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while line := response.readline():
                loop.call_soon_threadsafe(stream.feed, line)
        loop.call_soon_threadsafe(stream.end)


def _hang_up(connection: http.client.HTTPSConnection) -> None:
    with contextlib.suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(2)
    connection.close()


class Ours:
    """The embedded server, without sockets."""

    patience = 2.0

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="histories-")
        self._starts = 0
        self._readers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._start(Path(self._directory.name) / "0")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop()
        for reader in list(self._readers):
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self._directory.cleanup()

    async def _start(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._server = ApiServer(ServerOptions(data_dir=data_dir, durability=Durability.NORMAL))
        await self._server.start(listen=False)
        self._local: LocalServer = self._server.local()

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        path, _, query = target.partition("?")
        status, answered, content = await self._local.exchange(
            method, path, query, tuple(headers.items()), body or b""
        )
        return Answer(status, answered, content)

    async def watch(self, target: str, headers: Mapping[str, str]) -> Stream:
        path, _, query = target.partition("?")
        status, answered, reader = await self._local.open("GET", path, query, tuple(headers.items()), b"")
        if status != 200:
            return Stream(Answer(status, answered, b"".join([chunk async for chunk in reader])), lambda: None)
        pumps: list[asyncio.Task[None]] = []

        def pump() -> None:
            task = asyncio.create_task(_pump(reader, stream))
            pumps.append(task)
            self._readers.add(task)
            task.add_done_callback(self._readers.discard)

        def close() -> None:
            if not pumps:
                pump()
            pumps[0].cancel()

        stream = Stream(Answer(status, answered, b""), close, pump)
        return stream

    async def compact(self) -> None:
        await self._server.store.compact_to(self._server.store.rev)

    async def restart(self, how: str) -> None:
        """TERM is an orderly stop. KILL starts from the files as they are while the server runs."""
        if how == "KILL":
            self._starts += 1
            copy = Path(self._directory.name) / str(self._starts)
            await asyncio.to_thread(shutil.copytree, self._data_dir, copy)
            await self._server.stop()
            await self._start(copy)
        else:
            await self._server.stop()
            await self._start(self._data_dir)


async def _pump(reader: StreamReader, stream: Stream) -> None:
    try:
        async for chunk in reader:
            stream.feed(chunk)
    except ConnectionResetError:
        pass
    finally:
        stream.end()
        await reader.aclose()
