"""How long do reconciles that wait for nothing hold the event loop?

    python -m benchmarks turns [--objects N]

A controller whose reconcile reads its object and writes nothing goes through N ConfigMaps with four workers.
Beside it, a task looks every millisecond how much work of this thread lay between two of its turns. It prints
the longest such stretch (median of three runs), and the same for the peer: the same reconciles in four plain
coroutines that give way after each time slice of five milliseconds on their own, as asyncio's documentation
suggests (``await asyncio.sleep(0)``).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime import Context
from quarterdeck.testing import TestCluster

WORKERS = 4
LIMIT = 20.0
"""Milliseconds."""


async def longest_turn(count: Callable[[], int], until: int) -> float:
    """Milliseconds of work between two turns of ours, of those in which something was counted."""
    worst, last, before = 0.0, time.thread_time(), count()
    while count() < until:
        await asyncio.sleep(0.001)
        now = time.thread_time()
        if count() > before:
            worst = max(worst, now - last)
        last, before = now, count()
    return worst * 1000


async def of_controller(cluster: TestCluster, objects: int) -> float:
    ran = 0

    async def reconcile(ctx: Context[ConfigMap]) -> None:
        nonlocal ran
        ran += 1
        ctx.obj.data.get("x")

    manager = cluster.manager()
    builder = manager.controller(ConfigMap).options(max_concurrent_reconciles=WORKERS)
    manager.add(builder.build(reconcile))
    async with cluster.serving(manager):
        return await longest_turn(lambda: ran, objects)


async def of_coroutines(objects: int) -> float:
    """Four coroutines with work of about 20 µs a piece, each giving way after its own slice."""
    ran = 0

    async def work() -> None:
        nonlocal ran
        end = time.perf_counter() + 0.005
        for _ in range(objects // WORKERS):
            sum(range(800))
            ran += 1
            if time.perf_counter() > end:
                await asyncio.sleep(0)
                end = time.perf_counter() + 0.005

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())
        return await longest_turn(lambda: ran, objects // WORKERS * WORKERS)


async def thrice(measure: Callable[[], Awaitable[float]]) -> float:
    return median([await measure() for _ in range(3)])


async def compare(objects: int) -> None:
    async with TestCluster() as cluster:
        for i in range(objects):
            await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=f"c{i}", namespace="default")))
        ours = await thrice(lambda: of_controller(cluster, objects))
    peer = await thrice(lambda: of_coroutines(objects))
    print(f"{objects:,} reconciles that write nothing, {WORKERS} workers")
    print(f"longest stretch: ours {ours:.1f} ms (limit {LIMIT:g}), plain coroutines {peer:.1f} ms")
    print(f"ours / plain coroutines: {ours / peer:.2f}x")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks turns", description=__doc__)
    parser.add_argument("--objects", type=int, default=2000, help="how many ConfigMaps (2,000)")
    asyncio.run(compare(parser.parse_args(arguments).objects))
    return 0
