"""Conditions that others set on objects of the operator stay, whenever they come."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest

from quarterdeck.api import Condition, ObjectMeta, Resource, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Call, Client, MergePatch, Response
from quarterdeck.client.call import Proceed
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
    TopologyLevel,
)
from quarterdeck.operators.kai.types import Topology
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.testing import TestCluster

from .grovekit import NOW, NS, clique, group, light_definitions, pcs, pod, running

KAI = {"schedulerName": "kai-scheduler", "topologyAwareScheduling": {"enabled": True}}


class Scribe:
    """Sets a condition right before the operator writes a status: every other time, or nobody would win."""

    def __init__(self, client: Client, kind: type[Resource]) -> None:
        self.client, self.kind = client, kind
        self.calls: Counter[str] = Counter()
        self.written: defaultdict[str, set[str]] = defaultdict(set)

    async def interfere(self, call: Call, proceed: Proceed) -> Response:
        """The hook before patches."""
        if call.subresource == "status" and call.gvk == self.kind.type_info.gvk:
            self.calls[call.name] += 1
            if self.calls[call.name] % 2:
                obj: Any = await self.client.get(self.kind, call.name, call.namespace)
                await self.write(obj, f"X{self.calls[call.name]}")
        return await proceed(call)

    async def write(self, obj: Any, type: str) -> None:
        added = Condition(type=type, status="True", reason="Seen", last_transition_time=NOW)
        conditions = [*to_dict(obj.status.conditions), to_dict(added)]
        metadata = {"resourceVersion": obj.metadata.resource_version}
        patch = MergePatch({"metadata": metadata, "status": {"conditions": conditions}})
        await self.client.status.patch(obj, patch)
        self.written[obj.metadata.uid].add(type)

    async def lost(self) -> set[str]:
        """What was written and is not there any more."""
        found: Any = (await self.client.list(self.kind)).items
        assert found
        return {
            type
            for each in found
            for type in self.written[each.metadata.uid] - {known.type for known in each.status.conditions}
        }


async def set_states(client: Client, state: str) -> None:
    for each in (await client.list(Pod, namespace=NS)).items:
        await client.status.patch(
            each, MergePatch({"status": to_dict(pod(each.metadata.name, state).status)})
        )


async def live(client: Client) -> None:
    """Everything that changes conditions of Grove's objects."""
    metadata = ObjectMeta(name="w", namespace=NS, labels={"kai.scheduler/queue": "q"})
    made = pcs(clique("a", 2, 2), clique("b", 1, 1), groups=[group("g", ["b"], replicas=2, least=1)])
    await client.create(made.evolve(metadata=metadata))
    levels = (TopologyLevel(domain="rack", key="r"),)
    binding = ClusterTopologyBinding(
        metadata=ObjectMeta(name="topo"), spec=ClusterTopologySpec(levels=levels)
    )
    await client.create(binding)
    for state in ("starting", "ready", "crashed", "ready", "crashed"):
        await asyncio.sleep(1)
        await set_states(client, state)
    theirs = await client.get(Topology, "topo")
    await client.delete(theirs)
    await asyncio.sleep(1)


KINDS: list[type[Resource]] = [
    PodGang,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    ClusterTopologyBinding,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_no_condition_of_others_is_lost(kind: type[Resource]) -> None:
    definitions = [*light_definitions(), *kai_definitions()]
    async with TestCluster(crds=definitions, controllers=True) as cluster:
        scribe = Scribe(cluster.client, kind)
        async with running(KAI, cluster=cluster, before_patch=scribe.interfere) as grove:
            await live(grove.client)
            await grove.settle()
        assert scribe.written
        assert await scribe.lost() == set()
