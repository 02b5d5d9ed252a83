"""The embedded server beside kube-apiserver + etcd: work per core-second of the server's processes.

    python -m benchmarks apiserver [--quick] [--only NAME] [--durability full normal memory]

Both servers are started by this program, get the same requests from the same client over TLS with 32
keep-alive connections, and are measured by the CPU time their processes used. Without the real
server (`make kube` builds it) only our figures are printed.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import uvloop

from . import wire

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from kube.server import RealServer, is_built

CONNECTIONS = 32
PODS = 10_000
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Server(NamedTuple):
    """A running server and the processes whose CPU counts."""

    name: str
    target: wire.Target
    pids: list[int]
    ready_seconds: float
    kubeconfig: Path
    #: where the real server keeps its objects
    etcd: str = ""


class Figure(NamedTuple):
    per_core_second: float
    per_second: float
    #: what else is worth knowing (delays), by name
    extra: Mapping[str, float] = MappingProxyType({})


class Embedded:
    """`quarterdeck apiserver` as a process of its own."""

    def __init__(self, durability: str) -> None:
        self._durability = durability

    def __enter__(self) -> Server:
        self._directory = tempfile.TemporaryDirectory(prefix="quarterdeck-bench-")
        kubeconfig = Path(self._directory.name, "kubeconfig")
        command = [sys.executable, "-m", "quarterdeck.cli", "apiserver", "--port", "0"]
        command += ["--kubeconfig", str(kubeconfig), "--durability", self._durability]
        if self._durability != "memory":
            command += ["--data-dir", str(Path(self._directory.name, "data"))]
        start = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(b"ready"):
            raise RuntimeError("the embedded server did not start")
        seconds = time.monotonic() - start
        name = f"quarterdeck ({self._durability})"
        return Server(name, wire.target(kubeconfig), [self._process.pid], seconds, kubeconfig)

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._directory.cleanup()


class Real:
    """kube-apiserver with etcd."""

    def __init__(self, *, fsync: bool) -> None:
        self._fsync = fsync

    def __enter__(self) -> Server:
        self._server = RealServer(fsync=self._fsync)
        start = time.monotonic()
        self._server.start()
        seconds = time.monotonic() - start
        name = "kube-apiserver + etcd" + ("" if self._fsync else " (no fsync)")
        kubeconfig = Path(self._server.kubeconfig)
        pids = list(self._server.pids.values())
        return Server(name, wire.target(kubeconfig), pids, seconds, kubeconfig, self._server.etcd_url)

    def __exit__(self, *exc: object) -> None:
        self._server.stop()


def _post(path: str, document: dict[str, Any]) -> bytes:
    return wire.render("POST", path, json.dumps(document, separators=(",", ":")).encode())


def config_maps(count: int, tag: str) -> Iterator[bytes]:
    for index in range(count):
        yield _post(
            "/api/v1/namespaces/default/configmaps",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"{tag}-{index}"},
                "data": {"key": "value" * 20},
            },
        )


def pods(count: int, tag: str, *, padding: int = 0) -> Iterator[bytes]:
    annotations = {"padding": "x" * padding} if padding else {}
    for index in range(count):
        container = {
            "name": "main",
            "image": "registry.local/train:1.0",
            "env": [{"name": "RANK", "value": str(index)}, {"name": "WORLD_SIZE", "value": "64"}],
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        yield _post(
            "/api/v1/namespaces/default/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{tag}-{index}",
                    "labels": {"app": "bench", "rank": str(index % 64)},
                    "annotations": annotations,
                },
                "spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]},
            },
        )


def repeat(count: int, request: bytes) -> Iterator[bytes]:
    for _ in range(count):
        yield request


async def _measure(
    server: Server, count: int, requests: Iterator[bytes], connections: int = CONNECTIONS
) -> Figure:
    before, start = wire.cpu_seconds(server.pids), time.monotonic()
    await wire.load(server.target, requests, connections)
    cpu, wall = wire.cpu_seconds(server.pids) - before, time.monotonic() - start
    return Figure(count / max(cpu, 1e-9), count / wall)


async def create_config_map(server: Server, scale: float) -> Figure:
    await wire.load(server.target, config_maps(200, "warm"), CONNECTIONS)
    count = int(6000 * scale)
    return await _measure(server, count, config_maps(count, "create"))


async def get_config_map(server: Server, scale: float) -> Figure:
    await wire.load(server.target, config_maps(1, "get"), 1)
    request = wire.render("GET", "/api/v1/namespaces/default/configmaps/get-0")
    count = int(12000 * scale)
    return await _measure(server, count, repeat(count, request))


async def create_pod(server: Server, scale: float) -> Figure:
    await wire.load(server.target, pods(100, "warm-pod"), CONNECTIONS)
    count = int(3000 * scale)
    return await _measure(server, count, pods(count, "create-pod"))


async def memory_per_pod(server: Server) -> tuple[float, float]:
    """Resident bytes a stored pod of 3.7 kB costs, and how long its JSON is."""
    before = wire.resident_bytes(server.pids)
    await _ensure_pods(server)
    grown = wire.resident_bytes(server.pids) - before
    body = await wire.fetch(server.target, "/api/v1/namespaces/default/pods?limit=200")
    return grown / PODS, len(body) / 200


async def list_pods(server: Server, scale: float) -> Figure:
    """10,000 pods of 3.7 kB each (after defaulting), as JSON."""
    await _ensure_pods(server)
    request = wire.render("GET", "/api/v1/namespaces/default/pods?labelSelector=app%3Dbench")
    count = max(2, int(8 * scale))
    return await _measure(server, count, repeat(count, request), 1)


async def list_protobuf(server: Server, scale: float) -> Figure:
    """What Go clients ask for: protobuf, or else JSON. Ours answers with JSON, which is what it stores."""
    await _ensure_pods(server)
    accept = "application/vnd.kubernetes.protobuf,application/json"
    request = wire.render("GET", "/api/v1/namespaces/default/pods", accept=accept)
    count = max(2, int(8 * scale))
    return await _measure(server, count, repeat(count, request), 1)


async def list_table(server: Server, scale: float) -> Figure:
    await _ensure_pods(server)
    request = wire.render("GET", "/api/v1/namespaces/default/pods", accept=_TABLE)
    count = max(2, int(4 * scale))
    return await _measure(server, count, repeat(count, request), 1)


_filled: set[str] = set()


async def _ensure_pods(server: Server) -> None:
    if server.name not in _filled:
        _filled.add(server.name)
        await wire.load(server.target, pods(PODS, "list", padding=1500), CONNECTIONS)


async def watch(server: Server, scale: float) -> Figure:
    """300 watchers of one kind, 100 changes a second; the delay is from request to delivery."""
    watchers, rate, seconds = 300, 100, max(2, int(6 * scale))
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    received = 0
    measuring = False

    def on_line(line: bytes) -> None:
        nonlocal received
        place = line.find(b'"sent":"')
        if measuring and place >= 0:
            received += 1
            if received % 50 == 0:  # parsing every time would measure the client
                delays.append(time.time() - float(line[place + 8 : place + 25]))

    request = wire.render("GET", "/api/v1/namespaces/kube-public/configmaps?watch=1")
    protocols = []
    for _ in range(watchers):
        _, protocol = await loop.create_connection(
            lambda: wire.Lines(request, on_line),
            server.target.host,
            server.target.port,
            ssl=server.target.context,
        )
        protocols.append(protocol)
    await asyncio.sleep(1)
    measuring = True
    total = rate * seconds
    stamp = int(time.time())

    def stamped() -> Iterator[bytes]:
        for index in range(total):
            yield _post(
                "/api/v1/namespaces/kube-public/configmaps",
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"watched-{stamp}-{index}"},
                    "data": {"sent": f"{time.time():.6f}"},
                },
            )

    before, start = wire.cpu_seconds(server.pids), time.monotonic()
    # a pool of kept-alive writers: handshakes are not what is measured here
    await wire.paced(server.target, stamped(), rate=rate, connections=8)
    deadline = time.monotonic() + 10
    while received < total * watchers and time.monotonic() < deadline:  # noqa: ASYNC110 - deliveries come by callback
        await asyncio.sleep(0.05)
    cpu = wire.cpu_seconds(server.pids) - before
    for protocol in protocols:
        protocol.transport.close()
    wall = time.monotonic() - start
    delays.sort()
    extra = {"p99 ms": delays[int(len(delays) * 0.99)] * 1000, "p50 ms": statistics.median(delays) * 1000}
    extra["lost"] = float(total * watchers - received)
    return Figure(received / max(cpu, 1e-9), received / wall, extra)


BENCHMARKS: dict[str, tuple[Callable[[Server, float], Any], float]] = {
    # name: (work, the ratio we aim at)
    "create ConfigMap": (create_config_map, 8.0),
    "get ConfigMap": (get_config_map, 8.0),
    "create Pod": (create_pod, 8.0),
    "watch 300 x 100/s": (watch, 4.0),
    "list 10,000 pods": (list_pods, 8.0),
    "protobuf 10,000 pods": (list_protobuf, 8.0),
    "table 10,000 pods": (list_table, 5.0),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks apiserver", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--only", action="append", default=[], help="part of a benchmark's name")
    parser.add_argument("--durability", nargs="*", default=["full", "memory"])
    options = parser.parse_args(argv)
    scale = 0.1 if options.quick else 1.0
    chosen = {
        name: work
        for name, work in BENCHMARKS.items()
        if not options.only or any(part in name for part in options.only)
    }
    if not is_built():
        print("the real server is not built (make kube): printing our figures only")
    for durability in options.durability:
        _compare(durability, chosen, scale)
    return 0


def _compare(
    durability: str, chosen: dict[str, tuple[Callable[[Server, float], Any], float]], scale: float
) -> None:
    print(f"\n## durability {durability}")
    columns = f"{'ours/core-s':>14}{'real/core-s':>14}{'ratio':>8}{'aim':>6}{'ours/s':>10}{'real/s':>10}"
    print(f"{'':22}{columns}  extra")
    with ExitStack() as stack:
        ours = stack.enter_context(Embedded(durability))
        empty = wire.resident_bytes(ours.pids)
        real = stack.enter_context(Real(fsync=durability == "full")) if is_built() else None
        print_memory(ours)
        for name, (work, aim) in chosen.items():
            mine: Figure = uvloop.run(work(ours, scale))
            theirs: Figure | None = uvloop.run(work(real, scale)) if real is not None else None
            ratio = f"{mine.per_core_second / theirs.per_core_second:.1f}x" if theirs else "-"
            real_core = f"{theirs.per_core_second:,.1f}" if theirs else "-"
            real_wall = f"{theirs.per_second:,.1f}" if theirs else "-"
            extra = _extra(mine, theirs)
            print(
                f"{name:22}{mine.per_core_second:>14,.1f}{real_core:>14}{ratio:>8}{aim:>5.0f}x"
                f"{mine.per_second:>10,.1f}{real_wall:>10}  {extra}",
                flush=True,
            )
        full = wire.resident_bytes(ours.pids)
        print(f"ready in {ours.ready_seconds:.2f} s, {empty / 1e6:.0f} MB resident when empty", end="")
        if real is not None:
            print(
                f" (real: {real.ready_seconds:.2f} s, {wire.resident_bytes(real.pids) / 1e6:.0f} MB now)",
                end="",
            )
        print(f"; {full / 1e6:.0f} MB after the run")


def print_memory(server: Server) -> None:
    grown, size = uvloop.run(memory_per_pod(server))
    print(
        f"memory per stored pod {grown:,.0f} bytes, "
        f"{grown / size:.1f}x its JSON of {size:,.0f} bytes (aim 3x)"
    )


def _extra(mine: Figure, theirs: Figure | None) -> str:
    parts = []
    for key, value in mine.extra.items():
        other = f" vs {theirs.extra[key]:.1f}" if theirs else ""
        parts.append(f"{key} {value:.1f}{other}")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
