"""The work queue: add/get/done cycles per second of CPU, with and without metrics.

    python -m benchmarks queue [--quick] [--cycles N] [--rounds N]

One cycle is a key added, taken and given back. Keys are those of objects. *drained* adds a thousand keys and
then takes them all, as after a list; *one by one* takes each key before the next is added, as in a quiet
cluster. The best of several rounds counts: the queue does the same every time, the rest is the machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from quarterdeck.api import Key
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.queue.workqueue import WorkQueue

BATCH = 1000


async def drained(queue: WorkQueue[Key], keys: list[Key]) -> None:
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        for key in batch:
            queue.add(key)
        for _ in batch:
            queue.done(await queue.get())


async def one_by_one(queue: WorkQueue[Key], keys: list[Key]) -> None:
    for key in keys:
        queue.add(key)
        queue.done(await queue.get())


async def cycles_per_second(
    work: Callable[[WorkQueue[Key], list[Key]], Awaitable[None]], cycles: int, rounds: int, *, measured: bool
) -> float:
    keys = [Key("namespace", f"name-{number}") for number in range(cycles)]
    best = 0.0
    for _ in range(rounds):
        metrics = RuntimeMetrics().queue("bench") if measured else None
        queue: WorkQueue[Key] = WorkQueue(metrics=metrics)
        start = time.process_time()
        await work(queue, keys)
        best = max(best, cycles / (time.process_time() - start))
    return best


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks queue", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--cycles", type=int, default=0, help="cycles per round (200,000)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    cycles = options.cycles or (20_000 if options.quick else 200_000)
    print("\n## work queue, cycles per core-second")
    for measured, aim in ((False, 200_000), (True, 100_000)):
        for name, work in (("drained", drained), ("one by one", one_by_one)):
            rate = uvloop.run(cycles_per_second(work, cycles, options.rounds, measured=measured))
            what = f"{name}, {'with' if measured else 'without'} metrics"
            print(f"{what:28}{rate:>10,.0f}  {rate / aim:.1f}x (aim {aim:,})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
