"""Multi-node NVLink: ComputeDomains, the claims of pods, and what happens without the definition."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta, Quantity
from quarterdeck.api.k8s import Container, Pod, PodSpec
from quarterdeck.api.k8s.pod import ResourceRequirements
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.controllers.preflight import StartError
from quarterdeck.operators.grove.logic.mnnvl import (
    COMPUTE_DOMAIN,
    domain_groups,
    plan_compute_domains,
    with_compute_domain,
)
from quarterdeck.operators.grove.program import exit_code_of
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet
from quarterdeck.testing import TestCluster

from .grovekit import NS, Grove, clique, group, light_definitions, pcs, pod_spec, running

ON = {"network": {"autoMNNVLEnabled": True}}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "computedomains.resource.nvidia.com"},
    "spec": {
        "group": COMPUTE_DOMAIN.group,
        "scope": "Namespaced",
        "names": {"kind": COMPUTE_DOMAIN.kind, "plural": "computedomains"},
        "versions": [
            {
                "name": COMPUTE_DOMAIN.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": ANYTHING},
            }
        ],
    },
}


def gpus(amount: str = "8") -> PodSpec:
    limits = {"nvidia.com/gpu": Quantity(amount)}
    worker = Container(name="worker", image="w", resources=ResourceRequirements(limits=limits))
    return PodSpec(containers=(worker, Container(name="side", image="s")))


def named(value: str) -> dict[str, str]:
    return {names.MNNVL_GROUP: value}


def test_the_nearest_word_counts_and_only_cliques_with_gpus_do() -> None:
    made = pcs(
        clique("own", annotations=named("own"), pod_spec=gpus()),
        clique("of-group", pod_spec=gpus()),
        clique("out", annotations=named("none"), pod_spec=gpus()),
        clique("of-set", pod_spec=gpus()),
        clique("none-asked", annotations=named("never"), pod_spec=gpus("0")),
        clique("plain", annotations=named("never")),
        groups=[group("g", ["own", "of-group", "out"], annotations=named("group"))],
        annotations=named("set"),
    )
    assert domain_groups(made) == ["own", "group", "set"]


def test_there_is_a_domain_for_each_group_and_replica() -> None:
    made = pcs(clique("a", pod_spec=gpus()), annotations=named("g"), replicas=2)
    found = plan_compute_domains(made)
    assert sorted(found) == ["w-0-g", "w-1-g"]
    domain = found["w-1-g"]
    assert domain["spec"] == {"channel": {"resourceClaimTemplate": {"name": "w-1-g"}}, "numNodes": 0}
    assert domain["metadata"]["finalizers"] == ["grove.io/computedomain-finalizer"]
    assert domain["metadata"]["labels"] == {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "w",
        names.COMPONENT: "pcs-computedomain",
        names.NAME: "w-1-g",
        names.SET_INDEX: "1",
        names.MNNVL_GROUP: "g",
    }


def test_containers_with_gpus_claim_their_part_once() -> None:
    made = pcs(clique("a", pod_spec=gpus()), annotations=named("g"))
    template = made.spec.template.cliques[0]
    found = with_compute_domain(template.spec.pod_spec, made, template, 3)
    assert [(each.name, each.resource_claim_template_name) for each in found.resource_claims] == [
        ("mnnvl-claim", "w-3-g")
    ]
    assert [[claim.name for claim in each.resources.claims] for each in found.containers] == [
        ["mnnvl-claim"],
        [],
    ]
    assert with_compute_domain(found, made, template, 3) is found
    plain = pcs(clique("a"), annotations=named("g"))
    spec = plain.spec.template.cliques[0].spec.pod_spec
    assert with_compute_domain(spec, plain, plain.spec.template.cliques[0], 0) is spec


async def domains(grove: Grove) -> list[str]:
    return sorted(each.metadata.name for each in await grove.client.list(COMPUTE_DOMAIN, namespace=NS))


async def test_domains_come_grow_shrink_and_go_with_their_set() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), DEFINITION], controllers=True) as cluster,
        running(ON, cluster=cluster) as grove,
    ):
        made = pcs(
            clique("a", pod_spec=gpus()),
            clique("b", pod_spec=gpus()),
            groups=[group("s", ["b"])],
            annotations=named("g"),
        )
        metadata = ObjectMeta(name="w", namespace=NS, annotations=named("g"))
        stored = await grove.client.create(made.evolve(metadata=metadata))
        await grove.settle()
        assert await domains(grove) == ["w-0-g"]
        for name in ("w-0-a", "w-0-s-0-b"):
            pclq = await grove.client.get(PodClique, name, NS)
            claims = pclq.spec.pod_spec.resource_claims
            assert [each.resource_claim_template_name for each in claims] == ["w-0-g"]
        pods = (await grove.client.list(Pod, namespace=NS)).items
        assert all(each.spec.resource_claims for each in pods)
        scaling = await grove.client.get(PodCliqueScalingGroup, "w-0-s", NS)
        assert scaling.metadata.annotations == named("g")
        for replicas, expected in ((3, ["w-0-g", "w-1-g", "w-2-g"]), (1, ["w-0-g"]), (0, [])):
            await grove.client.patch(stored, MergePatch({"spec": {"replicas": replicas}}))
            await grove.settle()
            assert await domains(grove) == expected
        await grove.client.patch(stored, MergePatch({"spec": {"replicas": 1}}))
        await grove.settle()
        assert "ComputeDomainCreateSuccessful" in grove.events.reasons
        assert "ComputeDomainDeleteSuccessful" in grove.events.reasons
        await grove.client.delete(PodCliqueSet, "w", NS)
        await grove.settle()
        assert await domains(grove) == []
        assert not (await grove.client.list(PodCliqueSet, namespace=NS)).items


async def test_a_domain_is_held_while_it_is_used_and_comes_back_if_it_is_lost() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), DEFINITION], controllers=True) as cluster,
        running(ON, cluster=cluster) as grove,
    ):
        made = pcs(clique("a", pod_spec=gpus()), annotations=named("g"))
        metadata = ObjectMeta(name="w", namespace=NS, annotations=named("g"))
        await grove.client.create(made.evolve(metadata=metadata))
        await grove.settle()
        lost = await grove.client.get(COMPUTE_DOMAIN, "w-0-g", NS)
        await grove.client.delete(lost)
        await grove.settle()
        held = await grove.client.get(COMPUTE_DOMAIN, "w-0-g", NS)
        assert held.metadata.uid == lost.metadata.uid
        await grove.client.patch(held, MergePatch({"metadata": {"finalizers": None}}))
        await grove.settle()
        found = await grove.client.get(COMPUTE_DOMAIN, "w-0-g", NS)
        assert found.metadata.uid != lost.metadata.uid
        assert not found.metadata.is_deleting


async def test_domains_of_others_are_left_alone() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), DEFINITION], controllers=True) as cluster,
        running(ON, cluster=cluster) as grove,
    ):
        foreign = {
            "apiVersion": COMPUTE_DOMAIN.api_version,
            "kind": COMPUTE_DOMAIN.kind,
            "metadata": {"name": "other", "namespace": NS, "labels": {names.PART_OF: "w"}},
        }
        await grove.client.create(DynamicObject(foreign))
        made = pcs(clique("a", pod_spec=pod_spec()))
        await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
        await grove.settle()
        await grove.client.delete(PodCliqueSet, "w", NS)
        await grove.settle()
        assert await domains(grove) == ["other"]


async def test_without_the_definition_the_operator_does_not_start() -> None:
    with pytest.raises(StartError, match=r"MNNVL preflight check failed: .* ComputeDomain CRD") as error:
        async with running(ON):
            pass
    assert exit_code_of(error.value) == 7
