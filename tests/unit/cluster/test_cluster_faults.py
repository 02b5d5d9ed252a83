"""The controllers while their line to the server is bad."""

from __future__ import annotations

import pytest

from quarterdeck.api import ObjectMeta, Quantity
from quarterdeck.api.k8s import ConfigMap, Namespace, ResourceQuota, Secret, ServiceAccount
from quarterdeck.api.k8s.core import ResourceQuotaSpec
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.testing import FaultPlan, TestCluster, eventually

from .clusterkit import exists, make_map, make_namespace


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_all_work_is_done_in_spite_of_faults(cluster: TestCluster, seed: int) -> None:
    client = cluster.client
    manager = cluster.manager(plan=FaultPlan.storm(seed))
    add_controllers(manager, root_ca=b"pem", sign_token=cluster.server.sign_token)
    await cluster.start(manager)
    ns, doomed = await make_namespace(client), await make_namespace(client, "doomed")
    limit = ResourceQuotaSpec(hard={"configmaps": Quantity("9")})
    await client.create(ResourceQuota(metadata=ObjectMeta(name="q", namespace=ns), spec=limit))
    annotations = {"kubernetes.io/service-account.name": "default"}
    token = ObjectMeta(name="token", namespace=ns, annotations=annotations)

    async def has_account() -> bool:
        return await exists(client, ServiceAccount, "default", ns)

    await eventually(has_account, timeout=300)
    await client.create(Secret(metadata=token, type="kubernetes.io/service-account-token"))
    owner = await make_map(client, "owner", ns)
    await make_map(client, "child", ns, owner, blocks=True)
    await make_map(client, "more", doomed)
    await client.delete(owner, propagation="Foreground")
    await client.delete(Namespace, doomed)

    async def is_settled() -> bool:
        secret = await client.get(Secret, "token", ns)
        quota = await client.get(ResourceQuota, "q", ns)
        left = [each.metadata.name for each in (await client.list(ConfigMap, namespace=ns)).items]
        counted = quota.status.used.get("configmaps") == len(left)
        return bool(secret.data.get("token")) and left == ["kube-root-ca.crt"] and counted

    async def is_gone() -> bool:
        return not await exists(client, Namespace, doomed)

    await eventually(is_settled, timeout=900)
    await eventually(is_gone, timeout=900)
