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

import chart as chart_tool
from kube.server import VERSION
from tests.harness.wire import Connection, load_kubeconfig

from .helmkit import Helm, needs_helm
from .test_chart import CHART, EVERYTHING

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


def chosen(*operators: str) -> list[str]:
    """Options of a release with some of the operators."""
    words = [f"operators.{name}.enabled={str(name in operators).lower()}" for name in (*ONE, *TWO)]
    return [word for each in words for word in ("--set", each)]


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

    one("uninstall", "one", "--no-hooks")  # nothing runs the Job here
    left = cluster.everything()
    gone = {name for kind, space, name in both.keys() - left.keys() if space != "deck-one"}
    assert gone
    assert not [name for name in gone if not name.startswith("one-quarterdeck")], "of the other nothing"
    two("uninstall", "two", "--no-hooks")
    definitions = cluster.everything().keys() - before.keys()
    assert {kind for kind, _, _ in definitions} == {"customresourcedefinitions"}, "they stay on purpose"

    purge = ["uninstall", "--purge", "--yes", "--kubeconfig", str(real_server)]
    subprocess.run([sys.executable, "-m", "quarterdeck.cli", *purge], check=True, capture_output=True)
    deadline = time.monotonic() + 120
    while rest := cluster.everything().keys() - before.keys():  # definitions go when their objects have gone
        assert time.monotonic() < deadline, rest
        time.sleep(0.5)
    assert cluster.everything().keys() == before.keys()
