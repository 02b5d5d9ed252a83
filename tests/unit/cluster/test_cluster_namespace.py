"""Namespaces: what is put into them, and how they go."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.k8s import ConfigMap, Namespace, ServiceAccount
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.namespace import Remaining, conditions_of
from quarterdeck.testing import TestCluster

from .clusterkit import POD, exists, gone, make_map, make_namespace, pod

HOLD = ("test.example.com/hold",)


async def release(client: Client, kind: Any, name: str, namespace: str) -> None:
    held = await client.get(kind, name, namespace)
    await client.patch(held, MergePatch({"metadata": {"finalizers": None}}))


async def test_a_deleted_namespace_is_emptied_and_goes(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await make_map(client, "a", ns)
    await settle()
    await client.delete(Namespace, ns)
    await settle()
    assert not await exists(client, Namespace, ns)
    assert not await exists(client, ConfigMap, "a", ns)


async def test_pods_go_before_everything_else(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await make_map(client, "a", ns)
    held = pod("p", ns).to_dict()
    held["metadata"]["finalizers"] = [*HOLD]
    await client.create(type(pod("p", ns))(held))
    await client.delete(Namespace, ns)
    await settle()
    assert not (await client.get(ConfigMap, "a", ns)).metadata.is_deleting
    await release(client, POD, "p", ns)
    await settle()
    await gone(client, Namespace, ns)


async def test_the_conditions_tell_what_is_left(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await make_map(client, "held", ns, finalizers=HOLD)
    await client.delete(Namespace, ns)
    await settle()
    found = {each.type: each for each in (await client.get(Namespace, ns)).status.conditions}
    assert found["NamespaceContentRemaining"].message == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert found["NamespaceFinalizersRemaining"].message == (
        "Some content in the namespace has finalizers remaining: "
        "test.example.com/hold in 1 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"].status == "False"
    await release(client, ConfigMap, "held", ns)
    await gone(client, Namespace, ns)


async def test_a_namespace_keeps_finalizers_of_others(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    namespace = await client.get(Namespace, ns)
    spec = namespace.spec.evolve(finalizers=("kubernetes", "test.example.com/mine"))
    await client.subresource("finalize").update(namespace.evolve(spec=spec))
    await client.delete(Namespace, ns)
    await settle()
    assert (await client.get(Namespace, ns)).spec.finalizers == ("test.example.com/mine",)


def test_what_could_not_be_deleted_is_a_failure() -> None:
    remaining = Remaining({}, {}, ["widgets.example.com: boom"])
    assert not remaining.is_empty
    found = {kind: (status, message) for kind, status, _, message in conditions_of(remaining)}
    assert found["NamespaceDeletionContentFailure"] == (
        "True",
        "Failed to delete all resource types, 1 remaining: widgets.example.com: boom",
    )


async def test_every_namespace_has_a_default_service_account(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await settle()
    for name in (ns, "default", "kube-system"):
        assert await exists(client, ServiceAccount, "default", name)


async def test_the_default_service_account_comes_back(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await settle()
    before = await client.get(ServiceAccount, "default", ns)
    await client.delete(before)
    await settle()
    assert (await client.get(ServiceAccount, "default", ns)).metadata.uid != before.metadata.uid


async def test_every_namespace_has_the_root_certificate(
    cluster: TestCluster, client: Client, settle: Any
) -> None:
    ns = await make_namespace(client)
    await settle()
    found = await client.get(ConfigMap, "kube-root-ca.crt", ns)
    assert found.data["ca.crt"] == cluster.server.credentials.authority.certificate_pem.decode()
    assert found.metadata.annotations["kubernetes.io/description"].startswith("Contains a CA bundle")


async def test_the_root_certificate_is_restored(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await settle()
    published = await client.get(ConfigMap, "kube-root-ca.crt", ns)
    await client.update(published.evolve(data={"ca.crt": "wrong", "more": "x"}))
    await settle()
    assert (await client.get(ConfigMap, "kube-root-ca.crt", ns)).data == published.data
    await client.delete(ConfigMap, "kube-root-ca.crt", ns)
    await settle()
    assert (await client.get(ConfigMap, "kube-root-ca.crt", ns)).data == published.data


async def test_nothing_is_put_into_a_namespace_in_deletion(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    await make_map(client, "held", ns, finalizers=HOLD)
    await settle()
    await client.delete(Namespace, ns)
    await settle()
    kinds = [GroupVersionKind("", "v1", "ServiceAccount"), GroupVersionKind("", "v1", "ConfigMap")]
    names = [each.metadata.name for kind in kinds for each in (await client.list(kind, namespace=ns)).items]
    assert names == ["held"]
