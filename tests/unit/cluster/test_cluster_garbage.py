"""The garbage collector on the embedded server."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import GroupVersionKind, Model, ObjectMeta, OwnerReference, Resource, crd, omitempty
from quarterdeck.api.k8s import ClusterRole, ConfigMap, Secret
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.ownergraph import FOREGROUND, ORPHAN, Node, OwnerGraph
from quarterdeck.testing import DelayEvents, EventLog, FaultPlan, TestCluster, eventually, run_until_idle

from .clusterkit import exists, gone, make_map, make_namespace, reference

NOBODY = "00000000-0000-4000-8000-000000000000"


class PartSpec(Model):
    size: int = 0


class Part(Resource, group="gc.example.com", version="v1"):
    """Something that comes and goes with its definition."""

    spec: PartSpec = omitempty(PartSpec())


async def test_dependents_go_after_their_owner(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    child = await make_map(client, "child", ns, owner)
    await make_map(client, "grandchild", ns, child)
    await client.delete(owner)
    await settle()
    assert not await exists(client, ConfigMap, "child", ns)
    assert not await exists(client, ConfigMap, "grandchild", ns)


async def test_an_object_with_another_owner_stays_and_loses_the_reference(
    client: Client, settle: Any
) -> None:
    ns = await make_namespace(client)
    first, second = await make_map(client, "first", ns), await make_map(client, "second", ns)
    await make_map(client, "child", ns, first, second)
    await client.delete(first)
    await settle()
    child = await client.get(ConfigMap, "child", ns)
    assert [each.name for each in child.metadata.owner_references] == ["second"]


async def test_orphans_stay_without_owner(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    await make_map(client, "child", ns, owner)
    await client.delete(owner, propagation="Orphan")
    await settle()
    assert not await exists(client, ConfigMap, "owner", ns)
    assert (await client.get(ConfigMap, "child", ns)).metadata.owner_references == ()


async def test_orphans_stay_that_were_not_seen_when_their_owner_went(cluster: TestCluster) -> None:
    client, plan = cluster.client, FaultPlan()
    manager = cluster.manager(plan=plan)
    add_controllers(manager, root_ca=b"")
    await cluster.start(manager)
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    await make_secret(client, "seen", ns, owner)
    await run_until_idle(manager)
    plan.add(DelayEvents(seconds=(30.0, 30.0), resources=frozenset({"secrets"})))
    await make_secret(client, "unseen", ns, owner)
    await client.delete(owner, propagation="Orphan")
    await gone(client, ConfigMap, "owner", ns)
    await cluster.clock.sleep(120)
    for name in ("seen", "unseen"):
        assert (await client.get(Secret, name, ns)).metadata.owner_references == ()


async def make_secret(client: Client, name: str, namespace: str, owner: ConfigMap) -> None:
    metadata = ObjectMeta(name=name, namespace=namespace, owner_references=[reference(owner)])
    await client.create(Secret(metadata=metadata))


async def test_a_foreground_deletion_waits_for_blocking_dependents(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    child = await make_map(client, "child", ns, owner, blocks=True, finalizers=("test.example.com/hold",))
    await client.delete(owner, propagation="Foreground")
    await settle()
    assert (await client.get(ConfigMap, "owner", ns)).metadata.finalizers == (FOREGROUND,)
    assert (await client.get(ConfigMap, "child", ns)).metadata.is_deleting
    await client.patch(child, MergePatch({"metadata": {"finalizers": None}}))
    await settle()
    assert not await exists(client, ConfigMap, "owner", ns)


async def test_a_foreground_deletion_does_not_wait_for_the_others(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    await make_map(client, "child", ns, owner, finalizers=("test.example.com/hold",))
    await client.delete(owner, propagation="Foreground")
    await settle()
    assert not await exists(client, ConfigMap, "owner", ns)


async def test_what_a_waiting_owner_shares_with_another_stays(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    going, staying = await make_map(client, "going", ns), await make_map(client, "staying", ns)
    await make_map(client, "shared", ns, going, staying, blocks=True)
    await client.delete(going, propagation="Foreground")
    await settle()
    assert not await exists(client, ConfigMap, "going", ns)
    shared = await client.get(ConfigMap, "shared", ns)
    assert [each.name for each in shared.metadata.owner_references] == ["staying"]


async def test_a_circle_of_blocking_owners_is_deleted(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    ring = [await make_map(client, f"ring-{number}", ns) for number in range(3)]
    for number, obj in enumerate(ring):
        owner = reference(ring[number - 1], blocks=True)
        await client.update(obj.evolve(metadata=obj.metadata.evolve(owner_references=[owner])))
    await client.delete(ring[0], propagation="Foreground")
    for each in ring:
        await gone(client, ConfigMap, each.metadata.name, ns)


async def test_an_object_whose_owner_never_was_is_collected(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    ghost = ConfigMap(metadata=ObjectMeta(name="ghost", namespace=ns, uid=NOBODY))
    await make_map(client, "child", ns, ghost)
    await settle()
    assert not await exists(client, ConfigMap, "child", ns)


async def test_an_owner_in_another_namespace_is_no_owner(
    client: Client, settle: Any, recorder: EventLog
) -> None:
    home, abroad = await make_namespace(client, "home"), await make_namespace(client, "abroad")
    owner = await make_map(client, "owner", abroad)
    await settle()
    await make_map(client, "child", home, owner)
    await settle()
    assert not await exists(client, ConfigMap, "child", home)
    assert "OwnerRefInvalidNamespace" in [event.reason for event in recorder.events]


async def test_a_cluster_scoped_object_with_an_owner_in_a_namespace_is_left_alone(
    client: Client, settle: Any
) -> None:
    ghost = ConfigMap(metadata=ObjectMeta(name="ghost", namespace="default", uid=NOBODY))
    metadata = ObjectMeta(name="odd", owner_references=[reference(ghost)])
    await client.create(ClusterRole(metadata=metadata))
    await settle()
    assert await exists(client, ClusterRole, "odd")


async def test_an_owner_of_an_unknown_kind_is_not_taken_for_absent(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    unknown = OwnerReference(api_version="no.example.com/v1", kind="Thing", name="x", uid=NOBODY)
    metadata = ObjectMeta(name="child", namespace=ns, owner_references=[unknown])
    await client.create(ConfigMap(metadata=metadata))
    await settle()
    assert await exists(client, ConfigMap, "child", ns)


async def test_the_namesake_of_an_owner_is_another_object(client: Client, settle: Any) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    await client.delete(owner)
    await make_map(client, "owner", ns)
    await make_map(client, "child", ns, owner)
    await settle()
    assert not await exists(client, ConfigMap, "child", ns)


async def test_objects_of_a_kind_that_comes_later_are_collected(
    cluster: TestCluster, client: Client, settle: Any
) -> None:
    ns = await make_namespace(client)
    owner = await make_map(client, "owner", ns)
    await cluster.install(Part)
    metadata = ObjectMeta(name="part", namespace=ns, owner_references=[reference(owner)])
    await client.create(Part(metadata=metadata))
    await client.delete(owner)
    await gone(client, Part, "part", ns)


@pytest.mark.cluster(crds=[Part])
async def test_a_kind_that_leaves_takes_its_watch_along(client: Client, settle: Any, manager: Any) -> None:
    ns = await make_namespace(client)
    part = await client.create(Part(metadata=ObjectMeta(name="part", namespace=ns)))
    metadata = ObjectMeta(name="child", namespace=ns, owner_references=[reference(part)])
    await client.create(Secret(metadata=metadata))
    await settle()
    kind = GroupVersionKind("gc.example.com", "v1", "Part")
    assert manager.cache.informers_of(kind)
    await client.delete(CustomResourceDefinition, crd(Part)["metadata"]["name"])
    await eventually(lambda: not manager.cache.informers_of(kind))


def node(uid: str, *owners: str, blocks: bool = False, deleting: str = "", namespace: str = "ns") -> Node:
    references = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=owner, uid=owner, block_owner_deletion=blocks)
        for owner in owners
    )
    finalizers = (deleting,) if deleting else ()
    kind = GroupVersionKind("", "v1", "ConfigMap")
    return Node(kind, namespace, uid, uid, references, finalizers, bool(deleting))


def test_an_owner_that_is_not_known_makes_its_dependent_worth_a_look() -> None:
    assert OwnerGraph().observe(node("child", "owner")) == {"child"}


def test_forgetting_an_owner_wakes_its_dependents() -> None:
    graph = OwnerGraph()
    for each in (node("owner"), node("a", "owner"), node("b", "owner")):
        graph.observe(each)
    assert graph.forget("owner") == {"a", "b"}


def test_a_dependent_that_goes_wakes_the_owner_that_waits_for_it() -> None:
    graph = OwnerGraph()
    graph.observe(node("owner", deleting=FOREGROUND))
    graph.observe(node("child", "owner", blocks=True))
    assert graph.is_blocked("owner")
    assert graph.forget("child") == {"owner"}
    assert not graph.is_blocked("owner")


def test_an_owner_that_orphans_is_worth_a_look() -> None:
    assert OwnerGraph().observe(node("owner", deleting=ORPHAN)) == {"owner"}


def test_a_kind_that_is_no_longer_observed_is_forgotten() -> None:
    graph = OwnerGraph()
    graph.observe(node("owner"))
    graph.observe(node("child", "owner"))
    graph.forget_kind(GroupVersionKind("", "v1", "ConfigMap"))
    assert len(graph) == 0
