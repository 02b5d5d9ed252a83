"""What a request asks for, and the words it is refused with (taken from a real server)."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.auth.attributes import (
    AccessAttributes,
    forbidden_error,
    name_in_field_selector,
    path_attributes,
    request_attributes,
)
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.requestinfo import RequestInfo

ALICE = UserInfo("alice")


def refusal(method: str, path: str, *, fields: str = "", watch: bool = False, user: UserInfo = ALICE) -> str:
    info = RequestInfo(method, path, watch=watch)
    return forbidden_error(request_attributes(user, info, field_selector=fields)).message


PODS = "/api/v1/namespaces/default/pods"
IN_DEFAULT = 'in API group "" in the namespace "default"'


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("GET", PODS, f'pods is forbidden: User "alice" cannot list resource "pods" {IN_DEFAULT}'),
        (
            "DELETE",
            PODS,
            f'pods is forbidden: User "alice" cannot deletecollection resource "pods" {IN_DEFAULT}',
        ),
        (
            "POST",
            PODS + "/p/exec",
            f'pods "p" is forbidden: User "alice" cannot create resource "pods/exec" {IN_DEFAULT}',
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/x/scale",
            (
                'deployments.apps "x" is forbidden: User "alice" cannot patch resource "deployments/scale" '
                'in API group "apps" in the namespace "default"'
            ),
        ),
        (
            "GET",
            "/api/v1/namespaces",
            (
                'namespaces is forbidden: User "alice" cannot list resource "namespaces" in API group "" '
                "at the cluster scope"
            ),
        ),
        (
            "GET",
            "/api/v1/namespaces/default",
            f'namespaces "default" is forbidden: User "alice" cannot get resource "namespaces" {IN_DEFAULT}',
        ),
        (
            "GET",
            "/api/v1/namespaces/default/status",
            'namespaces "default" is forbidden: User "alice" cannot get resource "namespaces/status" '
            + IN_DEFAULT,
        ),
        (
            "GET",
            "/apis/nosuch/v1/things/a/b/c",
            (
                'things.nosuch "a" is forbidden: User "alice" cannot get resource "things/b" '
                'in API group "nosuch" at the cluster scope'
            ),
        ),
        ("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'),
    ],
)
def test_refusals_read_as_upstreams(method: str, path: str, text: str) -> None:
    assert refusal(method, path) == text


def test_a_watch_is_refused_as_a_watch() -> None:
    assert "cannot watch resource" in refusal("GET", PODS, watch=True)


def test_a_list_narrowed_to_a_name_is_refused_by_that_name() -> None:
    assert refusal("GET", PODS, fields="metadata.name=a").startswith('pods "a" is forbidden')


def test_refusals_cannot_carry_markup() -> None:
    text = refusal("GET", PODS, user=UserInfo('a<b>&"c'))
    assert 'User "a&lt;b&gt;&amp;\\"c" cannot list' in text


def test_details_name_the_object() -> None:
    error = forbidden_error(
        AccessAttributes(user=ALICE, verb="get", group="apps", resource="deployments", name="x")
    )
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.details == {"name": "x", "group": "apps", "kind": "deployments"}
    assert forbidden_error(path_attributes(ALICE, "get", "/x")).details == {}


def test_the_authorizers_reason_is_appended() -> None:
    text = forbidden_error(path_attributes(ALICE, "get", "/x"), "RBAC: gone").message
    assert text == 'forbidden: User "alice" cannot get path "/x": RBAC: gone'


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("spec.nodeName=n,metadata.name=a", "a"),
        ("metadata.name=a,metadata.name=b", "a"),
        ("metadata.name!=a", ""),
        ("metadata.namespace=a", ""),
        (",metadata.name=a,", "a"),
        ("metadata.name=a\\,b", "a,b"),
        ("metadata.name=a\\=b", "a=b"),
        ("metadata.name=a\\\\", "a\\"),
        ("metadata.name=a\\x", ""),
        ("metadata.name=a=b", ""),
        ("metadata.name=a,broken", ""),
        ("metadata.name=a/b", ""),
        ("metadata.name=..", ""),
        ("", ""),
    ],
)
def test_the_name_in_a_field_selector(selector: str, name: str) -> None:
    assert name_in_field_selector(selector) == name


def test_only_list_and_watch_take_their_name_from_a_selector() -> None:
    info = RequestInfo("DELETE", PODS)
    attributes = request_attributes(ALICE, info, field_selector="metadata.name=a")
    assert (attributes.verb, attributes.object_name) == ("deletecollection", "")
