"""IPAM: the free-space index, the cost of an event, and claims bound per second.

    python -m benchmarks ipam [--only index|event|claims] [--members N...] [--claims N] [--fits N] [--real]

`index`: allocations and releases of /28 blocks in a /8, a million of them, and the memory of an index
that is as fragmented as it can be. `event`: from a watch event to the status patch, at growing numbers of
members, drawn. `claims`: many claims at once by 50 clients on a pool that does not fit them all, then
space returned a little at a time, see `ipam_claims`. With `--real` the same on kube-apiserver and etcd.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import uvloop
from tests.harness.ipam.measure import Setting

from benchmarks.ipam_claims import bench_claims, embedded, load, real
from quarterdeck.operators.ipam.logic.freespace import FreeSpace
from quarterdeck.operators.ipam.logic.network import Network, parse

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from kube.server import is_built

BLOCKS = 1_000_000


def bench_index() -> bool:
    """Times per operation at a million blocks; memory where it is worst."""
    print(f"free-space index, {BLOCKS:,} blocks of /28 in 10.0.0.0/8")
    good = True
    for strategy in ("Linear", "Buddy"):
        space, blocks = FreeSpace(parse("10.0.0.0/8")), list[Network]()
        choose: Callable[[int], Network | None] = space.lowest if strategy == "Linear" else space.best_fit
        started = time.perf_counter()
        for _ in range(BLOCKS):
            block = choose(28)
            assert block is not None
            space.carve(block)
            blocks.append(block)
        allocate = (time.perf_counter() - started) / BLOCKS * 1e6
        random.Random(1).shuffle(blocks)
        started = time.perf_counter()
        for block in blocks:
            space.release(block)
        release = (time.perf_counter() - started) / BLOCKS * 1e6
        assert space.is_untouched
        verdict = "ok" if allocate <= 10 and release <= 5 else "TOO SLOW"
        good = good and verdict == "ok"
        print(
            f"  {strategy:7} allocate {allocate:5.2f} µs (≤ 10)   release {release:5.2f} µs (≤ 5)   {verdict}"
        )
    return _bench_memory() and good


def _bench_memory() -> bool:
    """Every second block taken: no two free ones can be merged."""
    pool = parse("10.0.0.0/8")
    gc.collect()
    tracemalloc.start()
    space = FreeSpace(pool)
    for index in range(0, 1 << 20, 2):
        space.carve(Network(pool.address + (index << 4), 28, 32))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    free = sum(space.counts())
    per_block = used / free
    verdict = "ok" if per_block <= 100 else "TOO MUCH"
    print(f"  memory  {per_block:5.1f} bytes per free block (≤ 100), {free:,} of them   {verdict}")
    return per_block <= 100


def bench_event(members: list[int]) -> bool:
    """Median CPU from event to patch, at each number of members; flat is what it should be."""
    print("\ncost of an event: watch event in, status patch out (median CPU)")
    times = {count: Setting(count, size=28).measure(4000) * 1e6 for count in members}
    longest = max(times.values())
    for count, value in times.items():
        print(f"  {count:>9,} members  {value:6.1f} µs  {'█' * round(value / longest * 40)}")
    ratio = times[members[-1]] / times[members[0]]
    verdict = "ok" if ratio <= 1.2 else "NOT FLAT"
    print(f"  {members[-1]:,} members cost {ratio:.2f}× what {members[0]:,} do (≤ 1.2)   {verdict}")
    return ratio <= 1.2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks ipam", description=__doc__)
    parser.add_argument("--only", choices=("index", "event", "claims"))
    parser.add_argument("--members", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--claims", type=int, default=10_000)
    parser.add_argument("--fits", type=int, default=9_000)
    parser.add_argument("--real", action="store_true", help="claims on kube-apiserver as well")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.load is not None:
        uvloop.run(load(options.load, options.claims, options.fits))
        return 0
    good = True
    if options.only in (None, "index"):
        good = bench_index() and good
    if options.only in (None, "event"):
        good = bench_event(options.members) and good
    if options.only in (None, "claims"):
        good = bench_claims(embedded, options.claims, options.fits) and good
        if options.real and is_built():
            good = bench_claims(real, options.claims, options.fits) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
