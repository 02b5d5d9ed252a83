"""Preemption and topology spread, without a cluster: who goes, and where pods may be."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Selector
from quarterdeck.cluster.placement.preemption import Budget, Occupant, Plan, Preemption
from quarterdeck.cluster.placement.spread import spread_constraints
from quarterdeck.cluster.placement.state import Demand, PlacementState
from quarterdeck.scheduler.intake import node_info, pod_info

Json = dict[str, Any]


def node(name: str, zone: str = "", *, cpu: str = "4", labels: Json | None = None, taints: Any = ()) -> Any:
    where = {"zone": zone} if zone else {}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return node_info(
        {
            "metadata": {"name": name, "labels": {**where, **(labels or {})}},
            "spec": {"taints": list(taints)},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def pod(name: str, cpu: str = "1", *, at: str = "", app: str = "x", age: int = 0, **spec: Any) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
        },
        "spec": {
            "nodeName": at,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


def demand(document: Json, priority: int = 0) -> Demand:
    return Demand(pod_info(document), priority, spread_constraints(document))


def occupant(document: Json, priority: int) -> Occupant:
    return Occupant(pod_info(document), priority)


def plan(nodes: list[Any], running: list[Occupant], wanted: Demand, *budgets: Budget) -> Plan | str:
    state = PlacementState(nodes, [*(each.info for each in running), wanted.info], {})
    assert state.place(wanted) == ""
    return Preemption(state, running, budgets).plan(wanted)


def victims(found: Plan | str) -> tuple[str, set[str]]:
    assert isinstance(found, Plan), found
    return found.node, {each.name for each in found.victims}


def test_the_node_that_loses_least_is_chosen() -> None:
    nodes = [node("a"), node("b")]
    running = [
        occupant(pod("a1", "2", at="a"), 50),
        occupant(pod("a2", "2", at="a"), 10),
        occupant(pod("b1", "4", at="b"), 60),
    ]
    assert victims(plan(nodes, running, demand(pod("new", "2"), 100))) == ("a", {"a2"})


def test_no_more_than_necessary_have_to_go_and_the_youngest_first() -> None:
    running = [occupant(pod(f"p{age}", "1", at="a", age=age), 0) for age in range(4)]
    assert victims(plan([node("a")], running, demand(pod("new", "2"), 1))) == ("a", {"p2", "p3"})


def test_budgets_are_broken_only_where_nothing_else_helps() -> None:
    nodes = [node("a"), node("b")]
    running = [occupant(pod("a1", "4", at="a", app="db"), 0), occupant(pod("b1", "4", at="b"), 5)]
    budget = Budget("default", Selector.of("app=db"), 0)
    assert victims(plan(nodes, running, demand(pod("new", "4"), 9), budget)) == ("b", {"b1"})
    assert victims(plan(nodes[:1], running[:1], demand(pod("new", "4"), 9), budget)) == ("a", {"a1"})


def test_equals_are_left_alone_and_taints_cannot_be_driven_away() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [node("a"), node("b", taints=[taint])]
    running = [occupant(pod("a1", "4", at="a"), 7)]
    assert plan(nodes, running, demand(pod("new", "4"), 7)) == (
        "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_what_is_too_big_for_a_node_drives_nobody_away() -> None:
    running = [occupant(pod("a1", "1", at="a"), 0)]
    assert plan([node("a")], running, demand(pod("new", "5"), 9)) == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )


def spread(skew: int = 1, when: str = "DoNotSchedule", **fields: Any) -> Json:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": skew,
                "topologyKey": "zone",
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "x"}},
                **fields,
            }
        ]
    }


def test_pods_are_spread_over_zones() -> None:
    nodes = [node("a1", "a", cpu="100"), node("a2", "a", cpu="100"), node("b1", "b")]
    documents = [pod(f"p{number}", "100m", **spread()) for number in range(4)]
    wanted = [demand(each) for each in documents]
    state = PlacementState(nodes, [each.info for each in wanted], {})
    zones = ["b" if state.place(each) == "b1" else "a" for each in wanted]
    assert sorted(zones) == ["a", "a", "b", "b"]


def test_a_zone_that_has_too_many_is_refused_in_words() -> None:
    nodes = [node("a1", "a"), node("b1", "b", cpu="0"), node("c1")]
    running = [pod_info(pod("p0", "100m", at="a1"))]
    wanted = demand(pod("new", "100m", **spread()))
    state = PlacementState(nodes, [*running, wanted.info], {})
    assert state.place(wanted) == ""
    assert state.refusal(wanted) == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label)."
    )


@pytest.mark.parametrize(("minimum", "expected"), [(1, "a1"), (2, "")])
def test_too_few_domains_count_as_an_empty_one(minimum: int, expected: str) -> None:
    running = [pod_info(pod("p0", "100m", at="a1"))]
    wanted = demand(pod("new", "100m", **spread(minDomains=minimum)))
    assert PlacementState([node("a1", "a")], [*running, wanted.info], {}).place(wanted) == expected


def test_soft_constraints_are_wishes() -> None:
    nodes = [node("a1", "a", cpu="100"), node("b1", "b")]
    running = [pod_info(pod("p0", "100m", at="a1"))]
    wanted = demand(pod("new", "100m", **spread(when="ScheduleAnyway")))
    assert PlacementState(nodes, [*running, wanted.info], {}).place(wanted) == "b1"


def test_preferred_nodes_are_preferred() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]
        }
    }
    nodes = [node("a", cpu="100"), node("b", labels={"disk": "ssd"})]
    wanted = demand(pod("new", affinity=affinity))
    assert PlacementState(nodes, [wanted.info], {}).place(wanted) == "b"


def test_nodes_that_warn_pods_off_come_last() -> None:
    taint = {"key": "k", "effect": "PreferNoSchedule"}
    nodes = [node("a", cpu="100", taints=[taint]), node("b")]
    wanted = demand(pod("new"))
    assert PlacementState(nodes, [wanted.info], {}).place(wanted) == "b"
    tolerant = demand(pod("new", tolerations=[{"key": "k", "operator": "Exists"}]))
    assert PlacementState(nodes, [tolerant.info], {}).place(tolerant) == "a"
