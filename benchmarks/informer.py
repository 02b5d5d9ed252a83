"""Caching 100,000 pods: CPU and memory of our cache beside a client-go informer.

    python -m benchmarks informer [--quick] [--pods N] [--rounds N] [--json]

Pods of about 3.7 kB stand in a real kube-apiserver. Each contestant is a process of its own that caches them
with an index on a label and one on a field, and then says how much CPU time it has used since it was started
and how much memory it holds after a forced collection. Contestants take turns; client-go speaks protobuf
(and JSON, with --json), ours JSON. Our cache leaves out managed fields unless told otherwise; the line
"all fields" is the same with everything kept.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import uvloop

from . import wire
from .contestant import compiled, find_peer, has_real_server

if TYPE_CHECKING:
    from .apiserver import Server

BATCH = 100
MODULES = ("quarterdeck.api.k8s", "quarterdeck.client", "quarterdeck.runtime.cache")
APPS = 200
NODES = 1000
OURS, WHOLE, GO, GO_JSON = "quarterdeck", "quarterdeck, all fields", "client-go, protobuf", "client-go, JSON"


class Held(NamedTuple):
    """What a contestant reports once it holds all pods."""

    objects: int
    indexed: int
    cpu: float
    wall: float
    rss: float


def pod() -> dict[str, Any]:
    """The first pod: about 3.7 kB of JSON once the server has filled in the rest."""
    app = "app-000"
    container = {
        "name": "main",
        "image": f"registry.example.com/team/{app}:v1.2.3",
        "args": ["--config=/etc/app/config.yaml", "--log-level=info", "--listen=0.0.0.0:8080"],
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}-of-{app}"} for n in range(7)],
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
        "ports": [{"name": "http", "containerPort": 8080}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-6d4b75cb6d-000000",
            "namespace": "default",
            "labels": {"app": app, "pod-template-hash": "6d4b75cb6d", "tier": "backend"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-6d4b75cb6d",
                    "uid": "00000000-9f3a-44f1-8d1e-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": app}}],
            "nodeName": "node-000",
            "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def _renumbered(stored: bytes, uid: bytes, index: int) -> bytes:
    """Another pod made from the first as etcd keeps it; the new names are as long as the old ones."""
    app = index % APPS
    return (
        stored.replace(uid, b"%08x" % index + uid[8:])
        .replace(b"cb6d-000000", b"cb6d-%06d" % index)
        .replace(b"app-000", b"app-%03d" % app)
        .replace(b"node-000", b"node-%03d" % (index % NODES))
        .replace(b"00000000-9f3a", b"%08x-9f3a" % app)
    )


class Etcd:
    """The few calls of etcd's JSON gateway that are needed."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"))

    def _call(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        self._connection.request("POST", path, json.dumps(document))
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd: {answer.status} {body.decode()}")
        found: dict[str, Any] = json.loads(body)
        return found

    def get(self, key: bytes) -> bytes:
        found = self._call("/v3/kv/range", {"key": base64.b64encode(key).decode()})
        return base64.b64decode(found["kvs"][0]["value"])

    def put(self, values: dict[bytes, bytes]) -> None:
        """Store up to 128 values in one transaction."""
        puts = [
            {"requestPut": {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}}
            for key, value in values.items()
        ]
        self._call("/v3/kv/txn", {"success": puts})


async def _wait_cached(kubeconfig: Path, name: str) -> None:
    """Wait until kube-apiserver's own cache has the last pod; it answers the contestants from that."""
    from quarterdeck.api.k8s import Pod
    from quarterdeck.client import Client, Config

    async with Client.connect(Config.load(kubeconfig)) as client:
        while not await client.list(Pod, fields=f"metadata.name={name}", resource_version="0"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _create_first(kubeconfig: Path) -> tuple[str, str, int]:
    """Create the first pod; returns name, UID and how many bytes of JSON it has."""
    from quarterdeck.api.k8s import Pod
    from quarterdeck.client import Client, Config

    async with Client.connect(Config.load(kubeconfig)) as client:
        made = await client.create(Pod.from_dict(pod()))
        path = f"/api/v1/namespaces/default/pods/{made.metadata.name}"
        return made.metadata.name, made.metadata.uid, len((await client.raw("GET", path)).body)


def fill(server: Server, count: int) -> int:
    """Put pods into the server; returns how many bytes of JSON one has.

    One is created, the others are copies of it written into etcd: creating all of them would take
    kube-apiserver minutes and is not what is measured.
    """
    name, uid, size = uvloop.run(_create_first(server.kubeconfig))
    etcd = Etcd(server.etcd)
    folder = b"/registry/pods/default/"
    stored = etcd.get(folder + name.encode())
    for start in range(1, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        etcd.put(
            {
                folder + _renumbered(name.encode(), uid.encode(), number): _renumbered(
                    stored, uid.encode(), number
                )
                for number in numbers
            }
        )
    last = _renumbered(name.encode(), uid.encode(), count - 1).decode()
    uvloop.run(_wait_cached(server.kubeconfig, last))
    return size


async def hold(kubeconfig: Path, count: int, *, whole: bool) -> Held:
    """Fill our cache and report; the modules are imported here, as they belong to this contestant's CPU."""
    from quarterdeck.api.k8s import Pod
    from quarterdeck.client import Client, Config
    from quarterdeck.runtime.cache import Cache, CacheOptions, label, node_name

    options = CacheOptions(transform=None) if whole else CacheOptions()
    async with Client.connect(Config.load(kubeconfig)) as client:
        cache = Cache(client, client.mapper, options=options)
        informer = cache.informer(Pod)
        informer.declare_index(label("app"))
        informer.declare_index(node_name)
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(cache.run())
            await cache.wait_synced()
            wall, cpu = time.perf_counter() - start, time.process_time()
            assert informer.statistics().objects == count
            table = informer.table("label:app")
            assert table is not None
            gc.collect()
            held = Held(count, table.count("app-000"), cpu, wall, wire.resident_bytes([os.getpid()]))
            running.cancel()
    return held


def _command(name: str, kubeconfig: Path, count: int) -> list[str]:
    options = ["--kubeconfig", str(kubeconfig), "--objects", str(count)]
    if name in (OURS, WHOLE):
        whole = ["--whole"] if name == WHOLE else []
        return [sys.executable, "-m", "benchmarks.informer", *options, *whole]
    peer = find_peer("informer")
    assert peer is not None
    return [str(peer), *options, *(["--json"] if name == GO_JSON else [])]


def _run(name: str, kubeconfig: Path, count: int, environment: dict[str, str]) -> Held:
    command = _command(name, kubeconfig, count)
    answer = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    said = json.loads(answer.stdout)
    assert said["objects"] == count, said
    assert said["indexed"] == -(-count // APPS), said
    return Held(**said)


def _ratio(ours: list[Held], theirs: list[Held], field: str) -> float:
    """Median of the ratios round by round: what else the machine did concerns both sides of a round."""
    pairs = zip(ours, theirs, strict=True)
    return float(statistics.median(getattr(mine, field) / getattr(other, field) for mine, other in pairs))


def _print(held: dict[str, list[Held]]) -> None:
    print(f"\n{'':26}{'CPU s':>8}{'wall s':>8}{'MB':>7}")
    for name, each in held.items():
        cpu, wall, rss = (statistics.median(getattr(one, what) for one in each) for what in Held._fields[2:])
        print(f"{name:26}{cpu:>8.2f}{wall:>8.1f}{rss / 1e6:>7.0f}")
    for name in (GO, GO_JSON):
        for mine in (OURS, WHOLE) if name in held else ():
            cpu, rss = (_ratio(held[mine], held[name], what) for what in ("cpu", "rss"))
            aims = (" (aim 0.5x)", " (aim 0.6x)") if name == GO else ("", "")
            print(f"{mine} / {name}: CPU {cpu:.2f}x{aims[0]}, memory {rss:.2f}x{aims[1]}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks informer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 pods, for a look")
    parser.add_argument("--pods", type=int, default=0, help="how many (100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="contestants take turns this often")
    parser.add_argument("--json", action="store_true", help="client-go with JSON as well")
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--objects", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.kubeconfig:
        held = uvloop.run(hold(options.kubeconfig, options.objects, whole=options.whole))
        print(json.dumps(held._asdict()))
        return 0
    return compare(
        options.pods or (5000 if options.quick else 100_000), options.rounds, with_json=options.json
    )


def compare(count: int, rounds: int, *, with_json: bool) -> int:
    from .apiserver import Real

    if not has_real_server():
        print("the real server is not built (make kube): nothing to list pods from")
        return 0
    names = [OURS, WHOLE]
    if find_peer("informer") is None:
        print("the Go peer is not built (tools/kube/peers/build.sh): our figures only")
    else:
        names += [GO, *([GO_JSON] if with_json else [])]
    held: dict[str, list[Held]] = {}
    with Real(fsync=False) as server, compiled("benchmarks.informer", *MODULES) as environment:
        size = fill(server, count)
        print(f"{count:,} pods of {size:,.0f} bytes, {rounds} round(s)", flush=True)
        for _ in range(rounds):
            for name in names:
                held.setdefault(name, []).append(_run(name, server.kubeconfig, count, environment))
    _print(held)
    return 0


if __name__ == "__main__":
    sys.exit(main())
