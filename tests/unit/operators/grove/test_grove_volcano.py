"""Gangs in the words of Volcano, and what its backend and that of LPX refuse."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta, Scheme, set_controller_reference
from quarterdeck.client import MergePatch
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendError, HookContext
from quarterdeck.operators.grove.backends.conformance import conformance_problems, sample_pod
from quarterdeck.operators.grove.backends.guard import prepared
from quarterdeck.operators.grove.backends.lpx import LpxBackend
from quarterdeck.operators.grove.backends.volcano import VolcanoBackend
from quarterdeck.operators.grove.logic.gangowner import MappingError
from quarterdeck.operators.grove.logic.volcanogroup import POD_GROUP, QUEUE, group_changes, plan_pod_group
from quarterdeck.operators.grove.logic.volcanoqueue import volcano_queue
from quarterdeck.operators.grove.types import (
    GangGroup,
    PodCliqueSet,
    PodGang,
    PodGangSpec,
    TopologyConstraint,
)
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.log import get_logger
from quarterdeck.testing import TestCluster

from .grovekit import NS, clique, foreign_definition, group, light_definitions, pcs, running

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VOLCANO = {"schedulerName": "volcano"}


def volcano_definitions(**properties: Any) -> list[dict[str, Any]]:
    subgroups = {"type": "array", "items": ANYTHING}
    return [
        foreign_definition(POD_GROUP, properties=properties or {"subGroupPolicy": subgroups}),
        foreign_definition(QUEUE, "Cluster"),
    ]


def gang(*minimums: int, **spec: Any) -> PodGang:
    owner = pcs(clique("a"))
    metadata = ObjectMeta(name="w-0", namespace=NS, uid="g", labels={names.MANAGED_BY: names.OPERATOR})
    groups = tuple(GangGroup(name=f"w-0-{place}", min_replicas=least) for place, least in enumerate(minimums))
    return PodGang(
        metadata=set_controller_reference(owner, metadata), spec=PodGangSpec(podgroups=groups, **spec)
    )


def test_a_gang_is_a_pod_group_with_a_subgroup_for_each_clique() -> None:
    made = plan_pod_group(gang(2, 3, priority_class_name="high"), "team-a")
    assert made["metadata"]["labels"] == {names.MANAGED_BY: names.OPERATOR}
    assert [each["name"] for each in made["metadata"]["ownerReferences"]] == ["w-0"]
    policies = made["spec"].pop("subGroupPolicy")
    assert made["spec"] == {"minMember": 5, "queue": "team-a", "priorityClassName": "high"}
    assert policies[1] == {
        "name": "w-0-1",
        "labelSelector": {"matchLabels": {names.PODCLIQUE: "w-0-1"}},
        "matchLabelKeys": [names.PODCLIQUE],
        "subGroupSize": 3,
        "minSubGroups": 1,
    }


def test_a_gang_without_minimums_keeps_the_constraints_it_had() -> None:
    before = plan_pod_group(gang(2, 3), "q")
    released = gang(0, 0)
    assert group_changes(before, plan_pod_group(released, "q"), released) == {}
    fresh = plan_pod_group(released, "q")
    assert fresh["spec"]["minMember"] == 1
    assert [each["subGroupSize"] for each in fresh["spec"]["subGroupPolicy"]] == [1, 1]


def test_what_others_set_stays_and_only_differences_are_written() -> None:
    wanted = plan_pod_group(gang(2), "q")
    present = {
        "metadata": {"labels": {**wanted["metadata"]["labels"], "other": "x"}},
        "spec": {**wanted["spec"], "minResources": {"cpu": "1"}, "queue": "old"},
    }
    assert group_changes(present, wanted, gang(2)) == {"spec": {"queue": "q"}}


KEY = names.VOLCANO_QUEUE


@pytest.mark.parametrize(
    ("made", "queue"),
    [
        (pcs(clique("a")), "default"),
        (pcs(clique("a"), annotations={KEY: " team-a "}), "team-a"),
        (pcs(clique("a", annotations={KEY: "team-b"}), clique("b", annotations={KEY: "team-b"})), "team-b"),
        (pcs(clique("a", annotations={KEY: "q"}), annotations={KEY: "q"}), "q"),
    ],
)
def test_the_queue_is_that_of_the_set_or_of_all_its_cliques(made: PodCliqueSet, queue: str) -> None:
    assert volcano_queue(made) == queue


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            pcs(clique("a"), annotations={KEY: "No_Name"}),
            f"metadata.annotations[{KEY}]: a lowercase RFC 1123",
        ),
        (
            pcs(clique("a", annotations={KEY: "b"}), annotations={KEY: "a"}),
            (
                f"spec.template.cliques[0].annotations[{KEY}]: conflicting volcano queue annotations: "
                'PodCliqueSet has "a", PodClique has "b"'
            ),
        ),
        (
            pcs(clique("a", annotations={KEY: "x"}), clique("b")),
            (
                f"spec.template.cliques[1].annotations[{KEY}]: all PodCliques in a PodCliqueSet using "
                "volcano scheduler must resolve to the same queue"
            ),
        ),
    ],
)
def test_queues_that_are_not_clear_are_refused(made: PodCliqueSet, text: str) -> None:
    with pytest.raises(MappingError) as error:
        volcano_queue(made)
    assert text in str(error.value)


async def test_the_backend_conforms() -> None:
    async with TestCluster(crds=[*light_definitions(), *volcano_definitions()]) as cluster:
        found = await conformance_problems(VolcanoBackend, cluster.client, scheduler_name="volcano")
    assert found == []


async def test_a_volcano_without_subgroups_is_refused() -> None:
    async with TestCluster(crds=volcano_definitions(minMember={"type": "integer"})) as cluster:
        made = VolcanoBackend(cluster.client, Scheme(), NoRecorder(), "volcano", {})
        with pytest.raises(
            BackendError, match=r"requires Volcano 1\.14 or newer with PodGroup.spec.subGroup"
        ):
            await made.init()
    async with TestCluster() as cluster:
        made = VolcanoBackend(cluster.client, Scheme(), NoRecorder(), "volcano", {})
        with pytest.raises(BackendError, match=r'failed to get CRD "podgroups.scheduling.volcano.sh"'):
            await made.init()


def test_pods_name_their_group_and_need_a_gang() -> None:
    made = VolcanoBackend(None, Scheme(), NoRecorder(), "volcano", {})  # type: ignore[arg-type]
    found = prepared(made, sample_pod())
    assert found.spec.scheduler_name == "volcano"
    assert found.metadata.annotations == {
        "scheduling.volcano.sh/group-name": "conformance-0",
        "scheduling.k8s.io/group-name": "conformance-0",
    }
    pod = sample_pod()
    lost = pod.evolve(metadata=pod.metadata.evolve(labels={}))
    with pytest.raises(QuarterdeckError, match=r'volcano scheduler requires pod label "grove.io/podgang"'):
        prepared(made, lost)


async def test_sets_need_an_open_queue_and_no_topology() -> None:
    async with TestCluster(crds=volcano_definitions()) as cluster:
        made = VolcanoBackend(cluster.client, Scheme(), NoRecorder(), "volcano", {})
        hook = HookContext(cluster.client, get_logger(__name__))

        async def complaint(*cliques: Any, **fields: Any) -> str:
            with pytest.raises(BackendError) as error:
                await made.validate_pod_clique_set(hook, pcs(*cliques, **fields))
            return str(error.value)

        assert await complaint(clique("a")) == 'volcano queue "default" does not exist'
        document = {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.kind,
            "metadata": {"name": "default"},
            "status": {"state": "Closed"},
        }
        queue = await cluster.client.create(DynamicObject(document))
        assert await complaint(clique("a")) == 'volcano queue "default" is not Open'
        await cluster.client.patch(queue, MergePatch({"status": {"state": "Open"}}))
        await made.validate_pod_clique_set(hook, pcs(clique("a")))
        packed = TopologyConstraint(topology_name="t")
        text = "volcano scheduler backend does not support topologyConstraint on "
        assert await complaint(clique("a"), topology_constraint=packed) == f"{text}PodCliqueSet"
        assert await complaint(clique("a", topology_constraint=packed)) == f'{text}PodClique "a"'
        grouped = [group("g", ["a"], topology_constraint=packed)]
        assert await complaint(clique("a"), groups=grouped) == f'{text}PodCliqueScalingGroup "g"'
        lpx = LpxBackend(cluster.client, Scheme(), NoRecorder(), "lpx-scheduler", {})
        with pytest.raises(BackendError, match="lpx-scheduler does not support Grove topology constraints"):
            lpx.validate_pod_clique_set(hook, pcs(clique("a"), groups=grouped))


async def test_a_pod_group_that_is_deleted_comes_back_at_once() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), *volcano_definitions()], controllers=True) as cluster,
        running(VOLCANO, cluster=cluster) as grove,
    ):
        made = pcs(clique("a", 2, 2))
        await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
        await grove.settle()
        found = await grove.client.get(POD_GROUP, "w-0", NS)
        await grove.client.delete(found)
        await grove.settle()
        again = await grove.client.get(POD_GROUP, "w-0", NS)
        assert again.metadata.uid != found.metadata.uid
        assert again.to_dict()["spec"]["minMember"] == 2
