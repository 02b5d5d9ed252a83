"""Claims bound per second, end to end: server, operator and clients in processes of their own.

Fifty clients make many claims at once on a pool that does not fit them all, and watch until what fits is
bound; then space is returned a little at a time. On the embedded server all is one `quarterdeck up`; on
kube-apiserver and etcd the operator is `quarterdeck run`. Beside the clock stands the CPU time of a claim
in each process: on a machine that others use, that is what can be compared.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.harness.ipam.operator import parse_samples
from tests.harness.server import start_embedded
from tests.harness.wire import load_kubeconfig

from benchmarks.wire import cpu_seconds
from quarterdeck.api import ObjectMeta, Resource
from quarterdeck.api.k8s.core import Event
from quarterdeck.client import Client, Config
from quarterdeck.errors import Conflict, NotFound
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
from kube.server import RealServer

CLIENTS = 50
NAMESPACE = "ipam-bench"
FILLERS = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Blocks of /28 that one Subnet can take away, from a /16 down to a /28."""
WRITTEN = (SubnetClaim, Subnet, SubnetPool, Event)
WRITES = ("POST", "PUT", "PATCH", "APPLY")
QUIET = 0.5
LIMIT = 600.0


class Running(NamedTuple):
    """A server and the operator on it."""

    name: str
    kubeconfig: Path
    server: list[int]
    """Processes of the server."""
    operator: int
    """The process that the operator runs in."""
    metrics: Callable[[], str]
    """The operator's metrics."""

    def requests(self) -> Counter[str]:
        """Writes of clients and operator that the server has answered so far, by verb and resource."""
        found: Counter[str] = Counter()
        for name, labels, value in parse_samples(_metrics_of(self.kubeconfig)):
            if name == "apiserver_request_total" and labels["verb"] in WRITES:
                place = filter(None, (labels["resource"], labels["subresource"]))
                found[f"{labels['verb']} {'/'.join(place)}"] += value
        return found

    def looks(self) -> float:
        """Reconciles of claims so far."""
        return sum(
            value
            for name, labels, value in parse_samples(self.metrics())
            if name == "controller_runtime_reconcile_total" and labels["controller"] == "subnetclaim"
        )


@contextmanager
def embedded(fits: int) -> Iterator[Running]:
    server = start_embedded("ipam")
    try:
        [child] = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        asyncio.run(_prepare(server.kubeconfig, fits))
        metrics = partial(_metrics_of, server.kubeconfig)
        yield Running("embedded server", server.kubeconfig, [server.pid], int(child), metrics)
    finally:
        server.stop()


@contextmanager
def real(fits: int) -> Iterator[Running]:
    with RealServer() as server:
        asyncio.run(_prepare(server.kubeconfig, fits))
        operator = Operator(server.kubeconfig)
        try:
            yield Running(
                "kube-apiserver + etcd",
                server.kubeconfig,
                list(server.pids.values()),
                operator.pid,
                operator.metrics,
            )
        finally:
            operator.stop()


class Operator:
    """`quarterdeck run --operators ipam` as a process."""

    def __init__(self, kubeconfig: Path) -> None:
        metrics, health, hook = (f"127.0.0.1:{_free_port()}" for _ in range(3))
        command = [sys.executable, "-m", "quarterdeck.cli", "run", "--operators", "ipam", "--install"]
        command += ["--kubeconfig", str(kubeconfig), "--no-leader-election", "--log-level", "WARNING"]
        command += ["--metrics-address", metrics, "--health-address", health, "--webhook-host", "127.0.0.1"]
        command += ["--webhook-port", hook.rpartition(":")[2], "--webhook-url", f"https://{hook}"]
        self._process = subprocess.Popen(command)
        self.pid = self._process.pid
        self._metrics = f"http://{metrics}/metrics"
        deadline = time.monotonic() + LIMIT
        while not self._answers(f"http://{health}/readyz"):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.stop()
                raise RuntimeError("the operator did not start")
            time.sleep(0.1)

    def _answers(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(url) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def metrics(self) -> str:
        with urllib.request.urlopen(self._metrics) as answer:
            return str(answer.read(), "utf-8")


def _metrics_of(kubeconfig: Path) -> str:
    """Those that `up` serves, of its controllers as well."""
    connection = load_kubeconfig(kubeconfig).connect(timeout=60.0)
    try:
        return connection.request("GET", "/metrics").body.decode()
    finally:
        connection.close()


async def _settle(kubeconfig: Path) -> None:
    """Wait until nobody has written anything for a while."""
    async with Client.connect(Config.load(kubeconfig)) as client:
        seen, since, deadline = "", time.monotonic(), time.monotonic() + LIMIT
        while time.monotonic() - since < QUIET and time.monotonic() < deadline:
            now = " ".join(
                [await _revision(client, kind) for kind in (SubnetClaim, Subnet, SubnetPool, Event)]
            )
            if now != seen:
                seen, since = now, time.monotonic()
            await asyncio.sleep(0.05)


async def _revision(client: Client, kind: type[Resource]) -> str:
    """Changes with each write of a kind (or of any)."""
    return (await client.list(kind, namespace=NAMESPACE, limit=1)).metadata.resource_version


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bench_claims(on: Callable[[int], AbstractContextManager[Running]], claims: int, fits: int) -> bool:
    """Claims by 50 clients at once; then 100 blocks come back."""
    with on(fits) as running:
        print(f"\nclaims on the {running.name}: {claims:,} by {CLIENTS} clients, waiting for {fits:,}")
        good = _race(running, claims, fits)
        return _return_space(running, claims, fits) and good


def _race(running: Running, claims: int, fits: int) -> bool:
    bound, kubeconfig = min(claims, fits), running.kubeconfig
    command = [sys.executable, "-m", "benchmarks.ipam", "--load", str(kubeconfig)]
    command += ["--claims", str(claims), "--fits", str(fits)]
    parts = {"server": running.server, "operator": [running.operator]}
    before, requests = {name: cpu_seconds(pids) for name, pids in parts.items()}, running.requests()
    load = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    spent = {name: cpu_seconds(pids) - before[name] for name, pids in parts.items()}
    requests = running.requests() - requests
    created_after, bound_after, spent["clients"] = map(float, load.stdout.split())
    started = time.monotonic()
    asyncio.run(_settle(kubeconfig))
    in_all = sum(cpu_seconds(pids) - before[name] for name, pids in parts.items()) + spent["clients"]
    print(f"  created in {created_after:6.1f} s  {claims / created_after:7,.0f} claims/s")
    print(f"  bound in   {bound_after:6.1f} s  {bound / bound_after:7,.0f} claims/s end to end")
    each = ", ".join(f"{name} {seconds / bound * 1e3:.2f}" for name, seconds in spent.items())
    print(f"  CPU ms per claim until bound: {each}, together {sum(spent.values()) / bound * 1e3:.2f}")
    most = ", ".join(f"{what} {count / bound:.2f}" for what, count in requests.most_common(6) if count)
    if most:  # only kube-apiserver's metrics say that
        print(f"  writes per claim until bound: {most}")
    print(
        f"  phases, events and pool status {time.monotonic() - started:.1f} s later, half a second of quiet"
        f" included; CPU ms per claim in all: {in_all / bound * 1e3:.2f}"
    )
    return _check(asyncio.run(_state(kubeconfig)), claims, fits)


def _return_space(running: Running, claims: int, fits: int) -> bool:
    """As much as a hundred claims had, in front of all that wait: no stampede."""
    waiting = claims - fits
    returned = min(100, waiting)
    if returned <= 0:
        return True
    looks, started = running.looks(), time.monotonic()
    asyncio.run(_release(running.kubeconfig, returned))
    asyncio.run(_settle(running.kubeconfig))
    looks = running.looks() - looks
    print(
        f"  {returned} released before {waiting:,} that wait: {looks:.0f} reconciles of claims,"
        f" settled in {time.monotonic() - started:.1f} s"
    )
    good = _check(asyncio.run(_state(running.kubeconfig)), claims - returned, fits)
    return good and looks < 6 * returned


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


async def load(kubeconfig: Path, claims: int, fits: int) -> None:
    """What the clients do, in a process of its own.

    Prints the seconds until all claims were made, the seconds until all that fit were seen to be bound, and
    the CPU seconds of it.
    """
    async with Client.connect(Config.load(kubeconfig)) as client:
        numbers = iter(range(claims))
        bound = set[str]()

        async def work() -> None:
            for number in numbers:
                spec = SubnetClaimSpec(pool_ref="p", cluster_id=f"c{number}", block_size=28)
                await client.create(SubnetClaim(metadata=_meta(f"c{number}"), spec=spec))

        started, cpu = time.monotonic(), time.process_time()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work()) for _ in range(CLIENTS)]
            made = group.create_task(_seconds_until(workers))
            while len(bound) < min(
                claims, fits
            ):  # a server may end a watch; the next begins with all there is
                async with client.watch(SubnetClaim, namespace=NAMESPACE) as events:
                    async for event in events:
                        claim = event.object
                        if isinstance(claim, SubnetClaim) and claim.status.phase == "Bound":
                            bound.add(claim.metadata.name)
                        if len(bound) == min(claims, fits):
                            break
            seconds = time.monotonic() - started
        print(await made, seconds, time.process_time() - cpu)


async def _seconds_until(tasks: list[asyncio.Task[None]]) -> float:
    started = time.monotonic()
    await asyncio.wait(tasks)
    return time.monotonic() - started


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
