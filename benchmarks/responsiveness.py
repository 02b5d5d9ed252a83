"""Does anybody wait for somebody else's work? Delays of one client while others keep the server busy.

    python -m benchmarks responsiveness [--pods N] [--only gang|table|local]

One client gets a small object every 10 ms, whether or not the last answer has come (a slow server is asked
as often as a quick one). Meanwhile

- ``gang``: a PodCliqueSet of 5,000 pods comes up under ``quarterdeck up --nodes 60``;
- ``table``: 10,000 pods are listed as a Table, again and again, by another client;
- ``local``: 200 pods that run a program and end come at once under ``quarterdeck up --local-node``.

What is printed are delays from the moment a request was due: by the clock, and in the server's own work (how
long its event loop ran meanwhile), which does not grow when other programs keep the machine busy. Beside
``table`` the same is done to the real kube-apiserver, if `make kube` has built it, by the clock alone: it has
no loop. There is nothing real that plays ``gang`` or ``local`` on one machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from . import wire
from .apiserver import Embedded, Real, Server, is_built, pods
from .groveset import PER_GROUP, pod_clique_set

PERIOD = 0.01
SPARE_CONNECTIONS = 16
"""Answers that are late do not keep the next request waiting: it goes out on another connection."""
P99_LIMIT, MAXIMUM_LIMIT = 50.0, 200.0
LOCAL_P99_LIMIT = 100.0
"""With 200 programs on two cores; nothing is asked of the maximum."""
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PROBE = wire.render("GET", "/api/v1/namespaces/default")


class Delays(NamedTuple):
    """What a client saw, in milliseconds, in order of size."""

    by_clock: list[float]
    in_work: list[float]
    """Empty where there is no loop to look at."""


def worked(pid: int) -> float:
    """Seconds that the first thread of a process has run."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


async def probe(server: wire.Target, pid: int | None, busy: Awaitable[None]) -> Delays:
    """Delays of requests that are due every 10 ms, until ``busy`` ends."""
    idle: asyncio.LifoQueue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.LifoQueue()
    for _ in range(SPARE_CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection(server.host, server.port, ssl=server.context))
    delays: list[float] = []
    work: list[float] = []

    async def ask(due: float) -> None:
        before = worked(pid) if pid else 0.0
        reader, writer = await idle.get()
        writer.write(_PROBE)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise wire.RequestError(head.decode(errors="replace"))
        await reader.readexactly(int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]))
        delays.append((time.perf_counter() - due) * 1e3)
        if pid:
            work.append((worked(pid) - before) * 1e3)
        idle.put_nowait((reader, writer))

    async with asyncio.TaskGroup() as group:
        load = asyncio.ensure_future(busy)
        due = time.perf_counter()
        while not load.done():
            due += PERIOD
            await asyncio.sleep(due - time.perf_counter())
            group.create_task(ask(due))
        await load
    while not idle.empty():
        idle.get_nowait()[1].close()
    return Delays(sorted(delays), sorted(work))


def report(
    name: str, delays: Delays, *, p99_limit: float = P99_LIMIT, maximum_limit: float = MAXIMUM_LIMIT
) -> bool:
    """Print what the client saw; whether it is within the limits by the clock."""
    good = False
    samples = {"by the clock": delays.by_clock, "in its work": delays.in_work}
    for how, sample in samples.items():
        if not sample:
            continue
        p50, p99, most = (sample[int(len(sample) * share)] for share in (0.5, 0.99, 0.99999))
        is_within = p99 <= p99_limit and most <= maximum_limit
        good = good or (is_within and how == "by the clock")
        limits = f"p99 {p99_limit:.0f} ms" + (
            f" or maximum {maximum_limit:.0f} ms" if maximum_limit < math.inf else ""
        )
        verdict = "ok" if is_within else f"ABOVE {limits}"
        figures = f"p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  maximum {most:7.2f} ms"
        print(f"  {name:20} {how:12} {len(sample):>6,} requests  {figures}  {verdict}", flush=True)
    return good


@contextmanager
def cluster(*arguments: str) -> Iterator[tuple[wire.Target, int]]:
    """``quarterdeck up`` as processes of its own; where it listens, and the server's process."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", *arguments]
        command += ["--kubeconfig", str(kubeconfig)]
        environment = {**os.environ, "XDG_STATE_HOME": directory}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith(b"ready"):
                raise RuntimeError("the cluster did not start")
            yield wire.target(kubeconfig), process.pid
        finally:
            process.terminate()
            process.wait()


async def followed(server: wire.Target, wanted: int, is_done: Callable[[dict[str, Any]], bool]) -> float:
    """Seconds until so many pods of the default namespace are as they should be."""
    names: set[str] = set()
    done = asyncio.Event()

    def on_line(line: bytes) -> None:
        pod = json.loads(line)["object"]
        if is_done(pod["status"]):
            names.add(pod["metadata"]["name"])
            if len(names) >= wanted:
                done.set()

    request = wire.render("GET", "/api/v1/namespaces/default/pods?watch=1")
    started = time.monotonic()
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: wire.Lines(request, on_line), server.host, server.port, ssl=server.context
    )
    try:
        await asyncio.wait_for(done.wait(), 600)
    finally:
        transport.close()
    return time.monotonic() - started


async def short_pods(server: wire.Target, count: int) -> None:
    """So many programs at once, from their pods' creation until all have ended well."""

    def document(number: int) -> bytes:
        container = {"name": "main", "image": "none", "command": ["sh", "-c", "echo done"]}
        spec = {"restartPolicy": "Never", "containers": [container]}
        metadata = {"name": f"short-{number}"}
        return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()

    path = "/api/v1/namespaces/default/pods"
    await wire.load(server, (wire.render("POST", path, document(each)) for each in range(count)), 16)
    seconds = await followed(server, count, lambda status: status.get("phase") == "Succeeded")
    print(f"  {count:,} pods ended {seconds:.1f} s after they came, {count / seconds:,.0f} a second")


async def gang(server: wire.Target, count: int) -> None:
    """A set of so many pods, from its creation until all are ready."""
    groups = max(1, (count - 1) // PER_GROUP)
    wanted = 1 + groups * PER_GROUP
    body = json.dumps(pod_clique_set(1, groups)).encode()
    path = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
    await wire.load(server, iter([wire.render("POST", path, body)]), 1)

    def is_ready(status: dict[str, Any]) -> bool:
        return any(
            each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())
        )

    seconds = await followed(server, wanted, is_ready)
    print(f"  {wanted:,} pods ready after {seconds:.1f} s, {wanted / seconds:,.0f} a second")


async def tables(server: wire.Target) -> None:
    """A long list as a Table, eight times."""
    request = wire.render("GET", "/api/v1/namespaces/default/pods", accept=_TABLE)
    await wire.load(server, iter([request] * 8), 1)


async def _quiet() -> None:
    await asyncio.sleep(2)


async def _probe_tables(server: Server, pid: int | None, count: int, name: str) -> bool:
    await wire.load(server.target, pods(count, "listed"), 32)
    return report(name, await probe(server.target, pid, tables(server.target)))


def _run(work: Callable[[], Awaitable[bool]]) -> bool:
    async def outer() -> bool:
        return await work()

    return uvloop.run(outer())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks responsiveness", description=__doc__)
    parser.add_argument("--only", choices=("gang", "table", "local"))
    parser.add_argument("--pods", type=int, default=5_000, help="pods of the set (default: %(default)s)")
    parser.add_argument("--listed", type=int, default=10_000, help="pods listed (default: %(default)s)")
    parser.add_argument("--short", type=int, default=200, help="pods that run here (default: %(default)s)")
    options, _ = parser.parse_known_args(arguments)
    good = True
    if options.only in (None, "gang"):
        print(f"a PodCliqueSet of {options.pods:,} pods comes up on 60 nodes")
        with cluster("--nodes", "60", "--operators", "grove") as (server, pid):

            async def both() -> bool:
                report("quiet", await probe(server, pid, _quiet()))
                return report("while it comes up", await probe(server, pid, gang(server, options.pods)))

            good = _run(both) and good
    if options.only in (None, "table"):
        print(f"{options.listed:,} pods are listed as a Table by another client")
        with Embedded("memory") as ours:
            good = _run(lambda: _probe_tables(ours, ours.pids[0], options.listed, "quarterdeck")) and good
        if is_built():
            with Real(fsync=False) as real:
                _run(lambda: _probe_tables(real, None, options.listed, "kube-apiserver"))
    if options.only in (None, "local"):
        print(f"{options.short} short pods run on this machine")
        root = ["--allow-root"] if os.geteuid() == 0 else []
        with cluster("--local-node", "--operators", "none", *root) as (server, pid):

            async def local() -> bool:
                report("quiet", await probe(server, pid, _quiet()))
                seen = await probe(server, pid, short_pods(server, options.short))
                return report("while they run", seen, p99_limit=LOCAL_P99_LIMIT, maximum_limit=math.inf)

            good = _run(local) and good
    return 0 if good else 1
