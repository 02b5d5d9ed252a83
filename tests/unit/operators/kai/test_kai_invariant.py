"""What ``quarterdeck check`` finds about gangs and queues."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Resource
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai.logic.invariant import INVARIANTS
from quarterdeck.operators.kai.types import PodGroup, Queue
from tests.unit.operators.invariantkit import broken, made


def found(name: str, *objects: Resource) -> list[tuple[str, str]]:
    return broken(INVARIANTS, name, *objects)


def pod(name: str, node: str = "", *, meta: dict[str, Any] | None = None, **requests: str) -> Pod:
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return made(Pod, name, meta=meta, spec={"nodeName": node, "containers": containers})


def test_gangs_run_with_their_minimum_and_queues_within_their_limit() -> None:
    group = made(PodGroup, "g", spec={"minMember": 2})
    of_group = {"annotations": {"pod-group-name": "g"}}
    placed, waiting = pod("a", "n", meta=of_group), pod("b", meta=of_group)
    assert found("kai/gang-minimum", group, waiting) == []
    assert found("kai/gang-minimum", group, placed, pod("b", "n", meta=of_group)) == []
    assert found("kai/gang-minimum", group, placed, waiting) == [
        ("PodGroup default/g", "1 of its pods have a node, and it needs 2 to work")
    ]

    def queue(gpus: str) -> Queue:
        limits = {"gpu": {"limit": 4}, "cpu": {"limit": -1}, "memory": {"limit": -1}}
        status = {"allocated": {"nvidia.com/gpu": gpus, "cpu": "100"}}
        return made(Queue, "q", meta={"namespace": ""}, spec={"resources": limits}, status=status)

    assert found("kai/queue-limit", queue("4")) == []
    assert found("kai/queue-limit", queue("5")) == [
        ("Queue q", "5 nvidia.com/gpu are in use, and its limit is 4")
    ]
