"""Nobody grants what they do not hold. Texts are those of a real server."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.auth.escalation import escalation_error
from quarterdeck.apiserver.auth.rbac import Authorizer
from quarterdeck.apiserver.auth.user import UserInfo

Json = dict[str, Any]
EVE = UserInfo("eve", groups=("g1", "g2"))
RBAC = "rbac.authorization.k8s.io"


def rule(groups: list[str], resources: list[str], verbs: list[str], names: list[str] | None = None) -> Json:
    document = {"apiGroups": groups, "resources": resources, "verbs": verbs}
    return {**document, "resourceNames": names} if names else document


def role(name: str, *rules: Json, **more: Any) -> Json:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, kind: str, target: str) -> Json:
    return {"metadata": {"name": name}, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": target}}


@pytest.fixture
def authorizer() -> Authorizer:
    """eve may write RBAC objects and get pods."""
    authorizer = Authorizer()
    held = role("eve", rule([RBAC], ["*"], ["create", "update"]), rule([""], ["pods"], ["get"]))
    authorizer.apply_change("clusterroles", "", "eve", held)
    grant(authorizer, "eve")
    authorizer.apply_change("clusterroles", "", "lister", role("lister", rule([""], ["pods"], ["list"])))
    authorizer.apply_change("roles", "ns", "getter", role("getter", rule([""], ["pods"], ["get"])))
    return authorizer


def grant(authorizer: Authorizer, name: str) -> None:
    subjects = [{"kind": "User", "name": "eve"}]
    authorizer.apply_change(
        "clusterrolebindings", "", name, {**binding(name, "ClusterRole", name), "subjects": subjects}
    )


PODS_LIST = rule([""], ["pods"], ["list"])
REFUSED = (
    'is forbidden: user "eve" (groups=["g1" "g2"]) is attempting to grant RBAC permissions '
    "not currently held:\n"
    '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
)


def test_a_role_within_ones_own_permissions_is_fine(authorizer: Authorizer) -> None:
    assert escalation_error(authorizer, EVE, "roles", "ns", role("x", rule([""], ["pods"], ["get"]))) is None


def test_a_role_beyond_them_is_refused(authorizer: Authorizer) -> None:
    error = escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST))
    assert error is not None
    assert error.code == 403
    assert error.message == f'roles.rbac.authorization.k8s.io "x" {REFUSED}'
    assert error.details == {"name": "x", "group": RBAC, "kind": "roles"}


def test_the_new_rules_count_on_update(authorizer: Authorizer) -> None:
    old = role("x", rule([""], ["pods"], ["get"]))
    error = escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST), old, request_name="x")
    assert error is not None
    assert error.message.endswith(REFUSED)


def test_an_update_of_references_only_is_nobodys_concern(authorizer: Authorizer) -> None:
    old = role("x", PODS_LIST)
    new = {
        **old,
        "metadata": {"name": "x", "finalizers": ["a/b"], "ownerReferences": [], "managedFields": [1]},
    }
    assert escalation_error(authorizer, EVE, "roles", "ns", new, old) is None
    labelled = {**old, "metadata": {"name": "x", "labels": {"a": "b"}}}
    assert escalation_error(authorizer, EVE, "roles", "ns", labelled, old) is not None


def test_escalate_on_the_role_lifts_the_check(authorizer: Authorizer) -> None:
    authorizer.apply_change("clusterroles", "", "esc", role("esc", rule([RBAC], ["roles"], ["escalate"])))
    grant(authorizer, "esc")
    assert escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST)) is None
    assert escalation_error(authorizer, EVE, "clusterroles", "", role("x", PODS_LIST)) is not None


def test_escalate_by_name_needs_the_name_in_the_url(authorizer: Authorizer) -> None:
    esc = role("esc", rule([RBAC], ["roles"], ["escalate"], ["x"]))
    authorizer.apply_change("clusterroles", "", "esc", esc)
    grant(authorizer, "esc")
    assert escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST)) is not None
    assert escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST), request_name="x") is None


def test_an_aggregation_rule_needs_everything(authorizer: Authorizer) -> None:
    gathering = role("x", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    error = escalation_error(authorizer, EVE, "clusterroles", "", gathering)
    assert error is not None
    assert error.message == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )
    assert escalation_error(authorizer, EVE, "clusterroles", "", role("x"), gathering) is not None
    everything = role("all", rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]})
    authorizer.apply_change("clusterroles", "", "all", everything)
    grant(authorizer, "all")
    assert escalation_error(authorizer, EVE, "clusterroles", "", gathering) is None


def test_a_binding_hands_out_what_its_role_allows(authorizer: Authorizer) -> None:
    fine = binding("b", "Role", "getter")
    assert escalation_error(authorizer, EVE, "rolebindings", "ns", fine) is None
    error = escalation_error(authorizer, EVE, "rolebindings", "ns", binding("b", "ClusterRole", "lister"))
    assert error is not None
    assert error.message == f'rolebindings.rbac.authorization.k8s.io "b" {REFUSED}'
    error = escalation_error(
        authorizer, EVE, "clusterrolebindings", "", binding("b", "ClusterRole", "lister")
    )
    assert error is not None
    assert error.message == f'clusterrolebindings.rbac.authorization.k8s.io "b" {REFUSED}'


def test_bind_on_the_role_lifts_the_check(authorizer: Authorizer) -> None:
    bind = role("bind", rule([RBAC], ["clusterroles"], ["bind"], ["lister"]))
    authorizer.apply_change("clusterroles", "", "bind", bind)
    grant(authorizer, "bind")
    reference = binding("b", "ClusterRole", "lister")
    assert escalation_error(authorizer, EVE, "rolebindings", "ns", reference) is None
    assert escalation_error(authorizer, EVE, "clusterrolebindings", "", reference) is None


def test_a_generated_name_is_not_yet_there_to_be_named(authorizer: Authorizer) -> None:
    unnamed = {**binding("", "ClusterRole", "lister"), "metadata": {"generateName": "b-"}}
    error = escalation_error(authorizer, EVE, "rolebindings", "ns", unnamed)
    assert error is not None
    assert error.message == f"rolebindings.rbac.authorization.k8s.io {REFUSED}"


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_missing_role_is_not_found(authorizer: Authorizer, kind: str) -> None:
    error = escalation_error(authorizer, EVE, "rolebindings", "ns", binding("b", kind, "nosuch"))
    assert error is not None
    assert (error.code, error.message) == (404, 'rolebindings.rbac.authorization.k8s.io "nosuch" not found')


def test_odd_references_are_answered_as_upstream_does(authorizer: Authorizer) -> None:
    odd = escalation_error(authorizer, EVE, "rolebindings", "ns", binding("b", "Foo", "x"))
    assert odd is not None
    assert (odd.code, odd.message) == (500, 'unsupported role reference kind: "Foo"')
    local = escalation_error(authorizer, EVE, "clusterrolebindings", "", binding("b", "Role", "getter"))
    assert local is not None
    assert (local.code, local.message) == (400, "Namespace parameter required.")


def test_roles_that_could_not_be_read_are_mentioned(authorizer: Authorizer) -> None:
    grant(authorizer, "nosuch")
    grant(authorizer, "nosuch2")
    error = escalation_error(authorizer, EVE, "roles", "ns", role("x", PODS_LIST))
    assert error is not None
    assert error.message.endswith(
        '; resolution errors: [[roles.rbac.authorization.k8s.io "nosuch" not found, '
        'roles.rbac.authorization.k8s.io "nosuch2" not found]]'
    )


def test_masters_and_allow_all_are_not_checked(authorizer: Authorizer) -> None:
    master = UserInfo("root", groups=("system:masters",))
    assert escalation_error(authorizer, master, "roles", "ns", role("x", PODS_LIST)) is None
    authorizer.allow_all = True
    assert escalation_error(authorizer, EVE, "rolebindings", "ns", binding("b", "Role", "nosuch")) is None


def test_other_resources_are_not_checked(authorizer: Authorizer) -> None:
    assert escalation_error(authorizer, EVE, "configmaps", "ns", {"metadata": {"name": "x"}}) is None
