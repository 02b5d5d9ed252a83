"""A controller at work: CPU per object beside controller-runtime, and objects per second in one process.

    python -m benchmarks reconcile [--quick] [--objects N] [--rounds N] [--only server|up] [--kopf] [--apply]

The work: Widgets that exist already; each gets one ConfigMap of its own and one write of its status, by ten
workers. It is over when the controller has seen every Widget with its status in its cache. Client throttling
is off on both sides, etcd runs without fsync.

- *on the real server*: our controller and the peers, each as a process of its own against a fresh
  kube-apiserver and etcd, taking turns. CPU is that of the controller's process from its start to the end
  of the work.
- *in one process*: `quarterdeck up` with a data directory (durability `normal`, as etcd without fsync) that
  holds the Widgets, with the cluster's own controllers running. The clock starts when the controllers are
  added to the running server.

Without the real server (`make kube` builds it and the peers) only our own figures are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop

from quarterdeck.api import ObjectMeta, crd
from quarterdeck.client import Client, Config, InProcessTransport
from quarterdeck.runtime import install_definitions

from . import wire
from .apiserver import Real, Server
from .contestant import compiled, find_peer, has_real_server
from .widgetoperator import GROUP, WORKERS, Summary, Widget, WidgetOperator, Widgets, WidgetSpec

CONNECTIONS = 16
TEXT = "as much text as a small setting has"
OURS, GO, KOPF = "quarterdeck", "controller-runtime", "kopf"


class Run(NamedTuple):
    """One controller's work, per object."""

    cpu_ms: float
    per_second: float
    server_ms: float
    megabytes: float
    reconciles: float
    errors: int


def _requests(count: int) -> Iterator[bytes]:
    for index in range(count):
        document = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": {"name": f"widget-{index}"},
            "spec": {"size": index, "text": TEXT},
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        yield wire.render("POST", f"/apis/{GROUP}/v1/namespaces/default/widgets", body)


async def _prepare(server: Server, objects: int) -> None:
    async with Client.connect(Config.load(server.kubeconfig)) as client:
        await install_definitions(client, crd(Widget))
    await wire.load(server.target, _requests(objects), CONNECTIONS)


def _command(name: str, objects: int, kubeconfig: Path, *, apply: bool) -> list[str]:
    options = ["--kubeconfig", str(kubeconfig), "--objects", str(objects), "--workers", str(WORKERS)]
    if name == OURS:
        return [sys.executable, "-m", "benchmarks.widgetoperator", *options, *(["--apply"] if apply else [])]
    if name == KOPF:
        return [sys.executable, "-m", "benchmarks.widget_kopf", *options]
    peer = find_peer("reconciler")
    assert peer is not None
    return [str(peer), *options]


def on_server(name: str, objects: int, environment: dict[str, str], *, apply: bool) -> Run:
    """One controller against a fresh kube-apiserver that holds the Widgets."""
    with Real(fsync=False) as server:
        uvloop.run(_prepare(server, objects))
        before, start = wire.cpu_seconds(server.pids), time.monotonic()
        command = _command(name, objects, server.kubeconfig, apply=apply)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{name} ended before its work was done")
            wall, cpu = time.monotonic() - start, wire.cpu_seconds([process.pid])
            memory = wire.resident_bytes([process.pid])
            spent = wire.cpu_seconds(server.pids) - before
        finally:
            process.terminate()
            process.wait()
    said = json.loads(line)
    return Run(
        cpu_ms=cpu / objects * 1000,
        per_second=objects / wall,
        server_ms=spent / objects * 1000,
        megabytes=memory / 1e6,
        reconciles=said["reconciles"] / objects,
        errors=said["errors"],
    )


async def _fill(directory: Path, objects: int) -> None:
    from quarterdeck.apiserver import ApiServer, Durability, ServerOptions

    server = ApiServer(ServerOptions(data_dir=directory, durability=Durability.NORMAL, port=0))
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    await install_definitions(client, crd(Widget))
    for index in range(objects):
        meta = ObjectMeta(name=f"widget-{index}", namespace="default")
        await client.create(Widget(metadata=meta, spec=WidgetSpec(size=index, text=TEXT)))
    await server.stop()


async def _up(directory: Path, objects: int, *, apply: bool) -> dict[str, Any]:
    """`quarterdeck up` on a directory that holds the Widgets, until they are settled."""
    from quarterdeck.apiserver import Durability, ServerOptions
    from quarterdeck.cli.cluster import cluster_in_one_process
    from quarterdeck.cli.collector import relax_collector

    relax_collector()
    finished: asyncio.Future[tuple[float, float, Summary]] = asyncio.get_running_loop().create_future()

    def done(summary: Summary) -> None:
        finished.set_result((time.perf_counter(), time.process_time(), summary))

    operator = WidgetOperator(Widgets(objects, done, apply=apply))
    options = ServerOptions(data_dir=directory, durability=Durability.NORMAL, port=0)
    async with cluster_in_one_process(options, [operator], {}, asyncio.Event()):
        wall, cpu, summary = await finished
    return {
        "wall": wall - operator.started[0],
        "cpu": cpu - operator.started[1],
        **msgspec.structs.asdict(summary),
    }


def in_one_process(objects: int, environment: dict[str, str], *, apply: bool) -> Run:
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory:
        command = [sys.executable, "-m", "benchmarks.reconcile", "--objects", str(objects)]
        command += ["--apply"] if apply else []
        for step in ("--fill", "--up"):
            answer = subprocess.run(
                [*command, step, directory], stdout=subprocess.PIPE, env=environment, check=True
            )
    said = json.loads(answer.stdout)
    return Run(
        cpu_ms=said["cpu"] / objects * 1000,
        per_second=objects / said["wall"],
        server_ms=0.0,
        megabytes=0.0,
        reconciles=said["reconciles"] / objects,
        errors=said["errors"],
    )


def _median(runs: list[Run], field: str) -> float:
    return float(statistics.median(getattr(run, field) for run in runs))


def _ratio(ours: list[Run], theirs: list[Run], field: str) -> float:
    """Median of the ratios round by round: what else the machine did concerns both sides of a round."""
    pairs = zip(ours, theirs, strict=True)
    return float(statistics.median(getattr(mine, field) / getattr(other, field) for mine, other in pairs))


def _print_server(runs: dict[str, list[Run]]) -> None:
    print(
        f"\n## on kube-apiserver + etcd (no fsync)\n{'':20}{'CPU ms/object':>14}{'objects/s':>11}"
        f"{'server ms':>11}{'MB':>6}{'runs/object':>13}{'errors':>8}"
    )
    for name, each in runs.items():
        cpu, wall, server, memory, reconciles, errors = (_median(each, field) for field in Run._fields)
        print(
            f"{name:20}{cpu:>14.2f}{wall:>11.0f}{server:>11.2f}{memory:>6.0f}{reconciles:>13.2f}{errors:>8.0f}"
        )
    for name in (GO, KOPF):
        if name in runs:
            cpu, rate = (_ratio(runs[OURS], runs[name], field) for field in ("cpu_ms", "per_second"))
            aim = " (aim 1.0x)" if name == GO else ""
            print(f"ours / {name}: CPU {cpu:.2f}x{aim}, wall time {1 / rate:.2f}x{aim}")


def _print_up(ours: list[Run], theirs: list[Run]) -> None:
    rate, cpu, reconciles = (_median(ours, field) for field in ("per_second", "cpu_ms", "reconciles"))
    print("\n## in one process (quarterdeck up)")
    print(f"{rate:,.0f} objects/s, {cpu:.2f} ms CPU per object, {reconciles:.2f} runs per object")
    if theirs:
        ratio = _ratio(ours, theirs, "per_second")
        print(f"{ratio:.1f}x the objects/s of controller-runtime on the real server (aim 5x)")
        whole = [run._replace(cpu_ms=run.cpu_ms + run.server_ms) for run in theirs]
        print(f"{1 / _ratio(ours, whole, 'cpu_ms'):.1f}x per core-second, API server and etcd included")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks reconcile", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 objects, for a look")
    parser.add_argument("--objects", type=int, default=0, help="how many Widgets (10,000)")
    parser.add_argument("--rounds", type=int, default=1, help="controllers take turns this often")
    parser.add_argument("--only", choices=["server", "up"], help="one of the two parts")
    parser.add_argument("--kopf", action="store_true", help="kopf as another peer (slow)")
    parser.add_argument("--apply", action="store_true", help="ours makes the child by server-side apply")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--up", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    objects = options.objects or (1000 if options.quick else 10_000)
    if options.fill:
        uvloop.run(_fill(options.fill, objects))
        return 0
    if options.up:
        print(json.dumps(uvloop.run(_up(options.up, objects, apply=options.apply))))
        return 0
    peers: list[str] = []
    if not has_real_server():
        print("the real server is not built (make kube): only what runs in one process")
    elif find_peer("reconciler") is None:
        print("the Go peer is not built (tools/kube/peers/build.sh): our figures only")
    else:
        peers = [GO, *([KOPF] if options.kopf and options.only != "up" else [])]
    names = [*([OURS] if has_real_server() and options.only != "up" else []), *peers]
    print(f"{objects:,} objects, {WORKERS} workers, {options.rounds} round(s)")
    served: dict[str, list[Run]] = {}
    embedded: list[Run] = []
    with compiled("benchmarks.reconcile", "benchmarks.widgetoperator", "quarterdeck.cli.up") as environment:
        for _ in range(options.rounds):
            for name in names:
                run = on_server(name, objects, environment, apply=options.apply)
                served.setdefault(name, []).append(run)
            if options.only != "server":
                embedded.append(in_one_process(objects, environment, apply=options.apply))
    if OURS in served:
        _print_server(served)
    if embedded:
        _print_up(embedded, served.get(GO, []))
    return 0


if __name__ == "__main__":
    sys.exit(main())
