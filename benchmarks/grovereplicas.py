"""Pods a second of sets of many gangs on `quarterdeck up`; part of `grove`."""

from __future__ import annotations

import asyncio
import json
import time
from typing import NamedTuple

import msgspec
import uvloop

from . import wire
from .cluster import cluster
from .groveset import many_gangs
from .responsiveness import probe

GOAL = 500
"""Pods a second."""
LONGEST = 50.0
"""Milliseconds that a small request may take, one in a hundred left out."""
PER_NODE = 110
PATIENCE = 1200
"""Seconds until all pods are ready."""
_SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
_PODS = "/api/v1/namespaces/default/pods?watch=1"


class _Race(NamedTuple):
    """Seconds until all gates are lifted, and until all pods are ready."""

    lifted: float
    ready: float


def bench_replicas(sizes: list[int], replicas: int | None) -> bool:
    """Sets of many gangs, against the goal, and the API's answers meanwhile."""
    print("\nsets of many gangs, on `quarterdeck up`")
    is_good = True
    for size in sizes:
        per_gang = size // replicas if replicas else 2 if size <= 1000 else 4
        is_good = _bench(size // per_gang, per_gang) and is_good
    return is_good


def _bench(replicas: int, per_gang: int) -> bool:
    count = replicas * per_gang
    with cluster(count // PER_NODE + 1, "grove") as made:
        races: list[_Race] = []

        async def run() -> list[float]:
            async def race() -> None:
                races.append(await _race(made.server, replicas, per_gang))

            return (await probe(made.server, made.pids[0], race())).by_clock

        before = made.cpu()
        delays = uvloop.run(run())
        cpu = made.cpu() - before
    [found] = races
    lifted, ready, p99 = count / found.lifted, count / found.ready, delays[int(len(delays) * 0.99)]
    is_good = min(lifted, ready) >= GOAL and p99 <= LONGEST
    print(
        f"  {count:>5,} pods of {replicas:,} gangs  gates lifted {lifted:6.0f}/s  ready {ready:6.0f}/s"
        f"  {cpu / count * 1e3:5.2f} ms CPU each  p99 of a request {p99:6.1f} ms"
        f"   {'ok' if is_good else f'BEHIND {GOAL}/s or {LONGEST:.0f} ms'}",
        flush=True,
    )
    return is_good


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[msgspec.Raw] = []


class _Metadata(msgspec.Struct):
    name: str


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Event(msgspec.Struct):
    object: _Pod


async def _race(server: wire.Target, replicas: int, per_gang: int) -> _Race:
    count, decode = replicas * per_gang, msgspec.json.Decoder(_Event).decode
    lifted: set[str] = set()
    ready: set[str] = set()
    lifted_at, ready_at = 0.0, asyncio.get_running_loop().create_future()

    def on_line(line: bytes) -> None:
        nonlocal lifted_at
        pod = decode(line).object
        if pod.spec.scheduling_gates:
            return
        lifted.add(pod.metadata.name)
        if len(lifted) == count and not lifted_at:
            lifted_at = time.perf_counter()
        if any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions):
            ready.add(pod.metadata.name)
            if len(ready) == count and not ready_at.done():
                ready_at.set_result(time.perf_counter())

    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: wire.Lines(wire.render("GET", _PODS), on_line), server.host, server.port, ssl=server.context
    )
    try:
        started = time.perf_counter()
        body = json.dumps(many_gangs(replicas, per_gang)).encode()
        await wire.load(server, iter([wire.render("POST", _SETS, body)]), 1)
        async with asyncio.timeout(PATIENCE):
            ended = await ready_at
        return _Race(lifted_at - started, ended - started)
    finally:
        transport.close()
