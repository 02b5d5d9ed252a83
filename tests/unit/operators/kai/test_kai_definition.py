"""The four definitions: what the server admits, what it refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.errors import Invalid
from quarterdeck.operators.kai.types import KINDS, definitions
from quarterdeck.testing import TestCluster

HOSTNAME = "kubernetes.io/hostname"


def group(**spec: Any) -> DynamicObject:
    metadata = {"name": "x", "namespace": "default"}
    return DynamicObject(
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    )


def topology(*labels: str) -> DynamicObject:
    levels = [{"nodeLabel": each} for each in labels]
    return DynamicObject(
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "x"},
            "spec": {"levels": levels},
        }
    )


def queue(**spec: Any) -> DynamicObject:
    return DynamicObject(
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "x"}, "spec": spec}
    )


def request(**spec: Any) -> DynamicObject:
    metadata = {"name": "x", "namespace": "default"}
    return DynamicObject(
        {
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": metadata,
            "spec": spec,
        }
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            group(minMember=0),
            "spec.minMember: Invalid value: 0: spec.minMember in body should be greater than or equal to 1",
        ),
        (group(minMember=2**31), "spec.minMember"),
        (group(subGroups=[{"minMember": 1}]), "spec.subGroups[0].name: Required value"),
        (group(subGroups=[{"name": ""}]), "spec.subGroups[0].name in body should be at least 1 chars long"),
        (group(subGroups=[{"name": "a", "minMember": -1}]), "spec.subGroups[0].minMember"),
        (
            group(preemptibility="never"),
            'Unsupported value: "never": supported values: "preemptible", "non-preemptible"',
        ),
        (topology(), "spec.levels in body should have at least 1 items"),
        (topology(*(f"l{n}" for n in range(17))), "spec.levels: Too many: 17: must have at most 16 items"),
        (topology("rack", "rack"), "spec.levels: Invalid value: must be unique"),
        (
            topology(HOSTNAME, "rack"),
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
        (topology("bad label!"), "spec.levels[0].nodeLabel in body should match"),
        (topology(""), "spec.levels[0].nodeLabel in body should be at least 1 chars long"),
        (
            queue(resources={"gpu": {"limit": "one"}}),
            "spec.resources.gpu.limit in body must be of type number",
        ),
        (request(backoffLimit="many"), "spec.backoffLimit in body must be of type integer"),
    ],
    ids=lambda value: value[:48] if isinstance(value, str) else value.kind,
)
async def test_refused(document: DynamicObject, text: str) -> None:
    async with TestCluster(crds=KINDS) as cluster:
        with pytest.raises(Invalid) as refusal:
            await cluster.client.create(document)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    "document",
    [
        group(),
        group(minMember=1, subGroups=[]),
        # the rules about names are the webhook's, not the schema's
        group(subGroups=[{"name": "Upper Case"}, {"name": "b", "parent": ""}]),
        group(minSubGroup=0),
        group(subGroups=[{"name": "a", "minMember": 0}], preemptionDelay="5m", stalenessGracePeriod="-1s"),
        group(topologyConstraint={"topology": "t", "requiredTopologyLevel": "rack"}),
        topology("zone", "example.com/rack", HOSTNAME),
        topology(HOSTNAME),
        queue(),
        queue(priority=5, preemptMinRuntime="10m", resources={"gpu": {"quota": 0.5, "limit": -1}}),
        request(podName="p", receivedGPU={"count": 2, "portion": "1.00"}, selectedGPUGroups=["a"]),
    ],
    ids=lambda document: document.kind,
)
async def test_accepted_and_kept_as_it_is(document: DynamicObject) -> None:
    async with TestCluster(crds=KINDS) as cluster:
        stored = await cluster.client.create(document)
    assert stored.at("spec", default={}) == document.at("spec")


async def test_levels_of_a_topology_cannot_be_changed() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        stored = await cluster.client.create(topology("zone", "rack"))
        changed = stored.draft()
        changed["spec"]["levels"].pop()
        with pytest.raises(Invalid, match="field is immutable"):
            await cluster.client.update(DynamicObject(changed))
        labelled = stored.draft()
        labelled["metadata"]["labels"] = {"a": "b"}
        await cluster.client.update(DynamicObject(labelled))


def test_names_are_those_of_upstream() -> None:
    found = {each["metadata"]["name"]: each["spec"] for each in definitions()}
    assert sorted(found) == [
        "bindrequests.scheduling.run.ai",
        "podgroups.scheduling.run.ai",
        "queues.scheduling.run.ai",
        "schedulingshards.kai.scheduler",
        "topologies.kai.scheduler",
    ]
    scopes = {name: spec["scope"] for name, spec in found.items()}
    assert scopes == {
        "bindrequests.scheduling.run.ai": "Namespaced",
        "podgroups.scheduling.run.ai": "Namespaced",
        "queues.scheduling.run.ai": "Cluster",
        "schedulingshards.kai.scheduler": "Cluster",
        "topologies.kai.scheduler": "Cluster",
    }
    versions = {name: [each["name"] for each in spec["versions"]] for name, spec in found.items()}
    assert versions["podgroups.scheduling.run.ai"] == ["v2alpha2"]
    assert versions["queues.scheduling.run.ai"] == ["v2"]
    assert versions["bindrequests.scheduling.run.ai"] == ["v1alpha2"]
    assert versions["topologies.kai.scheduler"] == ["v1alpha1"]
    assert found["podgroups.scheduling.run.ai"]["names"]["shortNames"] == ["pg"]
    statuses = {name for name, spec in found.items() if "subresources" in spec["versions"][0]}
    assert statuses == set(found) - {"topologies.kai.scheduler"}


def test_columns_of_queues() -> None:
    queues = next(each for each in definitions() if each["spec"]["names"]["kind"] == "Queue")
    columns = queues["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(each["name"], each["jsonPath"], each["type"]) for each in columns] == [
        ("Priority", ".spec.priority", "string"),
        ("Parent", ".spec.parentQueue", "string"),
        ("Children", ".status.childQueues", "string"),
        ("DisplayName", ".spec.displayName", "string"),
    ]
