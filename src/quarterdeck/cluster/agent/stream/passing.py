"""A client's request for a pod, as the API server hands it on."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.errors import TransportError
from quarterdeck.wire.http import ClientConnection, Request, Response, text

_SECONDS: Final = 25.0
_LIMIT: Final = 64 * 1024 * 1024
_HOP: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})


async def pass_on(
    dialer: Dialer, request: Request, pod: Pod, door: tuple[str, str], host: str, rest: str
) -> Response:
    """The pod's answer to a request for ``rest``; ``door`` is a scheme and a port, by number or name."""
    scheme, port = door
    number = _number(pod, port)
    if number is None:
        return text(400, f'pod "{pod.metadata.name}" has no port {port!r}\n')
    context = None
    if scheme == "https":  # as a kubelet: whose certificate it is does not matter
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    target = f"{rest}?{request.raw_query}" if request.raw_query else rest
    lines = [
        f"{request.method} {target} HTTP/1.1",
        f"Host: {host}:{number}",
        f"Content-Length: {len(request.body)}",
    ]
    lines += [f"{name}: {value}" for name, value in request.header_items() if name not in _HOP]
    data = ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode("latin-1") + request.body
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_SECONDS):
            _, connection = await loop.create_connection(
                lambda: ClientConnection(loop, lambda _: None, max_answer=_LIMIT),
                sock=await dialer.connected(host, number),
                ssl=context,
                server_hostname=host if context is not None else None,
            )
            try:
                answer = await connection.exchange(data, None)
            finally:
                connection.abort()
    except (OSError, TimeoutError, TransportError) as error:
        return text(503, f"error trying to reach service: {error}\n")
    kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
    kept = [each for each in answer.headers if each[0].lower() not in {*_HOP, "content-type", "date"}]
    return Response(answer.status, answer.body, content_type=kinds[0] if kinds else "", headers=kept)


def _number(pod: Pod, port: str) -> int | None:
    if port.isdigit():
        return int(port)
    for container in pod.spec.containers:
        for each in container.ports:
            if each.name == port and isinstance(each.container_port, int):
                return each.container_port
    return None
