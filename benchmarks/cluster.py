"""How fast is a simulated cluster, and what does it cost to stand still?

    python -m benchmarks cluster [--pods N] [--nodes N] [--idle N] [--only start|deployment|deletion|idle]

- ``start``: `quarterdeck up --nodes N` until all nodes are ready;
- ``deployment``: a Deployment of so many pods, from its creation until it is available;
- ``deletion``: its deletion in the foreground, until nothing of it is left;
- ``idle``: the share of a core that a cluster of so many nodes takes while nothing happens.

CPU seconds are those of both processes of the cluster, as the kernel counts them.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from . import wire

NODES_SECONDS = 5.0
PODS_PER_SECOND = 1000.0
OBJECTS_PER_SECOND = 2000.0
IDLE_SHARE = 0.05
_IDLE_SECONDS = 30.0
_TICK = os.sysconf("SC_CLK_TCK")
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Cluster(NamedTuple):
    """A running cluster."""

    server: wire.Target
    pid: int
    seconds: float
    """From its start until it was ready."""

    def cpu(self) -> float:
        """CPU seconds of it and its children so far."""
        return sum(_cpu(pid) for pid in (self.pid, *_children(self.pid)))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def cluster(nodes: int) -> Iterator[Cluster]:
    """``quarterdeck up`` as a process of its own, without operators."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [sys.executable, "-m", "quarterdeck.cli", "up", "--port", "0", "--nodes", str(nodes)]
        command += ["--operators", "none", "--kubeconfig", str(kubeconfig)]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith(b"ready"):
                raise RuntimeError("the cluster did not start")
            yield Cluster(wire.target(kubeconfig), process.pid, time.monotonic() - started)
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


def _measure_pods(nodes: int, count: int, *, deletes: bool) -> bool:
    with cluster(nodes) as made:
        cpu, started = made.cpu(), time.monotonic()
        uvloop.run(roll_out(made.server, count))
        seconds, cpu = time.monotonic() - started, made.cpu() - cpu
        text = f"{count:,} pods available after {seconds:.1f} s: {count / seconds:,.0f} a second"
        text += f", {cpu / count * 1e3:.2f} ms of CPU a pod"
        good = _print("deployment", text, good=count / seconds >= PODS_PER_SECOND, aim="1,000 a second")
        if deletes:
            cpu, started = made.cpu(), time.monotonic()
            uvloop.run(delete(made.server))
            seconds, cpu = time.monotonic() - started, made.cpu() - cpu
            text = f"{count:,} pods gone after {seconds:.1f} s: {count / seconds:,.0f} a second"
            text += f", {cpu / count * 1e3:.2f} ms of CPU a pod"
            is_fast = count / seconds >= OBJECTS_PER_SECOND
            good = _print("deletion", text, good=is_fast, aim="2,000 a second") and good
        return good


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks cluster", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--idle", type=int, default=5_000)
    parser.add_argument("--only", choices=["start", "deployment", "deletion", "idle"])
    chosen = parser.parse_args(options)
    print("cluster")
    good = True
    if chosen.only in (None, "start"):
        with cluster(chosen.nodes) as made:
            text = f"{chosen.nodes:,} nodes ready after {made.seconds:.1f} s, {made.cpu():.1f} s of CPU"
            good = _print("start", text, good=made.seconds <= NODES_SECONDS, aim="5 s") and good
    if chosen.only in (None, "deployment", "deletion"):
        good = _measure_pods(200, chosen.pods, deletes=chosen.only != "deployment") and good
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
