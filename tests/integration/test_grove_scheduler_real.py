"""Gangs under the real kube-scheduler: `gangScheduling` on kube-apiserver with the Workload API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kube.server import RealServer, cache_dir
from parity.runner import Kubectl

from .nodegroupkit import COMMAND, Hand, free_port, is_ready, running, until

SCHEDULER = cache_dir() / "kube-scheduler"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
EXAMPLE = Path(__file__).parents[2] / "examples" / "grove" / "2-simple.yaml"

pytestmark = [
    pytest.mark.kube,
    pytest.mark.skipif(not SCHEDULER.exists(), reason="the real kube-scheduler is not built (make kube)"),
]


@pytest.fixture
def hand(kubectl: Kubectl, tmp_path: Path) -> Iterator[Hand]:
    """A server with the API, the scheduler, and an operator that uses both."""
    settings = tmp_path / "config.yaml"
    settings.write_text(
        yaml.safe_dump({"operators": {"grove": {"schedulerConfig": {"gangScheduling": True}}}})
    )
    arguments = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    port, health = free_port(), free_port()
    with RealServer(fsync=False, apiserver_args=arguments) as server:
        kubeconfig = str(server.kubeconfig)
        operator = [
            *COMMAND, "run", "--kubeconfig", kubeconfig, "--operators", "grove", "--install",
            "--config", str(settings), "--webhook-host", "127.0.0.1", "--webhook-port", str(port),
            "--webhook-url", f"https://127.0.0.1:{port}", "--health-address", f"127.0.0.1:{health}",
            "--metrics-address", "0", "--no-leader-election",
        ]  # fmt: skip
        scheduler = [
            str(SCHEDULER), "--kubeconfig", kubeconfig, GATES, "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
        ]  # fmt: skip
        with running(operator, lambda: is_ready(f"http://127.0.0.1:{health}/readyz")):
            process = subprocess.Popen(scheduler, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                yield Hand(kubectl, server.kubeconfig, tmp_path)
            finally:
                process.terminate()
                process.wait()


def add_node(hand: Hand, name: str, pods: int) -> None:
    hand.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    amounts = {"cpu": "8", "memory": "8Gi", "pods": str(pods)}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    change = json.dumps({"status": status})
    hand("patch", "node", name, "--type=merge", "--subresource=status", "-p", change)
    hand("patch", "node", name, "--type=merge", "-p", '{"spec": {"taints": null}}')


def nodes_of(hand: Hand) -> list[str]:
    return hand("get", "pods", "--no-headers", "-o", "custom-columns=N:.spec.nodeName").split()


def test_a_gang_waits_as_a_whole(hand: Hand) -> None:
    add_node(hand, "small", pods=2)
    hand("apply", "-f", str(EXAMPLE))
    until(lambda: hand.run("get", "secret", "simple-ic-sat").returncode == 0, "there is no Secret")
    hand("patch", "secret", "simple-ic-sat", "--type=merge", "-p", '{"data": {"token": "eA=="}}')
    group = ("get", "podgroups.scheduling.k8s.io", "simple-0-rank", "-o")
    reason = 'jsonpath={.status.conditions[?(@.type=="PodGroupScheduled")].reason}'
    until(lambda: hand.run(*group, reason).stdout == "Unschedulable", "the scheduler does not see the gang")
    assert nodes_of(hand) == ["<none>"] * 3
    add_node(hand, "more", pods=2)
    until(lambda: "<none>" not in nodes_of(hand), "the gang does not start")
    assert hand(*group, reason) == "Scheduled"
    assert "GangPerPodClique" in hand("describe", "pcs", "simple")
