"""Everything that Grove and its backends make for one set, as a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s import Container, Pod, PodSpec
from quarterdeck.api.k8s.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplateSpec,
)
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic import koordinatorgroup, volcanogroup, workloadplan
from quarterdeck.operators.grove.logic.mnnvl import COMPUTE_DOMAIN
from quarterdeck.operators.grove.types import (
    ClaimTemplate,
    CliqueSharing,
    GroupSharing,
    PodCliqueSet,
    SetSharing,
)
from quarterdeck.operators.grove.types.podclique import AutoScaling
from quarterdeck.operators.kai.types import PodGroup as KaiGroup
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.testing import TestCluster

from .grovekit import NS, Grove, clique, foreign_definition, group, light_definitions, pcs, running, set_ready

__all__ = [
    "CHILDREN",
    "PODS",
    "Child",
    "fetched",
    "made_set",
    "made_world",
    "removed",
    "settled",
    "why_not_whole",
]

PODS: Final = 5
"""Of a set that is whole."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    gvk: GroupVersionKind
    name: str
    damage: Mapping[str, Any] = {}
    """A merge patch of something that the operator decides about."""
    scheduler: str = names.DEFAULT_SCHEDULER
    options: Mapping[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """Of an operator that makes it."""
        return {
            "network": {"autoMNNVLEnabled": True},
            "schedulerName": self.scheduler,
            "schedulerConfig": dict(self.options),
        }

    def __str__(self) -> str:
        return f"{self.scheduler.partition('-')[0]} {self.gvk.kind} {self.name}"


def _child(
    api_version: str, kind: str, name: str, damage: Mapping[str, Any] | None = None, **more: Any
) -> Child:
    return Child(gvk=GroupVersionKind.parse(api_version, kind), name=name, damage=damage or {}, **more)


_RBAC: Final = "rbac.authorization.k8s.io/v1"
_CLAIM: Final = ("resource.k8s.io/v1", "ResourceClaim")
_GANGS: Final[dict[str, Any]] = {"scheduler": names.DEFAULT_SCHEDULER, "options": {"gangScheduling": True}}
_MEMBERS: Final = {"spec": {"minMember": 99}}

CHILDREN: Final = (
    _child("v1", "ServiceAccount", "w", {"automountServiceAccountToken": False}),
    _child(_RBAC, "Role", "grove.io:pcs:w", {"rules": []}),
    _child(_RBAC, "RoleBinding", "grove.io:pcs:w", {"subjects": []}),
    _child("v1", "Secret", "w-ic-sat"),
    _child("v1", "Service", "w-0", {"spec": {"publishNotReadyAddresses": False}}),
    _child("autoscaling/v2", "HorizontalPodAutoscaler", "w-0-router", {"spec": {"maxReplicas": 99}}),
    _child("grove.io/v1alpha1", "PodClique", "w-0-router", {"spec": {"roleName": "other"}}),
    _child("grove.io/v1alpha1", "PodClique", "w-0-g-1-worker"),
    _child("grove.io/v1alpha1", "PodCliqueScalingGroup", "w-0-g", {"spec": {"cliqueNames": ["router"]}}),
    _child("scheduler.grove.io/v1alpha1", "PodGang", "w-0", {"spec": {"podgroups": []}}),
    _child("scheduler.grove.io/v1alpha1", "PodGang", "w-0-g-0", {"spec": {"podgroups": []}}),
    _child(*_CLAIM, "w-all-t"),
    _child(*_CLAIM, "w-0-g-all-t"),
    _child(*_CLAIM, "w-0-g-0-worker-all-t"),
    Child(gvk=COMPUTE_DOMAIN, name="w-0-d"),
    Child(gvk=KaiGroup.type_info.gvk, name="w-0", damage=_MEMBERS, scheduler=names.KAI_SCHEDULER),
    Child(gvk=volcanogroup.POD_GROUP, name="w-0", damage=_MEMBERS, scheduler=names.VOLCANO),
    Child(gvk=koordinatorgroup.POD_GROUP, name="w-0-router", damage=_MEMBERS, scheduler=names.KOORDINATOR),
    Child(gvk=workloadplan.WORKLOAD, name="w-0", damage={"spec": {"podGroupTemplates": []}}, **_GANGS),
    Child(
        gvk=workloadplan.POD_GROUP,
        name="w-0-router",
        damage={"spec": {"schedulingPolicy": {"gang": {"minCount": 99}}}},
        **_GANGS,
    ),
)


def made_set() -> PodCliqueSet:
    """A set for which all of it is made: a clique of its own, and a group beyond its minimum."""
    shared: dict[str, Any] = {"name": "t", "scope": names.ALL_REPLICAS}
    gpu = Container(name="main", image="example.com/main:1")
    gpu = gpu.evolve(resources=gpu.resources.evolve(limits={"nvidia.com/gpu": "1"}))
    request = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu"))
    claim = ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))))
    made = pcs(
        clique(
            "router",
            1,
            1,
            auto_scaling_config=AutoScaling(min_replicas=1, max_replicas=3),
            pod_spec=PodSpec(containers=(gpu,)),
        ),
        clique("worker", 2, 1, resource_sharing=(CliqueSharing(**shared),)),
        groups=[group("g", ["worker"], replicas=2, least=1, resource_sharing=(GroupSharing(**shared),))],
        resource_claim_templates=(ClaimTemplate(name="t", template_spec=claim),),
        resource_sharing=(SetSharing(**shared),),
        clique_startup_type="CliqueStartupTypeInOrder",
    )
    metadata = ObjectMeta(
        name="w",
        namespace=NS,
        labels={"kai.scheduler/queue": "q"},
        annotations={names.MNNVL_GROUP: "d"},
    )
    return made.evolve(metadata=metadata)


@asynccontextmanager
async def made_world(child: Child) -> AsyncIterator[Grove]:
    """A cluster with all definitions, and an operator that makes this child."""
    subgroups = {"subGroupPolicy": {"type": "array", "x-kubernetes-preserve-unknown-fields": True}}
    subgroups["subGroupPolicy"]["items"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definitions = [
        *light_definitions(),
        *kai_definitions(),
        foreign_definition(COMPUTE_DOMAIN),
        foreign_definition(volcanogroup.POD_GROUP, properties=subgroups),
        foreign_definition(volcanogroup.QUEUE, "Cluster"),
        foreign_definition(koordinatorgroup.POD_GROUP),
        foreign_definition(workloadplan.WORKLOAD),
        foreign_definition(workloadplan.POD_GROUP),
    ]
    async with (
        TestCluster(crds=definitions, controllers=True) as cluster,
        running(child.settings, cluster=cluster) as grove,
    ):
        yield grove


async def settled(grove: Grove, times: int = 4) -> None:
    """Let time pass, in which all pods come up that may."""
    for _ in range(times):
        await asyncio.sleep(6)
        await set_ready(grove)
    await asyncio.sleep(1)


async def fetched(client: Client, child: Child) -> DynamicObject | None:
    """The object, whoever made it."""
    with ignore_not_found():
        return await client.get(child.gvk, child.name, NS)
    return None


async def removed(client: Client, child: Child) -> None:
    """Delete the object, at once and whoever waits for it."""
    found = await fetched(client, child)
    assert found is not None
    await client.delete(found, grace_period=0)
    with ignore_not_found():
        await client.patch(found, MergePatch({"metadata": {"finalizers": None}}))
    try:
        await client.get(child.gvk, child.name, NS)
    except NotFound:
        return
    raise AssertionError(f"{child} is still there")


async def why_not_whole(client: Client, child: Child) -> str:
    """What a set lacks; empty if nothing."""
    found = await fetched(client, child)
    if found is None:
        return "it is not there"
    if found.metadata.is_deleting or not found.metadata.owner_references:
        return f"it is not ours: {found.to_dict()['metadata']}"
    pods = [each for each in await client.list(Pod, namespace=NS) if not each.metadata.is_deleting]
    if len(pods) != PODS:
        return f"there are {len(pods)} pods"
    gated = [each.metadata.name for each in pods if each.spec.scheduling_gates]
    return f"pods are gated: {gated}" if gated else ""
