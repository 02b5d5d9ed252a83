"""A chart with one of everything, installed, upgraded, rolled back and uninstalled by a stock helm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.wire import Connection, load_kubeconfig

from .helmkit import Helm, needs_helm
from .nodegroupkit import embedded_cluster

CHART = str(Path(__file__).parent / "shop")
WAIT = ("--wait", "--timeout", "120s")
APPS = "/apis/apps/v1/namespaces/shop"
CORE = "/api/v1/namespaces/shop"
Json = dict[str, Any]


@pytest.fixture
def kubeconfig() -> Iterator[Path]:
    with embedded_cluster("none", nodes=3) as made:
        yield made


class Shop:
    """What the release left on the server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, path: str) -> Json:
        found: Json = json.loads(self._connection.request("GET", path).body)
        return found

    def names(self, path: str) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.get(path)["items"])

    def images(self, app: str) -> list[str]:
        """Of the pods that are to stay, each of them ready."""
        pods = self.get(f"{CORE}/pods?labelSelector=app%3D{app}")["items"]
        stay = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        for pod in stay:
            ready = [each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]
            assert ready == ["True"], pod["metadata"]["name"]
        return [pod["spec"]["containers"][0]["image"] for pod in stay]


@needs_helm
def test_helm_installs_upgrades_rolls_back_and_uninstalls(kubeconfig: Path, tmp_path: Path) -> None:
    helm = Helm(kubeconfig, "shop", tmp_path)
    connection = load_kubeconfig(kubeconfig).connect(timeout=60.0)
    shop = Shop(connection)

    helm("install", "one", CHART, "--create-namespace", *WAIT)
    assert shop.images("web") == ["shop:1"] * 2
    assert shop.images("db") == ["shop:1"] * 2
    assert shop.images("log") == ["shop:1"] * 3
    assert shop.names("/apis/batch/v1/namespaces/shop/jobs") == []  # the hook succeeded and is deleted
    assert shop.names("/apis/batch/v1/namespaces/shop/cronjobs") == ["one-bill"]
    assert shop.names("/apis/networking.k8s.io/v1/namespaces/shop/ingresses") == ["one-web"]
    assert shop.names("/apis/policy/v1/namespaces/shop/poddisruptionbudgets") == ["one-web"]
    helm("test", "one", "--timeout", "120s")

    helm("upgrade", "one", CHART, "--set", "image=shop:2,replicas=3", *WAIT)
    assert shop.images("web") == ["shop:2"] * 3
    assert shop.images("db") == ["shop:2"] * 2
    assert shop.images("log") == ["shop:2"] * 3

    failed = helm.run("upgrade", "one", CHART, "--set", "image=shop:3,hookExitCode=1", "--atomic", *WAIT)
    assert failed.returncode == 1
    assert "one-post-upgrade" in failed.stderr
    assert "rolled back due to atomic being set" in failed.stderr
    assert shop.images("web") == ["shop:2"] * 3

    helm("rollback", "one", "1", *WAIT)
    assert shop.images("web") == ["shop:1"] * 2
    assert shop.images("db") == ["shop:1"] * 2
    history = json.loads(helm("history", "one", "--output", "json"))
    assert [each["status"] for each in history] == [
        "superseded",
        "superseded",
        "failed",
        "superseded",
        "deployed",
    ]

    helm("uninstall", "one", *WAIT)
    for resource in ("deployments", "statefulsets", "daemonsets"):
        assert shop.names(f"{APPS}/{resource}") == []
    assert shop.names(f"{CORE}/services") == []
    assert shop.names(f"{CORE}/persistentvolumeclaims") == ["data-one-db-0", "data-one-db-1"]
    connection.close()
