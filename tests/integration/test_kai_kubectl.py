"""Queues and gangs under a stock kubectl, as a user of KAI-Scheduler knows them.

The cluster is `quarterdeck up`; with ``-m kube`` the same is done on a real kube-apiserver, which calls
`quarterdeck run` over TLS.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.server import is_built
from parity.runner import Kubectl
from quarterdeck.api.manifest import load_documents

from .nodegroupkit import COMMAND, Hand, embedded_cluster, real_cluster, until

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "kai"
REAL = pytest.param(
    "real",
    marks=[
        pytest.mark.kube,
        pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
    ],
)


@pytest.fixture(scope="module", params=["up", REAL])
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    with embedded_cluster("kai") if request.param == "up" else real_cluster("kai") as found:
        yield found


@pytest.fixture(scope="module")
def hand(kubectl: Kubectl, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Hand:
    hand = Hand(kubectl, kubeconfig, tmp_path_factory.mktemp("kubectl"))
    until(lambda: "default-queue" in hand("get", "queues", "-o", "name"), "the defaults are not there")
    return hand


@pytest.fixture
def clean(hand: Hand) -> Iterator[Hand]:
    """A cluster that is as empty afterwards as it was before."""
    yield hand
    hand("delete", "pods,podgroups,bindrequests,nodes", "--all", "--force", "--grace-period=0")
    hand("delete", "queues", "--ignore-not-found", "research", "vision", "speech")


def add_node(hand: Hand, name: str, gpus: int) -> None:
    labels = {"kubernetes.io/hostname": name}
    hand.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    words = ("patch", "node", name, "--type", "merge")
    hand(*words, "--subresource", "status", "-p", yaml.safe_dump({"status": status}))
    hand(*words, "-p", '{"spec": {"taints": null}}')


def nodes_of(hand: Hand) -> dict[str, str]:
    lines = hand("get", "pods", "--no-headers", "-o", "custom-columns=N:.metadata.name,O:.spec.nodeName")
    return dict(line.split() for line in lines.splitlines())


def apply_example(hand: Hand, name: str) -> str:
    return hand("apply", "-f", str(EXAMPLES / f"{name}.yaml"))


def test_what_is_installed(hand: Hand) -> None:
    shown = hand("get", "queues")
    assert shown.split()[:5] == ["NAME", "PRIORITY", "PARENT", "CHILDREN", "DISPLAYNAME"]
    until(lambda: '["default-queue"]' in hand("get", "queue", "default-parent-queue"), shown)
    queue = hand.read("queue", "default-queue")["spec"]
    assert queue["parentQueue"] == "default-parent-queue"
    assert queue["resources"]["gpu"] == {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    values = {name: hand.read("priorityclass", name)["value"] for name in ("train", "build", "inference")}
    assert values == {"train": 50, "build": 100, "inference": 125}
    assert "lowercase" in hand("explain", "podgroup.spec.subGroups.name")


REFUSALS = {
    "uppercase": 'subgroup name "Leader" must be lowercase',
    "cycle": "cycle detected in subgroups",
    "no-resources": "resources must be specified",
    "too-much": "gpu-fraction annotation value must be a positive number smaller than 1.0",
}


def test_what_is_refused(hand: Hand) -> None:
    assert {path.stem for path in (EXAMPLES / "refused").iterdir()} == REFUSALS.keys()
    done = hand.run("apply", "-f", str(EXAMPLES / "refused"))
    assert done.returncode == 1
    for text in REFUSALS.values():
        assert f"denied the request: {text}" in done.stderr


def test_a_queue_in_which_nothing_can_run_is_warned_of(clean: Hand) -> None:
    queue = next(iter(load_documents((EXAMPLES / "1-queues.yaml").read_bytes())))
    del queue["spec"]["resources"]["gpu"]["limit"]
    done = clean.run("apply", "-f", "-", manifest=queue)
    assert done.returncode == 0, done.stderr
    assert "Warning: limit of gpu is 0" in done.stderr


def test_a_gang_waits_as_a_whole_and_then_runs(clean: Hand) -> None:
    hand = clean
    apply_example(hand, "1-queues")
    add_node(hand, "n1", gpus=8)
    apply_example(hand, "2-gang")
    until(lambda: "Unschedulable" in hand("describe", "pg", "segmentation"), "nothing was said")
    assert set(nodes_of(hand).values()) == {"<none>"}
    described = hand("describe", "pg", "segmentation")
    assert "UnschedulableOnNodePool" in described
    assert "sub-group workers requires 2 pods for gang scheduling" in described
    told = hand("describe", "pod", "segmentation-worker-1")
    assert "didn't have enough resources: GPUs" in told
    assert "Unschedulable" in told
    add_node(hand, "n2", gpus=8)
    until(lambda: "<none>" not in nodes_of(hand).values(), "the gang does not start")
    placed = nodes_of(hand)
    assert {placed["segmentation-worker-0"], placed["segmentation-worker-1"]} == {"n1", "n2"}
    phases = ("get", "bindrequests", "-o", "jsonpath={.items[*].status.phase}")
    until(lambda: hand(*phases).split() == ["Succeeded"] * 3, "not all bind requests succeeded")
    told = hand("describe", "pod", "segmentation-leader")
    assert "Successfully assigned pod default/segmentation-leader to node" in told
    until(lambda: bool(hand.read("queue", "research")["status"].get("requested")), "nothing is added up")
    queue = hand.read("queue", "research")["status"]
    assert queue["childQueues"] == ["speech", "vision"]
    assert queue["requested"]["nvidia.com/gpu"] == "12"


def test_bare_pods_find_their_way(clean: Hand) -> None:
    hand = clean
    add_node(hand, "n1", gpus=1)
    hand("run", "solo", "--image", "x", "--overrides", '{"spec": {"schedulerName": "kai-scheduler"}}')
    until(lambda: nodes_of(hand).get("solo") == "n1", "the pod is not bound")
    annotations = hand.read("pod", "solo")["metadata"]["annotations"]
    group = hand.read("pg", annotations["pod-group-name"])
    assert group["spec"]["queue"] == "default-queue"
    assert annotations["received-resource-type"] == "Regular"


def test_the_demo_runs_one_gang_after_the_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--once", "--operators", "kai", "--kubeconfig", str(tmp_path / "kubeconfig")],
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "refused podgroup/uppercase: admission webhook" in done.stdout
    pods = [line for line in done.stdout.splitlines() if "-worker-" in line and "pod/" not in line]
    assert len(pods) == 5
    assert all("Completed" in line for line in pods), done.stdout
