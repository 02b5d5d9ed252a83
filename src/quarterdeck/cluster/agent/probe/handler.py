"""What probes and hooks do: run a command, ask by HTTP, connect. Each says in words why it failed."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.api.k8s.pod import EphemeralContainer, HTTPGetAction, TCPSocketAction
from quarterdeck.cluster.agent.container.container import Containers, RuntimeFailure
from quarterdeck.cluster.agent.container.pipe import NULL, read_end
from quarterdeck.cluster.agent.network.dial import Dialer
from quarterdeck.errors import QuarterdeckError, TransportError
from quarterdeck.wire.http import Answer, ClientConnection

_OUTPUT_LIMIT: Final = 10 * 1024
_REDIRECTS: Final = 10
USER_AGENT: Final = "kube-probe/1.36"


class HandlerFailure(QuarterdeckError):
    """It did not work; the text says how."""


class Target(NamedTuple):
    """Where to ask."""

    scheme: str
    host: str
    port: int
    path: str


def port_number(port: object, container: Container | EphemeralContainer) -> int:
    """A port by number or by the name the container gives it."""
    if isinstance(port, int):
        return port
    text = str(port)
    if text.isdigit():
        return int(text)
    for each in container.ports:
        if each.name == text and isinstance(each.container_port, int):
            return each.container_port
    raise HandlerFailure(f"couldn't find port: {text!r} in container {container.name}")


async def run_command(
    runtime: Containers, folder: Path, command: Sequence[str], timeout: float | None
) -> tuple[int, str]:
    """Exit code and output of a command in the container. Raises ``HandlerFailure`` when time is up."""
    ours, theirs = os.pipe()
    try:
        entered = await runtime.enter(folder, command, stdin=NULL, stdout=theirs, stderr=theirs)
    except RuntimeFailure as error:
        os.close(ours)
        raise HandlerFailure(str(error)) from error
    finally:
        os.close(theirs)
    output = bytearray()
    try:
        async with asyncio.timeout(timeout):
            async with read_end(ours) as reader:
                while data := await reader.read(4096):
                    if len(output) < _OUTPUT_LIMIT:
                        output += data
            code = await entered.wait()
    except TimeoutError as error:
        words = " ".join(command)
        raise HandlerFailure(f'command timed out: "{words}" timed out after {timeout:g}s') from error
    finally:
        entered.close()
    return code, bytes(output[:_OUTPUT_LIMIT]).decode(errors="replace")


async def connect_tcp(
    dialer: Dialer, action: TCPSocketAction, pod: Pod, container: Container, timeout: float
) -> None:
    """Connect and hang up. Raises ``HandlerFailure``."""
    host, port = action.host or pod.status.pod_ip, port_number(action.port, container)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await dialer.open(host, port)
    except TimeoutError as error:
        raise HandlerFailure(f"dial tcp {host}:{port}: i/o timeout") from error
    except OSError as error:
        raise HandlerFailure(f"dial tcp {host}:{port}: connect: {_words(error)}") from error
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def get_http(
    dialer: Dialer, action: HTTPGetAction, pod: Pod, container: Container | EphemeralContainer, timeout: float
) -> Answer:
    """An answer from 200 to 399; redirects on the same host are followed.

    Raises ``HandlerFailure``.
    """
    path = action.path or "/"
    target = Target(
        (action.scheme or "HTTP").lower(),
        action.host or pod.status.pod_ip,
        port_number(action.port, container),
        path if path.startswith("/") else f"/{path}",
    )
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    headers |= {each.name: each.value for each in action.http_headers}
    try:
        async with asyncio.timeout(timeout):
            for _ in range(_REDIRECTS):
                answer = await _exchange(dialer, target, headers)
                following = _redirect(target, answer)
                if following is None:
                    break
                target = following
            else:
                raise HandlerFailure(f'Get "{_url(target)}": stopped after {_REDIRECTS} redirects')
    except TimeoutError as error:
        text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        raise HandlerFailure(f'Get "{_url(target)}": {text}') from error
    if not 200 <= answer.status < 400:
        raise HandlerFailure(f"HTTP probe failed with statuscode: {answer.status}")
    return answer


def response_text(answer: Answer) -> str:
    """The body of an answer as text, as far as it can be decoded."""
    return answer.body[:_OUTPUT_LIMIT].decode(errors="replace")


def _redirect(target: Target, answer: Answer) -> Target | None:
    if not 300 <= answer.status < 400:
        return None
    place = next((value for name, value in answer.headers if name.lower() == "location"), "")
    if not place:
        return None
    parts = urlsplit(urljoin(_url(target), place))
    if parts.hostname != target.host:
        return None  # a redirect elsewhere is taken for an answer
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = parts.path or "/"
    return Target(parts.scheme, target.host, port, f"{path}?{parts.query}" if parts.query else path)


async def _exchange(dialer: Dialer, target: Target, headers: dict[str, str]) -> Answer:
    loop = asyncio.get_running_loop()
    context = None
    if target.scheme == "https":
        context = ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # as a kubelet: whose certificate it is does not matter
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        _, connection = await loop.create_connection(
            lambda: ClientConnection(loop, lambda _: None, max_answer=1 << 20),
            sock=await dialer.connected(target.host, target.port),
            ssl=context,
            server_hostname=target.host if context is not None else None,
        )
    except OSError as error:
        place = f"{target.host}:{target.port}"
        raise HandlerFailure(f'Get "{_url(target)}": dial tcp {place}: connect: {_words(error)}') from error
    fields = {"Host": f"{target.host}:{target.port}"} | headers
    lines = [f"GET {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    try:
        return await connection.exchange(("\r\n".join(lines) + "\r\n\r\n").encode(), None)
    except TransportError as error:
        raise HandlerFailure(f'Get "{_url(target)}": {error}') from error
    finally:
        connection.abort()


def _url(target: Target) -> str:
    return f"{target.scheme}://{target.host}:{target.port}{target.path}"


def _words(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
