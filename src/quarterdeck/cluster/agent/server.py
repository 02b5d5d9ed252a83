"""What the node tells the API server, and nobody else: logs, and streams into containers.

It listens on a Unix socket in a folder that only the API server's user can open. Who may ask for what was
decided there; here everything is answered.

    GET      /containerLogs/<namespace>/<pod>/<container>    options as ``pods/log`` has them
    any      /proxy/<namespace>/<pod>/<scheme>/<port>/…      a request for the pod
    GET/POST /exec/…  /attach/…  /portForward/<namespace>/<pod>
    GET      /dial/<namespace>/<pod>/<port>                  a connection to the pod, byte by byte
    GET      /stats                                          what pods use
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quarterdeck.cluster.agent.container.log import LogOptions, read_log
from quarterdeck.cluster.agent.stream.command import attach_to, run_in, take_command
from quarterdeck.cluster.agent.stream.forward import take_forward
from quarterdeck.cluster.agent.stream.passing import pass_on
from quarterdeck.cluster.agent.stream.remote import Remote, StreamOptions
from quarterdeck.cluster.agent.stream.websocket import (
    WebSocket,
    accept_headers,
    choose_protocol,
    is_websocket,
)
from quarterdeck.errors import StreamClosed
from quarterdeck.wire.http import HttpServer, PulledStream, RawStream, Request, Response, Route, relay, text
from quarterdeck.wire.localnode import NodeUsage

if TYPE_CHECKING:
    from quarterdeck.cluster.agent.agent import NodeAgent
    from quarterdeck.cluster.agent.pod.worker import PodWorker

__all__ = ["NodeServer"]

_TEXT_PROTOCOLS: Final = ("binary.k8s.io",)
_BODY_LIMIT: Final = 16 * 1024 * 1024
_DIAL_SECONDS: Final = 10.0


class NodeServer:
    """Answers for one node; an async context manager."""

    def __init__(self, agent: NodeAgent, socket: Path) -> None:
        self._agent: Final = agent
        self._socket: Final = socket
        self._http: Final = HttpServer(self._find)

    async def start(self) -> None:
        """Listen; whoever listened there before is gone."""
        self._socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket.unlink(missing_ok=True)
        await self._http.start_at_path(self._socket)
        self._socket.chmod(0o600)

    async def stop(self) -> None:
        """Finish what is under way."""
        await self._http.stop(drain=1.0)
        self._socket.unlink(missing_ok=True)

    def _find(self, request: Request) -> Route | Response:
        return Route(self._serve, _BODY_LIMIT)

    def _serve(self, request: Request) -> Response | Awaitable[Response]:
        parts = request.path.strip("/").split("/")
        match parts:
            case ["containerLogs", namespace, name, container]:
                return self._log(request, namespace, name, container)
            case ["exec" | "attach" as verb, namespace, name, container]:
                return self._command(request, verb, namespace, name, container)
            case ["portForward", namespace, name]:
                return self._forward(request, namespace, name)
            case ["proxy", namespace, name, scheme, port, *_]:
                return self._proxy(request, namespace, name, (scheme, port))
            case ["dial", namespace, name, port]:
                return self._dial(namespace, name, port)
            case ["stats"]:
                return self._stats()
        return text(404, "404 page not found\n")

    def _stats(self) -> Response:
        """Thousandths of a processor and bytes, of the machine and of each container that runs."""
        usage = self._agent.usage
        rows = tuple((*container, *used) for container, used in usage.found.items())
        return Response(200, msgspec.json.encode(NodeUsage(*usage.machine, rows)))

    async def _proxy(self, request: Request, namespace: str, name: str, door: tuple[str, str]) -> Response:
        """A request for a pod, passed on."""
        worker = self._worker(namespace, name)
        if worker is None:
            return text(404, f'pod "{name}" not found\n')
        rest = "/" + request.raw_path.split("/", 6)[6]
        return await pass_on(self._agent.dialer, request, worker.pod, door, worker.ip, rest)

    async def _dial(self, namespace: str, name: str, port: str) -> Response:
        """A connection to a pod, for the API server's webhooks."""
        worker = self._worker(namespace, name)
        if worker is None or not port.isdigit():
            return text(404, f'pod "{name}" not found\n')
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                reader, writer = await self._agent.dialer.open(worker.ip, int(port))
        except (OSError, TimeoutError) as error:
            return text(503, f"{error}\n")

        async def talk(stream: RawStream) -> None:
            await relay(stream, reader, writer)

        return Response(101, headers=[("Connection", "Upgrade"), ("Upgrade", "tcp")], takeover=talk)

    def _worker(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self._agent.workers.values():
            metadata = worker.pod.metadata
            if (metadata.namespace, metadata.name) == (namespace, name):
                return worker
        return None

    async def _log(self, request: Request, namespace: str, name: str, container: str) -> Response:
        worker = self._worker(namespace, name)
        if worker is None:
            return text(404, f'pod "{name}" not found\n')
        numbers = await asyncio.to_thread(worker.folder.run_numbers, container)
        wants_previous = request.param("previous") in ("true", "1")
        where = f'container "{container}" in pod "{name}"'
        if wants_previous:
            if len(numbers) < 2:
                return text(400, f"previous terminated {where} not found")
            number = numbers[-2]
        elif numbers:
            number = numbers[-1]
        else:
            view = worker.view_of(container)
            reason = view.trouble.reason if view.trouble is not None else "ContainerCreating"
            if reason == "ErrImageNeverPull":
                return text(400, f"{where} is waiting to start: image can't be pulled")
            return text(400, f"{where} is waiting to start: {reason}")
        options = _options(request)
        folder = worker.folder.run_path(container, number)
        if is_websocket(request):
            return _by_websocket(request, read_log(folder, options))
        return Response(200, content_type="text/plain", stream=PulledStream(read_log(folder, options)))

    async def _command(
        self, request: Request, verb: str, namespace: str, name: str, container: str
    ) -> Response:
        worker = self._worker(namespace, name)
        if worker is None:
            return text(404, f'pod "{name}" not found\n')
        run = (await asyncio.to_thread(worker.view_of, container)).run
        if run is None or not run.is_running:
            return text(500, f'container not found ("{container}")')
        folder = worker.folder.run_path(container, run.number)
        words = request.query.get("command", [])

        async def serve(remote: Remote, options: StreamOptions) -> Mapping[str, Any]:
            if verb == "attach":
                return await attach_to(folder, remote, options)
            return await run_in(self._agent.containers, folder, words, remote, options)

        return take_command(request, serve)

    def _forward(self, request: Request, namespace: str, name: str) -> Response:
        worker = self._worker(namespace, name)
        if worker is None:
            return text(404, f'pod "{name}" not found\n')
        return take_forward(request, self._agent.dialer, worker.ip, f"{name}_{namespace}")


def _by_websocket(request: Request, chunks: AsyncIterator[bytes]) -> Response:
    """A text in messages."""
    protocol = choose_protocol(request, _TEXT_PROTOCOLS) or ""

    async def send(stream: RawStream) -> None:
        socket = WebSocket(stream)
        with suppress(StreamClosed):
            async for chunk in chunks:
                await socket.send(chunk)
            await socket.close()

    return Response(101, headers=accept_headers(request, protocol), takeover=send)


def _options(request: Request) -> LogOptions:
    since = request.param("sinceTime")
    if seconds := request.param("sinceSeconds"):
        since = _timestamp(time.time() - int(seconds))
    stream = request.param("stream").lower()
    return LogOptions(
        follow=request.param("follow") in ("true", "1"),
        tail=int(tail) if (tail := request.param("tailLines")) else None,
        limit=int(limit) if (limit := request.param("limitBytes")) else None,
        since=since.replace("Z", "") if since else "",
        timestamps=request.param("timestamps") in ("true", "1"),
        stream=stream if stream in ("stdout", "stderr") else "",
    )


def _timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1e9):09d}Z"
