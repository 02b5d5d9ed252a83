"""What watches cost that nobody reads: memory of the server with 300 of them and 80 writes of 200 kB.

    python -m benchmarks unread [--watches 300] [--writes 80] [--quick]

Every watch is a TLS connection whose client reads the head of the answer and then nothing more. One more
watch is read, and must see every write. Afterwards all are closed, and the memory is looked at once more.
Without the real server (`make kube` builds it) only our figures are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

from . import wire
from .apiserver import Embedded, Real, Server
from .contestant import has_real_server

_PATH = "/api/v1/namespaces/default/configmaps"
_SIZE = 200_000
_SETTLE = 3.0
_MEGA = 1_000_000


def _watch(target: wire.Target, query: str = "") -> ssl.SSLSocket:
    """A watch of which nobody will read anything."""
    raw = socket.create_connection((target.host, target.port))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    stream = target.context.wrap_socket(raw, server_hostname=target.host)
    stream.sendall(wire.render("GET", f"{_PATH}?watch=1{query}"))
    head = stream.recv(4096)
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise wire.RequestError(head.decode(errors="replace"))
    return stream


def _writes(count: int) -> Iterator[bytes]:
    for number in range(count):
        document = {"metadata": {"name": f"big-{number}"}, "data": {"text": f"{number:04}" * (_SIZE // 4)}}
        yield wire.render("POST", _PATH, json.dumps(document).encode())


def _resident(server: Server) -> float:
    return wire.resident_bytes(list(server.pids)) / _MEGA


async def measure(name: str, server: Server, watches: int, writes: int) -> None:
    seen, everything = 0, asyncio.Event()

    def on_line(line: bytes) -> None:
        nonlocal seen
        seen += b'"big-' in line[:4096]
        if seen == writes:
            everything.set()

    before = _resident(server)
    request = wire.render("GET", f"{_PATH}?watch=1")
    reading, _ = await asyncio.get_running_loop().create_connection(
        lambda: wire.Lines(request, on_line),
        server.target.host,
        server.target.port,
        ssl=server.target.context,
    )
    with ExitStack() as streams:
        for _ in range(watches):
            streams.enter_context(_watch(server.target))
            await asyncio.sleep(0)
        opened = _resident(server)
        began = time.monotonic()
        await wire.load(server.target, _writes(writes), 4)
        took = time.monotonic() - began
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await everything.wait()
        await asyncio.sleep(_SETTLE)
        full = _resident(server)
    reading.close()
    await asyncio.sleep(_SETTLE)
    print(
        f"  {name:15} {before:6.0f} MB, {opened:6.0f} with the watches, {full:6.0f} after {writes} writes "
        f"({took:.1f} s), {_resident(server):6.0f} after their end; who reads saw {seen} of them",
        flush=True,
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks unread", description=__doc__)
    parser.add_argument("--watches", type=int, default=300)
    parser.add_argument("--writes", type=int, default=80)
    parser.add_argument("--quick", action="store_true", help="a tenth of the watches, for a look")
    options = parser.parse_args(argv)
    watches = options.watches // 10 if options.quick else options.watches
    print(f"{watches} watches that nobody reads, {options.writes} writes of {_SIZE // 1000} kB")
    contestants: list[tuple[str, Any]] = [("quarterdeck", Embedded("memory"))]
    if has_real_server():
        contestants.append(("kube-apiserver", Real(fsync=False)))
    for name, contestant in contestants:
        with contestant as server:
            asyncio.run(measure(name, server, watches, options.writes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
