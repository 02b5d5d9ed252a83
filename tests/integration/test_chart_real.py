"""The Helm chart on kube-apiserver: two releases side by side, an upgrade, and a way out that leaves nothing.

Nothing runs pods there. That the image works is for ``agent/test_image.py``, what the program does on a
kube-apiserver for the other tests of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import chart as chart_tool
from kube.server import VERSION
from quarterdeck.api.manifest import load_documents
from tests.harness.wire import Connection, load_kubeconfig

from .helmkit import Helm, needs_helm
from .test_chart import CHART, EVERYTHING

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
Json = dict[str, Any]
Names = dict[tuple[str, str, str], str]
ONE = ("grove", "jobset", "kai", "nodegroup", "trainer")
TWO = ("ipam",)
OWN = ("apiservices", "events", "ipaddresses", "leases")
MONITORING = ("serviceMonitor.enabled=true", "alerts.enabled=true")
"""These are of kinds that a bare server does not have."""

pytestmark = [pytest.mark.kube, needs_helm]


class Cluster:
    """Everything that is in a cluster, by its resource, namespace and name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, path: str) -> Json:
        """The answer, empty if there is none; a kind that came this moment has to be waited for."""
        deadline = time.monotonic() + 120
        while (answer := self._connection.request("GET", path)).status == 429:
            assert time.monotonic() < deadline, path
            time.sleep(0.2)
        found: Json = json.loads(answer.body) if answer.status == 200 else {}
        return found

    def everything(self) -> Names:
        """The UID of each object, but of those that the server itself writes all the time."""
        groups = [group["preferredVersion"]["groupVersion"] for group in self.get("/apis")["groups"]]
        found: Names = {}
        for root in ("/api/v1", *(f"/apis/{each}" for each in groups)):
            for resource in self.get(root).get("resources", ()):
                if "list" not in resource["verbs"] or resource["name"] in OWN:
                    continue
                for each in self.get(f"{root}/{resource['name']}").get("items", ()):
                    metadata = each["metadata"]
                    key = (resource["name"], metadata.get("namespace", ""), metadata["name"])
                    found[key] = metadata.get("uid", "")
        return found


class Release:
    """The hook of one release, as Kubernetes would run it: its command, its service account's token."""

    def __init__(self, helm: Helm, name: str, admin: Path, folder: Path) -> None:
        [job] = load_documents(helm("get", "hooks", name))
        pod, namespace = job["spec"]["template"]["spec"], job["metadata"]["namespace"]
        kubectl = ["kubectl", "--kubeconfig", str(admin), "--namespace", namespace]
        command = [*kubectl, "create", "token", pod["serviceAccountName"]]
        token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        config = yaml.safe_load(admin.read_text())
        config["users"][0]["user"] = {"token": token}
        self._kubeconfig = folder / f"{name}.kubeconfig"
        self._kubeconfig.write_text(yaml.safe_dump(config))
        [container] = pod["containers"]
        assert container["command"][0] == "quarterdeck"
        self._words = container["command"][1:]

    def run_hook(self) -> str:
        """What the command prints; it has no rights but those of the release."""
        command = [*COMMAND, *self._words, "--kubeconfig", str(self._kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def chosen(*operators: str) -> list[str]:
    """Options of a release with some of the operators."""
    words = [f"operators.{name}.enabled={str(name in operators).lower()}" for name in (*ONE, *TWO)]
    return [word for each in words for word in ("--set", each)]


def webhooks_in(cluster: Cluster) -> set[str]:
    """The names of the webhook configurations that are registered."""
    return {name for kind, _, name in cluster.everything() if kind.endswith("webhookconfigurations")}


def webhooks_of(operator: str) -> set[str]:
    """The names of those that an operator registers."""
    command = [*COMMAND, "manifests", "--only", "webhooks", "--operators", operator]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {each["metadata"]["name"] for each in load_documents(printed)}


@pytest.fixture
def cluster(real_server: Path) -> Iterator[Cluster]:
    with closing(load_kubeconfig(real_server).connect(timeout=60.0)) as connection:
        yield Cluster(connection)


def test_releases_come_and_go_and_leave_nothing(real_server: Path, cluster: Cluster, tmp_path: Path) -> None:
    chart_tool.main()
    one, two = (Helm(real_server, namespace, tmp_path) for namespace in ("deck-one", "deck-two"))
    command = ["kubectl", "--kubeconfig", str(real_server)]
    for namespace in ("deck-one", "deck-two"):
        subprocess.run([*command, "create", "namespace", namespace], check=True, capture_output=True)
    before = cluster.everything()

    everything = [word for each in EVERYTHING if each not in MONITORING for word in ("--set", each)]
    written = one("template", "one", str(CHART), "--kube-version", VERSION, *everything)
    dry = [*command, "apply", "--server-side", "--dry-run=server", "--namespace", "deck-one", "-f", "-"]
    done = subprocess.run(dry, input=written, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert cluster.everything() == before, "a dry run leaves nothing"

    one("install", "one", str(CHART), *chosen(*ONE))
    first = cluster.everything()
    two("install", "two", str(CHART), *chosen(*TWO))
    both = cluster.everything()
    assert first.items() <= both.items()
    assert ("clusterroles", "", "two-quarterdeck-ipam") in both.keys() - first.keys()
    assert ("customresourcedefinitions", "", "subnetpools.plexaubnet.io") in both.keys() - first.keys()

    one("upgrade", "one", str(CHART), *chosen(*ONE), "--set", "replicas=3")
    deployment = cluster.get("/apis/apps/v1/namespaces/deck-one/deployments/one-quarterdeck")
    assert deployment["spec"]["replicas"] == 3
    kept = {key: uid for key, uid in cluster.everything().items() if key[0] != "secrets"}
    assert kept == {key: uid for key, uid in both.items() if key[0] != "secrets"}, "nothing was replaced"

    hooks = subprocess.run(
        [*COMMAND, "manifests", "--only", "webhooks"], check=True, capture_output=True
    ).stdout
    subprocess.run(
        [*command, "apply", "--server-side", "-f", "-"], input=hooks, check=True, capture_output=True
    )
    registered = webhooks_in(cluster)
    assert len(registered) > len(webhooks_of("ipam")) > 0
    Release(one, "one", real_server, tmp_path).run_hook()
    assert webhooks_in(cluster) == webhooks_of("ipam"), "of the other release nothing"
    assert "removed ValidatingWebhookConfiguration" in Release(two, "two", real_server, tmp_path).run_hook()
    assert webhooks_in(cluster) == set()

    one("uninstall", "one", "--no-hooks")  # nothing runs the Job here: see above for its command
    left = cluster.everything()
    gone = {name for kind, space, name in both.keys() - left.keys() if space != "deck-one"}
    assert gone
    assert not [name for name in gone if not name.startswith("one-quarterdeck")], "of the other nothing"
    two("uninstall", "two", "--no-hooks")
    definitions = cluster.everything().keys() - before.keys()
    assert {kind for kind, _, _ in definitions} == {"customresourcedefinitions"}, "they stay on purpose"

    purge = ["uninstall", "--purge", "--yes", "--kubeconfig", str(real_server)]
    subprocess.run([*COMMAND, *purge], check=True, capture_output=True)
    deadline = time.monotonic() + 120
    while rest := cluster.everything().keys() - before.keys():  # definitions go when their objects have gone
        assert time.monotonic() < deadline, rest
        time.sleep(0.5)
    assert cluster.everything().keys() == before.keys()
