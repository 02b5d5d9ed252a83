"""Which writes a webhook or a policy is meant for."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.admission.attributes import GroupVersionKind
from quarterdeck.apiserver.admission.matching import Criteria, Selector, criteria, is_exempt
from quarterdeck.apiserver.admission.matching import rule as compile_rule
from quarterdeck.apiserver.status import StatusError

from .world import World, rule


def _criteria(*rules: dict[str, Any], **options: Any) -> Criteria:
    return Criteria(rules=[compile_rule(item) for item in rules], **options)


@pytest.mark.parametrize(
    ("resources", "subresource", "matches"),
    [
        (["configmaps"], "", True),
        (["configmaps"], "status", False),
        (["configmaps/status"], "status", True),
        (["configmaps/status"], "", False),
        (["configmaps/*"], "status", True),
        (["configmaps/*"], "", True),
        (["*"], "", True),
        (["*"], "status", False),
        (["*/*"], "status", True),
        (["*/status"], "status", True),
        (["pods"], "", False),
    ],
)
def test_resources_and_subresources(resources: list[str], subresource: str, matches: bool) -> None:
    world = World()
    found = _criteria(rule(*resources)).match(world.request(subresource=subresource), world)
    assert (found is not None) is matches


@pytest.mark.parametrize(
    ("change", "matches"),
    [
        ({"operations": ["*"]}, True),
        ({"operations": ["DELETE"]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["*"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
)
def test_operations_groups_versions_and_scope(change: dict[str, Any], matches: bool) -> None:
    world = World()
    found = _criteria(rule(**change), match_policy="Exact").match(world.request(), world)
    assert (found is not None) is matches


def test_a_namespace_is_a_cluster_scoped_object_within_itself() -> None:
    world = World()
    request = world.request(resource="namespaces", name="new", obj={"metadata": {"name": "new"}})
    assert request.namespace == "new"
    assert _criteria(rule("namespaces", scope="Cluster")).match(request, world)
    assert not _criteria(rule("namespaces", scope="Namespaced")).match(request, world)


def test_namespace_selector_looks_at_the_labels_of_the_namespace() -> None:
    world = World()
    yes, no = {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "b"}}
    assert _criteria(rule(), namespace_selector=yes).match(world.request(), world)
    assert not _criteria(rule(), namespace_selector=no).match(world.request(), world)


def test_namespace_selector_looks_at_a_new_namespace_itself() -> None:
    world = World()
    new = {"metadata": {"name": "n", "labels": {"team": "b"}}}
    request = world.request(resource="namespaces", name="n", obj=new)
    assert _criteria(rule("namespaces"), namespace_selector={"matchLabels": {"team": "b"}}).match(
        request, world
    )


def test_namespace_selector_never_exempts_other_cluster_scoped_objects() -> None:
    world = World()
    selector = {"matchLabels": {"team": "none"}}
    assert _criteria(rule("nodes"), namespace_selector=selector).match(world.request(resource="nodes"), world)


def test_a_missing_namespace_matters_only_where_everything_else_matches() -> None:
    world = World()
    request = world.request(namespace="gone")
    selector = {"matchLabels": {"team": "a"}}
    assert _criteria(rule("pods"), namespace_selector=selector).match(request, world) is None
    with pytest.raises(StatusError, match='namespaces "gone" not found'):
        _criteria(rule(), namespace_selector=selector).match(request, world)


def test_object_selector_looks_at_the_object_and_the_old_object() -> None:
    world = World()
    labelled = {"metadata": {"name": "x", "labels": {"a": "b"}}}
    plain = {"metadata": {"name": "x"}}
    wanted = _criteria(rule(operations=["*"]), object_selector={"matchLabels": {"a": "b"}})
    assert wanted.match(world.request(obj=labelled), world)
    assert wanted.match(world.request("UPDATE", obj=plain, old=labelled), world)
    assert wanted.match(world.request("DELETE", old=labelled), world)
    assert not wanted.match(world.request(obj=plain), world)


def test_equivalent_versions_match_and_say_which() -> None:
    world = World()
    only_v2 = rule("things", apiGroups=["ex.io"], apiVersions=["v2"])
    request = world.request(group="ex.io", resource="things")
    match = _criteria(only_v2).match(request, world)
    assert match is not None
    assert match.kind == GroupVersionKind("ex.io", "v2", "Thing")
    assert _criteria(only_v2, match_policy="Exact").match(request, world) is None


def test_excluded_rules_and_names_of_policies() -> None:
    world = World()
    named = {"resourceRules": [rule(resourceNames=["x"])]}
    assert criteria(named).match(world.request(), world)
    assert not criteria(named).match(world.request(name="y"), world)
    excluded = {"resourceRules": [rule()], "excludeResourceRules": [rule(resourceNames=["x"])]}
    assert not criteria(excluded).match(world.request(), world)
    assert criteria(excluded).match(world.request(name="y"), world)


def test_a_binding_without_rules_matches_everything() -> None:
    world = World()
    assert criteria({}, without_rules=True).match(world.request(), world)
    assert not criteria({}).match(world.request(), world)


@pytest.mark.parametrize(
    ("expression", "labels", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "2"]}, {"a": "2"}, True),
        ({"key": "a", "operator": "In", "values": ["1"]}, {}, False),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {"a": "1"}, False),
        ({"key": "a", "operator": "Exists"}, {"a": ""}, True),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False),
    ],
)
def test_selector_expressions(expression: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    assert Selector({"matchExpressions": [expression]}).matches(labels) is matches


def test_configurations_of_admission_are_exempt() -> None:
    assert is_exempt("admissionregistration.k8s.io", "mutatingadmissionpolicies")
    assert not is_exempt("", "configmaps")
