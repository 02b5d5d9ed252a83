"""What the node tells the API server, and nobody else: logs, and streams into containers.

It listens on a Unix socket in a folder that only the API server's user can open. Who may ask for what was
decided there; here everything is answered.

    GET      /containerLogs/<pod>/<uid>/<container>          options as ``pods/log`` has them
    any      /proxy/<pod>/<uid>/<scheme>/<port>/…            a request for the pod
    GET/POST /exec/…  /attach/…  /portForward/<pod>/<uid>
    GET      /dial/<pod>/<uid>/<port>                        a connection to the pod, byte by byte
    GET      /stats                                          what pods use

A pod is meant by its uid; the name is for what is said. Whatever was opened for a pod ends with it: the next
pod of that name, or at that address, is another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quarterdeck.cluster.agent.record.log import LogOptions, read_log
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

_TEXT_PROTOCOLS: Final = ("binary.k8s.io",)
_BODY_LIMIT: Final = 16 * 1024 * 1024
_DIAL_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 5.0


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
            case ["stats"]:
                return self._stats()
            case [verb, name, uid, *rest]:
                worker = self._agent.workers.get(uid)
                if worker is None or worker.gone.is_set():
                    return text(404, f'pod "{name}" not found\n')
                return self._serve_pod(request, worker, [verb, *rest])
        return text(404, "404 page not found\n")

    def _serve_pod(
        self, request: Request, worker: PodWorker, parts: list[str]
    ) -> Response | Awaitable[Response]:
        match parts:
            case ["containerLogs", container]:
                return self._log(request, worker, container)
            case ["exec" | "attach" as verb, container]:
                return self._command(request, verb, worker, container)
            case ["portForward"]:
                metadata = worker.pod.metadata
                where = f"{metadata.name}_{metadata.namespace}"
                return _ending_with(worker, take_forward(request, self._agent.dialer, worker.ip, where))
            case ["proxy", scheme, port, *_]:
                rest = "/" + request.raw_path.split("/", 6)[6]
                return pass_on(self._agent.dialer, request, worker.pod, (scheme, port), worker.ip, rest)
            case ["dial", port] if port.isdigit():
                return self._dial(worker, int(port))
        return text(404, "404 page not found\n")

    def _stats(self) -> Response:
        """Thousandths of a processor and bytes, of the machine and of each container that runs."""
        usage = self._agent.usage
        rows = tuple((*container, *used) for container, used in usage.found.items())
        return Response(200, msgspec.json.encode(NodeUsage(*usage.machine, rows)))

    async def _dial(self, worker: PodWorker, port: int) -> Response:
        """A connection to a pod, for the API server's webhooks."""
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                reader, writer = await self._agent.dialer.open(worker.ip, port)
        except (OSError, TimeoutError) as error:
            return text(503, f"{error}\n")

        async def talk(stream: RawStream) -> None:
            try:
                await relay(stream, reader, writer)
            finally:
                writer.close()

        headers = [("Connection", "Upgrade"), ("Upgrade", "tcp")]
        return _ending_with(worker, Response(101, headers=headers, takeover=talk))

    async def _log(self, request: Request, worker: PodWorker, container: str) -> Response:
        numbers = await asyncio.to_thread(worker.folder.run_numbers, container)
        wants_previous = request.param("previous") in ("true", "1")
        where = f'container "{container}" in pod "{worker.pod.metadata.name}"'
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
            return _ending_with(
                worker, _by_websocket(request, read_log(folder, options)), _LAST_WORDS_SECONDS
            )
        return Response(200, content_type="text/plain", stream=PulledStream(read_log(folder, options)))

    async def _command(self, request: Request, verb: str, worker: PodWorker, container: str) -> Response:
        run = (await asyncio.to_thread(worker.view_of, container)).run
        if run is None or not run.is_running:
            return text(500, f'container not found ("{container}")')
        folder = worker.folder.run_path(container, run.number)
        words = request.query.get("command", [])

        async def serve(remote: Remote, options: StreamOptions) -> Mapping[str, Any]:
            if verb == "attach":
                return await attach_to(folder, remote, options)
            return await run_in(self._agent.containers, folder, words, remote, options)

        return _ending_with(worker, take_command(request, serve), _LAST_WORDS_SECONDS)


def _ending_with(worker: PodWorker, response: Response, patience: float = 0.0) -> Response:
    """The same, but the connection ends with the pod, ``patience`` seconds later at most."""
    takeover = response.takeover
    if takeover is None:
        return response

    async def bound(stream: RawStream) -> None:
        talking = asyncio.ensure_future(takeover(stream))
        waiting = asyncio.ensure_future(worker.gone.wait())
        try:
            await asyncio.wait([talking, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not talking.done() and patience:
                await asyncio.wait([talking], timeout=patience)
            if talking.done():
                talking.result()
        finally:
            for task in (talking, waiting):
                task.cancel()
            await asyncio.gather(talking, waiting, return_exceptions=True)

    return Response(response.status, headers=response.headers, takeover=bound)


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
