"""Permissions derived from declarations, rendered as roles, held against what was done."""

from __future__ import annotations

import json
from typing import Any

from quarterdeck.api import GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s import Node
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.api.k8s.rbac import ClusterRoleBinding, RoleBinding, RoleRef, Subject
from quarterdeck.client import Call, Response, intercept
from quarterdeck.client.call import Proceed
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.rbac import (
    ELECTION_RULES,
    Rule,
    compare,
    event_rules,
    merge_rules,
    missing_permissions,
    roles,
)
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.recording import Permission, WriteLog, recording_client
from quarterdeck.testing import TestCluster
from tests.unit.runtime.controlkit import Script, manager_on, serving, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import WidgetCluster


async def cleanup(ctx: Context[Any]) -> None:
    return None


GADGET = GroupVersionKind("example.com", "v1", "Gadget")


def rows(rules: tuple[Rule, ...]) -> list[tuple[str, str, str]]:
    return [(",".join(r.groups), ",".join(r.resources), ",".join(r.verbs)) for r in rules]


def test_rules_follow_from_declarations() -> None:
    controller = (
        Builder(Widget)
        .owns(ConfigMap)
        .watches(Pod)
        .finalizer("f/x", cleanup)
        .rbac(Rule(groups=("",), resources=("pods/eviction",), verbs=("create",)))
        .build(Script())
    )
    assert rows(controller.rules) == [
        ("", "configmaps", "create,delete,get,list,patch,watch"),
        ("", "pods", "get,list,watch"),
        ("", "pods/eviction", "create"),
        ("example.com", "widgets", "get,list,patch,watch"),
        ("example.com", "widgets/finalizers", "update"),
        ("example.com", "widgets/status", "patch,update"),
    ]


def test_a_kind_without_a_class_brings_no_rules_of_its_own() -> None:
    builder = Builder(Widget).owns(GADGET).watches(GADGET)
    assert not any("gadgets" in rule.resources for rule in builder.build(Script()).rules)


def test_controller_that_owns_nothing_and_finalizes_nothing_needs_little() -> None:
    assert rows(Builder(Widget).build(Script()).rules) == [
        ("example.com", "widgets", "get,list,watch"),
        ("example.com", "widgets/status", "patch,update"),
    ]


def test_roles_are_per_namespace_when_the_cache_is() -> None:
    rules = (
        *Builder(Widget).build(Script()).rules,
        *event_rules("events.k8s.io"),
        Rule(urls=("/metrics",), verbs=("get",)),
    )
    lease = Rule(
        groups=ELECTION_RULES[0].groups,
        resources=ELECTION_RULES[0].resources,
        verbs=ELECTION_RULES[0].verbs,
        namespace="system",
    )
    made = roles("widgets", (*rules, lease), namespaces=("a", "b"))
    assert [(r.kind, r.metadata.namespace) for r in made] == [
        ("ClusterRole", ""),
        ("Role", "a"),
        ("Role", "b"),
        ("Role", "system"),
    ]
    assert made[0].rules[0].non_resource_urls == ("/metrics",)
    assert made[1].rules == made[2].rules
    (cluster,) = roles("widgets", Builder(Widget).build(Script()).rules)
    assert cluster.kind == "ClusterRole"
    assert cluster.rules[0].resources == ("widgets",)


def test_what_has_no_namespace_is_allowed_for_the_cluster_whatever_the_cache_holds() -> None:
    rules = Builder(Widget).watches(Node).build(Script()).rules
    made = roles("widgets", rules, namespaces=("a",))
    assert [(r.kind, [one.resources for one in r.rules]) for r in made] == [
        ("ClusterRole", [("nodes",)]),
        ("Role", [("widgets",), ("widgets/status",)]),
    ]


async def test_what_has_no_namespace_is_asked_for_without_one(api: WidgetCluster) -> None:
    asked: list[tuple[str, str]] = []

    async def note(call: Call, proceed: Proceed) -> Response:
        attributes = json.loads(call.body)["spec"]["resourceAttributes"]
        asked.append((attributes["resource"], attributes.get("namespace", "")))
        return await proceed(call)

    rules = [
        Rule(groups=("",), resources=("nodes",), verbs=("get",), is_cluster_wide=True),
        Rule(groups=("",), resources=("pods",), verbs=("get",)),
    ]
    await missing_permissions(intercept(api.link.client, create=note), rules, namespaces=("a",))
    assert asked == [("nodes", ""), ("pods", "a")]


def test_merging_is_stable_and_groups_resources_with_equal_verbs() -> None:
    one = Rule(groups=("g",), resources=("b", "a"), verbs=("list",))
    two = Rule(groups=("g",), resources=("a", "b"), verbs=("get",))
    assert merge_rules([one, two]) == merge_rules([two, one])
    assert rows(merge_rules([one, two])) == [("g", "a,b", "get,list")]


def test_used_and_declared_permissions_are_compared() -> None:
    declared = [Rule(groups=("",), resources=("configmaps", "secrets"), verbs=("get", "patch", "create"))]
    used = [Permission("", "configmaps", "patch"), Permission("", "pods", "delete")]
    result = compare(declared, used)
    assert [str(p) for p in result.missing] == ["delete pods"]
    assert [str(p) for p in result.unused] == ["create secrets", "patch secrets"]


async def test_writes_of_a_controller_are_seen_as_permissions(api: WidgetCluster) -> None:
    await api.fill("a")
    log = WriteLog()

    async def reconcile(ctx: Context[Widget]) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace="ns")), owner=ctx.obj)
        ctx.status.ready = 1

    manager = manager_on(api.link)
    spied = recording_client(manager.client, log)
    from quarterdeck.runtime.manager.manager import Manager
    from quarterdeck.runtime.manager.option import ManagerOptions

    watched = Manager(spied, options=ManagerOptions(watch_loop=False))
    controller = Builder(Widget).owns(ConfigMap).build(Script(reconcile))
    async with serving(watched, controller):
        await until(lambda: len(log.used) == 2)
    result = compare(controller.rules, log.used)
    assert result.missing == ()
    assert result.unused == ()


async def test_self_check_names_the_missing_verbs(api: WidgetCluster) -> None:
    readers = Rule(groups=("example.com",), resources=("widgets",), verbs=("list", "get"))
    for role in roles("operator", [readers]):
        await api.client.create(role)
    subject = Subject(kind="User", name="operator", api_group="rbac.authorization.k8s.io")
    reference = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="operator")
    made = ObjectMeta(name="operator")
    await api.client.create(ClusterRoleBinding(metadata=made, role_ref=reference, subjects=(subject,)))
    client = api.cluster.as_user("operator")
    missing = await missing_permissions(client, Builder(Widget).build(Script()).rules)
    assert [str(p) for p in missing] == [
        "watch widgets.example.com",
        "patch widgets/status.example.com",
        "update widgets/status.example.com",
    ]


async def test_self_check_asks_about_named_objects_and_urls(cluster: TestCluster) -> None:
    rules = [
        Rule(groups=("",), resources=("secrets",), verbs=("get",), resource_names=("key",)),
        Rule(groups=("",), resources=("configmaps",), verbs=("get", "list"), namespace="default"),
        Rule(urls=("/metrics",), verbs=("get",)),
    ]
    client = cluster.as_user("operator")
    assert [str(each) for each in await missing_permissions(client, rules)] == [
        *("get secrets", "get configmaps", "list configmaps", "get /metrics")
    ]
    subject = Subject(kind="User", name="operator", api_group="rbac.authorization.k8s.io")
    for role in roles("operator", rules):
        await cluster.client.create(role)
        reference = RoleRef(api_group="rbac.authorization.k8s.io", kind=role.kind, name="operator")
        binding = ClusterRoleBinding if role.kind == "ClusterRole" else RoleBinding
        made = ObjectMeta(name="operator", namespace=role.metadata.namespace)
        await cluster.client.create(binding(metadata=made, role_ref=reference, subjects=(subject,)))
    assert await missing_permissions(client, rules) == []
