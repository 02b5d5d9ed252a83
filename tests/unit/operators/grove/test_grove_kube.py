"""The default scheduler: pods with its name, and gangs as its Workloads and PodGroups where it knows them."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, OwnerReference, Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.pod import PodSchedulingGroup
from quarterdeck.client import MergePatch
from quarterdeck.errors import ForeignObject
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendError, HookContext
from quarterdeck.operators.grove.backends.conformance import conformance_problems, sample_pod
from quarterdeck.operators.grove.backends.guard import guarded_client, prepared
from quarterdeck.operators.grove.backends.kube import KubeBackend
from quarterdeck.operators.grove.logic.gangowner import MappingError
from quarterdeck.operators.grove.logic.workloadplan import (
    POD_GROUP,
    WORKLOAD,
    has_same_policy,
    plan_pod_groups,
    plan_workload,
)
from quarterdeck.operators.grove.types import GangGroup, PodGang, PodGangSpec
from quarterdeck.runtime.log import get_logger
from quarterdeck.testing import EventLog, TestCluster

from .grovekit import NS, clique, foreign_definition, group, light_definitions, pcs, running

GANGS = {"schedulerConfig": {"gangScheduling": True}}
#: the kinds of Kubernetes 1.36, for a server that does not have them
NEWER = (foreign_definition(WORKLOAD), foreign_definition(POD_GROUP))


def gang(*parts: tuple[str, int], owner: OwnerReference | None = None) -> PodGang:
    reference = owner or OwnerReference(
        api_version=names.API_VERSION, kind="PodCliqueSet", name="w", uid="u", controller=True
    )
    metadata = ObjectMeta(
        name="g",
        namespace=NS,
        uid="gang",
        labels={names.PART_OF: "w", "team": "x"},
        owner_references=(reference,),
    )
    groups = tuple(GangGroup(name=name, min_replicas=least) for name, least in parts)
    return PodGang(metadata=metadata, spec=PodGangSpec(podgroups=groups))


def backend(client: Any = None, log: EventLog | None = None, **config: Any) -> KubeBackend:
    return KubeBackend(client, Scheme(), log or EventLog(), "default-scheduler", config)


def hook(client: Any) -> HookContext:
    return HookContext(guarded_client(client, "default-scheduler"), get_logger(__name__))


def test_a_gang_becomes_a_workload_and_a_pod_group_for_each_clique() -> None:
    made = gang(("a", 2), ("b", 1))
    workload = plan_workload(made)
    assert workload["metadata"]["name"] == "g"
    assert workload["metadata"]["labels"] == {names.PART_OF: "w", names.PODGANG: "g"}
    assert workload["metadata"]["ownerReferences"][0]["uid"] == "gang"
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "grove.io", "kind": "PodCliqueSet", "name": "w"},
        "podGroupTemplates": [
            {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}},
            {"name": "b", "schedulingPolicy": {"gang": {"minCount": 1}}},
        ],
    }
    groups = plan_pod_groups(made)
    assert [each["metadata"]["name"] for each in groups] == ["a", "b"]
    assert groups[0]["spec"] == {
        "podGroupTemplateRef": {"workload": {"workloadName": "g", "podGroupTemplateName": "a"}},
        "schedulingPolicy": {"gang": {"minCount": 2}},
    }


def test_a_gang_without_a_set_cannot_be_told() -> None:
    stranger = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="u", controller=True)
    with pytest.raises(MappingError, match='is controlled by v1 "ConfigMap", expected PodCliqueSet'):
        plan_workload(gang(("a", 1), owner=stranger))


def test_only_what_was_asked_for_is_compared() -> None:
    (wanted,) = plan_pod_groups(gang(("a", 2)))
    filled = {**wanted, "spec": {**wanted["spec"], "disruptionMode": "Pod"}}
    assert has_same_policy(filled, wanted)
    (other,) = plan_pod_groups(gang(("a", 3)))
    assert not has_same_policy(filled, other)
    assert not has_same_policy(plan_workload(gang(("a", 2))), plan_workload(gang(("b", 2))))


def test_pods_name_their_group() -> None:
    made = prepared(backend(gangScheduling=True), sample_pod())
    clique_name = sample_pod().metadata.labels[names.PODCLIQUE]
    assert made.spec.scheduling_group == PodSchedulingGroup(pod_group_name=clique_name)
    assert made.spec.scheduler_name == "default-scheduler"
    assert not prepared(backend(), sample_pod()).spec.scheduling_group
    with pytest.raises(BackendError, match=f'requires pod label "{names.PODCLIQUE}"'):
        prepared(backend(gangScheduling=True), Pod())


async def test_a_cluster_that_does_not_know_them_is_refused() -> None:
    async with TestCluster() as cluster:
        await backend(cluster.client).init()
        with pytest.raises(
            BackendError, match=r"gangScheduling needs Workload of scheduling.k8s.io/v1alpha2"
        ):
            await backend(cluster.client, gangScheduling=True).init()


async def test_it_conforms() -> None:
    async with TestCluster(crds=[*light_definitions(), *NEWER]) as cluster:
        found = await conformance_problems(
            KubeBackend, cluster.client, scheduler_name="default-scheduler", config={"gangScheduling": True}
        )
        assert not found


async def test_objects_follow_their_gang() -> None:
    async with TestCluster(crds=[*light_definitions(), *NEWER]) as cluster:
        client, log = cluster.client, EventLog()
        kube = backend(client, log, gangScheduling=True)
        await kube.init()
        for made in (gang(("a", 2), ("b", 1)), gang(("a", 2), ("b", 1)), gang(("a", 3))):
            await kube.sync_pod_gang(hook(client), made)
        (group_left,) = (await client.list(POD_GROUP, namespace=NS)).items
        assert group_left.to_dict()["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        workload = (await client.get(WORKLOAD, "g", NS)).to_dict()
        assert [each["name"] for each in workload["spec"]["podGroupTemplates"]] == ["a"]
        assert [(each.reason, each.regarding.metadata.name) for each in log.events] == [
            ("GangPerPodClique", "w"),
            ("GangPerPodClique", "w"),
        ]
        stranger = MergePatch({"metadata": {"ownerReferences": None}})
        await client.patch(group_left, stranger)
        with pytest.raises(ForeignObject, match="PodGroup default/a exists and does not belong to PodGang g"):
            await kube.sync_pod_gang(hook(client), gang(("a", 3)))


async def test_the_operator_makes_them_before_it_lets_pods_go() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), *NEWER], controllers=True) as cluster,
        running(GANGS, cluster=cluster) as grove,
    ):
        made = pcs(clique("a", 2), clique("b"), groups=[group("g", ["b"], 2, 1)])
        await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
        await grove.settle()
        workloads = (await grove.client.list(WORKLOAD, namespace=NS)).items
        assert {each.metadata.name for each in workloads} == {"w-0", "w-0-g-0"}
        groups = (await grove.client.list(POD_GROUP, namespace=NS)).items
        assert {each.metadata.name for each in groups} == {"w-0-a", "w-0-g-0-b", "w-0-g-1-b"}
        pods = (await grove.client.list(Pod, namespace=NS)).items
        base = [pod for pod in pods if pod.metadata.labels[names.PODGANG] == "w-0"]
        assert len(base) == 3
        assert not any(pod.spec.scheduling_gates for pod in base)
        first = min(
            index for index, each in enumerate(grove.link.log) if each.target.resource.startswith("podgroups")
        )
        opened = [
            index
            for index, each in enumerate(grove.link.log)
            if each.target.resource == "pods" and each.target.verb == "patch"
        ]
        assert first < min(opened)
        for name in ("w-0-a", "w-0-g-1-b"):
            lost = await grove.client.get(POD_GROUP, name, NS)
            await grove.client.delete(lost)
            await grove.settle()
            assert (await grove.client.get(POD_GROUP, name, NS)).metadata.uid != lost.metadata.uid
