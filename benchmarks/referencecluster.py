"""Clusters whose cost is measured, and the one to compare with: Kubernetes' own programs with KWOK's nodes.

KWOK (``go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0``) is named by ``$KWOK`` or found in the path. Kubernetes'
controllers may dial cluster addresses: run this where only loopback exists (``tools/kube/netns.sh``).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from . import wire

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from kube.server import RealServer

_UNLIMITED = ("--kube-api-qps=5000", "--kube-api-burst=5000")
"""By default its own programs hold themselves back to some twenty requests a second."""
_READY_SECONDS = 120


class Cluster(NamedTuple):
    """A running cluster."""

    kubeconfig: Path
    server: wire.Target
    pids: tuple[int, ...]
    seconds: float
    """From its start until it was ready."""

    def cpu(self) -> float:
        """CPU seconds of its processes so far."""
        return wire.cpu_seconds(list(self.pids))

    def resident(self) -> int:
        """Bytes of memory that its processes have."""
        return wire.resident_bytes(list(self.pids))


def find_kwok() -> str | None:
    """Where KWOK is; ``None`` where there is none."""
    return os.environ.get("KWOK") or shutil.which("kwok")


def _stage(kind: str, name: str, when: list[wire.Json], **following: object) -> wire.Json:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "next": following,
        },
    }


def _stages() -> str:
    """What KWOK's nodes and pods do: they are ready at once, and gone as soon as they are deleted."""
    deleted = {"key": ".metadata.deletionTimestamp"}
    unready = {
        "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
        "operator": "NotIn",
        "values": ["True"],
    }
    running = """
      {{ $now := Now | Quote }}
      phase: Running
      podIP: {{ PodIP | Quote }}
      hostIP: {{ NodeIP | Quote }}
      startTime: {{ $now }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ $now }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name }}
        image: {{ .image }}
        ready: true
        state: {running: {startedAt: {{ $now }}}}
      {{ end }}"""
    serving = """
      conditions:
      - {type: Ready, status: "True", reason: KubeletReady, lastHeartbeatTime: {{ Now | Quote }}}"""
    stages = [
        _stage("Node", "serves", [unready], statusTemplate=serving),
        _stage("Pod", "runs", [{**deleted, "operator": "DoesNotExist"}, unready], statusTemplate=running),
        _stage("Pod", "goes", [{**deleted, "operator": "Exists"}], delete=True),
    ]
    return "\n---\n".join(json.dumps(each) for each in stages)


def _node(number: int) -> bytes:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": {"type": "kwok"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    return json.dumps(document).encode()


def _make_nodes(server: RealServer, target: wire.Target, count: int) -> None:
    requests = (wire.render("POST", "/api/v1/nodes", _node(number)) for number in range(count))
    asyncio.run(wire.load(target, requests, 16))
    deadline = time.monotonic() + _READY_SECONDS
    while not all(map(_is_ready, server.get("/api/v1/nodes")["items"])):
        if time.monotonic() > deadline:
            raise TimeoutError("KWOK's nodes are not ready")
        time.sleep(1)


def _is_ready(node: wire.Json) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


@contextmanager
def reference(nodes: int) -> Iterator[Cluster]:
    """kube-apiserver, etcd, kube-controller-manager and kube-scheduler, with nodes and pods by KWOK."""
    started = time.monotonic()
    kwok = find_kwok()
    assert kwok is not None
    with RealServer(controllers=True, controller_args=_UNLIMITED) as server:
        config = f"--kubeconfig={server.kubeconfig}"
        scheduler = [str(server.program("kube-scheduler")), config, *_UNLIMITED]
        scheduler += ["--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"]
        behavior = server.directory / "stages.yaml"
        behavior.write_text(_stages())
        simulator = [kwok, config, f"--config={behavior}"]
        simulator += ["--manage-all-nodes=true", "--node-lease-duration-seconds=40"]
        processes = [
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for command in (scheduler, simulator)
        ]
        try:
            target = wire.target(server.kubeconfig)
            _make_nodes(server, target, nodes)
            pids = (*server.pids.values(), *(each.pid for each in processes))
            yield Cluster(server.kubeconfig, target, pids, time.monotonic() - started)
        finally:
            for each in processes:
                each.terminate()
            for each in processes:
                with suppress(subprocess.TimeoutExpired):
                    each.wait(10)
                each.kill()
