"""`quarterdeck run --operators kai` on a real kube-apiserver: a gang, a volume, a claim, a part of a GPU.

The volume controller, the device plugin and the kubelet are this file. The operator is killed again and again
while pods wait: in the end each of them is where its bind request says, and nobody was given too much.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.server import RealServer, is_built
from parity.runner import Kubectl

from .nodegroupkit import COMMAND, Hand, free_port, is_ready, until

Json = dict[str, Any]
DRIVER = "gpu.example.com"
SPACE = "kai-resource-reservation"
OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}

pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
]


class Operator:
    """The operator's process, which can be killed and started again."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        config = directory / "config.yaml"
        kai = {"gpuReservation": {"image": "example.com/reserve:1"}}
        config.write_text(yaml.safe_dump({"operators": {"kai": kai}}))
        port, self._health = free_port(), free_port()
        self._log = directory / "operator.log"
        self._command = [
            *COMMAND, "run", "--kubeconfig", str(kubeconfig), "--operators", "kai", "--install",
            "--config", str(config), "--webhook-host", "127.0.0.1", "--webhook-port", str(port),
            "--webhook-url", f"https://127.0.0.1:{port}", "--health-address", f"127.0.0.1:{self._health}",
            "--metrics-address", "0", "--no-leader-election",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, is_awaited: bool = True) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        if is_awaited:
            until(lambda: is_ready(f"http://127.0.0.1:{self._health}/readyz"), "the operator is not ready")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextmanager
def cluster(kubectl: Kubectl, directory: Path) -> Iterator[tuple[Hand, Operator]]:
    with RealServer(fsync=False) as server:
        operator = Operator(server.kubeconfig, directory)
        operator.start()
        try:
            hand = Hand(kubectl, server.kubeconfig, directory)
            until(lambda: "default-queue" in hand("get", "queues", "-o", "name"), "no defaults")
            hand.apply(queue("team"))
            yield hand, operator
        finally:
            operator.kill()


@pytest.fixture(scope="module")
def hand(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    with cluster(kubectl, tmp_path_factory.mktemp("kai")) as (found, _):
        yield found


def queue(name: str) -> Json:
    shares = {"gpu": OPEN, "cpu": OPEN, "memory": OPEN}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": shares},
    }


def group(name: str, minimum: int) -> Json:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum, "queue": "team"},
    }


def pod(name: str, of: str, gpu: int = 0, annotations: Json | None = None, **spec: Any) -> Json:
    amounts = {"cpu": "1", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    container = {"name": "c", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pod-group-name": of, **(annotations or {})},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def add_node(hand: Hand, name: str, gpus: int = 0) -> None:
    labels = {"kubernetes.io/hostname": name}
    hand.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    words = ("patch", "node", name, "--type", "merge")
    hand(*words, "--subresource", "status", "-p", json.dumps({"status": status}))
    hand(*words, "-p", '{"spec": {"taints": null}}')


def node_of(hand: Hand, name: str) -> str:
    return hand("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def apply_all(hand: Hand, *objects: Json) -> None:
    hand.apply({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def test_a_gang(hand: Hand) -> None:
    add_node(hand, "gang-1", 2)
    apply_all(hand, group("gang", 3), *(pod(f"gang-{n}", "gang", 1) for n in range(3)))
    until(lambda: "Unschedulable" in hand("describe", "pg", "gang"), "nothing was said")
    assert [node_of(hand, f"gang-{n}") for n in range(3)] == [""] * 3
    add_node(hand, "gang-2", 1)
    until(lambda: all(node_of(hand, f"gang-{n}") for n in range(3)), "the gang does not start")


def test_a_volume(hand: Hand) -> None:
    for name in ("disk-1", "disk-2"):
        add_node(hand, name)
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["disk-2"]}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    apply_all(
        hand,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                **modes,
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {**modes, "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    hand(
        "patch",
        "pv",
        "disk",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"phase":"Available"}}',
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    apply_all(hand, group("disk", 1), pod("disk-0", "disk", volumes=volumes))
    claimed = ("get", "pv", "disk", "-o", "jsonpath={.spec.claimRef.name}")
    until(lambda: hand(*claimed) == "data", "the volume is not set aside")
    assert node_of(hand, "disk-0") == ""
    hand("patch", "pvc", "data", "--type=merge", "-p", '{"spec":{"volumeName":"disk"}}')
    hand("patch", "pvc", "data", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Bound"}}')
    until(lambda: node_of(hand, "disk-0") == "disk-2", "the pod is not bound to the node of its volume")


def test_a_claim(hand: Hand) -> None:
    add_node(hand, "dra-1")
    expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    wanted = {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "h100"'}}
    apply_all(
        hand,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [expression]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "dra-1"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "dra-1",
                "pool": {"name": "dra-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": "gpu-0", "attributes": {"model": {"string": "a100"}}},
                    {"name": "gpu-1", "attributes": {"model": {"string": "h100"}}},
                ],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": "gpu",
                "namespace": "default",
                "labels": {"kai.scheduler/queue": "team"},
            },
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "selectors": [wanted]}}
                    ]
                }
            },
        },
    )
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    apply_all(hand, group("claim", 2), *(pod(f"claim-{n}", "claim", resourceClaims=claims) for n in range(2)))
    until(lambda: all(node_of(hand, f"claim-{n}") for n in range(2)), "the pods are not bound")
    status = hand.read("resourceclaim", "gpu")["status"]
    assert [each["device"] for each in status["allocation"]["devices"]["results"]] == ["gpu-1"]
    assert sorted(each["name"] for each in status["reservedFor"]) == ["claim-0", "claim-1"]
    assert {node_of(hand, f"claim-{n}") for n in range(2)} == {"dra-1"}


def test_a_part_of_a_gpu(hand: Hand) -> None:
    add_node(hand, "share-1", 1)
    selector = {"nodeSelector": {"kubernetes.io/hostname": "share-1"}}
    apply_all(
        hand,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SPACE, "namespace": SPACE}},
        group("share", 2),
        *(
            pod(f"share-{n}", "share", annotations={"gpu-fraction": "0.5"}, **selector)  # type: ignore[arg-type]
            for n in range(2)
        ),
    )
    reservations = ("get", "pods", "-n", SPACE, "-o", "name")
    until(lambda: bool(hand.run(*reservations).stdout), "no device is reserved")
    (reservation,) = hand(*reservations).split()
    hand("annotate", reservation, "-n", SPACE, "run.ai/reserve_for_gpu_index=GPU-7")
    until(lambda: all(node_of(hand, f"share-{n}") for n in range(2)), "the pods are not bound")
    for name in ("share-0", "share-1"):
        found = hand.read("pod", name)
        prefix = found["metadata"]["annotations"]["runai/shared-gpu-configmap"]
        assert hand.read("configmap", f"{prefix}-0")["data"] == {
            "GPU_PORTION": "0.50",
            "RUNAI_NUM_OF_GPUS": "0.50",
            "NVIDIA_VISIBLE_DEVICES": "GPU-7",
        }
    hand("delete", "pod", "share-0", "share-1", "--force", "--grace-period=0")
    until(lambda: not hand(*reservations), "the reservation stays without anybody who shares")


def test_killed_at_any_moment(kubectl: Kubectl, tmp_path: Path) -> None:
    """No pod is lost or bound twice: each is where its one bind request says, and no node is too full."""
    chance = random.Random(7)
    with cluster(kubectl, tmp_path) as (hand, operator):
        for number in range(4):
            add_node(hand, f"n{number}", 8)
        gangs = [f"g{number}" for number in range(8)]
        for round in range(4):
            mine = gangs[2 * round : 2 * round + 2]
            apply_all(
                hand,
                *(group(name, 4) for name in mine),
                *(pod(f"{name}-{n}", name, 1) for name in mine for n in range(4)),
            )
            time.sleep(chance.uniform(0.0, 2.5))
            operator.kill()
            operator.start(is_awaited=chance.random() < 0.5)

        def pods() -> list[Json]:
            found: list[Json] = json.loads(hand("get", "pods", "-o", "json"))["items"]
            return found

        until(lambda: all(each["spec"].get("nodeName") for each in pods()), "a pod was lost")
        requests = json.loads(hand("get", "bindrequests", "-o", "json"))["items"]
        chosen = {each["spec"]["podName"]: each["spec"]["selectedNode"] for each in requests}
        assert len(requests) == len(chosen) == len(gangs) * 4
        assert chosen == {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods()}
        assert max(Counter(chosen.values()).values()) <= 8
        phases = ("get", "bindrequests", "-o", "jsonpath={.items[*].status.phase}")
        until(lambda: set(hand(*phases).split()) == {"Succeeded"}, "a bind request was lost")
