"""Whom the kernel ends first when memory is short."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.container.oom import oom_score

from .podkit import pod

GIB = 1 << 30


def asking(memory: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"memory": memory}}, **more}


def of_class(made: Pod, name: str) -> Pod:
    return made.evolve(status=made.status.evolve(qos_class=name))


@pytest.mark.parametrize(
    ("memory", "score"),
    [("1Gi", 900), ("0", 999), ("1Mi", 999), ("10Gi", 3), ("9Gi", 100)],
)
def test_what_asks_for_more_stays_longer(memory: str, score: int) -> None:
    made = of_class(pod(containers=[asking(memory)]), "Burstable")
    assert oom_score(made, made.spec.containers[0], 10 * GIB) == score


def test_the_class_of_a_pod_goes_before_its_requests() -> None:
    made = pod(containers=[asking("1Gi")])
    container = made.spec.containers[0]
    assert oom_score(of_class(made, "Guaranteed"), container, 10 * GIB) == -997
    assert oom_score(of_class(made, "BestEffort"), container, 10 * GIB) == 1000
    critical = pod(containers=[asking("1Gi")], priorityClassName="system-node-critical")
    assert oom_score(of_class(critical, "Burstable"), container, 10 * GIB) == -997


def test_a_sidecar_goes_no_sooner_than_those_it_is_there_for() -> None:
    sidecar = asking("1Mi", "side", restartPolicy="Always")
    made = of_class(pod(inits=(sidecar,), containers=[asking("2Gi"), asking("5Gi", "other")]), "Burstable")
    assert oom_score(made, made.spec.init_containers[0], 10 * GIB) == 800


def test_what_a_pod_asks_for_as_a_whole_is_shared_by_its_containers() -> None:
    made = pod(containers=[asking("1Gi"), asking("1Gi", "other")], resources={"requests": {"memory": "4Gi"}})
    assert oom_score(of_class(made, "Burstable"), made.spec.containers[0], 10 * GIB) == 800
