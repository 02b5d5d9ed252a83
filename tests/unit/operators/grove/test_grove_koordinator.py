"""Gangs in the words of Koordinator, and what its backend refuses."""

from __future__ import annotations

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta, Scheme, set_controller_reference
from quarterdeck.client import MergePatch
from quarterdeck.errors import ForeignObject, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendError, HookContext
from quarterdeck.operators.grove.backends.conformance import conformance_problems, sample_pod
from quarterdeck.operators.grove.backends.guard import prepared
from quarterdeck.operators.grove.backends.koordinator import KoordinatorBackend
from quarterdeck.operators.grove.logic.koordinatorgroup import POD_GROUP, group_changes, plan_pod_groups
from quarterdeck.operators.grove.types import GangGroup, PodGang, PodGangSpec, TopologyConstraint
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.log import get_logger
from quarterdeck.testing import TestCluster

from .grovekit import NS, clique, foreign_definition, light_definitions, pcs, running

NAME = "koord-scheduler"
KEY = "gang.scheduling.koordinator.sh/groups"


def gang(*minimums: int) -> PodGang:
    metadata = ObjectMeta(name="w-0", namespace=NS, uid="g", labels={names.MANAGED_BY: names.OPERATOR})
    groups = tuple(GangGroup(name=f"w-0-{place}", min_replicas=least) for place, least in enumerate(minimums))
    return PodGang(
        metadata=set_controller_reference(pcs(clique("a")), metadata), spec=PodGangSpec(podgroups=groups)
    )


def test_each_clique_of_a_gang_is_a_pod_group_and_they_name_each_other() -> None:
    first, second = plan_pod_groups(gang(2, 3))
    assert [first["metadata"]["name"], second["metadata"]["name"]] == ["w-0-0", "w-0-1"]
    assert [first["spec"], second["spec"]] == [{"minMember": 2}, {"minMember": 3}]
    for made in (first, second):
        assert made["metadata"]["annotations"] == {KEY: f'["{NS}/w-0-0","{NS}/w-0-1"]'}
        assert made["metadata"]["labels"] == {names.MANAGED_BY: names.OPERATOR}
        assert [each["name"] for each in made["metadata"]["ownerReferences"]] == ["w-0"]


def test_what_others_set_stays_and_only_differences_are_written() -> None:
    (wanted,) = plan_pod_groups(gang(2))
    metadata = {**wanted["metadata"], "annotations": {"other": "x"}}
    present = {"metadata": metadata, "spec": {"minMember": 1, "scheduleTimeoutSeconds": 60}}
    assert group_changes(present, wanted) == {
        "metadata": {"annotations": wanted["metadata"]["annotations"]},
        "spec": {"minMember": 2},
    }
    assert group_changes(wanted, wanted) == {}


async def test_the_backend_conforms() -> None:
    async with TestCluster(crds=[*light_definitions(), foreign_definition(POD_GROUP)]) as cluster:
        assert await conformance_problems(KoordinatorBackend, cluster.client, scheduler_name=NAME) == []


async def test_a_cluster_without_pod_groups_is_refused() -> None:
    async with TestCluster() as cluster:
        made = KoordinatorBackend(cluster.client, Scheme(), NoRecorder(), NAME, {})
        with pytest.raises(BackendError, match="not served here: install Koordinator"):
            await made.init()


def test_pods_name_the_group_of_their_clique_and_need_one() -> None:
    made = KoordinatorBackend(None, Scheme(), NoRecorder(), NAME, {})  # type: ignore[arg-type]
    pod = sample_pod()
    found = prepared(made, pod)
    assert found.spec.scheduler_name == NAME
    group = found.metadata.labels["pod-group.scheduling.sigs.k8s.io"]
    assert group == pod.metadata.labels[names.PODCLIQUE]
    lost = pod.evolve(metadata=pod.metadata.evolve(labels={}))
    with pytest.raises(QuarterdeckError, match=r'requires pod label "grove.io/podclique"'):
        prepared(made, lost)


def test_topology_constraints_are_refused() -> None:
    made = KoordinatorBackend(None, Scheme(), NoRecorder(), NAME, {})  # type: ignore[arg-type]
    hook = HookContext(None, get_logger(__name__))  # type: ignore[arg-type]
    made.validate_pod_clique_set(hook, pcs(clique("a")))
    packed = pcs(clique("a", topology_constraint=TopologyConstraint(topology_name="t")))
    with pytest.raises(BackendError, match='does not support topologyConstraint on PodClique "a"'):
        made.validate_pod_clique_set(hook, packed)


async def test_pod_groups_are_kept_and_those_of_others_left_alone() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), foreign_definition(POD_GROUP)], controllers=True) as cluster,
        running({"schedulerName": NAME}, cluster=cluster) as grove,
    ):
        made = pcs(clique("a", 3, 2), clique("b", 1))
        await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
        await grove.settle()
        found = await grove.client.get(POD_GROUP, "w-0-a", NS)
        assert found.to_dict()["spec"] == {"minMember": 2}
        await grove.client.delete(found)
        await grove.settle()
        again = await grove.client.get(POD_GROUP, "w-0-a", NS)
        assert again.metadata.uid != found.metadata.uid

        hook = HookContext(grove.client, get_logger(__name__))
        backend = KoordinatorBackend(grove.client, Scheme(), NoRecorder(), NAME, {})
        owner = await grove.client.get(PodGang, "w-0", NS)
        await grove.client.patch(again, MergePatch({"spec": {"minMember": 7}}))
        await backend.sync_pod_gang(hook, owner)
        mended = await grove.client.get(POD_GROUP, "w-0-a", NS)
        assert mended.to_dict()["spec"] == {"minMember": 2}

        stranger = {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": {"name": "w-0-0"},
        }
        await grove.client.create(DynamicObject({**stranger, "metadata": {"name": "w-0-0", "namespace": NS}}))
        with pytest.raises(ForeignObject, match="PodGroup default/w-0-0 exists and does not belong"):
            await backend.sync_pod_gang(hook, gang(1))
