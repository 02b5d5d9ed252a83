"""Our webhook server beside controller-runtime's and kopf's: work per core-second of the server's process.

    python -m benchmarks webhook [--quick] [--only admission|conversion] [--connections N]

All servers run the same check and the same conversion, are called by the same client over TLS with keep-alive
connections, and are measured by the CPU time of their process. The Go peer is built by
`tools/kube/peers/build.sh`; without it only our figures (and kopf's) are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import uvloop

from quarterdeck.api import UNSET, Condition, Maybe, Model, Resource, omitempty
from quarterdeck.api.marker import Int32
from quarterdeck.api.model import EMPTY_MAP, Map, Seq
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.certificate.authority import issue, make_authority, to_pem
from quarterdeck.runtime.webhook import (
    Admission,
    Conversion,
    Denied,
    Spoke,
    Validator,
    WebhookOptions,
    WebhookServer,
)

from . import wire

PATH = "/validate-scheduling-run-ai-v2alpha2-podgroup"
OBJECTS = 1000
Json = dict[str, Any]


# -- the check ---------------------------------------------------------------------------------------


class TopologyConstraint(Model):
    topology: str = omitempty("")
    required_topology_level: str = omitempty("")
    preferred_topology_level: str = omitempty("")


class SubGroup(Model):
    name: str
    min_member: Annotated[Maybe[int], Int32] = UNSET
    parent: Maybe[str] = UNSET
    topology_constraint: Maybe[TopologyConstraint] = UNSET


class PodGroupSpec(Model):
    min_member: Annotated[Maybe[int], Int32] = UNSET
    queue: str = omitempty("")
    priority_class_name: str = omitempty("")
    preemptibility: str = omitempty("")
    topology_constraint: TopologyConstraint = omitempty(TopologyConstraint())
    sub_groups: Seq[SubGroup] = omitempty(())


class PodGroup(Resource, group="scheduling.run.ai", version="v2alpha2", status=True):
    spec: PodGroupSpec = omitempty(PodGroupSpec())


def check_tree(groups: Any) -> None:
    """Duplicates, dangling parents, cycles and minimums, as the Go peer checks them."""
    parents: dict[str, str | None] = {}
    for group in groups:
        name, parent = group.name, group.parent
        if name != name.lower():
            raise Denied(f'subgroup name "{name}" must be lowercase')
        if parent is not UNSET and parent != parent.lower():
            raise Denied(f'parent of subgroup "{name}": subgroup name "{parent}" must be lowercase')
        if name in parents:
            raise Denied(f"duplicate subgroup name {name}")
        if group.min_member is not UNSET and group.min_member < 1:
            raise Denied(f"minMember of subgroup {name} must be at least 1")
        parents[name] = parent or None
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise Denied(f"parent {parent} of {name} was not found")
    checked: dict[str | None, bool] = {None: True}
    for start in parents:
        path = []
        above: str | None = start
        while above not in checked:
            checked[above] = False
            path.append(above)
            above = parents[above]  # type: ignore[index]  # the root is among the checked
        if not checked[above]:
            raise Denied("cycle detected in subgroups")
        for name in path:
            checked[name] = True


def check_pod_group(admission: Admission, group: PodGroup) -> None:
    check_tree(group.spec.sub_groups)


# -- the conversion ----------------------------------------------------------------------------------


class ClassReference(Model):
    kind: str = omitempty("")
    name: str = omitempty("")


class CloudInstances(Model):
    min_per_zone: Maybe[int] = UNSET
    max_per_zone: Maybe[int] = UNSET
    zones: Seq[str] = omitempty(())
    class_reference: Maybe[ClassReference] = UNSET


class Taint(Model):
    key: str = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")


class NodeTemplate(Model):
    labels: Map[str, str] = omitempty(EMPTY_MAP)
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    taints: Seq[Taint] = omitempty(())


class Kubelet(Model):
    max_pods: Maybe[int] = UNSET
    root_dir: str = omitempty("")


class Disruptions(Model):
    approval_mode: str = omitempty("")


class Docker(Model):
    max_concurrent_downloads: Maybe[int] = UNSET


class Cri(Model):
    type: str = omitempty("")
    max_concurrent_downloads: Maybe[int] = UNSET


class NodeGroupStatus(Model):
    ready: int = omitempty(0)
    nodes: int = omitempty(0)
    instances: int = omitempty(0)
    desired: int = omitempty(0)
    up_to_date: int = omitempty(0)
    conditions: Seq[Condition] = omitempty(())


class OldSpec(Model):
    node_type: str
    docker: Maybe[Docker] = UNSET
    kubernetes_version: str = omitempty("")
    cloud_instances: Maybe[CloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    kubelet: Maybe[Kubelet] = UNSET
    disruptions: Maybe[Disruptions] = UNSET


class Spec(Model):
    node_type: str
    cri: Maybe[Cri] = UNSET
    cloud_instances: Maybe[CloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    kubelet: Maybe[Kubelet] = UNSET
    disruptions: Maybe[Disruptions] = UNSET


class OldNodeGroup(Resource, group="deckhouse.io", version="v1alpha1", kind="NodeGroup", scope="Cluster"):
    spec: OldSpec
    status: NodeGroupStatus = omitempty(NodeGroupStatus())


class NodeGroup(Resource, group="deckhouse.io", version="v1", scope="Cluster"):
    spec: Spec
    status: NodeGroupStatus = omitempty(NodeGroupStatus())


DROPPED_VERSION = "node.deckhouse.io/kubernetes-version"
TO_NEW = {"Cloud": "CloudEphemeral", "Hybrid": "CloudStatic", "Static": "Static"}
TO_OLD = {new: old for old, new in TO_NEW.items()}


def to_new(old: OldNodeGroup) -> NodeGroup:
    spec, metadata = old.spec, old.metadata
    if spec.kubernetes_version:
        annotations = {**metadata.annotations, DROPPED_VERSION: spec.kubernetes_version}
        metadata = metadata.evolve(annotations=annotations)
    docker = spec.docker
    return NodeGroup(
        metadata=metadata,
        spec=Spec(
            node_type=TO_NEW[spec.node_type],
            cri=Cri(type="Docker", max_concurrent_downloads=docker.max_concurrent_downloads)
            if docker
            else UNSET,
            cloud_instances=spec.cloud_instances,
            node_template=spec.node_template,
            kubelet=spec.kubelet,
            disruptions=spec.disruptions,
        ),
        status=old.status,
    )


def to_old(new: NodeGroup) -> OldNodeGroup:
    spec, metadata = new.spec, new.metadata
    version = metadata.annotations.get(DROPPED_VERSION, "")
    if version:
        kept = {key: value for key, value in metadata.annotations.items() if key != DROPPED_VERSION}
        metadata = metadata.evolve(annotations=kept)
    cri = spec.cri
    return OldNodeGroup(
        metadata=metadata,
        spec=OldSpec(
            node_type=TO_OLD[spec.node_type],
            docker=Docker(max_concurrent_downloads=cri.max_concurrent_downloads)
            if cri and cri.type == "Docker"
            else UNSET,
            kubernetes_version=version,
            cloud_instances=spec.cloud_instances,
            node_template=spec.node_template,
            kubelet=spec.kubelet,
            disruptions=spec.disruptions,
        ),
        status=new.status,
    )


# -- what is sent ------------------------------------------------------------------------------------


def admission_review() -> Json:
    groups: list[Json] = []
    for index in range(20):
        group: Json = {"name": f"worker-group-{index:02d}", "minMember": 4}
        if index:
            group["parent"] = f"worker-group-{(index - 1) // 4:02d}"
        groups.append(group)
    now = "2026-03-01T10:00:00Z"
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"},
            "resource": {"group": "scheduling.run.ai", "version": "v2alpha2", "resource": "podgroups"},
            "requestKind": {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"},
            "requestResource": {"group": "scheduling.run.ai", "version": "v2alpha2", "resource": "podgroups"},
            "name": "training-run",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:team-a:builder",
                "uid": "0c5b1f0e-1d3c-4f0c-8d4b-1c2f5c0f3b52",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"],
            },
            "object": {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {
                    "name": "training-run",
                    "namespace": "team-a",
                    "uid": "1f6e6f7e-2b1a-4f57-9c55-5c5f2b9a7a11",
                    "creationTimestamp": now,
                    "generation": 1,
                    "labels": {"app": "training", "kai.scheduler/queue": "research"},
                    "managedFields": [
                        {
                            "manager": "kubectl-create",
                            "operation": "Update",
                            "apiVersion": "scheduling.run.ai/v2alpha2",
                            "time": now,
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {
                                "f:spec": {".": {}, "f:minMember": {}, "f:queue": {}, "f:subGroups": {}}
                            },
                        }
                    ],
                },
                "spec": {"minMember": 80, "queue": "research", "subGroups": groups},
            },
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def node_group(index: int) -> Json:
    now = "2026-03-01T10:00:00Z"
    return {
        "apiVersion": "deckhouse.io/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {
            "name": f"worker-pool-{index:04d}",
            "uid": f"1f6e6f7e-2b1a-4f57-9c55-{index:012d}",
            "resourceVersion": str(100000 + index),
            "generation": 3,
            "creationTimestamp": now,
            "labels": {"team": "research", "tier": "gpu"},
            "annotations": {
                "description": "workers of the research team, kept at three per zone while the big runs last",
                "example.com/owner": "research-platform@example.com",
                "example.com/ticket": "https://tickets",
            },
        },
        "spec": {
            "nodeType": "Cloud",
            "kubernetesVersion": "1.16",
            "docker": {"maxConcurrentDownloads": 4},
            "cloudInstances": {
                "minPerZone": 1,
                "maxPerZone": 5,
                "zones": ["eu-west-1a", "eu-west-1b", "eu-west-1c"],
                "classReference": {"kind": "AWSInstanceClass", "name": "worker"},
            },
            "nodeTemplate": {
                "labels": {"node-role.example.com/worker": "", "accelerator": "h100"},
                "annotations": {"autoscaling.example.com/pool": "gpu"},
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}],
            },
            "kubelet": {"maxPods": 110, "rootDir": "/var/lib/kubelet"},
            "disruptions": {"approvalMode": "Automatic"},
        },
        "status": {
            "ready": 3,
            "nodes": 3,
            "instances": 3,
            "desired": 3,
            "upToDate": 3,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "AllNodesReady",
                    "message": "",
                    "lastTransitionTime": now,
                }
            ],
        },
    }


def conversion_review() -> Json:
    return {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "desiredAPIVersion": "deckhouse.io/v1",
            "objects": [node_group(index) for index in range(OBJECTS)],
        },
    }


def _post(path: str, document: Json) -> bytes:
    return wire.render("POST", path, json.dumps(document, separators=(",", ":")).encode())


# -- the servers -------------------------------------------------------------------------------------


async def serve_ours(certs: Path, port: int) -> None:
    server = WebhookServer(WebhookOptions(host="127.0.0.1", port=port), certificates=FileCertificates(certs))
    server.add(Validator(PodGroup, check_pod_group))
    server.add_conversion(Conversion(NodeGroup, Spoke(OldNodeGroup, to_new, to_old)))
    async with server:
        print("ready", flush=True)
        await asyncio.Event().wait()


async def serve_kopf(certs: Path, port: int) -> None:
    """kopf's own server and admission engine; it has no conversion."""
    import kopf
    from kopf._cogs.structs import references
    from kopf._core.engines import admission
    from kopf._core.intents.registries import OperatorRegistry
    from kopf._core.reactor.inventory import ResourceMemories

    registry = OperatorRegistry()

    @kopf.on.validate("scheduling.run.ai", "v2alpha2", "podgroups", id="check", registry=registry)
    def check(spec: Any, **_: Any) -> None:
        try:
            check_tree([_Attributes(group) for group in spec.get("subGroups", [])])
        except Denied as error:
            raise kopf.AdmissionError(str(error)) from error

    insights = references.Insights()
    insights.webhook_resources.add(
        references.Resource(
            "scheduling.run.ai", "v2alpha2", "podgroups", kind="PodGroup", namespaced=True,
            verbs=frozenset({"list", "watch", "patch"}),
        )
    )  # fmt: skip
    serve: Any = functools.partial(
        admission.serve_admission_request,
        settings=kopf.OperatorSettings(),
        memories=ResourceMemories(),
        memobase=cast("Any", kopf.Memo()),
        registry=registry,
        insights=insights,
        indices={},
    )
    server = kopf.WebhookServer(
        addr="127.0.0.1", port=port, certfile=str(certs / "tls.crt"), pkeyfile=str(certs / "tls.key")
    )
    async for _ in server(serve):
        print("ready", flush=True)


class _Attributes:
    def __init__(self, group: Json) -> None:
        self.name = group["name"]
        self.parent = group.get("parent", UNSET)
        self.min_member = group.get("minMember", UNSET)


class Server(NamedTuple):
    name: str
    command: list[str]
    path: str = PATH
    converts: bool = True


def _servers() -> list[Server]:
    me = [sys.executable, "-m", "benchmarks.webhook", "--serve"]
    base = os.environ.get("QUARTERDECK_CACHE") or Path.home() / ".cache" / "quarterdeck"
    peer = Path(base, "kube", "v1.36.3", "peers", "webhook")
    servers = [Server("quarterdeck", [*me, "quarterdeck"])]
    if peer.exists():
        servers.append(Server("controller-runtime", [str(peer)]))
    else:
        print("the Go peer is not built (tools/kube/peers/build.sh): our figures only")
    return [*servers, Server("kopf", [*me, "kopf"], path="/check", converts=False)]


class Running(NamedTuple):
    server: Server
    target: wire.Target
    pid: int


class Start:
    def __init__(self, server: Server, certs: Path) -> None:
        self._server, self._certs = server, certs

    def __enter__(self) -> Running:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [*self._server.command, "--cert-dir", str(self._certs), "--port", str(port)]
        # Errors of a server that does not start must be seen; a running one says nothing.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"ready"):
            raise RuntimeError(f"{self._server.name} did not start")
        context = ssl.create_default_context(cafile=str(self._certs / "ca.crt"))
        return Running(self._server, wire.Target("localhost", port, context), self._process.pid)

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()


def write_certificates(directory: Path) -> None:
    now = datetime.now(UTC)
    authority, key = make_authority("benchmark", now=now, life=timedelta(days=1))
    certificate, leaf_key = issue(authority, key, ["localhost"], now=now, life=timedelta(days=1))
    (directory / "ca.crt").write_bytes(to_pem([authority]))
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(leaf_key)


# -- measuring ---------------------------------------------------------------------------------------


class Figure(NamedTuple):
    per_core_second: float
    per_second: float


def _repeat(count: int, request: bytes) -> Iterator[bytes]:
    for _ in range(count):
        yield request


async def _measure(running: Running, count: int, request: bytes, connections: int) -> Figure:
    before, start = wire.cpu_seconds([running.pid]), time.monotonic()
    await wire.load(running.target, _repeat(count, request), connections)
    cpu, wall = wire.cpu_seconds([running.pid]) - before, time.monotonic() - start
    return Figure(count / max(cpu, 1e-9), count / wall)


def _check_answers(running: Running) -> None:
    """A benchmark of wrong answers is worth nothing: one good and one bad request first."""
    import urllib.request

    def ask(path: str, document: Json) -> Json:
        request = urllib.request.Request(
            f"https://localhost:{running.target.port}{path}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=running.target.context) as answer:
            response: Json = json.load(answer)["response"]
        return response

    good, bad = admission_review(), admission_review()
    bad["request"]["object"]["spec"]["subGroups"][0]["parent"] = "worker-group-19"
    assert ask(running.server.path, good)["allowed"] is True, running.server.name
    refused = ask(running.server.path, bad)
    assert refused["allowed"] is False, running.server.name
    assert refused["status"]["message"] == "cycle detected in subgroups", refused
    if running.server.converts:
        converted = ask("/convert", conversion_review())["convertedObjects"]
        assert len(converted) == OBJECTS
        assert converted[7]["spec"]["cri"] == {"type": "Docker", "maxConcurrentDownloads": 4}
        assert converted[7]["metadata"]["annotations"][DROPPED_VERSION] == "1.16"


def _compare(what: str, figures: dict[str, list[Figure]], unit: str, scale: float) -> None:
    ours = statistics.median(figure.per_core_second for figure in figures["quarterdeck"])
    for name, measured in figures.items():
        core = statistics.median(figure.per_core_second for figure in measured)
        wall = statistics.median(figure.per_second for figure in measured)
        ratio = "" if name == "quarterdeck" else f"   quarterdeck does {ours / core:.2f}x the work"
        print(
            f"{what:12}{name:20}{core:>10,.1f} {unit}/core-s {1e3 / core * scale:>9.3f} ms CPU each"
            f"{wall:>10,.1f}/s wall{ratio}",
            flush=True,
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks webhook", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--only", choices=["admission", "conversion"], action="append", default=[])
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="servers take turns this often; medians count")
    parser.add_argument("--serve", choices=["quarterdeck", "kopf"], help=argparse.SUPPRESS)
    parser.add_argument("--cert-dir", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve = serve_ours if options.serve == "quarterdeck" else serve_kopf
        uvloop.run(serve(options.cert_dir, options.port))
        return 0
    scale = 0.1 if options.quick else 1.0
    chosen = options.only or ["admission", "conversion"]
    convert = _post("/convert", conversion_review())
    size = len(_post(PATH, admission_review()))
    print(f"admission review {size:,} bytes, conversion review {len(convert):,} bytes, HTTP head included")
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory, ExitStack() as stack:
        certs = Path(directory)
        write_certificates(certs)
        running = [stack.enter_context(Start(server, certs)) for server in _servers()]
        for each in running:
            _check_answers(each)
        if "admission" in chosen:
            figures: dict[str, list[Figure]] = {}
            for _ in range(options.rounds):
                for each in running:
                    admit = _post(each.server.path, admission_review())
                    count = int((4000 if each.server.name == "kopf" else 16000) * scale)
                    uvloop.run(_measure(each, count // 8, admit, options.connections))
                    figure = uvloop.run(_measure(each, count, admit, options.connections))
                    figures.setdefault(each.server.name, []).append(figure)
            _compare("admission", figures, "requests", 1.0)
        if "conversion" in chosen:
            figures = {}
            for _ in range(options.rounds):
                for each in running:
                    if each.server.converts:
                        uvloop.run(_measure(each, 3, convert, 1))
                        figure = uvloop.run(_measure(each, max(10, int(60 * scale)), convert, 1))
                        figures.setdefault(each.server.name, []).append(figure)
            _compare("conversion", figures, "reviews", 1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
