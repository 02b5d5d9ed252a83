"""`quarterdeck up` on a data directory that holds a million Subnets.

    python -m benchmarks ipam_million [--subnets N] [--pools N] [--directory DIR]

A cluster makes one Subnet through the API and is stopped. Copies of what it stored, with names, ranges and
identities of their own, are put straight into the log; then the cluster starts on it again. Printed are the
seconds until its ready line, the memory of the server and of the process that runs controllers and operator,
and how long the first claim takes until it is bound.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.api import ObjectMeta
from quarterdeck.apiserver.storage import encode_value
from quarterdeck.apiserver.storage.log import Durability, Log
from quarterdeck.apiserver.storage.row import PUT, Row
from quarterdeck.client import Client, Config
from quarterdeck.operators.ipam.logic.naming import subnet_name
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.types import (
    Subnet,
    SubnetClaim,
    SubnetClaimSpec,
    SubnetPool,
    SubnetPoolSpec,
    SubnetSpec,
)

from . import wire

READY_AIM, BOUND_AIM = 90.0, 1.0
START_LIMIT = 1800.0
MODEL = "pool-00000"
BATCH = 20_000


class Cluster:
    """`quarterdeck up` with the IPAM operator alone, as a process."""

    def __init__(self, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        command = [sys.executable, "-m", "quarterdeck.cli", "up", "--operators", "ipam", "--port", "0"]
        command += ["--data-dir", str(directory / "data"), "--kubeconfig", str(self.kubeconfig)]
        started = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready"):
            raise RuntimeError("the cluster did not start")
        self.ready_after = time.monotonic() - started

    def cost(self) -> str:
        """Seconds of CPU and resident memory of the server, and of the process of its controllers."""
        [child] = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return f"server {_cost(self._process.pid)}, controllers {_cost(int(child))}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def _cost(pid: int) -> str:
    return f"{wire.cpu_seconds([pid]):.1f} s CPU {wire.resident_bytes([pid]) / 1e6:,.0f} MB"


@contextmanager
def running(directory: Path) -> Iterator[Cluster]:
    cluster = Cluster(directory)
    try:
        yield cluster
    finally:
        cluster.stop()


def _pool_name(number: int) -> str:
    return f"pool-{number:05}"


def _pool_range(number: int) -> Network:
    return (
        parse(f"10.{number >> 4 & 255}.{(number & 15) << 4}.0/20") if number < 4096 else parse("10.0.0.0/8")
    )


async def _make_models(kubeconfig: Path) -> None:
    """One pool with one Subnet; returns when the operator has looked at both."""
    async with Client.connect(Config.load(kubeconfig)) as client:
        meta = ObjectMeta(name=MODEL, namespace="default")
        await client.create(SubnetPool(metadata=meta, spec=SubnetPoolSpec(cidr=str(_pool_range(0)))))
        block = Network(_pool_range(0).address, 30, 32)
        spec = SubnetSpec(pool_ref=MODEL, cidr=str(block), cluster_id="cluster-0000000")
        meta = ObjectMeta(name=subnet_name(MODEL, block), namespace="default")
        await client.create(Subnet(metadata=meta, spec=spec))
        async with asyncio.timeout(60):
            while True:
                pool = await client.get(SubnetPool, MODEL, "default")
                subnet = await client.get(Subnet, meta.name, "default")
                if pool.status.allocated_count == 1 and subnet.status.phase == "Allocated":
                    return
                await asyncio.sleep(0.05)


def _models(directory: Path) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """Keys and values of the stored pool and its Subnet."""
    with sqlite3.connect(directory / "data" / "state.db") as database:
        found = [
            database.execute(
                "SELECT key, value FROM log WHERE key LIKE ? ORDER BY rev DESC LIMIT 1",
                (f"%/{kind}/default/%",),
            ).fetchone()
            for kind in ("subnetpools", "subnets")
        ]
    database.close()
    pool, subnet = ((key, msgspec.json.decode(b"{" + value)) for key, value in found)
    return pool, subnet


def fill(directory: Path, pools: int, subnets: int) -> None:
    """Copies of the models, straight into the log."""
    (pool_key, pool), (subnet_key, subnet) = _models(directory)
    log = Log(directory / "data", Durability.NORMAL)
    rows: list[Row] = []

    def put(key: str, name: str, value: Any) -> None:
        value["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
        rev = log.last_rev + len(rows) + 1
        rows.append(
            Row(
                rev, f"{key.rpartition('/')[0]}/{name}", PUT, rev, 0, encode_value(value, value["apiVersion"])
            )
        )
        if len(rows) == BATCH:
            log.append(rows)
            rows.clear()

    pool["status"] = {}
    for number in range(1, pools):
        pool["spec"]["cidr"] = str(_pool_range(number))
        put(pool_key, _pool_name(number), pool)
    share = subnets // pools
    for number in range(pools):
        name, base = _pool_name(number), _pool_range(number).address
        for index in range(1 if number == 0 else 0, share):
            block = Network(base + (index << 2), 30, 32)
            subnet["spec"] |= {
                "poolRef": name,
                "cidr": str(block),
                "clusterID": f"cluster-{number * share + index:07}",
            }
            put(subnet_key, subnet_name(name, block), subnet)
    if rows:
        log.append(rows)
    log.close()


async def _claim(kubeconfig: Path) -> float:
    """Seconds from the creation of a claim until it is bound."""
    async with Client.connect(Config.load(kubeconfig)) as client:
        name = f"first-{uuid.uuid4().hex[:8]}"
        started = time.monotonic()
        spec = SubnetClaimSpec(pool_ref=MODEL, cluster_id=name, block_size=28)
        await client.create(SubnetClaim(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        async with asyncio.timeout(600):
            while True:
                claim = await client.get(SubnetClaim, name, "default")
                if claim.status.phase == "Bound":
                    return time.monotonic() - started
                await asyncio.sleep(0.01)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks ipam_million", description=__doc__)
    parser.add_argument("--subnets", type=int, default=1_000_000)
    parser.add_argument("--pools", type=int, default=1_000)
    parser.add_argument("--directory", type=Path, help="keep the data here, and use what is there")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="quarterdeck-million-") as name:
        directory = options.directory or Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        print(f"\n## up with {options.subnets:,} Subnets in {options.pools:,} pools")
        if not (directory / "data").exists():
            with running(directory) as cluster:
                asyncio.run(_make_models(cluster.kubeconfig))
            fill(directory, options.pools, options.subnets)
        with running(directory) as cluster:
            verdict = "ok" if cluster.ready_after <= READY_AIM else "TOO SLOW"
            print(f"ready        {cluster.ready_after:8.1f} s  (aim {READY_AIM:.0f})   {verdict}", flush=True)
            print(f"until then   {cluster.cost()}", flush=True)
            bound = asyncio.run(_claim(cluster.kubeconfig))
            verdict = "ok" if bound <= BOUND_AIM else "TOO SLOW"
            print(f"first claim  {bound:8.2f} s  (aim {BOUND_AIM:.0f})   {verdict}", flush=True)
            print(f"then         {cluster.cost()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
