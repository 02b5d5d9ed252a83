"""PodCliqueSets under a stock kubectl, as a user of Grove knows them.

The cluster is `quarterdeck up` with nodes that run pods; with ``-m kube`` the same is done on a real
kube-apiserver, which calls `quarterdeck run` over TLS. Nothing schedules pods there, and nothing fills
tokens: what the operator makes is what is looked at.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.server import is_built
from parity.runner import Kubectl

from .nodegroupkit import COMMAND, Hand, embedded_cluster, real_cluster, until

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "grove"
REAL = pytest.param(
    "real",
    marks=[
        pytest.mark.kube,
        pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
    ],
)


class Site:
    """A cluster, and whether pods run on it."""

    def __init__(self, hand: Hand, *, runs_pods: bool) -> None:
        self.hand = hand
        self.runs_pods = runs_pods

    def apply(self, name: str) -> str:
        """Apply an example; gives the name of its set."""
        said = self.hand("apply", "-f", str(EXAMPLES / f"{name}.yaml"))
        made = said.split()[0].partition("/")[2]
        if not self.runs_pods:
            secret = f"{made}-ic-sat"
            until(lambda: self.hand.run("get", "secret", secret).returncode == 0, "there is no Secret")
            token = ("--type=merge", "-p", '{"data": {"token": "eA=="}}')
            self.hand("patch", "secret", secret, *token)
        return made

    def count(self, *words: str) -> int:
        return len(self.hand("get", *words, "-o", "name").split())

    def status(self, kind: str, name: str) -> Json:
        found: Json = self.hand.read(kind, name).get("status", {})
        return found


@pytest.fixture(scope="module", params=["up", REAL])
def site(
    request: pytest.FixtureRequest, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    is_up = request.param == "up"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GROVE_INIT_CONTAINER_IMAGE", "example.com/grove-initc")
        with embedded_cluster("grove", nodes=3) if is_up else real_cluster("grove") as kubeconfig:
            hand = Hand(kubectl, kubeconfig, tmp_path_factory.mktemp("kubectl"))
            yield Site(hand, runs_pods=is_up)


@pytest.fixture
def clean(site: Site) -> Iterator[Site]:
    """A cluster that is as empty afterwards as it was before."""
    yield site
    site.hand("delete", "pcs", "--all", "--wait=false")
    if not site.runs_pods:  # the bare real server has no garbage collector
        site.hand("delete", "pcsg,pclq,podgangs,pods", "--all", "--wait=false", "--grace-period=0")
        selector = "app.kubernetes.io/managed-by=grove-operator"
        site.hand("delete", "services,secrets,roles,rolebindings,serviceaccounts", "-l", selector)
    until(lambda: not site.count("pcs,pcsg,pclq,podgangs,pods"), "something is left")


def test_what_is_installed(site: Site) -> None:
    hand = site.hand
    names = hand("api-resources", "--api-group=grove.io", "--no-headers")
    assert {line.split()[1] for line in names.splitlines()} == {"pcs", "pclq", "pcsg", "ct"}
    assert "minAvailable" in hand("explain", "pcs.spec.template.podCliqueScalingGroups")
    assert "podReferences" in hand("explain", "podgang.spec.podgroups")


REFUSALS = {
    "circle": "clique must not have circular dependencies",
    "too-few": "spec.minAvailable: Invalid value: 3: minAvailable must not be greater than replicas",
}


def test_what_is_refused(site: Site) -> None:
    assert {path.stem for path in (EXAMPLES / "refused").iterdir()} == REFUSALS.keys()
    done = site.hand.run("apply", "-f", str(EXAMPLES / "refused"))
    assert done.returncode == 1
    assert 'admission webhook "pcs.validating.webhooks.grove.io" denied the request' in done.stderr
    for text in REFUSALS.values():
        assert text in done.stderr


def test_a_set_becomes_gangs_of_pods(clean: Site) -> None:
    hand = clean.hand
    clean.apply("1-inference")
    until(lambda: clean.count("pods") == 8, "not all pods are there")
    assert clean.count("podgangs") == 2
    generation = hand.read("pcs", "inference")["metadata"]["generation"]
    hand("apply", "-f", str(EXAMPLES / "1-inference.yaml"))
    found = hand.read("pcs", "inference")
    assert found["metadata"]["generation"] == generation
    stored = found["spec"]["template"]
    assert stored["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    assert stored["cliques"][1]["spec"]["minAvailable"] == 1
    base = [each["name"] for each in hand.read("podgang", "inference-0")["spec"]["podgroups"]]
    assert base == ["inference-0-router", "inference-0-prefill-0-leader", "inference-0-prefill-0-worker"]

    def is_initialized() -> bool:
        words = ("get", "podgang", "inference-0", "-o")
        condition = '{.status.conditions[?(@.type=="Initialized")].status}'
        return hand(*words, f"jsonpath={condition}") == "True"

    until(is_initialized, "the gang is not initialized")
    gated = "jsonpath={.items[*].spec.schedulingGates[*].name}"
    until(lambda: not hand("get", "pods", "-l", "grove.io/podgang=inference-0", "-o", gated), "gates stay")
    worker = json.loads(
        hand("get", "pods", "-l", "grove.io/podclique=inference-0-prefill-0-worker", "-o", "json")
    )
    (init,) = worker["items"][0]["spec"]["initContainers"]
    assert init["args"] == ["--podcliques=inference-0-prefill-0-leader:1"]
    shown = hand("get", "pclq").splitlines()[0].split()
    assert shown == ["NAME", "MINAVAIL", "REPLICAS", "READY", "SCHEDULED", "UPDATED", "AGE"]
    if clean.runs_pods:
        until(lambda: clean.status("pcs", "inference").get("availableReplicas") == 1, "it does not run")
        phases = ("get", "pods", "-o", "jsonpath={.items[*].status.phase}")
        # Available means that the minimum runs: the last pods may be a moment later.
        until(lambda: set(hand(*phases).split()) == {"Running"}, "not all pods run")


def test_scaling(clean: Site) -> None:
    hand = clean.hand
    clean.apply("1-inference")
    until(lambda: clean.count("pods") == 8, "not all pods are there")
    hand("scale", "pcsg", "inference-0-prefill", "--replicas=3")
    until(lambda: clean.count("podgangs") == 3, "there is no third gang")
    until(lambda: clean.count("pods") == 11, "the group is not scaled out")
    hand("scale", "pclq", "inference-0-router", "--replicas=1")
    until(lambda: clean.count("pods") == 10, "the clique is not scaled in")
    done = hand.run("scale", "pcsg", "inference-0-prefill", "--replicas=0")
    assert "Warning: spec.replicas: 0 is less than minAvailable 1" in done.stderr
    hand("scale", "pcs", "inference", "--replicas=0")
    until(lambda: not clean.count("podgangs,pcsg"), "the replica is still there")


def test_what_may_not_change(clean: Site) -> None:
    clean.apply("2-simple")
    change = '[{"op": "replace", "path": "/spec/template/cliques/0/spec/minAvailable", "value": 1}]'
    done = clean.hand.run("patch", "pcs", "simple", "--type=json", "-p", change)
    assert "spec.template.cliques.spec.minAvailable: Invalid value: 1: field is immutable" in done.stderr


def test_a_new_image_replaces_one_pod_after_the_other(clean: Site) -> None:
    if not clean.runs_pods:
        pytest.skip("no pod gets ready here: test_grove_cases follows updates")
    hand = clean.hand
    clean.apply("2-simple")
    until(lambda: clean.status("pcs", "simple").get("availableReplicas") == 1, "it does not run")
    image = "/spec/template/cliques/0/spec/podSpec/containers/0/image"
    change = json.dumps([{"op": "replace", "path": image, "value": "example.com/train:2.0"}])
    hand("patch", "pcs", "simple", "--type=json", "-p", change)
    ended = "{.status.updateProgress.updateEndedAt}"
    until(lambda: bool(hand("get", "pcs", "simple", "-o", f"jsonpath={ended}")), "the update does not end")
    images = hand("get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}").split()
    assert images == ["example.com/train:2.0"] * 3
    described = hand("describe", "pclq", "simple-0-rank")
    assert "PodDeleteSuccessful" in described
    assert "PodCreateSuccessful" in described


def test_the_demo_shows_sets_that_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--once", "--operators", "grove", "--kubeconfig", str(tmp_path / "kubeconfig")],
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "refused podcliqueset/circle: admission webhook" in done.stdout
    rows = [line.split()[:4] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert ["inference", "1", "1", "1"] in rows
    assert ["simple", "1", "1", "1"] in rows
