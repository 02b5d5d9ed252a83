"""What ``quarterdeck check`` finds about gangs and queues."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import Resource
from quarterdeck.api.invariant import Objects
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


def test_groups_stored_with_mixed_case_names_are_listed_with_the_fix() -> None:
    def group(name: str, *parts: dict[str, Any]) -> PodGroup:
        return made(PodGroup, name, spec={"subGroups": list(parts)})

    good = group("good", {"name": "leader"}, {"name": "worker-1", "parent": "leader"})
    old = group("old", {"name": "Leader"}, {"name": "workers", "parent": "Leader"}, {"name": "dataLoader"})
    [invariant] = [each for each in INVARIANTS if each.name == "kai/lowercase-subgroups"]
    [found_one] = invariant.broken(Objects({PodGroup: [good, old]}))
    assert found_one.object == "PodGroup default/old"
    assert found_one.problem == 'names of subgroups must be lowercase: "Leader", "dataLoader"'
    assert found_one.remedy == (
        'rename "Leader" to "leader", "dataLoader" to "dataloader" in one write, '
        "and the label kai.scheduler/subgroup-name of its pods"
    )


def test_a_gang_of_one_or_of_subgroups_is_not_counted_as_a_whole() -> None:
    of_group = {"annotations": {"pod-group-name": "g"}}
    placed = pod("a", "n", meta=of_group)
    assert found("kai/gang-minimum", made(PodGroup, "g", spec={}), placed) == []
    parts = made(PodGroup, "g", spec={"minMember": 2, "subGroups": [{"name": "s", "minMember": 1}]})
    assert found("kai/gang-minimum", parts, placed) == []
    elsewhere = pod("a", "n", meta={"namespace": "other", **of_group})
    assert found("kai/gang-minimum", made(PodGroup, "g", spec={"minMember": 2}), elsewhere) == []


def test_limits_are_in_the_units_of_their_fields() -> None:
    def queue(cpu: str, memory: str) -> Queue:
        limits = {"gpu": {"limit": -1}, "cpu": {"limit": 2000}, "memory": {"limit": 1000}}
        status = {"allocated": {"cpu": cpu, "memory": memory, "nvidia.com/gpu": "99"}}
        return made(Queue, "q", meta={"namespace": ""}, spec={"resources": limits}, status=status)

    assert found("kai/queue-limit", queue("2", "1G")) == []
    assert sorted(found("kai/queue-limit", queue("2001m", "1001M"))) == [
        ("Queue q", "1.001e+09 memory are in use, and its limit is 1e+09"),
        ("Queue q", "2.001 cpu are in use, and its limit is 2"),
    ]
    assert found("kai/queue-limit", made(Queue, "q", meta={"namespace": ""})) == []


def test_what_ran_before_a_limit_was_lowered_may_go_on() -> None:
    def queue(name: str, gpus: int, **spec: Any) -> Queue:
        shares = {"gpu": {"limit": gpus}, "cpu": {"limit": -1}, "memory": {"limit": -1}}
        fields = [
            {"manager": "kubectl", "operation": "Update", "time": "2030-01-01T00:05:00Z"},
            {
                "manager": "kai",
                "operation": "Update",
                "time": "2030-01-01T00:09:00Z",
                "subresource": "status",
            },
        ]
        return made(
            Queue,
            name,
            meta={"namespace": "", "generation": 2, "managedFields": fields},
            spec={"resources": shares, **spec},
            status={"allocated": {"nvidia.com/gpu": "5"}},
        )

    def placed(minute: int) -> Pod:
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": f"2030-01-01T00:0{minute}:00Z",
        }
        meta = {"namespace": "default", "annotations": {"pod-group-name": "g"}}
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
        return made(Pod, f"p{minute}", meta=meta, spec=spec, status={"conditions": [condition]})

    group = made(PodGroup, "g", spec={"queue": "team"})
    queues = queue("team", 4, parentQueue="all"), queue("all", 4)
    assert found("kai/queue-limit", *queues, group, placed(3)) == []
    broken_by_now = found("kai/queue-limit", *queues, group, placed(3), placed(7))
    assert [name for name, _ in broken_by_now] == ["Queue all", "Queue team"]


def test_a_gang_of_which_some_have_ended_or_whose_minimum_was_raised_misses_nobody() -> None:
    of_group = {"annotations": {"pod-group-name": "g"}}
    raised = made(PodGroup, "g", spec={"minMember": 3})
    assert found("kai/gang-minimum", raised, pod("a", "n", meta=of_group), pod("b", "n", meta=of_group)) == []
