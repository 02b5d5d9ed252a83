"""The Helm chart and the Kustomize base: rendered by helm and kubectl, taken by an API server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import chart as chart_tool
import grafana
from quarterdeck.api.manifest import load_documents
from tests.harness.wire import Connection, load_kubeconfig

from .helmkit import HELM, Helm, needs_helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
EVERYTHING = (
    "networkPolicy.enabled=true",
    "serviceMonitor.enabled=true",
    "alerts.enabled=true",
    "dashboards.enabled=true",
    "pullSecrets[0].name=registry",
    "tolerations[0].operator=Exists",
    "operators.ipam.settings.strictAllocation=true",
)
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def files() -> None:
    chart_tool.main()


def rendered(*values: str, release: str = "one") -> list[Json]:
    command = [HELM, "template", release, str(CHART), "--namespace", "deck", "--kube-version", "v1.36.3"]
    for each in values:
        command += ["--set", each]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [*load_documents(done.stdout)]


def names(documents: list[Json]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in documents}


@needs_helm
@pytest.mark.parametrize(
    ("values", "settings"),
    [
        (("config.schedulerName=kai-scheduler",), {"grove": {"schedulerName": "kai-scheduler"}}),
        (
            ("config.schedulerName=kai-scheduler", "operators.grove.settings.authorizer.enabled=true"),
            {"grove": {"authorizer": {"enabled": True}, "schedulerName": "kai-scheduler"}},
        ),
        (
            ("config.schedulerName=kai-scheduler", "operators.grove.settings.schedulerName=volcano"),
            {"grove": {"schedulerName": "volcano"}},
        ),
        (("config.schedulerName=kai-scheduler", "operators.grove.enabled=false"), {}),
    ],
)
def test_the_scheduler_is_chosen_as_in_the_values_of_the_design(
    values: tuple[str, ...], settings: Json
) -> None:
    [config] = [
        each for each in rendered(*values) if each["kind"] == "ConfigMap" and "config.yaml" in each["data"]
    ]
    assert yaml.safe_load(config["data"]["config.yaml"])["operators"] == settings


@needs_helm
def test_everything_that_can_be_set_renders() -> None:
    found = rendered(*EVERYTHING)
    kinds = {each["kind"] for each in found}
    assert {
        "Deployment",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "ServiceMonitor",
        "PrometheusRule",
        "Job",
    } <= kinds
    [deployment] = [each for each in found if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert "--operators=grove,ipam,jobset,kai,nodegroup,trainer" in pod["containers"][0]["command"]
    assert {"name": "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "value": "one-quarterdeck"} in pod["containers"][
        0
    ]["env"]
    [config] = [each for each in found if each["kind"] == "ConfigMap" and "config.yaml" in each["data"]]
    assert yaml.safe_load(config["data"]["config.yaml"]) == {
        "operators": {"ipam": {"strictAllocation": True}}
    }
    assert not [each for each in found if "RELEASE_NAME" in json.dumps(each)]


@needs_helm
def test_cert_manager_issues_the_certificate_and_knows_the_webhooks() -> None:
    found = rendered("certificates.source=cert-manager")
    assert {("Issuer", "one-quarterdeck"), ("Certificate", "one-quarterdeck")} <= names(found)
    hooks = [each for each in found if each["kind"].endswith("WebhookConfiguration")]
    assert hooks
    for each in hooks:
        assert each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "deck/one-quarterdeck"
        assert {hook["clientConfig"]["service"]["name"] for hook in each["webhooks"]} == {
            "one-quarterdeck-webhook"
        }


@needs_helm
def test_two_releases_of_different_operators_share_nothing() -> None:
    others = [f"operators.{name}.enabled=false" for name in ("grove", "jobset", "kai", "trainer")]
    one = names(rendered(*others, "operators.nodegroup.enabled=false"))
    two = names(rendered(*others, "operators.ipam.enabled=false", release="two"))
    assert not one & two


class Server:
    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "quarterdeck.cli", "up", "--operators", "none", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--kubeconfig", str(self.kubeconfig)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready: ")
        self.connection: Connection = load_kubeconfig(self.kubeconfig).connect(timeout=60.0)

    def items(self, path: str) -> list[Json]:
        found: list[Json] = json.loads(self.connection.request("GET", path).body)["items"]
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.connection.close()
    made.process.terminate()
    made.process.communicate(timeout=60)


@needs_helm
def test_helm_installs_upgrades_and_uninstalls_it(server: Server, tmp_path: Path) -> None:
    helm = Helm(server.kubeconfig, "deck", tmp_path)
    helm("install", "one", str(CHART), "--create-namespace")
    roles = server.items("/apis/rbac.authorization.k8s.io/v1/clusterroles")
    assert "one-quarterdeck-kai" in {each["metadata"]["name"] for each in roles}
    helm("upgrade", "one", str(CHART), "--set", "replicas=3")
    [deployment] = server.items("/apis/apps/v1/namespaces/deck/deployments")
    assert deployment["spec"]["replicas"] == 3
    helm("uninstall", "one", "--no-hooks")  # no node here runs the Job
    assert server.items("/apis/apps/v1/namespaces/deck/deployments") == []
    definitions = server.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert "trainjobs.trainer.kubeflow.org" in {each["metadata"]["name"] for each in definitions}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_the_kustomize_base_is_taken_as_it_is(server: Server) -> None:
    folder = str(ROOT / "deploy" / "kustomize" / "production")
    command = ["kubectl", "--kubeconfig", str(server.kubeconfig), "apply", "--server-side", "-k", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    [deployment] = server.items("/apis/apps/v1/namespaces/quarterdeck-system/deployments")
    assert deployment["spec"]["replicas"] == 3


def test_dashboards_show_every_metric_that_exists_and_no_other() -> None:
    shown: set[str] = set()
    for dashboard in grafana.dashboards().values():
        assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
        for panel in dashboard["panels"]:
            [target] = panel["targets"]
            shown.update(name.removesuffix("_bucket") for name in re.findall(r"(\w+)\{", target["expr"]))
    assert shown == set(grafana.families_of(*grafana.OURS))
    assert len(shown) > 50
