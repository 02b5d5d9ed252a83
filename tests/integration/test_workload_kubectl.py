"""Workloads under a stock kubectl on `quarterdeck up --nodes 3`: what users type every day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.runner import Kubectl

from .nodegroupkit import Hand, embedded_cluster, until

PATIENCE = 60.0
TIMEOUT = f"--timeout={PATIENCE:.0f}s"


@pytest.fixture(scope="module")
def hand(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    with embedded_cluster("none", nodes=3) as kubeconfig:
        yield Hand(kubectl, kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture
def web(hand: Hand) -> Iterator[Hand]:
    """A Deployment of three pods that is rolled out."""
    hand("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    hand("rollout", "status", "deployment/web", TIMEOUT)
    yield hand
    hand("delete", "deployment,service,hpa,pdb", "--all", "--ignore-not-found")
    until(lambda: not hand("get", "pods", "-o", "name").split(), "pods are left")


def revisions(hand: Hand) -> list[str]:
    lines = hand("rollout", "history", "deployment/web").splitlines()
    return [line.split()[0] for line in lines[2:] if line.strip()]


def images(hand: Hand) -> set[str]:
    path = "-o=jsonpath={.items[*].spec.containers[0].image}"
    return set(hand("get", "pods", path).split())


def test_a_rollout_is_followed_undone_and_restarted(web: Hand) -> None:
    web("set", "image", "deployment/web", "nginx=nginx:2")
    assert "successfully rolled out" in web("rollout", "status", "deployment/web", TIMEOUT)
    assert images(web) == {"nginx:2"}
    assert revisions(web) == ["1", "2"]
    assert "nginx:1" in web("rollout", "history", "deployment/web", "--revision=1")
    assert "rolled back" in web("rollout", "undo", "deployment/web")
    web("rollout", "status", "deployment/web", TIMEOUT)
    assert images(web) == {"nginx:1"}
    assert revisions(web) == ["2", "3"]
    web("rollout", "restart", "deployment/web")
    web("rollout", "status", "deployment/web", TIMEOUT)
    assert revisions(web) == ["2", "3", "4"]


def test_a_rollout_is_paused_and_resumed(web: Hand) -> None:
    web("rollout", "pause", "deployment/web")
    web("set", "image", "deployment/web", "nginx=nginx:2")
    assert images(web) == {"nginx:1"}
    web("rollout", "resume", "deployment/web")
    web("rollout", "status", "deployment/web", TIMEOUT)
    assert images(web) == {"nginx:2"}


def test_a_deployment_is_scaled_and_waited_for(web: Hand) -> None:
    web("scale", "deployment/web", "--replicas=5")
    web("wait", "--for=jsonpath={.status.availableReplicas}=5", "deployment/web", TIMEOUT)
    assert "condition met" in web("wait", "--for=condition=Available", "deployment/web", TIMEOUT)
    assert len(web("get", "pods", "-o", "name").split()) == 5


def test_an_exposed_deployment_has_endpoints(web: Hand) -> None:
    web("expose", "deployment/web", "--port=80")
    path = "-o=jsonpath={.items[*].endpoints[*].addresses[0]}"
    of_web = ("-l", "kubernetes.io/service-name=web")
    until(lambda: len(web("get", "endpointslices", *of_web, path).split()) == 3, "there are no endpoints")
    found = json.loads(web("get", "endpointslices", *of_web, "-o", "json"))
    ips = {each["addresses"][0] for each in found["items"][0]["endpoints"]}
    assert ips == set(web("get", "pods", "-o=jsonpath={.items[*].status.podIP}").split())


def test_an_autoscaler_keeps_its_range(web: Hand) -> None:
    web("autoscale", "deployment/web", "--min=4", "--max=6", "--cpu-percent=80")
    web("wait", "--for=jsonpath={.spec.replicas}=4", "deployment/web", TIMEOUT)
    until(lambda: "New size: 4" in web("describe", "hpa", "web"), "there is no event of the new size")


def test_a_drain_waits_for_the_budget(web: Hand) -> None:
    web("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
    web("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", TIMEOUT)
    said = web("drain", "node-0", "--ignore-daemonsets", TIMEOUT)
    assert "node/node-0 drained" in said
    nodes = web("get", "pods", "-o=jsonpath={.items[*].spec.nodeName}").split()
    assert "node-0" not in nodes
    web("uncordon", "node-0")
    web("rollout", "status", "deployment/web", TIMEOUT)


def test_stateful_and_daemon_sets_are_rolled_out(hand: Hand, tmp_path: Path) -> None:
    for kind, more in (("StatefulSet", {"serviceName": "db", "replicas": 2}), ("DaemonSet", {})):
        name = kind.lower()
        container = {"name": "c", "image": "db:1"}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        document = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **more},
        }
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document))
        hand("apply", "-f", str(path))
        hand("rollout", "status", f"{name}/{name}", TIMEOUT)
        hand("set", "image", f"{name}/{name}", "c=db:2")
        hand("rollout", "status", f"{name}/{name}", TIMEOUT)
        assert len(hand("rollout", "history", f"{name}/{name}").strip().splitlines()) == 4
        hand("rollout", "undo", f"{name}/{name}")
        hand("rollout", "status", f"{name}/{name}", TIMEOUT)
        found = hand("get", "pods", "-l", f"app={name}", "-o=jsonpath={.items[*].spec.containers[0].image}")
        assert set(found.split()) == {"db:1"}
    hand("delete", "statefulset,daemonset", "--all")
