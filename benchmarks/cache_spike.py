"""What does it cost to keep 50,000 pods in memory? Dictionaries, typed structs, or bytes with a header.

    python -m benchmarks.cache_spike [--pods 50000]
    python -m benchmarks.cache_spike --sync stream|list [--pods 100000]

The first: each representation runs in a process of its own, is fed the same list pages of 500 pods of about
3.7 kB, and reports the CPU time of turning pages into what it keeps, the growth of resident memory, and what
reading every pod once more costs. The second: the whole cache, with a label and a field index, filled over
TLS from a server in another process that does nothing but send pods, streamed or as one list; it reports
the CPU time and the resident memory of the caching process. The figures are in
``docs/adr/0003-cache-keeps-bytes.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = 500
OWNERS = 200
NODES = 1000

_MANAGED = {
    "f:metadata": {
        "f:generateName": {},
        "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}, "f:tier": {}},
        "f:ownerReferences": {".": {}, 'k:{"uid":"x"}': {}},
    },
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {
                ".": {},
                "f:env": {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}},
            }
        },
        "f:dnsPolicy": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:terminationGracePeriodSeconds": {},
    },
}


def pod(i: int) -> dict[str, Any]:
    """A scheduled, running pod as kube-apiserver writes it, about 3.7 kB of JSON."""
    owner, node = i % OWNERS, i % NODES
    uid = f"{i:08x}-c24a-4803-b828-c1d9bfea2989"
    environment = [{"name": f"SETTING_{n}", "value": f"value-{n}-of-owner-{owner}"} for n in range(6)]
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app-{owner}:v1.2.3",
        "args": ["--config=/etc/app/config.yaml", "--log-level=info", f"--shard={i % 16}"],
        "env": environment,
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access-x7x2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "metadata": {
            "name": f"app-{owner}-6d4b75cb6d-{i:05d}",
            "generateName": f"app-{owner}-6d4b75cb6d-",
            "namespace": f"team-{owner % 20}",
            "uid": uid,
            "resourceVersion": str(1_000_000 + i),
            "generation": 1,
            "creationTimestamp": "2026-11-15T21:58:07Z",
            "labels": {"app": f"app-{owner}", "pod-template-hash": "6d4b75cb6d", "tier": "backend"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{owner}-6d4b75cb6d",
                    "uid": f"{owner:08x}-9f3a-44f1-8d1e-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-15T21:58:07Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": _MANAGED,
                }
            ],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access-x7x2p", "projected": {"sources": [], "defaultMode": 420}}],
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{node}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": name,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2026-11-15T21:58:09Z",
                }
                for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": f"10.0.{node // 256}.{node % 256}",
            "podIP": f"10.{1 + i // 65536}.{(i // 256) % 256}.{i % 256}",
            "podIPs": [{"ip": f"10.{1 + i // 65536}.{(i // 256) % 256}.{i % 256}"}],
            "startTime": "2026-11-15T21:58:07Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": "2026-11-15T21:58:09Z"}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": container["image"],
                    "imageID": f"registry.example.com/team/app-{owner}@sha256:{'ab' * 32}",
                    "containerID": f"containerd://{i:064x}",
                    "started": True,
                }
            ],
            "qosClass": "Burstable",
        },
    }


def pages(total: int) -> Iterator[bytes]:
    """The list, page by page; a page is not kept by anybody but its reader."""
    encode = msgspec.json.encode
    for start in range(0, total, PAGE):
        items = [pod(i) for i in range(start, min(start + PAGE, total))]
        metadata = {"resourceVersion": "2000000", "continue": "token"}
        yield encode({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})


class _Raw(msgspec.Struct, gc=False):
    items: list[msgspec.Raw]


Keep = Callable[[bytes], list[Any]]
Read = Callable[[Any], Any]


def _stdlib() -> tuple[Keep, Read]:
    return (lambda page: json.loads(page)["items"]), (lambda kept: kept["spec"]["nodeName"])


def _dictionary() -> tuple[Keep, Read]:
    decode = msgspec.json.Decoder().decode
    return (lambda page: decode(page)["items"]), (lambda kept: kept["spec"]["nodeName"])


def _struct() -> tuple[Keep, Read]:
    from quarterdeck.api.codec import decode
    from quarterdeck.api.k8s.pod import Pod

    split = msgspec.json.Decoder(_Raw).decode
    return (
        lambda page: [decode(raw, Pod) for raw in split(page).items],
        lambda kept: kept.spec.node_name,
    )


def _bytes_and_metadata() -> tuple[Keep, Read]:
    """Bytes plus the whole typed ``ObjectMeta``."""
    from quarterdeck.api.codec import decode
    from quarterdeck.api.dynamic import PartialObjectMetadata
    from quarterdeck.api.k8s.pod import Pod

    split = msgspec.json.Decoder(_Raw).decode

    def keep(page: bytes) -> list[Any]:
        return [(bytes(raw), decode(raw, PartialObjectMetadata)) for raw in split(page).items]

    return keep, lambda kept: decode(kept[0], Pod).spec.node_name


def _bytes_and_header() -> tuple[Keep, Read]:
    """What the cache does: stripped bytes, a small header, labels and owners shared."""
    from quarterdeck.api.codec import decode
    from quarterdeck.api.k8s.pod import Pod
    from quarterdeck.runtime.cache.entry import EntryFactory
    from quarterdeck.runtime.cache.transform import strip_managed_fields

    split = msgspec.json.Decoder(_Raw).decode
    make = EntryFactory(transforms=(strip_managed_fields,)).make

    def keep(page: bytes) -> list[Any]:
        return [make(bytes(raw)) for raw in split(page).items]

    return keep, lambda kept: decode(kept.raw, Pod).spec.node_name


VARIANTS: dict[str, Callable[[], tuple[Keep, Read]]] = {
    "dict (json)": _stdlib,
    "dict (msgspec)": _dictionary,
    "struct": _struct,
    "bytes + ObjectMeta": _bytes_and_metadata,
    "bytes + header": _bytes_and_header,
}


def resident() -> int:
    """Resident bytes of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def measure(name: str, total: int) -> dict[str, float]:
    keep, read = VARIANTS[name]()
    for page in pages(PAGE):
        keep(page)  # compile decoders, warm allocators
    gc.collect()
    kept: list[Any] = []
    before, spent, size = resident(), 0.0, 0
    for page in pages(total):
        size += len(page)
        started = time.process_time()
        kept += keep(page)
        spent += time.process_time() - started
    page = b""
    gc.collect()
    grown = resident() - before
    started = time.process_time()
    for item in kept:
        read(item)
    reading = time.process_time() - started
    return {
        "pod_bytes": size / total,
        "cpu_us": spent / total * 1e6,
        "heap_bytes": grown / total,
        "read_us": reading / total * 1e6,
        "total_cpu_s": spent,
        "total_mb": grown / 1e6,
    }


class _PodServer(asyncio.Protocol):
    """Answers every list, and every watch that asks for initial events, with all pods."""

    def __init__(self, pods: list[bytes], tasks: asyncio.TaskGroup) -> None:
        self._pods = pods
        self._tasks = tasks
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" in self._received:
            line, self._received = self._received.split(b"\r\n", 1)[0], b""
            self._tasks.create_task(self._answer(b"watch=true" in line, b"sendInitialEvents" in line))

    async def _answer(self, is_watch: bool, has_initial: bool) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        if has_initial:
            for item in self._pods:
                await self._send(
                    b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",' + item[1:] + b"}\n"
                )
            end = {
                "metadata": {
                    "resourceVersion": "2000000",
                    "annotations": {"k8s.io/initial-events-end": "true"},
                }
            }
            await self._send(msgspec.json.encode({"type": "BOOKMARK", "object": end}) + b"\n")
        elif not is_watch:
            await self._send(b'{"kind":"PodList","metadata":{"resourceVersion":"2000000"},"items":[')
            for i, item in enumerate(self._pods):
                await self._send(item if i == 0 else b"," + item)
            await self._send(b"]}")
            self._transport.write(b"0\r\n\r\n")

    async def _send(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        while self._transport.get_write_buffer_size() > 4_000_000:  # noqa: ASYNC110  a benchmark's server
            await asyncio.sleep(0.001)


async def serve(total: int, directory: Path) -> None:
    """Send pods to whoever asks; writes its port and certificate into ``directory``."""
    pods = [bytes(raw) for page in pages(total) for raw in msgspec.json.decode(page, type=_Raw).items]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "crt", directory / "key")
    async with asyncio.TaskGroup() as tasks:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _PodServer(pods, tasks), "127.0.0.1", 0, ssl=context)
        (directory / "port").write_text(str(server.sockets[0].getsockname()[1]))
        await server.serve_forever()


async def synchronise(port: int, authority: str, *, streamed: bool) -> None:
    """Fill a cache and report what it took."""
    from quarterdeck.api.k8s.pod import Pod
    from quarterdeck.client import Client, HttpTransport, TlsOptions
    from quarterdeck.runtime.cache import Cache, CacheOptions, label, node_name

    transport = HttpTransport(f"https://127.0.0.1:{port}", tls=TlsOptions(ca_data=authority))
    async with Client.over(transport) as client:
        cache = Cache(client, client.mapper, options=CacheOptions(stream_lists=streamed))
        informer = cache.informer(Pod)
        informer.declare_index(node_name)
        informer.declare_index(label("app"))
        base, cpu, wall = resident(), time.process_time(), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(cache.run())
            await cache.wait_synced()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            gc.collect()
            held, how = cache.statistics(), "streamed" if streamed else "listed"
            print(f"{held.objects} pods {how}: {cpu:.2f} s CPU, {wall:.1f} s elapsed")
            megabytes = [f"{size / 1e6:.0f} MB" for size in (resident(), base, held.bytes)]
            print("{} resident ({} before), {} of JSON kept".format(*megabytes))
            running.cancel()


def sync(total: int, *, streamed: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make_certificate(directory)
        command = [sys.executable, "-m", "benchmarks.cache_spike", "--serve", name, "--pods", str(total)]
        server = subprocess.Popen(command)
        try:
            port = directory / "port"
            while not port.exists() or not port.read_text():
                time.sleep(0.1)
            authority = (directory / "crt").read_text()
            uvloop.run(synchronise(int(port.read_text()), authority, streamed=streamed))
        finally:
            server.kill()
            server.wait()


def make_certificate(directory: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / "key").write_bytes(private)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=0)
    parser.add_argument("--variant", choices=tuple(VARIANTS))
    parser.add_argument("--sync", choices=("stream", "list"))
    parser.add_argument("--serve", type=Path)
    options = parser.parse_args(arguments)
    if options.serve:
        uvloop.run(serve(options.pods, options.serve))
        return 0
    if options.sync:
        sync(options.pods or 100_000, streamed=options.sync == "stream")
        return 0
    options.pods = options.pods or 50_000
    if options.variant:
        print(json.dumps(measure(options.variant, options.pods)))
        return 0
    print(f"{options.pods} pods; CPU to keep one, resident bytes of one, CPU to read one field of one")
    for name in VARIANTS:
        command = [sys.executable, "-m", "benchmarks.cache_spike", "--variant", name]
        answer = subprocess.run(
            [*command, "--pods", str(options.pods)], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            print(f"{name:20} failed: {answer.stderr.strip().splitlines()[-1]}")
            continue
        row = json.loads(answer.stdout)
        print(
            f"{name:20} {row['cpu_us']:7.1f} µs {row['heap_bytes']:8.0f} B {row['read_us']:7.1f} µs"
            f"   (JSON {row['pod_bytes']:.0f} B; {row['total_cpu_s']:.2f} s, {row['total_mb']:.0f} MB)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
