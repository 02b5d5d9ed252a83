"""Secrets with service-account tokens, and who accepts the tokens."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Secret, ServiceAccount
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.apiserver.auth import UserInfo
from quarterdeck.apiserver.auth.jwt import TokenError
from quarterdeck.client import Client, MergePatch
from quarterdeck.testing import TestCluster

from .clusterkit import exists, make_namespace

TYPE = "kubernetes.io/service-account-token"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


async def make_token(client: Client, settle: Any, ns: str = "ns", account: str = "bob") -> Secret:
    await make_namespace(client, ns)
    await client.create(ServiceAccount(metadata=ObjectMeta(name=account, namespace=ns)))
    metadata = ObjectMeta(name="token", namespace=ns, annotations={NAME: account})
    await client.create(Secret(metadata=metadata, type=TYPE))
    await settle()
    return await client.get(Secret, "token", ns)


def user_of(cluster: TestCluster, secret: Secret) -> UserInfo:
    return cluster.server.authenticator.authenticate_token(secret.data["token"].decode()).user


async def test_a_token_secret_is_filled(cluster: TestCluster, client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    account = await client.get(ServiceAccount, "bob", "ns")
    assert secret.data["ca.crt"] == cluster.server.credentials.authority.certificate_pem
    assert secret.data["namespace"] == b"ns"
    assert secret.metadata.annotations[UID] == account.metadata.uid
    payload = secret.data["token"].split(b".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:ns:bob",
        "kubernetes.io/serviceaccount/namespace": "ns",
        "kubernetes.io/serviceaccount/secret.name": "token",
        "kubernetes.io/serviceaccount/service-account.name": "bob",
        "kubernetes.io/serviceaccount/service-account.uid": account.metadata.uid,
    }


async def test_the_token_stands_for_the_account(cluster: TestCluster, client: Client, settle: Any) -> None:
    user = user_of(cluster, await make_token(client, settle))
    assert user.name == "system:serviceaccount:ns:bob"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")


async def test_tokens_do_not_appear_in_logs(
    cluster: TestCluster, client: Client, settle: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        secret = await make_token(client, settle)
        user_of(cluster, secret)
        await client.delete(ServiceAccount, "bob", "ns")
        await settle()
        with pytest.raises(TokenError):
            user_of(cluster, secret)
    assert caplog.records
    text = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert secret.data["token"].decode() not in text
    assert base64.b64encode(secret.data["token"]).decode() not in text


async def test_a_token_ends_with_its_secret(cluster: TestCluster, client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    assert user_of(cluster, secret)
    await client.delete(secret)
    with pytest.raises(TokenError, match="Token has been invalidated"):
        user_of(cluster, secret)


async def test_a_secret_that_loses_its_token_gets_another(
    cluster: TestCluster, client: Client, settle: Any
) -> None:
    secret = await make_token(client, settle)
    await client.patch(secret, MergePatch({"data": {"token": None, "ca.crt": None}}))
    await settle()
    again = await client.get(Secret, "token", "ns")
    assert again.data["ca.crt"] == secret.data["ca.crt"]
    assert user_of(cluster, again).name == "system:serviceaccount:ns:bob"


async def test_a_token_that_the_secret_no_longer_holds_is_refused(
    cluster: TestCluster, client: Client, settle: Any
) -> None:
    secret = await make_token(client, settle)
    await client.patch(secret, MergePatch({"data": {"token": base64.b64encode(b"x").decode()}}))
    with pytest.raises(TokenError, match="Token does not match server's copy"):
        user_of(cluster, secret)


async def test_token_secrets_go_with_their_account(cluster: TestCluster, client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    await client.delete(ServiceAccount, "bob", "ns")
    await settle()
    assert not await exists(client, Secret, "token", "ns")
    with pytest.raises(TokenError):
        user_of(cluster, secret)


async def test_a_token_of_an_earlier_account_of_that_name_is_removed(client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    await client.patch(secret, MergePatch({"metadata": {"annotations": {UID: "another"}}}))
    await settle()
    assert not await exists(client, Secret, "token", "ns")


async def test_a_token_secret_without_account_is_removed(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    metadata = ObjectMeta(name="token", namespace=ns, annotations={NAME: "nobody"})
    await client.create(Secret(metadata=metadata, type=TYPE))
    await settle()
    assert not await exists(client, Secret, "token", ns)


async def test_secrets_of_other_types_are_left_alone(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    metadata = ObjectMeta(name="mine", namespace=ns, annotations={NAME: "nobody"})
    await client.create(Secret(metadata=metadata, data={"k": b"v"}))
    await settle()
    assert (await client.get(Secret, "mine", ns)).data == {"k": b"v"}


async def test_an_account_no_longer_lists_a_token_that_is_gone(client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    account = await client.get(ServiceAccount, "bob", "ns")
    listed = [ObjectReference(name="token"), ObjectReference(name="other")]
    await client.update(account.evolve(secrets=listed))
    await client.delete(secret)
    await settle()
    account = await client.get(ServiceAccount, "bob", "ns")
    assert [each.name for each in account.secrets] == ["other"]


async def test_the_day_of_the_last_use_is_noted(cluster: TestCluster, client: Client, settle: Any) -> None:
    secret = await make_token(client, settle)
    user_of(cluster, secret)
    await settle()
    labels = (await client.get(Secret, "token", "ns")).metadata.labels
    assert labels == {"kubernetes.io/legacy-token-last-used": "2030-01-01"}


async def test_a_token_that_was_marked_invalid_is_refused(
    cluster: TestCluster, client: Client, settle: Any
) -> None:
    secret = await make_token(client, settle)
    mark = {"kubernetes.io/legacy-token-invalid-since": "2030-01-01"}
    await client.patch(secret, MergePatch({"metadata": {"labels": mark}}))
    with pytest.raises(TokenError, match="the token in secret ns/token for service account ns/bob has been"):
        user_of(cluster, secret)
