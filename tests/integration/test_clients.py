"""Other people's clients, unmodified, against the embedded server: kopf, kr8s and a client-go program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostile.client import Client
from kube.server import cache_dir

PATIENCE = 60.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/clients.example.com/v1/namespaces/default/gadgets"
GADGET = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.clients.example.com"},
    "spec": {
        "group": "clients.example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "string"},
                                    "replicas": {"type": "integer", "default": 1},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}

OPERATOR = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "clients.example.com/finalizer"
    settings.watching.server_timeout = 10

@kopf.on.create("clients.example.com", "v1", "gadgets")
def created(spec, patch, **_):
    patch.status["phase"] = "Created"
    patch.status["size"] = spec["size"]
    return {"seen": spec["size"]}

@kopf.on.update("clients.example.com", "v1", "gadgets", field="spec.size")
def updated(old, new, patch, **_):
    patch.status["phase"] = "Updated"
    patch.status["change"] = f"{old}->{new}"

@kopf.on.delete("clients.example.com", "v1", "gadgets")
def deleted(name, **_):
    print(f"deleted {name}", flush=True)

@kopf.on.event("clients.example.com", "v1", "gadgets")
def event(type, name, **_):
    print(f"event {type} {name}", flush=True)
"""


@pytest.fixture
def client(embedded_server: Path) -> Iterator[Client]:
    client = Client(embedded_server)
    yield client
    client.close()


@pytest.fixture
def gadgets(client: Client) -> str:
    """The path of a custom resource's collection, served."""
    client.call("POST", CRDS, GADGET)
    eventually(lambda: client.call("GET", GADGETS).status == 200)
    return GADGETS


def eventually(check: Callable[[], Any], what: Callable[[], Any] = lambda: "") -> Any:
    """Wait until a check gives something true, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (result := check()):
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what()}"
        time.sleep(0.05)
    return result


@pytest.fixture
def operator(embedded_server: Path, gadgets: str, tmp_path: Path) -> Iterator[Path]:
    """A kopf operator in its own process; gives the path of its output. It must end well on SIGTERM."""
    program, log = tmp_path / "operator.py", tmp_path / "log"
    program.write_text(OPERATOR)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace=default", program],
            env={**os.environ, "KUBECONFIG": str(embedded_server), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_kopf_operator_handles_the_life_of_an_object(client: Client, gadgets: str, operator: Path) -> None:
    def status(field: str) -> Any:
        return client.call("GET", f"{gadgets}/first").json().get("status", {}).get(field)

    body = {
        "apiVersion": "clients.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "first"},
        "spec": {"size": "S"},
    }
    assert client.call("POST", gadgets, body).status == 201
    eventually(lambda: status("phase") == "Created", operator.read_text)
    assert status("created") == {"seen": "S"}
    stored = client.call("GET", f"{gadgets}/first").json()
    assert stored["metadata"]["finalizers"] == ["clients.example.com/finalizer"]

    stored["spec"]["size"] = "L"
    eventually(lambda: client.call("PUT", f"{gadgets}/first", _latest(client, stored)).status == 200)
    eventually(lambda: status("change") == "S->L", operator.read_text)

    client.call("DELETE", f"{gadgets}/first")
    eventually(lambda: client.call("GET", f"{gadgets}/first").status == 404, operator.read_text)
    text = eventually(lambda: "event DELETED first" in operator.read_text() and operator.read_text())
    assert "deleted first" in text
    assert "Traceback" not in text


def _latest(client: Client, wanted: dict[str, Any]) -> dict[str, Any]:
    """The stored object with the wanted spec: the operator may have written in between."""
    stored = client.call("GET", f"{GADGETS}/{wanted['metadata']['name']}").json()
    return {**stored, "spec": wanted["spec"]}


@pytest.mark.parametrize("check", ["objects", "watch", "scale", "custom"])
def test_kr8s_program_passes_its_check(embedded_server: Path, gadgets: str, check: str) -> None:
    # kr8s leaves connections open when its loop ends, so it gets a process of its own.
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "kr8s_program.py", check],
        env={**os.environ, "KUBECONFIG": str(embedded_server)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    not (cache_dir() / "clientgo").exists(), reason="the client-go program is not built (make kube, needs Go)"
)
def test_client_go_program_passes_its_checks(embedded_server: Path) -> None:
    done = subprocess.run(
        [cache_dir() / "clientgo"],
        env={**os.environ, "KUBECONFIG": str(embedded_server)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert done.stdout.count("ok ") >= 3
