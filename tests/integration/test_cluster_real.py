"""Our controllers on the real kube-apiserver, in the place of kube-controller-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from kube.server import cache_dir
from parity import server as servers
from quarterdeck.api import DynamicObject, ObjectMeta, OwnerReference, Quantity
from quarterdeck.api.k8s import ConfigMap, Namespace, ResourceQuota, ServiceAccount
from quarterdeck.api.k8s.core import ResourceQuotaSpec
from quarterdeck.client import Client, Config, metadata_of
from quarterdeck.cluster.controllers import ClusterControllers
from quarterdeck.errors import Forbidden, NotFound
from quarterdeck.testing import eventually

pytestmark = pytest.mark.kube


async def _make(client: Client, name: str, *owners: ConfigMap) -> ConfigMap:
    references = [
        OwnerReference(
            api_version="v1",
            kind="ConfigMap",
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            block_owner_deletion=True,
        )
        for owner in owners
    ]
    metadata = ObjectMeta(name=name, namespace="ours", owner_references=references)
    return await client.create(ConfigMap(metadata=metadata))


async def _names(client: Client) -> set[str]:
    return {
        each.metadata.name for each in (await client.list(metadata_of(ConfigMap), namespace="ours")).items
    }


def _holds(test: Callable[[], Awaitable[bool]]) -> Awaitable[bool]:
    return eventually(test, timeout=30)


async def _scenario(client: Client) -> None:
    await client.create(Namespace(metadata=ObjectMeta(name="ours")))

    async def is_furnished() -> bool:
        await client.get(ServiceAccount, "default", "ours")
        return (await client.get(ConfigMap, "kube-root-ca.crt", "ours")).data == {"ca.crt": "pem"}

    await _holds(is_furnished)
    for policy in ("Background", "Foreground", "Orphan"):
        owner = await _make(client, f"{policy.lower()}-owner")
        await _make(client, f"{policy.lower()}-child", owner)
        await client.delete(owner, propagation=policy)

    async def is_collected() -> bool:
        return await _names(client) == {"kube-root-ca.crt", "orphan-child"}

    await _holds(is_collected)
    assert (await client.get(ConfigMap, "orphan-child", "ours")).metadata.owner_references == ()
    limit = ResourceQuotaSpec(hard={"configmaps": Quantity("3")})
    await client.create(ResourceQuota(metadata=ObjectMeta(name="q", namespace="ours"), spec=limit))

    async def is_used(count: int) -> bool:
        quota = await client.get(ResourceQuota, "q", "ours")
        return quota.status.used.get("configmaps") == count

    await _holds(lambda: is_used(2))
    await _make(client, "third")
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        await _make(client, "fourth")
    await client.delete(ConfigMap, "third", "ours")
    await _holds(lambda: is_used(2))
    await client.create(DynamicObject({"apiVersion": "v1", "kind": "Pod", **_pod()}))
    await client.delete(Namespace, "ours")

    async def is_gone() -> bool:
        try:
            await client.get(Namespace, "ours")
        except NotFound:
            return True
        return False

    await _holds(is_gone)


def _pod() -> dict[str, object]:
    return {
        "metadata": {"name": "p", "namespace": "ours"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }


def test_the_controllers_do_their_work_on_the_real_server() -> None:
    if not (cache_dir() / "kube-apiserver").exists():
        pytest.skip("there is no kube-apiserver (make kube)")

    async def main() -> None:
        async with Client.connect(Config.load(kubeconfig), on_warning=lambda _: None) as client:
            controllers = ClusterControllers(client, root_ca=b"pem")
            async with asyncio.timeout(180), asyncio.TaskGroup() as group:
                group.create_task(controllers.run())
                await eventually(lambda: controllers.is_serving)
                try:
                    await _scenario(client)
                finally:
                    controllers.request_stop()

    with servers.real() as kubeconfig:
        uvloop.run(main())
