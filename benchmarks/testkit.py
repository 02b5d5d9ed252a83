"""A cluster for a test: how long it takes to have one, and to have a controller on it.

    python -m benchmarks testkit [--quick]

What Go projects use for the same purpose is envtest: etcd and kube-apiserver as processes, with 20 s allowed
for their start and as much for their stop. There is no peer in this run; the figures are milliseconds of wall
time and of CPU per test, median of many.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.runtime import Context
from quarterdeck.testing import TestCluster, run, run_until_idle


async def empty() -> None:
    """Start, answer one request, stop."""
    async with TestCluster() as cluster:
        await cluster.client.raw("GET", "/readyz")


async def controlled() -> None:
    """The same with a manager, one controller and ten objects, each reconciled."""
    seen: set[str] = set()

    async def reconcile(ctx: Context[ConfigMap]) -> None:
        seen.add(ctx.key.name)

    async with TestCluster() as cluster:
        manager = cluster.manager()
        manager.add(manager.controller(ConfigMap).build(reconcile))
        async with cluster.serving(manager):
            for number in range(10):
                metadata = ObjectMeta(name=f"c{number}", namespace="default")
                await cluster.client.create(ConfigMap(metadata=metadata))
            await run_until_idle(manager)
    assert len(seen) >= 10


async def an_hour() -> None:
    """A cluster whose controllers work for an hour of virtual time."""
    async with TestCluster(controllers=True) as cluster:
        await cluster.clock.sleep(3600)


def measure(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU for one run; the median of ``count``."""
    run(work())  # imports and caches are not what is measured
    walls, processors = [], []
    for _ in range(count):
        wall, processor = time.perf_counter(), time.process_time()
        run(work())
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return statistics.median(walls) * 1000, statistics.median(processors) * 1000


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks testkit", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    count = 10 if options.quick else 60
    print("\n## a cluster for a test")
    for name, work in (
        ("cluster, started and stopped", empty),
        ("… with a controller and ten objects", controlled),
        ("… with the cluster's controllers, for a virtual hour", an_hour),
    ):
        wall, processor = measure(work, count if work is not an_hour else max(count // 6, 3))
        print(f"{name:<54} {wall:>8.1f} ms wall {processor:>8.1f} ms CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
