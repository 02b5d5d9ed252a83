"""IPAM: the free-space index, the cost of an event, and claims bound per second.

    python -m benchmarks ipam [--only index|event|claims] [--members N...] [--claims N] [--fits N] [--real]

`index`: allocations and releases of /28 blocks in a /8, a million of them, and the memory of an index
that is as fragmented as it can be. `event`: from a watch event to the status patch, at growing numbers of
members, drawn. `claims`: many claims at once by 50 clients on a pool that does not fit them all, then
space returned a little at a time; the operator runs in this process, the API server and the clients in
processes of their own. With `--real` the same on kube-apiserver and etcd.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import uvloop
from tests.harness.ipam.measure import Setting
from tests.harness.ipam.operator import IpamThread
from tests.harness.server import start_embedded

from quarterdeck.api import ObjectMeta
from quarterdeck.client import Client, Config
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.operators.ipam.logic.freespace import FreeSpace
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.types import (
    Subnet,
    SubnetClaim,
    SubnetClaimSpec,
    SubnetPool,
    SubnetPoolSpec,
    SubnetSpec,
    definitions,
)
from quarterdeck.runtime.operator.install import create_namespace, install_definitions

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from kube.server import RealServer, is_built

BLOCKS = 1_000_000
CLIENTS = 50
NAMESPACE = "ipam-bench"
FILLERS = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Blocks of /28 that one Subnet can take away, from a /16 down to a /28."""


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


@contextmanager
def embedded() -> Iterator[tuple[str, Path]]:
    server = start_embedded()
    try:
        yield "embedded server", server.kubeconfig
    finally:
        server.stop()


@contextmanager
def real() -> Iterator[tuple[str, Path]]:
    with RealServer() as server:
        yield "kube-apiserver + etcd", server.kubeconfig


def bench_claims(on: Any, claims: int, fits: int) -> bool:
    """Claims by 50 clients at once; then 100 blocks come back."""
    with on() as (name, kubeconfig):
        print(f"\nclaims on the {name}: {claims:,} by {CLIENTS} clients, waiting for {fits:,}")
        asyncio.run(_prepare(kubeconfig, fits))
        operator = IpamThread(kubeconfig, [NAMESPACE])
        try:
            return _race(operator, kubeconfig, claims, fits)
        finally:
            operator.stop()


def _race(operator: IpamThread, kubeconfig: Path, claims: int, fits: int) -> bool:
    started = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.ipam", "--load", str(kubeconfig), "--claims", str(claims)]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while _samples(operator, "plexaubnet_claim_phase", phase="Bound") < min(claims, fits):
        time.sleep(0.05)
    bound_after = time.monotonic() - started
    created_after = float(load.communicate()[0])
    operator.settle(600.0)
    settled_after = time.monotonic() - started
    print(f"  created in {created_after:6.1f} s  {claims / created_after:7,.0f} claims/s")
    print(f"  bound in   {bound_after:6.1f} s  {min(claims, fits) / bound_after:7,.0f} claims/s end to end")
    print(f"  all quiet after {settled_after:.1f} s, half a second of quiet included")
    good = _check(asyncio.run(_state(kubeconfig)), claims, fits)
    waiting = claims - fits
    returned = min(100, waiting)
    if returned > 0:
        looks = _samples(operator, "controller_runtime_reconcile_total", controller="subnetclaim")
        started = time.monotonic()
        asyncio.run(_release(kubeconfig, returned))
        operator.settle(600.0)
        looks = _samples(operator, "controller_runtime_reconcile_total", controller="subnetclaim") - looks
        print(
            f"  {returned} released before {waiting:,} that wait: {looks:.0f} reconciles of claims,"
            f" settled in {time.monotonic() - started:.1f} s"
        )
        good = (
            _check(asyncio.run(_state(kubeconfig)), claims - returned, fits) and looks < 6 * returned and good
        )
    return good


def _samples(operator: IpamThread, name: str, **labels: str) -> float:
    return sum(
        value
        for each, have, value in operator.samples()
        if each == name and all(have.get(key) == wanted for key, wanted in labels.items())
    )


async def _prepare(kubeconfig: Path, fits: int) -> None:
    async with Client.connect(Config.load(kubeconfig)) as client:
        await install_definitions(client, *definitions())
        await create_namespace(client, NAMESPACE)
        size = (fits - 1).bit_length()
        pool = parse(f"10.0.0.0/{28 - size}")
        await client.create(SubnetPool(metadata=_meta("p"), spec=SubnetPoolSpec(cidr=str(pool))))
        surplus, address = (1 << size) - fits, pool.last + 1
        for count in FILLERS:
            if surplus >= count:
                surplus -= count
                address -= count << 4
                block = Network(address, 28 - count.bit_length() + 1, 32)
                spec = SubnetSpec(pool_ref="p", cidr=str(block), cluster_id=f"filler-{count}")
                await client.create(Subnet(metadata=_meta(f"filler-{count}"), spec=spec))
        assert not surplus


def _meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=NAMESPACE)


async def _load(kubeconfig: Path, claims: int) -> None:
    """What the clients do, in a process of its own; prints the seconds it took."""
    async with Client.connect(Config.load(kubeconfig)) as client:
        numbers = iter(range(claims))

        async def work() -> None:
            for number in numbers:
                spec = SubnetClaimSpec(pool_ref="p", cluster_id=f"c{number}", block_size=28)
                await client.create(SubnetClaim(metadata=_meta(f"c{number}"), spec=spec))

        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work())
        print(time.monotonic() - started)


async def _state(kubeconfig: Path) -> tuple[list[SubnetClaim], list[Subnet], SubnetPool]:
    async with Client.connect(Config.load(kubeconfig)) as client:
        claims = [
            each async for page in client.pages(SubnetClaim, namespace=NAMESPACE, limit=1000) for each in page
        ]
        subnets = [
            each async for page in client.pages(Subnet, namespace=NAMESPACE, limit=1000) for each in page
        ]
        return claims, subnets, await client.get(SubnetPool, "p", NAMESPACE)


async def _release(kubeconfig: Path, count: int) -> None:
    """Delete claims and their Subnets: kube-apiserver alone collects no garbage."""
    claims, subnets, _ = await _state(kubeconfig)
    by_cluster = {each.spec.cluster_id: each for each in subnets if each.spec}
    async with Client.connect(Config.load(kubeconfig)) as client:
        bound = [each for each in claims if each.status.phase == "Bound"][:count]
        for each in bound:
            await client.delete(each)
        await asyncio.sleep(1.0)
        for each in bound:
            assert each.spec
            subnet = by_cluster[each.spec.cluster_id]
            with suppress(NotFound, Conflict):  # where there is a garbage collector, it was faster
                await client.delete(subnet, uid=subnet.metadata.uid)


def _check(state: tuple[list[SubnetClaim], list[Subnet], SubnetPool], claims: int, fits: int) -> bool:
    """Exactly as many as fit are bound, nothing overlaps, the others say why."""
    made, subnets, pool = state
    bound = [each for each in made if each.status.phase == "Bound"]
    waiting = [each for each in made if each.status.phase == "Error"]
    blocks = sorted(parse(each.spec.cidr) for each in subnets if each.spec)
    overlaps = sum(one.last >= other.address for one, other in pairwise(blocks))
    words = {each.status.message for each in waiting}
    good = (
        len(made) == claims
        and len(bound) == min(claims, fits)
        and len(waiting) == claims - len(bound)
        and not overlaps
        and len({each.status.allocated_cidr for each in bound}) == len(bound)
        and len(words) <= 1
        and pool.status.allocated_count == len(subnets)
    )
    print(
        f"  {len(bound):,} bound, {len(waiting):,} waiting, {overlaps} overlaps   {'ok' if good else 'WRONG'}"
    )
    for text in sorted(words)[:3]:
        print(f"    “{text}”")
    return good


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
        uvloop.run(_load(options.load, options.claims))
        return 0
    logging.getLogger("quarterdeck").addHandler(logging.NullHandler())
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
