"""NodeGroup webhooks beside controller-runtime's: CPU of converting lists, and of judging changes.

    python -m benchmarks nodegroup [--quick] [--objects N] [--rounds N] [--connections N] [--long N]

Both servers convert the same reviews of 1,000 groups between v1 and v1alpha1, lossless annotation
included, in both directions, and judge the same change with all checks. They are called by the same
client over TLS and measured by the CPU time of their processes, taking turns. Ours is the whole operator,
reading cluster state from its cache; the Go peer (tools/kube/peers/nodegroup) keeps the same state in
memory. Without the peer (no Go) only our figures are printed. Then come one review of 5,000 groups, its time
and memory, and what a hook costs that is started for every call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from quarterdeck.api import DynamicObject
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.runtime.operator.program import Program, ProgramOptions

from . import wire
from .contestant import find_peer
from .webhook import Running, Server, Start, write_certificates

Json = dict[str, Any]
OURS, GO = "quarterdeck", "controller-runtime"
DOWN, UP, JUDGE = "v1 -> v1alpha1", "v1alpha1 -> v1, restoring", "policy validation"
CLUSTER_CONFIGURATION = "clusterType: Cloud\ncloud: {prefix: prod}\ndefaultCRI: Containerd\n"
DISCOVERY_DATA = '{"zones": ["a", "b"]}'


def group(index: int) -> Json:
    """A group with much of what the old versions cannot hold, as the API server sends it."""
    manager: Json = {"f:spec": {".": {}, "f:nodeType": {}, "f:kubelet": {".": {}, "f:maxPods": {}}}}
    return {
        "apiVersion": names.V1,
        "kind": names.KIND,
        "metadata": {
            "name": f"group-{index}",
            "uid": f"00000000-0000-4000-8000-{index:012d}",
            "resourceVersion": str(index + 1000),
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"team": "ml"},
            "managedFields": [
                {
                    "manager": "kubectl",
                    "operation": "Update",
                    "apiVersion": names.V1,
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": manager,
                }
            ],
        },
        "spec": {
            "nodeType": "CloudEphemeral",
            "cri": {"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 5}},
            "cloudInstances": {
                "classReference": {"kind": "AWSInstanceClass", "name": "gpu"},
                "minPerZone": 0,
                "maxPerZone": 4,
                "priority": 30,
                "zones": ["a", "b"],
                "standby": "10%",
                "standbyHolder": {"overprovisioningRate": 40, "notHeldResources": {"cpu": "500m"}},
            },
            "nodeTemplate": {
                "labels": {"role": "gpu"},
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
            },
            "disruptions": {
                "approvalMode": "RollingUpdate",
                "rollingUpdate": {"windows": [{"from": "8:00", "to": "18:30", "days": ["Mon", "Sun"]}]},
            },
            "kubelet": {
                "maxPods": 60,
                "containerLogMaxSize": "50Mi",
                "containerLogMaxFiles": 4,
                "resourceReservation": {"mode": "Static", "static": {"cpu": "500m"}},
                "topologyManager": {"enabled": True, "scope": "Pod", "policy": "SingleNumaNode"},
            },
            "update": {"maxConcurrent": "20%"},
            "gpu": {"sharing": "TimeSlicing", "timeSlicing": {"partitionCount": 4}},
            "nodeDrainTimeoutSecond": 300,
        },
        "status": {
            "ready": 2,
            "nodes": 2,
            "desired": 2,
            "min": 0,
            "max": 8,
            "error": "",
            "conditionSummary": {"statusMessage": "", "ready": "True"},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in ("Ready", "Updating", "Error", "Scaling")
            ],
        },
    }


def conversion(objects: Sequence[Any], target: str) -> Json:
    request = {"uid": "u", "desiredAPIVersion": target, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def admission(new: Json, old: Json) -> Json:
    kind = {"group": names.GROUP, "version": "v1", "kind": names.KIND}
    resource = {"group": names.GROUP, "version": "v1", "resource": "nodegroups"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": new["metadata"]["name"],
        "operation": "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def compact(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def secret(name: str, **data: str) -> DynamicObject:
    metadata = {"name": name, "namespace": names.SYSTEM_NAMESPACE}
    return DynamicObject({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})


async def serve(certificates: Path, port: int) -> None:
    """The operator on an embedded cluster that nobody else uses."""
    server = ApiServer()
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    configuration = {names.CLUSTER_CONFIGURATION_KEY: CLUSTER_CONFIGURATION}
    await client.create(secret(names.CLUSTER_CONFIGURATION_SECRET, **configuration))
    await client.create(secret(names.PROVIDER_SECRET, **{names.DISCOVERY_DATA_KEY: DISCOVERY_DATA}))
    options = ProgramOptions(
        is_embedded=True, installs=True, webhook_port=port, certificate_directory=str(certificates)
    )
    program = Program(client, [NodeGroupOperator()], options)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.serve())
        await program.wait_ready()
        print("ready", flush=True)


def ask(running: Running, path: str, body: bytes) -> Any:
    url = f"https://localhost:{running.target.port}{path}"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=running.target.context) as answer:
        return json.load(answer)["response"]


def check_answers(running: Running, objects: Sequence[Json]) -> list[Json]:
    """The right answers, before anything is measured; gives the groups in the old version."""
    old = ask(running, names.CONVERT_PATH, compact(conversion(objects, names.V1ALPHA1)))["convertedObjects"]
    assert len(old) == len(objects)
    assert old[0]["spec"]["cri"] == {"type": "Containerd", "containerd": {"maxConcurrentDownloads": 5}}
    memory = json.loads(old[0]["metadata"]["annotations"][names.CONVERSION_DATA])
    assert len(memory[names.V1]) == 11, memory
    back = ask(running, names.CONVERT_PATH, compact(conversion(old, names.V1)))["convertedObjects"]
    # Go writes an empty status of metadata and the like, so only what the user sees is compared.
    assert [(one["spec"], one["status"]) for one in back] == [(o["spec"], o["status"]) for o in objects]
    assert all("annotations" not in one["metadata"] for one in back)
    good, bad = group(0), group(0)
    bad["spec"]["disruptions"]["rollingUpdate"]["windows"][0]["days"] = ["Monday"]
    assert ask(running, names.POLICY_PATH, compact(admission(good, good)))["allowed"] is True
    refused = ask(running, names.POLICY_PATH, compact(admission(bad, good)))
    wanted = '.spec.disruptions.rollingUpdate.windows[0].days: invalid day "Monday", expected one of '
    assert refused["status"]["message"].startswith(wanted), refused
    return list(old)


class Work(NamedTuple):
    """The same request, many times."""

    name: str
    request: bytes
    times: int
    connections: int


async def cpu_of(running: Running, work: Work) -> float:
    """Milliseconds of the server's CPU per request."""
    await wire.load(running.target, iter([work.request] * max(2, work.times // 8)), work.connections)
    before = wire.cpu_seconds([running.pid])
    await wire.load(running.target, iter([work.request] * work.times), work.connections)
    return (wire.cpu_seconds([running.pid]) - before) / work.times * 1000


def long_list(running: Running, count: int) -> None:
    """One review of very many groups: what a list of them costs that are stored in another version."""
    body = compact(conversion([group(index) for index in range(count)], names.V1ALPHA1))
    cpu, memory, started = wire.cpu_seconds([running.pid]), _memory(running.pid), time.perf_counter()
    converted = ask(running, names.CONVERT_PATH, body)["convertedObjects"]
    seconds = time.perf_counter() - started
    assert len(converted) == count
    cpu, memory = wire.cpu_seconds([running.pid]) - cpu, _memory(running.pid) - memory
    print(
        f"{f'{count:,} groups in one review':28}{running.server.name:20}{cpu:>10.3f} s CPU, {seconds:.1f} s"
        f" with the client's part (the API server waits 30 s), {memory:.0f} MB more at most"
        f" for {len(body) / 1e6:.0f} MB",
        flush=True,
    )


def _memory(pid: int) -> float:
    """The most memory that a process has had so far, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


HOOK = """
import json, sys
request = json.load(sys.stdin)["request"]
spec = request["object"]["spec"]
instances = spec.get("cloudInstances") or {}
is_allowed = (instances.get("maxPerZone") or 0) >= (instances.get("minPerZone") or 0)
print(json.dumps({"allowed": is_allowed}))
"""
JQ = "(.request.object.spec.cloudInstances // {}) | {allowed: ((.maxPerZone // 0) >= (.minPerZone // 0))}"


def cpu_of_hook(command: Sequence[str], body: bytes, count: int) -> float:
    """Milliseconds of CPU of a process that is started for one review."""
    before = os.times()
    for _ in range(count):
        answer = subprocess.run(command, input=body, check=True, capture_output=True).stdout
        assert json.loads(answer)["allowed"] is True
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent / count * 1000


def hooks() -> dict[str, list[str]]:
    """Shell hooks that make one of the checks, without any cluster state."""
    found = {"bash and python": ["bash", "-c", 'exec "$0" -I -S -c "$1"', sys.executable, HOOK]}
    jq = shutil.which("jq")
    if jq is not None:
        found["bash and jq"] = ["bash", "-c", '"$0" -c "$1"', jq, JQ]
    return found


def report(name: str, unit: str, figures: dict[str, float]) -> None:
    ours = figures[OURS]
    for server, cpu in figures.items():
        ratio = "" if server == OURS else f"   ours: {ours / cpu:.2f}x the CPU, {cpu / ours:.2f}x the work"
        print(f"{name:28}{server:20}{cpu:>10.3f} ms CPU per {unit}{ratio}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks nodegroup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything, for a look")
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5, help="servers take turns this often; medians count")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--long", type=int, default=5000, help="groups in one review (default: %(default)s)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cert-dir", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        uvloop.run(serve(options.cert_dir, options.port))
        return 0
    rounds, scale = (2, 0.25) if options.quick else (options.rounds, 1.0)
    servers = [Server(OURS, [sys.executable, "-m", "benchmarks.nodegroup", "--serve"])]
    peer = find_peer("nodegroup")
    if peer is not None:
        servers.append(Server(GO, [str(peer)]))
    else:
        print("the Go peer is not built (tools/kube/peers/build.sh): our figures only")
    groups = [group(index) for index in range(options.objects)]
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory, ExitStack() as stack:
        certificates = Path(directory)
        write_certificates(certificates)
        running = [stack.enter_context(Start(server, certificates)) for server in servers]
        old, *_ = [check_answers(each, groups) for each in running]
        down, up = compact(conversion(groups, names.V1ALPHA1)), compact(conversion(old, names.V1))
        judged = compact(admission(group(0), group(0)))
        print(f"{len(groups):,} groups: {len(down):,} bytes in v1, {len(up):,} bytes in v1alpha1")
        works = [
            Work(DOWN, wire.render("POST", names.CONVERT_PATH, down), int(40 * scale), 1),
            Work(UP, wire.render("POST", names.CONVERT_PATH, up), int(40 * scale), 1),
            Work(
                JUDGE, wire.render("POST", names.POLICY_PATH, judged), int(8000 * scale), options.connections
            ),
        ]
        figures: dict[str, dict[str, list[float]]] = {work.name: {} for work in works}
        for _ in range(rounds):
            for work in works:
                for each in running:
                    found = figures[work.name].setdefault(each.server.name, [])
                    found.append(uvloop.run(cpu_of(each, work)))
        for each in running:
            long_list(each, options.long)
    medians = {
        name: {server: statistics.median(found) for server, found in by_server.items()}
        for name, by_server in figures.items()
    }
    for name, by_server in medians.items():
        report(name, "change" if name == JUDGE else "review", by_server)
    for name, command in hooks().items():
        cpu = cpu_of_hook(command, judged, 10 if options.quick else 40)
        print(f"{'a process per call':28}{name:20}{cpu:>10.3f} ms CPU per change", end="")
        print(f"   ours: {cpu / medians[JUDGE][OURS]:.0f}x the work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
