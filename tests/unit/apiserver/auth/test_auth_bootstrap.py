"""The roles of a fresh server, and aggregation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quarterdeck.apiserver.auth.attributes import AccessAttributes, path_attributes
from quarterdeck.apiserver.auth.bootstrap import bootstrap_objects, selects, settle
from quarterdeck.apiserver.auth.rbac import RESOURCES, Authorizer
from quarterdeck.apiserver.auth.user import UserInfo

Json = dict[str, Any]


def aggregate_roles(roles: Iterable[Any]) -> dict[str, Any]:
    return {role["metadata"]["name"]: rules for role, rules in settle(roles)}


@pytest.fixture(scope="module")
def fresh() -> Authorizer:
    authorizer = Authorizer()
    for item in bootstrap_objects():
        authorizer.apply_change(item.resource, item.namespace, item.name, item.document)
    for role in ("view", "edit", "admin"):
        subjects = [{"kind": "User", "name": role}]
        reference = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects}
        authorizer.apply_change("rolebindings", "ns", role, reference)
    return authorizer


def test_all_well_known_roles_are_there() -> None:
    objects = bootstrap_objects()
    assert {item.resource for item in objects} == RESOURCES
    names = {item.name for item in objects if item.resource == "clusterroles"}
    assert names >= {
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
        "system:aggregate-to-admin",
        "system:aggregate-to-edit",
        "system:aggregate-to-view",
    }


def test_objects_are_complete_documents_and_roles_come_first() -> None:
    objects = bootstrap_objects()
    for item in objects:
        assert item.document["apiVersion"] == "rbac.authorization.k8s.io/v1"
        assert item.document["kind"].lower() + "s" == item.resource
        assert bool(item.namespace) is (item.resource in ("roles", "rolebindings"))
    order = [item.resource for item in objects]
    assert order.index("clusterroles") < order.index("clusterrolebindings")
    assert order.index("roles") < order.index("rolebindings")


def test_each_call_gives_fresh_documents() -> None:
    bootstrap_objects()[0].document["metadata"]["name"] = "changed"
    assert bootstrap_objects()[0].document["metadata"]["name"] != "changed"


def test_bootstrap_is_already_aggregated() -> None:
    roles = [item.document for item in bootstrap_objects() if item.resource == "clusterroles"]
    assert aggregate_roles(roles) == {}


@pytest.mark.parametrize(
    ("role", "verb", "group", "resource", "allowed"),
    [
        ("view", "list", "", "pods", True),
        ("view", "list", "", "secrets", False),
        ("view", "create", "", "pods", False),
        ("edit", "create", "apps", "deployments", True),
        ("edit", "list", "", "secrets", True),
        ("edit", "create", "rbac.authorization.k8s.io", "roles", False),
        ("admin", "create", "rbac.authorization.k8s.io", "roles", True),
        ("admin", "list", "", "pods", True),
    ],
)
def test_view_edit_and_admin_build_on_each_other(
    fresh: Authorizer, role: str, verb: str, group: str, resource: str, allowed: bool
) -> None:
    question = AccessAttributes(
        user=UserInfo(role), verb=verb, group=group, resource=resource, namespace="ns"
    )
    assert fresh.authorize(question).allowed is allowed


def test_every_authenticated_user_may_discover_and_ask_about_itself(fresh: Authorizer) -> None:
    user = UserInfo("bob").authenticated()
    for path in ("/api", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"):
        assert fresh.authorize(path_attributes(user, "get", path)).allowed
    for group, resource in (
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    ):
        question = AccessAttributes(user=user, verb="create", group=group, resource=resource)
        assert fresh.authorize(question).allowed
    assert not fresh.authorize(path_attributes(user, "get", "/metrics")).allowed


def role(name: str, *resources: str, labels: Json | None = None, gathers: list[Json] | None = None) -> Json:
    rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]} for resource in resources]
    document: Json = {"metadata": {"name": name, "labels": labels or {}}, "rules": rules}
    if gathers is not None:
        document["aggregationRule"] = {"clusterRoleSelectors": gathers}
    return document


def resources(rules: list[Json]) -> list[str]:
    return [resource for rule in rules for resource in rule["resources"]]


def test_rules_are_gathered_by_name_and_once() -> None:
    gathering = role("z", "stale", labels={"a": "1"}, gathers=[{"matchLabels": {"a": "1"}}, {}])
    roles = [role("y", "pods", "nodes", labels={"a": "1"}), role("x", "nodes", labels={"a": "1"}), gathering]
    roles.append(role("w", "secrets"))
    assert resources(aggregate_roles(roles)["z"]) == ["nodes", "pods", "secrets"]


def test_gathered_roles_may_gather_themselves() -> None:
    roles = [
        role("a", gathers=[{"matchLabels": {"to": "a"}}]),
        role("b", labels={"to": "a"}, gathers=[{"matchLabels": {"to": "b"}}]),
        role("c", "pods", labels={"to": "b"}),
    ]
    found = aggregate_roles(roles)
    assert resources(found["a"]) == resources(found["b"]) == ["pods"]


def test_a_settled_role_is_not_mentioned_and_one_without_sources_is_emptied() -> None:
    selector = [{"matchLabels": {"to": "a"}}]
    source = role("c", "pods", labels={"to": "a"})
    assert aggregate_roles([role("a", "pods", gathers=selector), source]) == {}
    assert aggregate_roles([role("a", "pods", gathers=selector)]) == {"a": []}
    assert aggregate_roles([role("a", "pods", gathers=[])]) == {"a": []}
    assert aggregate_roles([role("a", "pods")]) == {}


def test_a_selector_that_cannot_be_read_changes_nothing() -> None:
    odd = [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
    assert aggregate_roles([role("a", "pods", gathers=odd)]) == {}


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "a", "operator": "In", "values": ["2"]}, False),
        ({"key": "b", "operator": "In", "values": ["1"]}, False),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "b", "operator": "DoesNotExist"}, True),
    ],
)
def test_label_selectors(expression: Json, matches: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is matches


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.sampled_from(["pods", "nodes", ""])),
        max_size=8,
    )
)
@example([("a", "d", ""), ("b", "a", "pods"), ("b", "a", ""), ("c", "a", ""), ("d", "b", "")])
def test_applying_the_answer_settles_matters(edges: list[tuple[str, str, str]]) -> None:
    """Whatever gathers from whatever, cycles included: after one round nothing is left to do."""
    roles: dict[str, Json] = {}
    for name, target, resource in edges:
        item = roles.setdefault(name, role(name))
        item["metadata"]["labels"][f"to-{target}"] = "1"
        if resource:
            item["rules"] = [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]
        else:
            selector = {"matchLabels": {f"to-{name}": "1"}}
            item["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    for name, rules in aggregate_roles(roles.values()).items():
        roles[name]["rules"] = rules
    assert aggregate_roles(roles.values()) == {}
