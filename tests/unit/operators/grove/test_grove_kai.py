"""Gangs in the words of KAI: queues, PodGroups, pods, topologies."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import UNSET, DynamicObject, ObjectMeta, OwnerReference, Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.errors import ForeignObject, InternalError, NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendError, HookContext
from quarterdeck.operators.grove.backends.conformance import conformance_problems, sample_pod, sample_set
from quarterdeck.operators.grove.backends.guard import guarded_client, prepared
from quarterdeck.operators.grove.backends.kai import KaiBackend
from quarterdeck.operators.grove.logic.gangowner import MappingError, owning_set
from quarterdeck.operators.grove.logic.kaigroup import merged_group, pod_group_of
from quarterdeck.operators.grove.logic.kaiqueue import queue_of
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    GangConstraint,
    GangGroup,
    GroupConstraint,
    PackConstraint,
    PodGang,
    PodGangSpec,
    TopologyLevel,
    definitions,
)
from quarterdeck.operators.kai.types import PodGroup, Topology, TopologyConstraint
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.testing import EventLog, FaultPlan, Refuse, TestCluster

from .grovekit import NS, clique, pcs

QUEUE = {names.KAI_QUEUE: "team-a"}


def test_the_word_of_a_set_counts_and_its_label_more_than_its_annotation() -> None:
    assert queue_of(pcs(clique("a"), labels=QUEUE)) == "team-a"
    assert queue_of(pcs(clique("a"), annotations=QUEUE)) == "team-a"
    assert queue_of(pcs(clique("a"), labels=QUEUE, annotations={names.KAI_QUEUE: "other"})) == "team-a"


def test_without_it_the_cliques_must_agree() -> None:
    assert queue_of(pcs(clique("a", labels=QUEUE), clique("b"), clique("c", annotations=QUEUE))) == "team-a"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            pcs(clique("c", labels={names.KAI_QUEUE: "b"}), labels=QUEUE),
            'KAI queue on PodCliqueSet default/w is "team-a" but PodClique template "c" resolves to "b"',
        ),
        (
            pcs(clique("a")),
            "no KAI queue is configured on PodCliqueSet default/w or its PodClique templates",
        ),
        (
            pcs(clique("a", labels={names.KAI_QUEUE: "b"}), clique("c", labels={names.KAI_QUEUE: "a"})),
            "conflicting KAI queues on PodCliqueSet default/w PodClique templates: [a b]",
        ),
    ],
)
def test_a_queue_that_is_not_clear_is_an_error(made: Any, text: str) -> None:
    with pytest.raises(MappingError) as error:
        queue_of(made)
    assert str(error.value) == text


def test_a_set_without_queue_may_be_charged_to_the_default_one() -> None:
    assert queue_of(pcs(clique("a")), is_required=False) == "default"


def pack(required: str = "", preferred: str = "") -> GangConstraint:
    return GangConstraint(pack_constraint=PackConstraint(required=required, preferred=preferred))


def gang(*, topology: str = "topo", owner: OwnerReference | None = None, **spec: Any) -> PodGang:
    annotations = {names.TOPOLOGY_NAME: topology} if topology else {}
    return PodGang(
        metadata=ObjectMeta(
            name="g",
            namespace=NS,
            uid="u",
            labels={"team": "x"},
            annotations=annotations,
            owner_references=(owner,) if owner is not None else (),
        ),
        spec=PodGangSpec(**{"podgroups": (GangGroup(name="a", min_replicas=2),), **spec}),
    )


def test_who_owns_a_gang() -> None:
    with pytest.raises(MappingError, match="podgang default/g has no controlling PodCliqueSet"):
        owning_set(gang())
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="1", controller=True)
    with pytest.raises(MappingError, match='controlled by batch/v1 "Job", expected PodCliqueSet'):
        owning_set(gang(owner=job))


def test_each_group_of_pods_is_a_subgroup_and_groups_that_are_near_have_a_parent() -> None:
    made = gang(
        podgroups=(
            GangGroup(name="a", min_replicas=2),
            GangGroup(name="b", min_replicas=1, topology_constraint=pack("host")),
        ),
        topology_constraint=pack("zone", "rack"),
        topology_constraint_group_configs=(
            GroupConstraint(name="near", pod_group_names=("b",), topology_constraint=pack(preferred="rack")),
            GroupConstraint(name="empty"),
        ),
        priority_class_name="high",
    )
    found = pod_group_of(made, "q").spec
    assert (found.min_member, found.queue, found.priority_class_name) == (3, "q", "high")
    assert found.topology_constraint == TopologyConstraint(
        topology="topo", required_topology_level="zone", preferred_topology_level="rack"
    )
    parent, first, second = found.sub_groups
    assert (parent.name, parent.min_sub_group, parent.topology_constraint.preferred_topology_level) == (
        "near",
        1,
        "rack",
    )
    assert (first.name, first.min_member, first.parent, first.topology_constraint) == ("a", 2, UNSET, UNSET)
    assert (second.parent, second.topology_constraint.required_topology_level) == ("near", "host")


def test_an_older_kai_does_not_know_how_many_subgroups_are_needed() -> None:
    config = GroupConstraint(name="near", pod_group_names=("a",), topology_constraint=pack("rack"))
    made = gang(topology_constraint_group_configs=(config,))
    assert pod_group_of(made, "q", has_min_sub_group=False).spec.sub_groups[0].min_sub_group is UNSET


def test_a_constraint_needs_a_topology() -> None:
    with pytest.raises(
        MappingError, match="topology name cannot be empty when topology constraints are defined"
    ):
        pod_group_of(gang(topology="", topology_constraint=pack("zone")), "q")
    assert pod_group_of(gang(topology=""), "q").spec.topology_constraint == TopologyConstraint()


def test_what_belongs_to_kai_and_to_others_stays() -> None:
    wanted = pod_group_of(gang(), "new-queue")
    present = wanted.evolve(
        metadata=wanted.metadata.evolve(
            labels={"team": "old", "foreign": "x", names.KAI_NODE_POOL: "pool"}, resource_version="1"
        ),
        spec=wanted.spec.evolve(queue="theirs", mark_unschedulable=True, scheduling_backoff=3, sub_groups=()),
    )
    found = merged_group(present, wanted)
    assert (found.spec.queue, found.spec.mark_unschedulable, found.spec.scheduling_backoff) == (
        "theirs",
        True,
        3,
    )
    assert found.spec.sub_groups == wanted.spec.sub_groups
    assert dict(found.metadata.labels) == {"team": "x", "foreign": "x", names.KAI_NODE_POOL: "pool"}
    assert merged_group(found, wanted) is found


def backend(client: Any = None, recorder: Any = None, **config: Any) -> KaiBackend:
    return KaiBackend(client, Scheme(), recorder or NoRecorder(), "kai-scheduler", config)


def test_where_kai_reads_gangs_itself_pods_get_its_name_and_two_annotations() -> None:
    found = prepared(backend(podGroups="disabled"), sample_pod())
    assert found.spec.scheduler_name == "kai-scheduler"
    assert dict(found.metadata.annotations) == {
        names.KAI_PODGANG: "conformance-0",
        names.KAI_PODGROUP: "conformance-0-a",
    }
    bare = prepared(backend(podGroups="disabled"), Pod(metadata=ObjectMeta(name="p", namespace=NS)))
    assert dict(bare.metadata.annotations) == {}


def test_where_gangs_become_pod_groups_pods_say_so() -> None:
    found = prepared(backend(podGroups="enabled"), sample_pod()).metadata
    assert found.annotations[names.KAI_SKIP_GROUPER] == "true"
    assert found.annotations[names.KAI_GROUP_NAME] == "conformance-0"
    assert found.labels[names.KAI_SUBGROUP] == "conformance-0-a"


@pytest.mark.parametrize("label", [names.PODGANG, names.PODCLIQUE])
def test_a_pod_of_a_pod_group_needs_its_labels(label: str) -> None:
    pod = sample_pod()
    labels = {key: value for key, value in pod.metadata.labels.items() if key != label}
    with pytest.raises(BackendError, match=f'KAI scheduler requires pod label "{label}"'):
        prepared(backend(podGroups="enabled"), pod.evolve(metadata=pod.metadata.evolve(labels=labels)))


def hook(client: Any) -> HookContext:
    return HookContext(guarded_client(client, "kai-scheduler"), get_logger(__name__))


async def stored_gang(cluster: TestCluster, **labels: str) -> PodGang:
    owner = sample_set()
    owner = owner.evolve(metadata=owner.metadata.evolve(labels={**QUEUE, **labels}))
    made = await cluster.client.create(owner)
    reference = OwnerReference(
        api_version=made.api_version,
        kind=made.kind,
        name=made.metadata.name,
        uid=made.metadata.uid,
        controller=True,
    )
    wanted = gang(owner=reference, topology="")
    return await cluster.client.create(wanted.evolve(metadata=wanted.metadata.evolve(uid="")))


async def test_a_gang_becomes_a_pod_group_that_follows_it() -> None:
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        client, made = cluster.client, await stored_gang(cluster)
        kai = backend(client)
        await kai.init()
        assert kai.makes_pod_groups
        assert kai.requires_synced_resources
        await kai.sync_pod_gang(hook(client), made)
        group = await client.get(PodGroup, "g", NS)
        assert (group.spec.queue, group.spec.min_member) == ("team-a", 2)
        assert (await client.get(PodGang, "g", NS)).metadata.annotations[names.KAI_SKIP_GROUPER] == "true"
        changed = await client.patch(
            made, MergePatch({"spec": {"podgroups": [{"name": "a", "minReplicas": 5, "podReferences": []}]}})
        )
        await kai.sync_pod_gang(hook(client), changed)
        assert (await client.get(PodGroup, "g", NS)).spec.min_member == 5
        await kai.on_pod_gang_delete(hook(client), changed)
        await kai.on_pod_gang_delete(hook(client), changed)
        with pytest.raises(NotFound):
            await client.get(PodGroup, "g", NS)


async def test_an_error_of_the_server_is_passed_on_and_nothing_is_half_written() -> None:
    refuse = FaultPlan(
        0, Refuse(500, verbs=frozenset({"create"}), resources=frozenset({"podgroups.scheduling.run.ai"}))
    )
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        made = await stored_gang(cluster)
        client = cluster.link(refuse).client
        with pytest.raises(InternalError):
            await backend(client, podGroups="enabled").sync_pod_gang(hook(client), made)
        assert not (await cluster.client.list(PodGroup, namespace=NS)).items


async def test_a_gang_that_cannot_be_told_is_complained_about_and_not_written() -> None:
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        log, made = EventLog(), await stored_gang(cluster, **{names.KAI_QUEUE: ""})
        kai = backend(cluster.client, log, podGroups="enabled")
        with pytest.raises(BackendError, match="no KAI queue is configured"):
            await kai.sync_pod_gang(hook(cluster.client), made)
        assert log.reasons == ["KAIBackendMappingFailed"]
        assert not (await cluster.client.list(PodGroup, namespace=NS)).items


async def test_without_the_kind_kai_reads_gangs_itself() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        link = cluster.link()
        kai = backend(link.client)
        await kai.init()
        assert not kai.makes_pod_groups
        assert not kai.needs_delete_hook
        made = await stored_gang(cluster)
        await kai.sync_pod_gang(hook(link.client), made)
        await kai.on_pod_gang_delete(hook(link.client), made)
        assert link.writes == []


async def test_pod_groups_that_are_asked_for_must_be_served() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        with pytest.raises(
            BackendError, match=r"podGroups: enabled needs PodGroup of scheduling\.run\.ai/v2alpha2"
        ):
            await backend(cluster.client, podGroups="enabled").init()
        await backend(cluster.client, podGroups="disabled").init()


async def test_an_older_definition_lacks_a_field_which_is_left_out() -> None:
    older = next(each for each in kai_definitions() if each["spec"]["names"]["kind"] == "PodGroup")
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["subGroups"]["items"]["properties"]["minSubGroup"]
    async with TestCluster(crds=[*definitions(), older]) as cluster:
        kai = backend(cluster.client)
        await kai.init()
        assert kai.makes_pod_groups
        assert not kai._has_min_sub_group


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
async def test_kai_conforms(mode: str) -> None:
    sample = sample_set()
    sample = sample.evolve(metadata=sample.metadata.evolve(labels=QUEUE))
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        problems = await conformance_problems(
            KaiBackend,
            cluster.client,
            scheduler_name="kai-scheduler",
            config={"podGroups": mode},
            pod_clique_set=sample,
        )
        assert problems == []


def topology(*keys: str) -> ClusterTopologyBinding:
    levels = tuple(TopologyLevel(domain=key, key=key) for key in keys)
    return ClusterTopologyBinding(metadata=ObjectMeta(name="topo"), spec=ClusterTopologySpec(levels=levels))


async def test_the_topology_of_kai_is_kept_like_ours() -> None:
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        client = cluster.client
        kai = backend(client)
        await kai.init()
        ours = await client.create(topology("zone", "rack"))
        await kai.sync_topology(hook(client), ours)
        theirs = await client.get(Topology, "topo")
        assert [each.node_label for each in theirs.spec.levels] == ["zone", "rack"]
        await kai.sync_topology(hook(client), ours)
        assert (await client.get(Topology, "topo")).metadata.uid == theirs.metadata.uid
        await kai.sync_topology(hook(client), ours.evolve(spec=topology("zone").spec))
        again = await client.get(Topology, "topo")
        assert again.metadata.uid != theirs.metadata.uid
        assert (await kai.check_topology_drift(hook(client), topology("zone"), "topo")).is_in_sync
        drift = await kai.check_topology_drift(hook(client), topology("rack"), "topo")
        assert drift.message == "levels of Topology topo are [zone], expected [rack]"
        assert not (await kai.check_topology_drift(hook(client), topology("rack"), "gone")).is_in_sync
        await kai.on_topology_delete(hook(client), ours)
        with pytest.raises(NotFound):
            await client.get(Topology, "topo")


async def test_a_topology_of_somebody_else_is_left_alone() -> None:
    async with TestCluster(crds=[*definitions(), *kai_definitions()]) as cluster:
        client = cluster.client
        kai = backend(client)
        await kai.init()
        document = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "topo"}}
        await client.create(DynamicObject({**document, "spec": {"levels": [{"nodeLabel": "zone"}]}}))
        ours = await client.create(topology("zone"))
        with pytest.raises(ForeignObject, match="exists and does not belong to ClusterTopologyBinding"):
            await kai.sync_topology(hook(client), ours)
        await kai.on_topology_delete(hook(client), ours)
        assert await client.get(Topology, "topo")
