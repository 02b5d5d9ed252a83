"""Nodes, volumes, usage and certificates under a stock kubectl on `quarterdeck up --nodes 3`."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from parity.runner import Kubectl

from .nodegroupkit import Hand, embedded_cluster, until


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with embedded_cluster("none", nodes=3) as path:
        yield path


@pytest.fixture(scope="module")
def hand(kubectl: Kubectl, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Hand:
    return Hand(kubectl, kubeconfig, tmp_path_factory.mktemp("kubectl"))


def wait(hand: Hand, what: str, condition: str, complaint: str) -> None:
    """kubectl watches until something holds: one program instead of one for every look."""
    until(lambda: hand.run("wait", what, f"--for={condition}", "--timeout=30s").returncode == 0, complaint)


def template(**spec: Any) -> dict[str, Any]:
    usage = {"quarterdeck.dev/usage-cpu": "200m", "quarterdeck.dev/usage-memory": "64Mi"}
    container: dict[str, Any] = {"name": "c", "image": "nginx", "args": ["serve", "all of it"]}
    container["resources"] = {"requests": {"cpu": "100m"}}
    pod = {"containers": [container], **spec}
    return {"metadata": {"labels": {"app": "web"}, "annotations": usage}, "spec": pod}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


@pytest.fixture
def web(hand: Hand) -> Iterator[Hand]:
    hand("apply", "-f", "-", manifest=workload("Deployment", "web", replicas=2))
    hand("rollout", "status", "deployment/web", "--timeout=60s")
    yield hand
    hand("delete", "deployment,statefulset,pvc,hpa", "--all", "--ignore-not-found")
    until(lambda: not hand("get", "pods,pvc", "-o", "name").split(), "something is left")


def test_top_tells_what_pods_say_that_they_use(web: Hand) -> None:
    rows = [line.split() for line in web("top", "pods", "--no-headers").splitlines()]
    assert sorted(row[1:] for row in rows) == [["200m", "64Mi"], ["200m", "64Mi"]]
    nodes = [line.split() for line in web("top", "nodes", "--no-headers").splitlines()]
    assert [row[0] for row in nodes] == ["node-0", "node-1", "node-2"]
    assert sorted(row[1] for row in nodes) == ["0m", "200m", "200m"]


def test_an_autoscaler_follows_what_pods_say_that_they_use(web: Hand) -> None:
    web("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    wait(web, "deployment/web", "jsonpath={.status.availableReplicas}=5", "the Deployment is not scaled")


def test_logs_say_what_would_have_run_and_events_what_happened(web: Hand) -> None:
    said = web("logs", "deployment/web")
    assert "image nginx would have run the command of the image with serve 'all of it'" in said
    until(
        lambda: (
            {"Pulled", "Created", "Started"}
            <= set(web("get", "events", "-o=jsonpath={.items[*].reason}").split())
        ),
        "the kubelet tells nothing",
    )


def test_a_stateful_set_with_claims_is_rolled_out(web: Hand) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    web(
        "apply",
        "-f",
        "-",
        manifest=workload("StatefulSet", "db", serviceName="db", replicas=2, volumeClaimTemplates=claims),
    )
    web("rollout", "status", "statefulset/db", "--timeout=60s")
    web("wait", "--for=jsonpath={.status.phase}=Bound", "pvc", "--all", "--timeout=60s")
    assert web("get", "pvc", "-o=jsonpath={.items[*].spec.storageClassName}") == "standard standard"


def test_a_certificate_is_approved_and_good_for_the_api(hand: Hand) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {
        "request": request,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    manifest = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "jane"},
        "spec": spec,
    }
    hand("apply", "-f", "-", manifest=manifest)
    hand("certificate", "approve", "jane")
    until(lambda: hand("get", "csr", "jane", "-o=jsonpath={.status.certificate}"), "nobody signs")
    assert "Approved,Issued" in hand("get", "csr", "jane")


def test_nodes_fail_and_come_back(web: Hand, kubeconfig: Path) -> None:
    def nodes(*words: str) -> str:
        command = [sys.executable, "-m", "quarterdeck.cli", "nodes", *words, "--kubeconfig", str(kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    assert nodes("fail", "node-2") == "node/node-2 failed\n"
    assert nodes("add", "1") == "node/node-3 added\n"
    wait(web, "node/node-3", "condition=Ready", "the new node is not ready")
    wait(web, "node/node-2", "condition=Ready=Unknown", "nobody notices that the node is down")
    until(
        lambda: (
            "node.kubernetes.io/unreachable" in web("get", "node", "node-2", "-o=jsonpath={.spec.taints}")
        ),
        "the node is not tainted",
    )
    assert nodes("restore", "node-2") == "node/node-2 restored\n"
    wait(web, "node/node-2", "condition=Ready", "the node does not come back")
    assert nodes("remove", "node-3") == "node/node-3 removed\n"
    assert "not found" in nodes("fail", "node-9")
