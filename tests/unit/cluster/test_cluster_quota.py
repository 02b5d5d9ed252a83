"""ResourceQuota: charged by the API server, counted by the controller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind, Model, ObjectMeta, Quantity, Resource, omitempty
from quarterdeck.api.k8s import ConfigMap, Namespace, ResourceQuota, Secret, Service
from quarterdeck.api.k8s.core import (
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ScopedResourceSelectorRequirement,
    ScopeSelector,
)
from quarterdeck.client import Client, MergePatch, metadata_of
from quarterdeck.errors import Forbidden, NotFound, ignore_already_exists
from quarterdeck.testing import TestCluster

from .clusterkit import POD, make_map, make_namespace, pod

CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")


class ToySpec(Model):
    size: int = 0


class Toy(Resource, group="quota.example.com", version="v1"):
    """A custom resource that is counted."""

    spec: ToySpec = omitempty(ToySpec())


async def make_quota(client: Client, settle: Any, hard: dict[str, str], name: str = "q", **spec: Any) -> str:
    """A namespace with a quota that has been counted."""
    ns = "ns"
    with ignore_already_exists():
        await make_namespace(client, ns)
    limits = {key: Quantity(value) for key, value in hard.items()}
    metadata = ObjectMeta(name=name, namespace=ns)
    await client.create(ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard=limits, **spec)))
    await settle()
    return ns


async def used(client: Client, name: str = "q", namespace: str = "ns") -> dict[str, str]:
    quota = await client.get(ResourceQuota, name, namespace)
    return {key: str(value) for key, value in quota.status.used.items()}


async def refusal(making: Any) -> str:
    with pytest.raises(Forbidden) as caught:
        await making
    return str(caught.value)


async def test_the_status_shows_limits_and_use(client: Client, settle: Any) -> None:
    await make_namespace(client, "ns")
    await make_map(client, "a", "ns")
    await make_quota(client, settle, {"configmaps": "5", "pods": "3", "cpu": "2"})
    quota = await client.get(ResourceQuota, "q", "ns")
    assert quota.status.hard == quota.spec.hard
    assert await used(client) == {"configmaps": "2", "pods": "0", "cpu": "0"}  # with kube-root-ca.crt


async def test_a_limit_that_changes_shows_in_the_status(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "3"})
    quota = await client.get(ResourceQuota, "q", "ns")
    await client.patch(quota, MergePatch({"spec": {"hard": {"pods": "1", "secrets": "2"}}}))
    await settle()
    status = (await client.get(ResourceQuota, "q", "ns")).status
    assert status.hard == {"pods": Quantity("1"), "secrets": Quantity("2")}
    assert await used(client) == {"pods": "0", "secrets": "0"}


async def test_a_status_that_somebody_changed_is_put_right(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "3"})
    quota = await client.get(ResourceQuota, "q", "ns")
    wrong = ResourceQuotaStatus(hard={"pods": Quantity("9")}, used={"pods": Quantity("7")})
    await client.status.update(quota.evolve(status=wrong))
    await settle()
    assert (await client.get(ResourceQuota, "q", "ns")).status == quota.status


async def test_a_use_that_is_wrong_is_put_right_by_the_resync(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "3"})
    quota = await client.get(ResourceQuota, "q", "ns")
    wrong = quota.status.evolve(used={"pods": Quantity("2")})
    await client.status.update(quota.evolve(status=wrong))
    await settle()
    assert await used(client) == {"pods": "2"}
    await asyncio.sleep(301)
    await settle()
    assert await used(client) == {"pods": "0"}


async def test_what_is_deleted_is_free_again(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"pods": "2", "cpu": "2", "count/secrets": "9"})
    await client.create(pod("a", ns, {"cpu": "1"}))
    await client.create(Secret(metadata=ObjectMeta(name="s", namespace=ns)))
    assert await used(client) == {"pods": "1", "cpu": "1", "count/secrets": "1"}
    await client.delete(metadata_of(POD), "a", ns, grace_period=0)
    await client.delete(Secret, "s", ns)
    await settle()
    assert await used(client) == {"pods": "0", "cpu": "0", "count/secrets": "0"}


async def test_a_pod_that_ends_frees_what_it_used(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"pods": "2", "cpu": "2", "count/pods": "5"})
    made = await client.create(pod("a", ns, {"cpu": "1"}))
    await client.status.patch(made, MergePatch({"status": {"phase": "Succeeded"}}))
    await settle()
    assert await used(client) == {"pods": "0", "cpu": "0", "count/pods": "1"}


@pytest.mark.cluster(crds=[Toy])
async def test_custom_resources_are_counted(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"count/toys.quota.example.com": "1"})
    await client.create(Toy(metadata=ObjectMeta(name="a", namespace=ns)))
    second = Toy(metadata=ObjectMeta(name="b", namespace=ns))
    assert await refusal(client.create(second)) == (
        'toys.quota.example.com "b" is forbidden: exceeded quota: q, '
        "requested: count/toys.quota.example.com=1, used: count/toys.quota.example.com=1, "
        "limited: count/toys.quota.example.com=1"
    )
    await client.delete(Toy, "a", ns)
    await settle()
    await client.create(second)


async def test_a_write_that_exceeds_a_quota_is_refused(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"cpu": "1", "memory": "1Gi", "pods": "5"})
    await client.create(pod("a", ns, {"cpu": "600m", "memory": "100Mi"}))
    assert await refusal(client.create(pod("b", ns, {"cpu": "600m", "memory": "1Gi"}))) == (
        'pods "b" is forbidden: exceeded quota: q, requested: cpu=600m,memory=1Gi, '
        "used: cpu=600m,memory=100Mi, limited: cpu=1,memory=1Gi"
    )
    assert await used(client) == {"cpu": "600m", "memory": "100Mi", "pods": "1"}


async def test_a_pod_that_does_not_say_what_is_limited_is_refused(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"cpu": "1", "limits.memory": "1Gi"})
    assert await refusal(client.create(pod("a", ns))) == (
        'pods "a" is forbidden: failed quota: q: must specify cpu for: c; limits.memory for: c'
    )


async def test_nothing_is_limited_before_a_quota_was_counted(client: Client) -> None:
    ns = await make_namespace(client)
    spec = ResourceQuotaSpec(hard={"configmaps": Quantity("0")})
    await client.create(ResourceQuota(metadata=ObjectMeta(name="q", namespace=ns), spec=spec))
    await make_map(client, "a", ns)


async def test_a_quota_that_knows_its_limit_but_not_its_use_refuses(client: Client) -> None:
    ns = await make_namespace(client)
    limit = {"configmaps": Quantity("9")}
    quota = ResourceQuota(metadata=ObjectMeta(name="q", namespace=ns), spec=ResourceQuotaSpec(hard=limit))
    made = await client.create(quota)
    await client.status.update(made.evolve(status=ResourceQuotaStatus(hard=limit)))
    assert await refusal(make_map(client, "a", ns)) == (
        'configmaps "a" is forbidden: status unknown for quota: q, resources: configmaps'
    )


async def test_all_quotas_of_a_namespace_must_have_room(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "5"}, name="wide")
    ns = await make_quota(client, settle, {"pods": "1", "count/pods": "9"}, name="tight")
    await client.create(pod("a", ns))
    assert "exceeded quota: tight, requested: pods=1" in await refusal(client.create(pod("b", ns)))
    assert await used(client, "wide") == {"pods": "1"}


async def test_parallel_writes_never_exceed_a_quota(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "11", "count/configmaps": "20"})  # one is there
    results = await asyncio.gather(
        *(make_map(client, f"m-{number}", ns) for number in range(40)), return_exceptions=True
    )
    assert sum(isinstance(each, ConfigMap) for each in results) == 10
    assert all("exceeded quota: q" in str(each) for each in results if isinstance(each, Exception))
    assert await used(client) == {"configmaps": "11", "count/configmaps": "11"}
    await settle()
    assert await used(client) == {"configmaps": "11", "count/configmaps": "11"}


async def test_coming_and_going_at_the_limit_never_exceeds_it(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "6"})
    most = 0

    async def come_and_go(worker: int) -> None:
        nonlocal most
        for number in range(30):
            try:
                made = await make_map(client, f"m-{worker}-{number}", ns)
            except Forbidden:
                await asyncio.sleep(0.0003 * (worker % 5))
                continue
            most = max(most, len((await client.list(ConfigMap, namespace=ns)).items))
            await asyncio.sleep(0.001 * (number % 3))
            await client.delete(made)

    await asyncio.gather(*(come_and_go(worker) for worker in range(12)))
    assert most == 6
    await settle()
    assert await used(client) == {"configmaps": "1"}


async def test_parallel_writes_share_updates_of_the_quota(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "100"})
    before = int((await client.get(ResourceQuota, "q", ns)).metadata.resource_version)
    await asyncio.gather(*(make_map(client, f"m-{number}", ns) for number in range(30)))
    after = int((await client.list(ConfigMap)).metadata.resource_version)
    assert after - before < 30 + 10


async def test_writes_while_somebody_changes_the_quota_are_charged_once(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "100"})

    async def disturb() -> None:
        for number in range(10):
            quota = await client.get(ResourceQuota, "q", ns)
            await client.patch(quota, MergePatch({"metadata": {"annotations": {"n": str(number)}}}))

    await asyncio.gather(disturb(), *(make_map(client, f"m-{number}", ns) for number in range(20)))
    assert await used(client) == {"configmaps": "21"}


async def test_a_dry_run_is_checked_and_not_charged(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "2"})
    new = ConfigMap(metadata=ObjectMeta(name="a", namespace=ns))
    await client.create(new, dry_run=True)
    assert await used(client) == {"configmaps": "1"}
    await client.create(new)
    other = ConfigMap(metadata=ObjectMeta(name="b", namespace=ns))
    assert "exceeded quota" in await refusal(client.create(other, dry_run=True))


async def test_an_apply_that_creates_is_charged(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "2"})
    new = ConfigMap(metadata=ObjectMeta(name="a", namespace=ns))
    await client.apply(new, field_manager="test")
    await client.apply(new.evolve(data={"k": "v"}), field_manager="test")
    assert await used(client) == {"configmaps": "2"}
    other = ConfigMap(metadata=ObjectMeta(name="b", namespace=ns))
    assert "exceeded quota" in await refusal(client.apply(other, field_manager="test"))


async def test_other_namespaces_are_not_limited(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"configmaps": "1"})
    elsewhere = await make_namespace(client, "elsewhere")
    await make_map(client, "a", elsewhere)


async def test_a_quota_that_is_gone_limits_nothing(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "1"})
    await refusal(make_map(client, "a", ns))
    await client.delete(ResourceQuota, "q", ns)
    await make_map(client, "a", ns)


async def test_a_service_that_becomes_more_expensive_is_charged_for_the_difference(
    client: Client, settle: Any
) -> None:
    ns = await make_quota(client, settle, {"services": "2", "services.nodeports": "1"})
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": ns},
        "spec": {"ports": [{"port": 80}]},
    }
    await client.create(DynamicObject(document))
    assert await used(client) == {"services": "1", "services.nodeports": "0"}
    made = await client.get(Service, "s", ns)
    await client.patch(made, MergePatch({"spec": {"type": "NodePort"}}))
    assert await used(client) == {"services": "1", "services.nodeports": "1"}
    made = await client.get(Service, "s", ns)
    more = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    assert "requested: services.nodeports=1, used: services.nodeports=1" in await refusal(
        client.patch(made, MergePatch(more))
    )
    await client.patch(made, MergePatch({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}))
    await settle()
    assert await used(client) == {"services": "1", "services.nodeports": "0"}


async def test_claims_are_charged_by_storage_class(client: Client, settle: Any) -> None:
    limits = {"requests.storage": "3Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}
    ns = await make_quota(client, settle, limits)

    def claim(name: str, storage: str, of_class: str) -> DynamicObject:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            "storageClassName": of_class,
        }
        return DynamicObject(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": ns},
                "spec": spec,
            }
        )

    await client.create(claim("a", "1Gi", "gold"))
    assert "gold.storageclass.storage.k8s.io/requests.storage=1Mi" in await refusal(
        client.create(claim("b", "1Mi", "gold"))
    )
    await client.create(claim("c", "2Gi", "silver"))
    assert await used(client) == {
        "requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
    }


async def test_scopes_choose_which_pods_are_charged(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "1"}, name="ending", scopes=["Terminating"])
    ns = await make_quota(client, settle, {"pods": "9"}, name="staying", scopes=["NotTerminating"])
    await client.create(pod("a", ns, activeDeadlineSeconds=60))
    await client.create(pod("b", ns))
    assert await used(client, "ending") == {"pods": "1"}
    assert await used(client, "staying") == {"pods": "1"}
    assert "exceeded quota: ending" in await refusal(client.create(pod("c", ns, activeDeadlineSeconds=60)))


async def test_a_pod_that_moves_into_a_scope_is_charged_as_a_whole(client: Client, settle: Any) -> None:
    await make_quota(client, settle, {"pods": "5"}, name="ending", scopes=["Terminating"])
    ns = await make_quota(client, settle, {"pods": "5"}, name="staying", scopes=["NotTerminating"])
    made = await client.create(pod("a", ns))
    await client.patch(made, MergePatch({"spec": {"activeDeadlineSeconds": 60}}))
    assert await used(client, "ending") == {"pods": "1"}
    await settle()
    assert await used(client, "staying") == {"pods": "0"}


async def test_a_quota_for_a_priority_class_leaves_others_alone(client: Client, settle: Any) -> None:
    selector = ScopeSelector(
        match_expressions=[
            ScopedResourceSelectorRequirement(
                scope_name="PriorityClass", operator="In", values=["system-node-critical"]
            )
        ]
    )
    ns = await make_quota(client, settle, {"pods": "0"}, scope_selector=selector)
    await client.create(pod("a", ns))
    important = pod("b", ns, priorityClassName="system-node-critical")
    assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in await refusal(
        client.create(important)
    )


async def test_best_effort_pods_can_be_limited(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"pods": "0"}, scopes=["BestEffort"])
    await client.create(pod("a", ns, {"cpu": "1"}))
    assert "exceeded quota" in await refusal(client.create(pod("b", ns)))


async def test_quotas_themselves_can_be_limited(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"resourcequotas": "1"})
    assert await used(client) == {"resourcequotas": "1"}
    another = ResourceQuota(metadata=ObjectMeta(name="r", namespace=ns))
    assert "exceeded quota: q, requested: resourcequotas=1" in await refusal(client.create(another))


async def test_events_are_never_refused(cluster: TestCluster, client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"count/events": "0", "count/events.events.k8s.io": "0"})
    document = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": ns},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": ns},
    }
    await client.create(DynamicObject(document))


async def test_a_namespace_in_deletion_does_not_ask_for_its_quota(client: Client, settle: Any) -> None:
    ns = await make_quota(client, settle, {"configmaps": "1"})
    await client.delete(Namespace, ns)
    await settle()
    with pytest.raises(NotFound):
        await client.get(Namespace, ns)
