"""Helpers of the tests of cluster controllers."""

from __future__ import annotations

from typing import Any, TypeAlias

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta, OwnerReference, Resource
from quarterdeck.api.k8s import ConfigMap, Namespace
from quarterdeck.client import Client, metadata_of
from quarterdeck.errors import NotFound
from quarterdeck.testing import eventually

POD = GroupVersionKind("", "v1", "Pod")


async def make_namespace(client: Client, name: str = "ns") -> str:
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    return name


async def make_map(
    client: Client,
    name: str,
    namespace: str,
    *owners: Any,
    blocks: bool = False,
    finalizers: tuple[str, ...] = (),
) -> ConfigMap:
    references = [reference(owner, blocks=blocks) for owner in owners]
    metadata = ObjectMeta(name=name, namespace=namespace, owner_references=references, finalizers=finalizers)
    return await client.create(ConfigMap(metadata=metadata))


def reference(owner: Any, *, blocks: bool = False) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        block_owner_deletion=blocks,
    )


def pod(name: str, namespace: str, requests: dict[str, str] | None = None, **spec: Any) -> DynamicObject:
    container = {"name": "c", "image": "x", "resources": {"requests": requests or {}}}
    return DynamicObject(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [container], **spec},
        }
    )


Kind: TypeAlias = type[Resource] | GroupVersionKind


async def exists(client: Client, kind: Kind, name: str, namespace: str = "") -> bool:
    try:
        await client.get(metadata_of(kind), name, namespace)
    except NotFound:
        return False
    return True


async def gone(client: Client, kind: Kind, name: str, namespace: str = "") -> None:
    async def is_gone() -> bool:
        return not await exists(client, kind, name, namespace)

    await eventually(is_gone)
