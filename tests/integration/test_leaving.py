"""Leaving a cluster without a trace: orderly stops, `uninstall`, and two installations side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.api.manifest import load_documents
from tests.harness.wire import Connection, load_kubeconfig

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
HOOKS = "/apis/admissionregistration.k8s.io/v1"


class Server:
    """An API server without operators, as somebody else's cluster."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        command = [*COMMAND, "apiserver", "--port", "0", "--kubeconfig", str(self.kubeconfig)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready: ")
        self.connection: Connection = load_kubeconfig(self.kubeconfig).connect(timeout=60.0)

    def names(self, path: str) -> list[str]:
        answer = self.connection.request("GET", path)
        assert answer.status == 200, answer.body
        return [each["metadata"]["name"] for each in json.loads(answer.body)["items"]]

    def run(self, *words: str) -> subprocess.Popen[str]:
        command = [*COMMAND, "run", "--kubeconfig", str(self.kubeconfig), "--metrics-address", "0"]
        return subprocess.Popen(
            [*command, "--health-address", "0", "--webhook-port", "0", *words],
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [*COMMAND, *words, "--kubeconfig", str(self.kubeconfig)],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.connection.close()
    made.process.terminate()
    made.process.communicate(timeout=60)


def wait_for_webhooks(server: Server, process: subprocess.Popen[str]) -> None:
    import time

    deadline = time.monotonic() + 120
    while not server.names(f"{HOOKS}/validatingwebhookconfigurations"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    os.kill(process.pid, number)
    process.communicate(timeout=60)


def test_webhooks_go_with_an_orderly_stop(server: Server) -> None:
    process = server.run("--operators", "ipam", "--install", "--webhook-url", "https://127.0.0.1:0")
    wait_for_webhooks(server, process)
    stop(process)
    assert process.returncode == 0
    assert server.names(f"{HOOKS}/validatingwebhookconfigurations") == []


def test_uninstall_takes_away_what_a_killed_program_left(server: Server) -> None:
    process = server.run("--operators", "ipam", "--install", "--webhook-url", "https://127.0.0.1:0")
    wait_for_webhooks(server, process)
    stop(process, signal.SIGKILL)
    told = server.command("uninstall", "--operators", "ipam")
    assert "would remove ValidatingWebhookConfiguration" in told
    assert told.endswith("nothing was changed: do it with --yes\n")
    assert server.names(f"{HOOKS}/validatingwebhookconfigurations")
    assert "removed ValidatingWebhookConfiguration" in server.command(
        "uninstall", "--operators", "ipam", "--yes"
    )
    assert server.names(f"{HOOKS}/validatingwebhookconfigurations") == []
    assert "subnetpools.plexaubnet.io" in server.names(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    )
    server.command("uninstall", "--operators", "ipam", "--purge", "--yes")
    assert server.names("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") == []
    assert server.command("uninstall", "--operators", "ipam", "--yes") == "nothing of it is in the cluster\n"


def test_objects_that_our_finalizers_hold_are_let_go(server: Server) -> None:
    process = server.run("--operators", "ipam", "--install", "--webhook-url", "https://127.0.0.1:0")
    wait_for_webhooks(server, process)
    stop(process)
    pool = {
        "apiVersion": "plexaubnet.io/v1alpha1",
        "kind": "SubnetPool",
        "metadata": {"name": "p", "finalizers": ["ipam.plexaubnet.io/finalizer", "example.io/other"]},
        "spec": {"cidr": "10.0.0.0/16"},
    }
    path = "/apis/plexaubnet.io/v1alpha1/namespaces/default/subnetpools"
    assert server.connection.request("POST", path, body=json.dumps(pool).encode()).status == 201
    told = server.command("uninstall", "--operators", "ipam", "--yes")
    assert "removed finalizer ipam.plexaubnet.io/finalizer of SubnetPool default/p" in told
    left = json.loads(server.connection.request("GET", f"{path}/p").body)["metadata"]["finalizers"]
    assert left == ["example.io/other"]


def test_what_operators_keep_for_readers_goes_too(server: Server) -> None:
    for namespace, name in (
        ("quarterdeck-system", "grove-operator-status"),
        ("kubeflow-system", "kubeflow-trainer-public"),
    ):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        server.connection.request("POST", "/api/v1/namespaces", body=json.dumps(space).encode())
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        assert server.connection.request("POST", path, body=json.dumps(config).encode()).status == 201
    told = server.command("uninstall", "--operators", "grove,trainer", "--yes")
    assert told == "removed ConfigMap grove-operator-status\nremoved ConfigMap kubeflow-trainer-public\n"
    assert server.names("/api/v1/configmaps") == []


def test_install_without_a_way_to_the_webhooks_is_refused(server: Server) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "quarterdeck-webhook"},
        "spec": {"ports": [{"port": 443}]},
    }
    for reason in (
        "there is no Service quarterdeck-system/quarterdeck-webhook",
        "nothing is behind Service quarterdeck-system/quarterdeck-webhook",
    ):
        process = server.run("--operators", "ipam", "--install")
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert reason in errors
        assert "--webhook-url" in errors
        assert server.names(f"{HOOKS}/validatingwebhookconfigurations") == []
        path = "/api/v1/namespaces/quarterdeck-system/services"
        server.connection.request("POST", path, body=json.dumps(service).encode())


def test_two_installations_share_no_object(server: Server) -> None:
    def objects(*words: str) -> set[tuple[str, str, str]]:
        done = subprocess.run([*COMMAND, "manifests", *words], check=True, capture_output=True, text=True)
        documents = [each for each in load_documents(done.stdout) if each["kind"] != "Namespace"]
        return {
            (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
            for each in documents
        }

    one = objects("--operators", "ipam", "--name", "network")
    other = objects("--operators", "nodegroup", "--name", "machines")
    assert not one & other
    assert ("ClusterRole", "", "network") in one
    assert ("Service", "quarterdeck-system", "machines-webhook") in other
