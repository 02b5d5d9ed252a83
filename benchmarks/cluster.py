"""How fast is a simulated cluster, and what does it cost to stand still?

    python -m benchmarks cluster [--pods N] [--nodes N] [--idle N] [--only start|deployment|deletion|idle]
    tools/kube/netns.sh python -m benchmarks cluster --only deletion --real

- ``start``: `quarterdeck up --nodes N` until all nodes are ready;
- ``deployment``: a Deployment of so many pods, from its creation until it is available, and the memory that
  each takes beside its stored object;
- ``deletion``: its deletion in the foreground, until nothing of it is left;
- ``idle``: the share of a core that a cluster of so many nodes takes while nothing happens.

CPU seconds are those of all processes of a cluster, as the kernel counts them. With ``--real`` the same
Deployment comes and goes on Kubernetes' own control plane with KWOK's nodes, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from . import wire
from .referencecluster import Cluster, find_kwok, reference

NODES_SECONDS = 5.0
PODS_PER_SECOND = 1000.0
OBJECTS_PER_SECOND = 2000.0
IDLE_SHARE = 0.05
_IDLE_SECONDS = 30.0
_FEW = 100
_NODES = 200
"""For the pods of a Deployment."""
KILOBYTES_PER_POD = 10.0
TIMES_THE_REFERENCE = 5.0
_HISTORY_BYTES = 140_000_000
"""More than a server keeps in memory of what has changed."""
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def cluster(nodes: int, operators: str = "none") -> Iterator[Cluster]:
    """``quarterdeck up`` as processes of its own."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--nodes", str(nodes)]
        command += ["--operators", operators, "--kubeconfig", str(kubeconfig)]
        started = time.monotonic()
        environment = {**os.environ, "XDG_STATE_HOME": directory}  # not among the clusters of the user
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith(b"ready"):
                raise RuntimeError("the cluster did not start")
            pids = (process.pid, *_children(process.pid))
            yield Cluster(kubeconfig, wire.target(kubeconfig), pids, time.monotonic() - started)
        finally:
            process.terminate()
            process.wait()


def deployment(count: int) -> bytes:
    labels = {"app": "web"}
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1m"}}}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    return json.dumps(document).encode()


async def _watch_until(server: wire.Target, path: str, holds: Any) -> None:
    """Follow a watch until ``holds`` says of an event that it is enough."""
    done = asyncio.Event()

    def on_line(line: bytes) -> None:
        if holds(json.loads(line)):
            done.set()

    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: wire.Lines(wire.render("GET", f"{path}?watch=1"), on_line),
        server.host,
        server.port,
        ssl=server.context,
    )
    try:
        async with asyncio.timeout(1200):
            await done.wait()
    finally:
        transport.close()


def _is_available(event: Any, count: int) -> bool:
    status = event["object"].get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return status.get("availableReplicas") == count and conditions.get("Available") == "True"


async def roll_out(server: wire.Target, count: int) -> None:
    """Make a Deployment and wait until all its pods are available."""
    waiting = asyncio.create_task(_watch_until(server, _DEPLOYMENTS, lambda each: _is_available(each, count)))
    await asyncio.sleep(0.2)
    await wire.load(server, iter([wire.render("POST", _DEPLOYMENTS, deployment(count))]), 1)
    await waiting


async def delete(server: wire.Target) -> None:
    """Delete it in the foreground and wait until it is gone: then its pods are, too."""
    waiting = asyncio.create_task(
        _watch_until(server, _DEPLOYMENTS, lambda event: event["type"] == "DELETED")
    )
    await asyncio.sleep(0.2)
    body = json.dumps({"propagationPolicy": "Foreground"}).encode()
    await wire.load(server, iter([wire.render("DELETE", f"{_DEPLOYMENTS}/web", body)]), 1)
    await waiting


async def quiet(server: wire.Target) -> None:
    """Wait until what the controllers have begun is finished: nothing is queued, twice in a row."""
    times = 0
    async with asyncio.timeout(1200):
        while times < 2:
            await asyncio.sleep(5)
            text = (await wire.fetch(server, "/metrics")).decode()
            depths = [line for line in text.splitlines() if line.startswith("workqueue_depth{")]
            times = 0 if not depths or any(float(line.rpartition(" ")[2]) for line in depths) else times + 1


def _print(name: str, text: str, *, good: bool, aim: str) -> bool:
    print(f"  {name:12} {text}  {'ok' if good else f'BEHIND {aim}'}", flush=True)
    return good


class Cost(NamedTuple):
    """What it took to bring a number of pods, or to take them away."""

    pods: int
    seconds: float
    cpu: float

    def __str__(self) -> str:
        return (
            f"after {self.seconds:.1f} s: {self.pods / self.seconds:,.0f} a second, "
            f"{self.cpu / self.pods * 1e3:.2f} ms of CPU a pod"
        )


def _cost(made: Cluster, count: int, work: Coroutine[Any, Any, None]) -> Cost:
    cpu, started = made.cpu(), time.monotonic()
    uvloop.run(work)
    return Cost(count, time.monotonic() - started, made.cpu() - cpu)


def _stored_size(server: wire.Target) -> int:
    """Bytes of all stored pods."""
    return len(asyncio.run(wire.fetch(server, "/api/v1/pods")))


async def _warm(server: wire.Target) -> None:
    """Have what no pod's memory is: what is loaded or made once, and as much history as a server keeps."""
    await roll_out(server, _FEW)
    await delete(server)
    versions = (
        json.dumps({"metadata": {"name": "changing"}, "data": {"text": f"{number:08}" * 2_000}}).encode()
        for number in range(_HISTORY_BYTES // 16_000)
    )
    await wire.load(server, iter([wire.render("POST", _CONFIG_MAPS, next(versions))]), 1)
    await wire.load(server, (wire.render("PUT", f"{_CONFIG_MAPS}/changing", each) for each in versions), 1)


def _measure_ours(count: int, *, deletes: bool) -> tuple[list[Cost], bool]:
    with cluster(_NODES) as made:
        uvloop.run(_warm(made.server))
        empty = made.resident()
        costs = [_cost(made, count, roll_out(made.server, count))]
        per_pod = (made.resident() - empty - _stored_size(made.server)) / count / 1024
        fast = count / costs[0].seconds >= PODS_PER_SECOND
        good = _print("deployment", f"{count:,} pods available {costs[0]}", good=fast, aim="1,000 a second")
        text = f"{per_pod:.1f} KB a pod in all processes beside its stored object"
        good = _print("memory", text, good=per_pod <= KILOBYTES_PER_POD, aim="10 KB") and good
        if deletes:
            costs.append(_cost(made, count, delete(made.server)))
            fast = count / costs[1].seconds >= OBJECTS_PER_SECOND
            text = f"{count:,} pods gone {costs[1]}"
            good = _print("deletion", text, good=fast, aim="2,000 a second") and good
    return costs, good


def _measure_pods(count: int, *, deletes: bool, real: bool) -> bool:
    ours, good = _measure_ours(count, deletes=deletes)
    if not real:
        return good
    with reference(_NODES) as made:
        theirs = [_cost(made, count, roll_out(made.server, count))]
        if deletes:
            theirs.append(_cost(made, count, delete(made.server)))
    for name, mine, other in zip(("deployment", "deletion"), ours, theirs, strict=False):
        print(f"  {name:12} on kube-apiserver, its controllers, its scheduler and KWOK {other}")
        ratio = other.cpu / mine.cpu
        text = f"{ratio:.1f}x the pods per core-second, {other.seconds / mine.seconds:.1f}x by the clock"
        good = _print(name, text, good=ratio >= TIMES_THE_REFERENCE, aim="5x") and good
    return good


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--idle", type=int, default=5_000)
    parser.add_argument("--only", choices=["start", "deployment", "deletion", "idle"])
    parser.add_argument("--real", action="store_true", help="also on Kubernetes' own control plane with KWOK")
    chosen = parser.parse_args(options)
    if chosen.real and find_kwok() is None:
        parser.error("--real needs kwok: name it with KWOK=/path/to/kwok, and run `make kube` for the rest")
    print("cluster")
    good = True
    if chosen.only in (None, "start"):
        with cluster(chosen.nodes) as made:
            text = f"{chosen.nodes:,} nodes ready after {made.seconds:.1f} s, {made.cpu():.1f} s of CPU"
            good = _print("start", text, good=made.seconds <= NODES_SECONDS, aim="5 s") and good
    if chosen.only in (None, "deployment", "deletion"):
        deletes = chosen.only != "deployment"
        good = _measure_pods(chosen.pods, deletes=deletes, real=chosen.real) and good
    if chosen.only in (None, "idle"):
        with cluster(chosen.idle) as made:
            uvloop.run(quiet(made.server))
            cpu, started = made.cpu(), time.monotonic()
            time.sleep(_IDLE_SECONDS)
            share = (made.cpu() - cpu) / (time.monotonic() - started)
            text = f"{chosen.idle:,} nodes take {share:.1%} of a core"
            good = _print("idle", text, good=share <= IDLE_SHARE, aim="5 %") and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
