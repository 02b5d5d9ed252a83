"""The CPU that Grove's operator takes alone, beside that of Grove's own operator in Go; part of `grove`.

A set of many gangs comes up on `quarterdeck up`, whose server and whose scheduler, kubelet and other
controllers are processes of their own, and so is the operator. What each of them spends is printed for a
pod, from the set's creation until its pods run and its status says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from quarterdeck.client import Client, Config
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.types import PodCliqueSet, definitions
from quarterdeck.runtime.operator.install import install_definitions

from . import wire
from .cluster import cluster
from .referencecluster import Cluster

Json = dict[str, Any]
PER_NODE = 110
PER_GANG = 4
PATIENCE = 900
"""Seconds until a set runs."""
SETTLED = 3.0
"""Seconds of looking on after that: what is left to write about the last pods."""
_OURS = (
    sys.executable, "-m", "quarterdeck.cli", "run", "--operators", "grove",
    "--webhook-host", "127.0.0.1", "--webhook-port", "0", "--webhook-url", "https://127.0.0.1:0",
    "--metrics-address", "0", "--health-address", "0", "--no-leader-election", "--log-level", "ERROR",
)  # fmt: skip


class Spent(NamedTuple):
    """Seconds by the clock, and of CPU by process."""

    clock: float
    operator: float
    server: float
    controllers: float


def bench_operator(sizes: list[int], make_set: Callable[[int, int], Json], peer: str) -> bool:
    """Sets of so many pods by our operator and, if there is one, by the peer."""
    logging.getLogger("quarterdeck.client").setLevel(logging.ERROR)  # every set is warned about restartPolicy
    print("\nthe operator in a process of its own, on `quarterdeck up`: CPU of a pod by process")
    is_good = True
    for size in sizes:
        replicas = size // PER_GANG
        count, document = replicas * PER_GANG, make_set(replicas, PER_GANG)
        print(f"  {count:,} pods of {replicas:,} replicas")
        ours = _measured(document, count, "")
        _report("quarterdeck run --operators grove", ours, count)
        if peer:
            theirs = _measured(document, count, peer)
            _report("the peer", theirs, count)
            ratio = ours.operator / theirs.operator
            print(f"    ours is {ratio:.2f}x the peer's CPU (≤ 1.0)   {'ok' if ratio <= 1 else 'MORE'}")
            is_good = is_good and ratio <= 1
    return is_good


def _report(name: str, spent: Spent, count: int) -> None:
    parts = (
        f"{part} {value / count * 1e3:5.2f} ms" for part, value in spent._asdict().items() if part != "clock"
    )
    print(f"    {name:34} {count / spent.clock:5.0f} pods/s   {'   '.join(parts)}", flush=True)


def _measured(document: Json, count: int, peer: str) -> Spent:
    with cluster(count // PER_NODE + 2) as made:
        asyncio.run(_prepare(made.kubeconfig))
        operator = subprocess.Popen(
            shlex.split(peer) or _OURS,
            env={**os.environ, "KUBECONFIG": str(made.kubeconfig)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return asyncio.run(_bring_up(made, document, count, operator.pid))
        finally:
            operator.terminate()
            operator.wait()


async def _prepare(kubeconfig: Path) -> None:
    client = Client.connect(Config.load(str(kubeconfig)))
    try:
        await install_definitions(client, *definitions())
    finally:
        await client.aclose()


async def _bring_up(made: Cluster, document: Json, count: int, operator: int) -> Spent:
    """What it takes from a set's creation until it runs; a small one has come up before."""
    client = Client.connect(Config.load(str(made.kubeconfig)))
    server, processes = made.server, [operator, *made.pids]
    try:
        await _until_it_runs(client, server, _named(document, "warm", 2), 2 * PER_GANG)
        await asyncio.sleep(SETTLED)
        before = [wire.cpu_seconds([pid]) for pid in processes]
        clock = await _until_it_runs(client, server, _named(document, "bench", count // PER_GANG), count)
        await asyncio.sleep(SETTLED)
        own, *rest = (wire.cpu_seconds([pid]) - then for pid, then in zip(processes, before, strict=True))
        return Spent(clock, own, rest[0], sum(rest[1:]))
    finally:
        await client.aclose()


def _named(document: Json, name: str, replicas: int) -> PodCliqueSet:
    """The set with its defaults, which a peer without webhooks does not give it."""
    metadata = {**document["metadata"], "name": name}
    return with_defaults(
        PodCliqueSet.from_dict(
            {**document, "metadata": metadata, "spec": {**document["spec"], "replicas": replicas}}
        )
    )


async def _until_it_runs(client: Client, server: wire.Target, wanted: PodCliqueSet, count: int) -> float:
    """Seconds from a set's creation until all its pods are ready and it says so itself."""
    name, ready = wanted.metadata.name, asyncio.Event()
    seen: set[str] = set()

    def on_line(line: bytes) -> None:
        pod = json.loads(line)["object"]
        conditions = pod.get("status", {}).get("conditions", ())
        if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
            seen.add(pod["metadata"]["name"])
            if len(seen) == count:
                ready.set()

    query = f"/api/v1/namespaces/default/pods?watch=1&labelSelector={names.PART_OF}%3D{name}"
    request = wire.render("GET", query)
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: wire.Lines(request, on_line), server.host, server.port, ssl=server.context
    )
    try:
        async with asyncio.timeout(PATIENCE):
            started = time.monotonic()
            await client.create(wanted)
            await ready.wait()
            while True:
                now = await client.get(PodCliqueSet, name, "default")
                if now.status and now.status.available_replicas == wanted.spec.replicas:
                    return time.monotonic() - started
                await asyncio.sleep(0.1)
    finally:
        transport.close()
