"""What ``quarterdeck check`` finds about cliques."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Resource
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import PodStatus
from quarterdeck.operators.grove.logic.invariant import INVARIANTS
from quarterdeck.operators.grove.types import PodClique
from tests.unit.operators.invariantkit import broken, made


def found(name: str, *objects: Resource) -> list[tuple[str, str]]:
    return broken(INVARIANTS, name, *objects)


def pod(name: str, node: str = "", *, meta: dict[str, Any] | None = None, **requests: str) -> Pod:
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return made(Pod, name, meta=meta, spec={"nodeName": node, "containers": containers})


def test_a_clique_has_no_pod_too_many() -> None:
    clique = made(PodClique, "q", spec={"replicas": 1})
    labels = {"labels": {"grove.io/podclique": "q"}}
    assert found("grove/no-extra-pods", clique, pod("a", meta=labels)) == []
    assert found("grove/no-extra-pods", clique, pod("a", meta=labels), pod("b", meta=labels)) == [
        ("PodClique default/q", "has 2 pods, and wants 1")
    ]


def test_pods_that_ended_or_belong_to_others_are_not_too_many() -> None:
    clique = made(PodClique, "q", spec={"replicas": 1})
    labels = {"labels": {"grove.io/podclique": "q"}}
    ended = pod("b", meta=labels).evolve(status=PodStatus(phase="Failed"))
    elsewhere = pod("c", meta={"namespace": "other", **labels})
    assert found("grove/no-extra-pods", clique, pod("a", meta=labels), ended, elsewhere, pod("d")) == []
