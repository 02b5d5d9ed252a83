"""Claims and volumes stay while they are used."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim
from quarterdeck.client import Client, MergePatch

from .clusterkit import exists, make_namespace, pod

CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
VOLUME = GroupVersionKind("", "v1", "PersistentVolume")


async def make_claim(client: Client, name: str = "data", finalizers: tuple[str, ...] = ()) -> None:
    await client.create(
        DynamicObject(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "ns", "finalizers": list(finalizers)},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        )
    )


async def make_volume(client: Client) -> None:
    await client.create(
        DynamicObject(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": "disk"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "1Gi"},
                    "hostPath": {"path": "/data"},
                },
            }
        )
    )


def user(name: str, claim: dict[str, Any], **spec: Any) -> DynamicObject:
    return pod(name, "ns", volumes=[{"name": "data", **claim}], **spec)


MOUNTS = {"persistentVolumeClaim": {"claimName": "data"}}


async def test_a_new_claim_is_protected_once(client: Client) -> None:
    await make_namespace(client)
    await make_claim(client)
    await make_claim(client, "other", ("example.com/mine", "kubernetes.io/pvc-protection"))
    claims = [await client.get(PersistentVolumeClaim, name, "ns") for name in ("data", "other")]
    assert [list(claim.metadata.finalizers) for claim in claims] == [
        ["kubernetes.io/pvc-protection"],
        ["example.com/mine", "kubernetes.io/pvc-protection"],
    ]


async def test_an_unused_claim_goes(client: Client, settle: Any) -> None:
    await make_namespace(client)
    await make_claim(client)
    await client.delete(PersistentVolumeClaim, "data", "ns")
    await settle()
    assert not await exists(client, CLAIM, "data", "ns")


async def test_a_mounted_claim_goes_with_its_last_pod(client: Client, settle: Any) -> None:
    await make_namespace(client)
    await make_claim(client)
    for name in ("one", "two"):
        await client.create(user(name, MOUNTS, nodeName="node"))
    await client.delete(PersistentVolumeClaim, "data", "ns")
    await settle()
    for name in ("one", "two"):
        assert await exists(client, CLAIM, "data", "ns")
        await client.delete(user(name, MOUNTS), grace_period=0)
        await settle()
    assert not await exists(client, CLAIM, "data", "ns")


async def test_a_pod_without_a_node_does_not_count(client: Client, settle: Any) -> None:
    await make_namespace(client)
    await make_claim(client)
    await client.create(user("waiting", MOUNTS))
    await client.delete(PersistentVolumeClaim, "data", "ns")
    await settle()
    assert not await exists(client, CLAIM, "data", "ns")


async def test_the_claim_of_an_ephemeral_volume_counts(client: Client, settle: Any) -> None:
    await make_namespace(client)
    await make_claim(client, "one-data")
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    await client.create(user("one", {"ephemeral": {"volumeClaimTemplate": template}}, nodeName="node"))
    await client.delete(PersistentVolumeClaim, "one-data", "ns")
    await settle()
    assert await exists(client, CLAIM, "one-data", "ns")


async def test_a_bound_volume_stays_until_it_is_released(client: Client, settle: Any) -> None:
    await make_volume(client)
    volume = await client.get(PersistentVolume, "disk")
    await client.status.patch(volume, MergePatch({"status": {"phase": "Bound"}}))
    await client.delete(PersistentVolume, "disk")
    await settle()
    assert await exists(client, VOLUME, "disk")
    await client.status.patch(volume, MergePatch({"status": {"phase": "Released"}}))
    await settle()
    assert not await exists(client, VOLUME, "disk")


async def test_a_protection_taken_away_comes_back(client: Client, settle: Any) -> None:
    await make_volume(client)
    made = await client.get(PersistentVolume, "disk")
    await client.patch(made, MergePatch({"metadata": {"finalizers": None}}))
    await settle()
    volume = await client.get(PersistentVolume, "disk")
    assert list(volume.metadata.finalizers) == ["kubernetes.io/pv-protection"]
