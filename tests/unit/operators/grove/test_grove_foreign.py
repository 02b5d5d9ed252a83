"""Nobody's object is taken: before, during and after the life of a set, whatever has a name that it needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta, owner_reference, to_dict
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    TopologyLevel,
)
from quarterdeck.operators.kai.types import Topology
from quarterdeck.operators.kai.types import TopologyLevel as KaiLevel
from quarterdeck.operators.kai.types import TopologySpec as KaiTopologySpec
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.testing import TestCluster

from .childtable import CHILDREN, Child, fetched, made_set, made_world, removed, settled, why_not_whole
from .grovekit import NS, Grove, light_definitions, running


async def somebody_elses(client: Client, ours: DynamicObject, owner: ConfigMap | None) -> DynamicObject:
    """An object of that name that is not ours: of another owner, or of none."""
    document = ours.to_dict()
    document.pop("status", None)
    document["metadata"] = {
        "name": ours.metadata.name,
        "namespace": NS,
        "labels": {"mine": "yes"},
        "annotations": {"note": "mine"},
    }
    if owner is not None:
        document["metadata"]["ownerReferences"] = [to_dict(owner_reference(owner, controller=True))]
    if ours.kind == "Secret":
        document["type"] = "Opaque"
    return await client.create(DynamicObject(document))


def content(found: DynamicObject | None) -> dict[str, Any] | None:
    """All that somebody may care for."""
    if found is None:
        return None
    document = found.to_dict()
    document.pop("status", None)
    fields = document["metadata"].pop("managedFields", [])
    document["metadata"].pop("resourceVersion")
    document["managers"] = {each["manager"] for each in fields if each.get("subresource") != "status"}
    return document


async def reasons(grove: Grove) -> str:
    """What objects of the operator say about errors, now or in events."""
    told = [each.note for each in grove.events.events if each.type == "Warning"]
    kinds: tuple[Any, ...] = (PodCliqueSet, PodCliqueScalingGroup, PodClique)
    for kind in kinds:
        for each in (await grove.client.list(kind, namespace=NS)).items:
            told += [error.description for error in each.status.last_errors]
    return "\n".join(told)


@pytest.mark.parametrize("child", CHILDREN, ids=str)
async def test_an_object_of_somebody_else_is_left_alone_and_named(child: Child) -> None:
    async with made_world(child) as grove:
        client = grove.client
        other = await client.create(ConfigMap(metadata=ObjectMeta(name="other", namespace=NS)))
        await client.create(made_set())
        await settled(grove)
        assert await why_not_whole(client, child) == ""
        ours = await fetched(client, child)
        assert ours is not None

        # during: it takes the place of ours
        grove.link.hold()
        await removed(client, child)
        theirs = await somebody_elses(client, ours, other)
        grove.link.release()
        await settled(grove, 2)
        assert content(await fetched(client, child)) == content(theirs)
        assert f"{child.gvk.kind} {NS}/{child.name} exists and does not belong to" in await reasons(grove)
        assert "it is controlled by ConfigMap other" in await reasons(grove)

        # after: the set goes, and takes nothing along
        await client.delete(PodCliqueSet, "w", NS)
        await asyncio.sleep(20)
        with pytest.raises(NotFound):
            await client.get(PodCliqueSet, "w", NS)
        assert content(await fetched(client, child)) == content(theirs)

        # before: it is there when the set comes
        await removed(client, child)
        theirs = await somebody_elses(client, ours, None)
        grove.events.events.clear()
        await client.create(made_set())
        await settled(grove, 2)
        assert content(await fetched(client, child)) == content(theirs)
        assert "nobody controls it" in await reasons(grove)

        # and when it is gone all is well
        await removed(client, child)
        await settled(grove)
        assert await why_not_whole(client, child) == ""


async def test_a_scheduler_topology_of_somebody_else_is_left_alone_and_named() -> None:
    settings = {"schedulerName": "kai-scheduler", "topologyAwareScheduling": {"enabled": True}}
    async with (
        TestCluster(crds=[*light_definitions(), *kai_definitions()], controllers=True) as cluster,
        running(settings, cluster=cluster) as grove,
    ):
        client = grove.client
        levels = KaiTopologySpec(levels=(KaiLevel(node_label="x"),))
        theirs = await client.create(Topology(metadata=ObjectMeta(name="topo"), spec=levels))
        ours = ClusterTopologySpec(levels=(TopologyLevel(domain="rack", key="r"),))
        await client.create(ClusterTopologyBinding(metadata=ObjectMeta(name="topo"), spec=ours))
        await grove.settle()
        assert await client.get(Topology, "topo") == theirs
        (told,) = (await client.get(ClusterTopologyBinding, "topo")).status.scheduler_topology_statuses
        assert "Topology topo exists and does not belong to ClusterTopologyBinding topo" in told.message
        await client.delete(theirs)
        await grove.settle()
        made = await client.get(Topology, "topo")
        assert [level.node_label for level in made.spec.levels] == ["r"]
        await client.delete(ClusterTopologyBinding, "topo")
        await asyncio.sleep(20)
        with pytest.raises(NotFound):
            await client.get(Topology, "topo")
