"""ClusterRoles that gather rules."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import LabelSelector, ObjectMeta
from quarterdeck.api.k8s.rbac import AggregationRule, ClusterRole, PolicyRule
from quarterdeck.client import Client
from quarterdeck.cluster.aggregation import aggregated_rules
from quarterdeck.errors import SchemaError


def rule(resource: str) -> PolicyRule:
    return PolicyRule(api_groups=["example.com"], resources=[resource], verbs=["get"])


def role(name: str, *resources: str, gathers: str = "", **labels: str) -> ClusterRole:
    made = ClusterRole(
        metadata=ObjectMeta(name=name, labels=labels), rules=[rule(each) for each in resources]
    )
    if not gathers:
        return made
    selector = LabelSelector(match_labels={gathers: "true"})
    return made.evolve(aggregation_rule=AggregationRule(cluster_role_selectors=[selector]))


def resources(found: ClusterRole) -> list[str]:
    return [each for rule in found.rules for each in rule.resources]


async def test_rules_of_chosen_roles_are_gathered(client: Client, settle: Any) -> None:
    await client.create(role("all", gathers="mine"))
    await client.create(role("b", "beds", mine="true"))
    await client.create(role("a", "ants", mine="true"))
    await client.create(role("c", "cats"))
    await settle()
    assert resources(await client.get(ClusterRole, "all")) == ["ants", "beds"]


async def test_a_role_that_goes_takes_its_rules_along(client: Client, settle: Any) -> None:
    await client.create(role("all", gathers="mine"))
    await client.create(role("a", "ants", mine="true"))
    await settle()
    await client.delete(ClusterRole, "a")
    await settle()
    assert (await client.get(ClusterRole, "all")).rules == ()


async def test_rules_written_by_hand_do_not_last(client: Client, settle: Any) -> None:
    await client.create(role("a", "ants", mine="true"))
    made = await client.create(role("all", gathers="mine"))
    await settle()
    made = await client.get(ClusterRole, "all")
    await client.update(made.evolve(rules=[rule("owls")]))
    await settle()
    assert resources(await client.get(ClusterRole, "all")) == ["ants"]


async def test_roles_that_gather_can_be_gathered(client: Client, settle: Any) -> None:
    await client.create(role("outer", gathers="outer"))
    await client.create(role("inner", gathers="inner", outer="true"))
    await client.create(role("a", "ants", inner="true"))
    await settle()
    assert resources(await client.get(ClusterRole, "outer")) == ["ants"]


async def test_admin_edit_and_view_gather_what_is_labelled_for_them(client: Client, settle: Any) -> None:
    before = {name: await client.get(ClusterRole, name) for name in ("admin", "edit", "view")}
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    metadata = ObjectMeta(name="ants", labels={label: "true"})
    await client.create(ClusterRole(metadata=metadata, rules=[rule("ants")]))
    await settle()
    assert rule("ants") in (await client.get(ClusterRole, "view")).rules
    for name, old in before.items():
        found = (await client.get(ClusterRole, name)).rules
        assert [each for each in old.rules if each not in found] == [], name


def test_a_rule_is_gathered_once() -> None:
    roles = [role("a", "ants", mine="true"), role("b", "ants", mine="true")]
    assert aggregated_rules(role("all", gathers="mine"), roles) == [rule("ants")]


def test_a_selector_that_makes_no_sense_is_an_error() -> None:
    odd = role("all", gathers="bad label")
    with pytest.raises(SchemaError):
        aggregated_rules(odd, [role("a", "ants")])
