"""What operators make: it is deleted, edited, replaced; and names that belong to somebody else.

One table of all kinds. Whatever becomes of an object that an operator wants, it comes back. An object that
somebody else has under its name is never changed, taken or deleted, and the owner says whose it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind, ObjectMeta, OwnerReference, Resource, to_dict
from quarterdeck.api.k8s import ConfigMap, Job, Node, PersistentVolumeClaim, Secret, Service
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.operators.ipam.assembly import IpamOperator
from quarterdeck.operators.ipam.types import KINDS as OF_IPAM
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.operators.jobset.assembly import JobSetOperator
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.kai.assembly import KaiOperator
from quarterdeck.operators.kai.types import KINDS as OF_KAI
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.types import CoschedulingPodGroup, VolcanoPodGroup
from quarterdeck.testing import OperatorRun, TestCluster, eventually
from tests.unit.operators.jobset.jobsetkit import jobset, part
from tests.unit.operators.kai.kaikit import pod, queue

from . import ipamkit, trainercases
from .trainercluster import LIGHT, light

pytestmark = pytest.mark.virtual_time
SPACE = "default"
Json = dict[str, Any]


class Row(msgspec.Struct, frozen=True):
    """A kind that an operator makes, and for whom."""

    operator: Any
    owner: Json
    kind: type[Resource]
    name: str
    """Of the object; empty if it follows from the UID of its owner."""
    needs: tuple[Json, ...] = ()
    edit: Json = {}
    """Something that nobody but the operator should decide; empty where edits are the users' right."""
    is_refused: bool = True
    """Whether the owner cannot do without this name."""
    installs: tuple[Any, ...] = ()

    @property
    def space(self) -> str:
        return SPACE if self.kind.type_info.is_namespaced else ""


TRAIN = trainercases.train_job()
SUSPENDED = trainercases.train_job(suspend=True)
GANG = trainercases.runtime(gang={"coscheduling": {"scheduleTimeoutSeconds": 100}})
VOLCANO = trainercases.runtime(gang={"volcano": {}})
MPI = trainercases.mpi_runtime()
CLAIMS = [
    {
        "templates": [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ]
    }
]
SETS = jobset(part("a"), network={"enableDNSHostnames": True}, volumeClaimPolicies=CLAIMS).to_dict()
SETS["metadata"].pop("uid")
SETS.pop("status", None)
NODES: Json = {
    "apiVersion": "deckhouse.io/v1",
    "kind": "NodeGroup",
    "metadata": {"name": "gpu"},
    "spec": {
        "nodeType": "CloudEphemeral",
        "cloudInstances": {
            "minPerZone": 1,
            "maxPerZone": 1,
            "zones": ["a"],
            "classReference": {"kind": "AWSInstanceClass", "name": "w"},
        },
    },
}
GANG_KINDS = (light(CoschedulingPodGroup), light(VolcanoPodGroup))
ROWS = {
    "JobSet of a TrainJob": Row(
        TrainerOperator(),
        TRAIN,
        JobSet,
        "test-job",
        (trainercases.runtime(),),
        edit={"metadata": {"ownerReferences": None}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "JobSet of a suspended TrainJob": Row(
        TrainerOperator(),
        SUSPENDED,
        JobSet,
        "test-job",
        (trainercases.runtime(),),
        edit={"spec": {"suspend": False}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "snapshot of a TrainJob": Row(
        TrainerOperator(),
        TRAIN,
        ConfigMap,
        "test-job-runtime-snapshot",
        (trainercases.runtime(),),
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "keys of a TrainJob": Row(
        TrainerOperator(),
        TRAIN,
        Secret,
        "test-job-mpi-ssh-auth",
        (MPI,),
        edit={"metadata": {"ownerReferences": None}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "hosts of a TrainJob": Row(
        TrainerOperator(),
        TRAIN,
        ConfigMap,
        "test-job-mpi-hostfile",
        (MPI,),
        edit={"data": {"hostfile": "evil"}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "gang of a TrainJob": Row(
        TrainerOperator(),
        SUSPENDED,
        CoschedulingPodGroup,
        "test-job",
        (GANG,),
        edit={"spec": {"minMember": 99}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "Volcano gang of a TrainJob": Row(
        TrainerOperator(),
        SUSPENDED,
        VolcanoPodGroup,
        "test-job",
        (VOLCANO,),
        edit={"spec": {"minMember": 99}},
        installs=(*LIGHT, *GANG_KINDS),
    ),
    "Job of a JobSet": Row(JobSetOperator(), SETS, Job, "js-a-0", installs=(JobSet,)),
    "Service of a JobSet": Row(JobSetOperator(), SETS, Service, "js", installs=(JobSet,)),
    "volume claim of a JobSet": Row(
        JobSetOperator(), SETS, PersistentVolumeClaim, "data-js", installs=(JobSet,)
    ),
    "Subnet of a claim": Row(
        IpamOperator(),
        ipamkit.claim("c").to_dict(),
        Subnet,
        "p-10-0-0-0-24",
        (ipamkit.pool().to_dict(),),
        is_refused=False,
        installs=OF_IPAM,
    ),
    "claim of a pool claim": Row(
        IpamOperator(),
        ipamkit.pool_claim("team").to_dict(),
        SubnetClaim,
        "",
        (ipamkit.pool().to_dict(),),
        installs=OF_IPAM,
    ),
    "pool of a pool claim": Row(
        IpamOperator(),
        ipamkit.pool_claim("team").to_dict(),
        SubnetPool,
        "",
        (ipamkit.pool().to_dict(),),
        installs=OF_IPAM,
    ),
    "PodGroup of a pod": Row(
        KaiOperator(),
        pod("solo"),
        PodGroup,
        "",
        (queue("default-queue"),),
        edit={"spec": {"minMember": 9}},
        installs=OF_KAI,
    ),
    "Node of a NodeGroup": Row(
        NodeGroupOperator(),
        NODES,
        Node,
        "gpu-a-0",
        edit={"metadata": {"labels": {"node.deckhouse.io/group": None}}},
        installs=(NodeGroup,),
    ),
}


class World:
    """A cluster with the operator of a row, and what is asked of it."""

    def __init__(self, cluster: TestCluster, operator: OperatorRun, row: Row) -> None:
        self.client: Client = cluster.client
        self.operator = operator
        self.row = row

    @property
    def owner_kind(self) -> GroupVersionKind:
        return GroupVersionKind.parse(self.row.owner["apiVersion"], self.row.owner["kind"])

    async def owner(self) -> DynamicObject:
        metadata = self.row.owner["metadata"]
        return await self.client.get(self.owner_kind, metadata["name"], metadata.get("namespace", ""))

    async def said(self) -> str:
        """What the status of the owner says."""
        return str((await self.owner()).to_dict().get("status"))

    async def make_owner(self) -> None:
        await self.client.create(DynamicObject(self.row.owner))

    async def child(self) -> Any:
        """The object of the row; raises ``NotFound``."""
        if self.row.name:
            return await self.client.get(self.row.kind, self.row.name, self.row.space)
        uid = (await self.owner()).metadata.uid
        for each in await self.client.list(self.row.kind, namespace=self.row.space):
            if any(owner.uid == uid for owner in each.metadata.owner_references):
                return each
        raise NotFound("nobody is owned")

    async def own(self) -> Any:
        """The object, once it is there and belongs to the owner."""

        async def look() -> Any:
            child, owner = await self.child(), await self.owner()
            owners = [each.uid for each in child.metadata.owner_references]
            return child if owner.metadata.uid in owners and not child.metadata.is_deleting else None

        return await eventually(look, timeout=400.0, interval=1.0)

    async def read(self, name: str) -> Any:
        return await self.client.get(self.row.kind, name, self.row.space)

    def foreign(self, like: Any, *, owner: OwnerReference | None = None) -> Any:
        """Somebody else's object with the name, and otherwise as like as can be."""
        body = like.to_dict()
        body.pop("status", None)
        metadata = ObjectMeta(
            name=like.metadata.name,
            namespace=like.metadata.namespace,
            labels={**like.metadata.labels, "whose": "mine"},
            owner_references=(owner,) if owner is not None else (),
        )
        if self.row.kind is Subnet:
            body["spec"].pop("claimRef")
        if self.row.kind is PersistentVolumeClaim:
            body["spec"].pop("volumeName", None)
        if self.row.kind is Job:
            body["spec"] = {"template": body["spec"]["template"], "suspend": True}
            body["spec"]["template"].pop("metadata", None)
            metadata = metadata.evolve(labels={"whose": "mine"})
        return self.row.kind.from_dict({**body, "metadata": to_dict(metadata)})

    def told(self, word: str) -> list[str]:
        """Events about the owner that name the object and whose it is."""
        about = self.operator.events.about(self.row.owner["metadata"]["name"])
        return [each for each in about if word in each]


def instance(cluster: TestCluster, row: Row) -> OperatorRun:
    return OperatorRun(cluster, row.operator, None, name="operator", is_embedded=row.kind is Node)


@asynccontextmanager
async def world(row: Row) -> AsyncIterator[World]:
    async with TestCluster(crds=list(row.installs), controllers=True) as cluster:
        operator = instance(cluster, row)
        for each in row.needs:
            await cluster.client.create(DynamicObject(each))
        async with operator.running():
            yield World(cluster, operator, row)


def essence(obj: Any) -> Json:
    """What an object is, without its status and the notes of who wrote what."""
    body: Json = obj.to_dict()
    body.pop("status", None)
    # Every pool has a finalizer, whoever made it.
    for note in ("managedFields", "resourceVersion", "generation", "finalizers"):
        body["metadata"].pop(note, None)
    return body


@pytest.mark.parametrize("kind", ROWS)
async def test_what_is_deleted_comes_back(kind: str) -> None:
    async with world(ROWS[kind]) as found:
        await found.make_owner()
        for _ in range(2):
            child = await found.own()
            if child.metadata.finalizers:
                await found.client.patch(child, MergePatch({"metadata": {"finalizers": None}}))
            await found.client.delete(child)

            async def another(before: str = child.metadata.uid) -> bool:
                uid: str = (await found.child()).metadata.uid
                return uid != before

            await eventually(another, timeout=60.0)
            await found.operator.settle()
        assert (await found.own()).metadata.name == child.metadata.name


@pytest.mark.parametrize("kind", ROWS)
async def test_what_is_deleted_while_nobody_looks_comes_back(kind: str) -> None:
    row = ROWS[kind]
    async with TestCluster(crds=list(row.installs), controllers=True) as cluster:
        for each in row.needs:
            await cluster.client.create(DynamicObject(each))
        operator = instance(cluster, row)
        found = World(cluster, operator, row)
        async with operator.running():
            await found.make_owner()
            child = await found.own()
            await operator.settle()
        if child.metadata.finalizers:
            await cluster.client.patch(child, MergePatch({"metadata": {"finalizers": None}}))
        await cluster.client.delete(child, propagation="Background", grace_period=0)
        async with instance(cluster, row).running():
            again = await found.own()
            assert again.metadata.name == child.metadata.name
            assert again.metadata.uid != child.metadata.uid


@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if row.edit])
async def test_what_is_edited_is_put_right(kind: str) -> None:
    row = ROWS[kind]
    async with world(row) as found:
        await found.make_owner()
        before = essence(await found.own())
        await found.client.patch(await found.own(), MergePatch(row.edit))
        assert essence(await found.child()) != before

        async def right() -> bool:
            return essence(await found.child()) == before

        await eventually(right, timeout=100.0, interval=1.0)


@pytest.mark.parametrize("is_owned", [False, True])
@pytest.mark.parametrize("kind", ROWS)
async def test_a_name_that_is_somebody_elses_is_left_to_it(kind: str, is_owned: bool) -> None:
    """Replaced while the owner is there, found when it comes, left behind when it goes."""
    row = ROWS[kind]
    async with world(row) as found:
        await found.make_owner()
        child = await found.own()
        keeper = await found.client.create(ConfigMap(metadata=ObjectMeta(name="keeper", namespace=SPACE)))
        other = OwnerReference(
            api_version="v1", kind="ConfigMap", name="keeper", uid=keeper.metadata.uid, controller=True
        )
        # Nobody can be owned by something of a namespace from outside.
        mine = found.foreign(child, owner=other if is_owned and row.space else None)
        if child.metadata.finalizers:
            await found.client.patch(child, MergePatch({"metadata": {"finalizers": None}}))
        await found.client.delete(child, propagation="Background", grace_period=0)
        theirs = await found.client.create(mine)
        kept = essence(theirs)
        await found.operator.settle()
        if row.name:  # during, and before: an owner that comes when the name is taken
            await found.client.delete(await found.owner(), propagation="Background", grace_period=0)
            await found.operator.settle()
            assert essence(await found.read(theirs.metadata.name)) == kept
            await found.make_owner()
            await found.operator.settle()
        if row.is_refused:
            whose = "ConfigMap keeper" if is_owned and row.space else "nobody"
            assert found.told(theirs.metadata.name), found.operator.events.events
            assert any(whose in each for each in found.told(theirs.metadata.name))
            said = await found.said()
            assert theirs.metadata.name in said
            assert whose in said
        assert essence(await found.read(theirs.metadata.name)) == kept
        await found.client.delete(theirs, grace_period=0)
        if row.kind is not Subnet:
            await found.own()
        if row.is_refused:

            async def is_taken_back() -> bool:
                return whose not in await found.said()

            await eventually(is_taken_back, timeout=100.0, interval=1.0)


async def test_a_service_of_ones_own_does_not_keep_a_jobset_from_its_jobs() -> None:
    async with world(ROWS["Job of a JobSet"]) as found:
        own = Service.from_dict(
            {"metadata": {"name": "js", "namespace": SPACE}, "spec": {"clusterIP": "None"}}
        )
        await found.client.create(own)
        await found.make_owner()
        await found.own()
        assert found.told("Service default/js")
