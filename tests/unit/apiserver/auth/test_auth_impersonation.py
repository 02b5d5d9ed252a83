"""Impersonation: who may act as whom, and the refusals of a real 1.36 server."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.auth.attributes import AccessAttributes, path_attributes
from quarterdeck.apiserver.auth.impersonation import Impersonator, wanted_user
from quarterdeck.apiserver.auth.rbac import Authorizer
from quarterdeck.apiserver.auth.user import NODE_NAME, UserInfo
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]
IMP = UserInfo("system:serviceaccount:ns:imp", groups=("system:serviceaccounts",))
WHO = 'User "system:serviceaccount:ns:imp"'
AUTHN = "authentication.k8s.io"


class World:
    """An authorizer in which one user is granted rules, and an impersonator on it."""

    def __init__(self, user: UserInfo = IMP) -> None:
        self.user = user
        self.authorizer = Authorizer()
        self.impersonator = Impersonator(self.authorizer)
        self._rules: list[Json] = []

    def allow(self, verb: str, group: str, resource: str, *names: str) -> World:
        rule = {"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": list(names)}
        self._rules.append(rule)
        self.authorizer.apply_change("clusterroles", "", "r", {"rules": self._rules})
        subjects = [{"kind": "User", "name": self.user.name}]
        reference = {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}
        self.authorizer.apply_change("clusterrolebindings", "", "b", reference)
        return self

    def act(self, *headers: tuple[str, str], verb: str = "list", resource: str = "pods") -> UserInfo:
        attributes = AccessAttributes(user=self.user, verb=verb, resource=resource, namespace="default")
        return self.impersonator.impersonate(attributes, headers)

    def refusal(self, *headers: tuple[str, str], verb: str = "list", resource: str = "pods") -> str:
        with pytest.raises(StatusError) as caught:
            self.act(*headers, verb=verb, resource=resource)
        assert caught.value.code == 403
        return caught.value.message


def as_user(name: str, *groups: str) -> list[tuple[str, str]]:
    return [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]


def test_without_headers_the_requestor_stays() -> None:
    assert World().act(("Accept", "*/*")) is IMP


def test_headers_are_read_in_any_case_and_keys_are_decoded() -> None:
    headers = [
        ("impersonate-user", "x"),
        ("IMPERSONATE-UID", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Foo.io%2fBar", "v"),
        ("Impersonate-Extra-foo.io%2Fbar", "w"),
        ("Impersonate-Extra-100%", "z"),
    ]
    assert wanted_user(headers) == UserInfo("x", "7", ("a", "b"), {"foo.io/bar": ("v", "w"), "100%": ("z",)})


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        (
            [("Impersonate-Group", "g")],
            'Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)',
        ),
        (
            [
                ("Impersonate-Uid", "1"),
                ("Impersonate-Extra-Scopes", "s"),
                ("Impersonate-Extra-Foo%2fBar", "v"),
                ("Impersonate-Extra-Foo%2fBar", "w"),
            ],
            (
                'Name:"", UID:"1", Groups:[]string(nil), '
                'Extra:map[string][]string{"foo/bar":[]string{"v", "w"}, "scopes":[]string{"s"}}'
            ),
        ),
    ],
)
def test_headers_without_a_user_are_a_bad_request(headers: list[tuple[str, str]], shown: str) -> None:
    with pytest.raises(StatusError) as caught:
        World().act(*headers)
    assert caught.value.code == 400
    assert caught.value.message == (
        f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"
    )


@pytest.mark.parametrize(
    ("headers", "mode"),
    [
        (as_user("x"), "user-info"),
        (as_user("x", "g"), "user-info"),
        (as_user("system:serviceaccount:default:a"), "serviceaccount"),
        (as_user("system:node:n1"), "arbitrary-node"),
    ],
)
def test_the_constrained_form_is_refused_first(headers: list[tuple[str, str]], mode: str) -> None:
    assert World().refusal(*headers) == (
        f'pods is forbidden: {WHO} cannot impersonate-on:{mode}:list resource "pods" in API group "" '
        'in the namespace "default"'
    )


def test_a_path_is_refused_in_the_constrained_form_too() -> None:
    world = World()
    with pytest.raises(StatusError) as caught:
        world.impersonator.impersonate(path_attributes(IMP, "get", "/version"), as_user("x"))
    assert caught.value.message == (f'forbidden: {WHO} cannot impersonate-on:user-info:get path "/version"')


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        (
            as_user("system:serviceaccount:default:a", "g"),
            (
                f'serviceaccounts "a" is forbidden: {WHO} cannot impersonate resource "serviceaccounts" '
                'in API group "" in the namespace "default"'
            ),
        ),
        (
            as_user("system:node:n1", "g"),
            (
                f'users "system:node:n1" is forbidden: {WHO} cannot impersonate resource "users" '
                'in API group "" at the cluster scope'
            ),
        ),
    ],
)
def test_nodes_and_accounts_with_groups_have_only_the_old_form(
    headers: list[tuple[str, str]], text: str
) -> None:
    assert World().refusal(*headers) == text


def test_the_identity_is_asked_for_after_the_request() -> None:
    world = World().allow("impersonate-on:user-info:list", "", "pods")
    assert world.refusal(*as_user("x")) == (
        f'users.authentication.k8s.io "x" is forbidden: {WHO} cannot impersonate:user-info resource "users" '
        f'in API group "{AUTHN}" at the cluster scope'
    )


def constrained(*names: str) -> World:
    world = World().allow("impersonate-on:user-info:list", "", "pods")
    return world.allow("impersonate:user-info", AUTHN, "users", *names)


def test_the_constrained_form_works_for_what_it_names() -> None:
    world = constrained("x")
    assert world.act(*as_user("x")) == UserInfo("x", groups=("system:authenticated",))
    assert "cannot impersonate:user-info" in world.refusal(*as_user("y"))
    assert "impersonate-on:user-info:list" in world.refusal(*as_user("x"), resource="configmaps")
    assert "impersonate-on:user-info:watch" in world.refusal(*as_user("x"), verb="watch")


IN_AUTHN = f'in API group "{AUTHN}" at the cluster scope'
CANNOT = f"is forbidden: {WHO} cannot impersonate:user-info resource"


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ([("Impersonate-Group", "g")], f'groups.{AUTHN} "g" {CANNOT} "groups" {IN_AUTHN}'),
        (
            [("Impersonate-Group", "system:masters")],
            (
                f'groups.{AUTHN} "system:masters" {CANNOT} "groups" {IN_AUTHN}: '
                "impersonating the system:masters group is not allowed"
            ),
        ),
        (
            [("Impersonate-Group", "")],
            (
                f'groups.{AUTHN} {CANNOT} "groups" {IN_AUTHN}: '
                "impersonating the empty string group is not allowed"
            ),
        ),
        ([("Impersonate-Uid", "7")], f'uids.{AUTHN} "7" {CANNOT} "uids" {IN_AUTHN}'),
        (
            [("Impersonate-Extra-Foo", "7")],
            (
                f'userextras.{AUTHN} {CANNOT} "userextras" {IN_AUTHN}: '
                "impersonating an invalid key in extra is not allowed: extra.key: "
                'Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'
            ),
        ),
        (
            [("Impersonate-Extra-Foo.io%2fbar", "7")],
            f'userextras.{AUTHN} "7" {CANNOT} "userextras/foo.io/bar" {IN_AUTHN}',
        ),
        (
            [("Impersonate-Extra-Foo.io%2fbar", "")],
            (
                f'userextras.{AUTHN} {CANNOT} "userextras" {IN_AUTHN}: '
                "impersonating the empty string value in extra is not allowed"
            ),
        ),
        (
            [("Impersonate-Extra-", "v")],
            (
                f'userextras.{AUTHN} {CANNOT} "userextras" {IN_AUTHN}: '
                "impersonating the empty string key in extra is not allowed"
            ),
        ),
    ],
)
def test_every_part_of_the_identity_is_asked_for(extra: list[tuple[str, str]], text: str) -> None:
    assert constrained("x").refusal(*as_user("x"), *extra) == text


def test_every_part_can_be_granted() -> None:
    world = constrained("x").allow("impersonate:user-info", AUTHN, "groups", "g")
    world.allow("impersonate:user-info", AUTHN, "uids").allow(
        "impersonate:user-info", AUTHN, "userextras/a.io/k"
    )
    headers = [*as_user("x", "g"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-A.io%2fk", "v")]
    assert world.act(*headers) == UserInfo("x", "7", ("g", "system:authenticated"), {"a.io/k": ("v",)})


def test_many_groups_may_be_granted_by_a_star() -> None:
    world = constrained("x").allow("impersonate:user-info", AUTHN, "groups", "*")
    assert world.act(*as_user("x", "a", "b", "c", "d")).groups[:4] == ("a", "b", "c", "d")
    assert '"a" is forbidden' in world.refusal(*as_user("x", "a", "b", "c"))


def test_many_extras_may_be_granted_by_a_star() -> None:
    world = constrained("x").allow("impersonate:user-info", AUTHN, "userextras/*", "*")
    values = [("Impersonate-Extra-A.io%2fk", str(number)) for number in range(4)]
    assert world.act(*as_user("x"), *values).extra == {"a.io/k": ("0", "1", "2", "3")}
    assert '"0" is forbidden' in world.refusal(*as_user("x"), *values[:3])


def test_a_service_account_brings_its_own_groups() -> None:
    world = World().allow("impersonate-on:serviceaccount:list", "", "pods")
    world.allow("impersonate:serviceaccount", AUTHN, "serviceaccounts", "a")
    assert world.act(*as_user("system:serviceaccount:default:a")).groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )


def test_a_node_brings_its_own_group() -> None:
    world = World().allow("impersonate-on:arbitrary-node:list", "", "pods")
    world.allow("impersonate:arbitrary-node", AUTHN, "nodes", "n1")
    assert world.act(*as_user("system:node:n1")).groups == ("system:nodes", "system:authenticated")


def test_an_account_may_act_as_the_node_it_runs_on() -> None:
    agent = UserInfo(IMP.name, extra={NODE_NAME: ("n1",)})
    world = World(agent).allow("impersonate-on:associated-node:list", "", "pods")
    world.allow("impersonate:associated-node", AUTHN, "nodes")
    assert world.act(*as_user("system:node:n1")).name == "system:node:n1"
    assert "impersonate-on:arbitrary-node:list" in world.refusal(*as_user("system:node:n2"))


def test_the_own_node_is_refused_for_all_nodes_at_once() -> None:
    agent = UserInfo(IMP.name, extra={NODE_NAME: ("n1",)})
    world = World(agent).allow("impersonate-on:associated-node:list", "", "pods")
    assert world.refusal(*as_user("system:node:n1")).startswith(
        f'nodes.{AUTHN} "*" is forbidden: {WHO} cannot impersonate:associated-node resource "nodes"'
    )


def test_the_old_form_suffices() -> None:
    world = (
        World()
        .allow("impersonate", "", "users", "leg")
        .allow("impersonate", "", "groups", "g", "system:masters")
    )
    assert world.act(*as_user("leg", "g"), resource="configmaps") == UserInfo(
        "leg", groups=("g", "system:authenticated")
    )
    assert world.act(*as_user("leg", "system:masters")).is_master


def test_who_uses_the_old_form_is_told_about_the_old_form() -> None:
    world = World().allow("impersonate", "", "users", "leg")
    assert "impersonate-on:" in world.refusal(*as_user("other"))
    world.act(*as_user("leg"))
    assert world.refusal(*as_user("other")) == (
        f'users "other" is forbidden: {WHO} cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    assert world.refusal(*as_user("leg"), ("Impersonate-Extra-Foo", "7")) == (
        f'userextras.{AUTHN} "7" is forbidden: {WHO} cannot impersonate resource "userextras/foo" {IN_AUTHN}'
    )


@pytest.mark.parametrize(
    ("name", "asked", "groups"),
    [
        ("system:anonymous", (), ("system:unauthenticated",)),
        ("x", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("x", ("system:authenticated",), ("system:authenticated",)),
    ],
)
def test_unauthenticated_identities_stay_so(
    name: str, asked: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    root = UserInfo("root", groups=("system:masters",))
    assert World(root).act(*as_user(name, *asked)).groups == groups


def test_masters_may_act_as_anybody() -> None:
    root = UserInfo("root", groups=("system:masters",))
    acting = World(root).act(*as_user("x", "system:masters"))
    assert acting.is_master
