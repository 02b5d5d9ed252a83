"""Creates without a socket beside creates over TLS, with our own client on both.

    python -m benchmarks inprocess [--quick]

CPU of all processes involved counts: without a socket client and server share one process, over TLS they are
two. The peer is our own server over TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, Config, InProcessTransport

from . import wire
from .apiserver import Embedded

CONCURRENCY = 32


async def create_all(client: Client, count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            meta = ObjectMeta(name=f"bench-{number}", namespace="default")
            await client.create(ConfigMap(metadata=meta, data={"key": "value" * 20}))

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


async def _measured(work: Callable[[], Awaitable[None]], pids: list[int]) -> float:
    before = time.process_time() + wire.cpu_seconds(pids)
    await work()
    return time.process_time() + wire.cpu_seconds(pids) - before


async def in_process(count: int) -> float:
    server = ApiServer()
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    await create_all(client, 1)
    await client.delete(ConfigMap, "bench-0", "default")
    cpu = await _measured(lambda: create_all(client, count), [])
    await server.stop()
    return cpu


async def over_tls(count: int) -> float:
    with Embedded("memory") as server:
        async with Client.connect(Config.load(server.kubeconfig)) as client:
            await create_all(client, 1)
            await client.delete(ConfigMap, "bench-0", "default")
            return await _measured(lambda: create_all(client, count), server.pids)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks inprocess", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(argv)
    count = 1000 if options.quick else 6000
    local, remote = uvloop.run(in_process(count)), uvloop.run(over_tls(count))
    print("\n## without a socket")
    print(f"in process  {count / local:>10,.0f} creates per core-second")
    print(f"over TLS    {count / remote:>10,.0f} creates per core-second (client and server)")
    print(f"ratio       {remote / local:>10.1f}x (aim 3x)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
