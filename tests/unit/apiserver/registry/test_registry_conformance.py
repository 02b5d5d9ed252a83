"""What Kubernetes' Conformance suite asks of the server, in small."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Namespace
from quarterdeck.client import Client
from quarterdeck.errors import ApiError, Expired
from quarterdeck.testing import TestCluster

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
REQUEST = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n").decode()


async def send(
    client: Client,
    method: str,
    path: str,
    body: Any = None,
    *,
    accept: str = "*/*",
    media: str = "",
    query: str = "",
) -> tuple[int, Any]:
    headers = (("accept", accept), ("content-type", media or "application/json"))
    raw = msgspec.json.encode(body) if body is not None else b""
    response = await client.rest.transport.request(
        method, path, query=query, headers=headers, body=raw, timeout=None
    )
    return response.status, msgspec.json.decode(response.body)


async def patched(client: Client, path: str, body: Any) -> tuple[int, Any]:
    return await send(client, "PATCH", path, body, media="application/merge-patch+json")


def review() -> dict[str, Any]:
    spec = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


async def test_what_is_not_stored_cannot_be_shown_as_a_table(client: Client) -> None:
    code, answer = await send(client, "POST", REVIEWS, review(), accept=TABLE)
    assert (code, answer["reason"]) == (406, "NotAcceptable")
    code, answer = await send(client, "POST", REVIEWS, review(), accept=f"{TABLE},application/json")
    assert (code, answer["kind"]) == (201, "SelfSubjectAccessReview")


async def test_the_description_of_metadata_is_published(client: Client) -> None:
    _, document = await send(client, "GET", "/openapi/v3/api/v1")
    schema = document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
    created = schema["properties"]["creationTimestamp"]
    assert created["description"].startswith("CreationTimestamp is a timestamp")
    assert created["allOf"][0]["$ref"].endswith("meta.v1.Time")
    assert all("description" in field for field in schema["properties"].values())


@pytest.mark.parametrize(
    ("kind", "is_object"), [("serviceaccounts", True), ("resourcequotas", True), ("configmaps", False)]
)
async def test_some_deletions_are_answered_with_the_object(
    client: Client, kind: str, is_object: bool
) -> None:
    path = f"/api/v1/namespaces/default/{kind}"
    await send(client, "POST", path, {"metadata": {"name": "a"}})
    _, answer = await send(client, "DELETE", f"{path}/a")
    assert (answer["kind"] != "Status") is is_object


async def test_a_continue_token_expires_although_nothing_it_lists_has_changed(
    cluster: TestCluster, client: Client
) -> None:
    for number in range(4):
        await client.create(DynamicObject(config_map(f"m-{number}")))
    first = await client.list(ConfigMap, namespace="default", limit=1)
    await client.create(Namespace(metadata=ObjectMeta(name="other")))
    await cluster.server.store.compact_to(cluster.server.store.rev)
    with pytest.raises(Expired) as caught:
        await client.list(ConfigMap, namespace="default", limit=1, continue_token=first.metadata.continue_)
    path = "/api/v1/namespaces/default/configmaps"
    _, refusal = await send(client, "GET", path, query=f"limit=1&continue={first.metadata.continue_}")
    assert refusal["code"] == caught.value.code == 410
    token = refusal["metadata"]["continue"]
    second = await client.list(ConfigMap, namespace="default", limit=1, continue_token=token)
    assert [each.metadata.name for each in second.items] == ["m-1"]
    assert second.metadata.remaining_item_count == 2
    assert second.metadata.resource_version != first.metadata.resource_version


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def make_request(client: Client) -> None:
    spec = {"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]}
    document = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "r"},
        "spec": spec,
    }
    await client.create(DynamicObject(document))


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "Test"}


async def test_an_approval_takes_conditions_and_metadata(client: Client) -> None:
    await make_request(client)
    change = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {"signerName": "example.com/other"},
        "status": {"certificate": REQUEST, "conditions": [condition("Approved")]},
    }
    code, answer = await patched(client, f"{CSRS}/r/approval", change)
    assert code == 200
    assert answer["metadata"]["annotations"] == {"a": "b"}
    assert answer["spec"]["signerName"] == "example.com/signer"
    assert "certificate" not in answer["status"]
    [found] = answer["status"]["conditions"]
    assert found["lastUpdateTime"] == found["lastTransitionTime"]


async def test_a_request_says_who_made_it(client: Client) -> None:
    spec = {
        "request": REQUEST,
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "username": "somebody else",
        "uid": "7",
        "extra": {"a": ["b"]},
    }
    code, answer = await send(client, "POST", CSRS, {"metadata": {"name": "r"}, "spec": spec})
    assert code == 201
    _, me = await send(
        client, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"}
    )
    given = {key: answer["spec"].get(key) for key in ("username", "uid", "groups", "extra")}
    assert given == {key: me["status"]["userInfo"].get(key) for key in given}


async def test_decisions_are_not_made_through_the_status(client: Client) -> None:
    await make_request(client)
    code, answer = await patched(
        client, f"{CSRS}/r/status", {"status": {"conditions": [condition("Denied")]}}
    )
    assert code == 422
    assert answer["message"] == (
        'CertificateSigningRequest.certificates.k8s.io "r" is invalid: status.conditions: Forbidden: updates '
        'may not add a condition of type "Denied"'
    )


async def test_a_decision_is_not_taken_back(client: Client) -> None:
    await make_request(client)
    await patched(client, f"{CSRS}/r/approval", {"status": {"conditions": [condition("Approved")]}})
    code, answer = await patched(client, f"{CSRS}/r/approval", {"status": {"conditions": []}})
    assert code == 422
    assert 'updates may not remove a condition of type "Approved"' in answer["message"]
    both = {"status": {"conditions": [condition("Approved"), condition("Denied")]}}
    code, answer = await patched(client, f"{CSRS}/r/approval", both)
    assert code == 422
    assert "Approved and Denied conditions are mutually exclusive" in answer["message"]


async def test_a_certificate_is_issued_once(client: Client) -> None:
    await make_request(client)
    code, _ = await patched(client, f"{CSRS}/r/status", {"status": {"certificate": REQUEST}})
    assert code == 200
    other = base64.b64encode(b"other").decode()
    code, answer = await patched(client, f"{CSRS}/r/status", {"status": {"certificate": other}})
    assert code == 422
    assert "updates may not modify existing certificate content" in answer["message"]


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ([{"scopeName": "Foo", "operator": "Exists"}], '.scopeName: Invalid value: "Foo": unsupported scope'),
        (
            [{"scopeName": "BestEffort", "operator": "DoesNotExist"}],
            ".operator: Invalid value: \"DoesNotExist\": must be 'Exists' when scope is any of",
        ),
        ([{"scopeName": "PriorityClass", "operator": "In"}], ".values: Required value: must be at least one"),
        (
            [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}],
            '.values: Invalid value: ["a"]: must be no value when `operator` is',
        ),
        (
            [
                {"scopeName": "Terminating", "operator": "Exists"},
                {"scopeName": "NotTerminating", "operator": "Exists"},
            ],
            ": Invalid value: null: conflicting scopes",
        ),
    ],
)
async def test_scopes_that_make_no_sense_are_refused(
    client: Client, terms: list[dict[str, Any]], text: str
) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": terms}},
    }
    with pytest.raises(ApiError) as caught:
        await client.create(DynamicObject(document))
    assert f"spec.scopeSelector.matchExpressions{text}" in str(caught.value)
