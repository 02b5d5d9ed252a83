"""The five definitions: names, scale, columns, and what the server makes of a document by itself."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.errors import Invalid
from quarterdeck.operators.grove.types import definitions
from quarterdeck.testing import TestCluster

DEFINITIONS = {each["spec"]["names"]["kind"]: each["spec"] for each in definitions()}
#: kind -> group, plural, short name, whether it lives in namespaces
NAMES = {
    "PodCliqueSet": ("grove.io", "podcliquesets", "pcs", True),
    "PodClique": ("grove.io", "podcliques", "pclq", True),
    "PodCliqueScalingGroup": ("grove.io", "podcliquescalinggroups", "pcsg", True),
    "PodGang": ("scheduler.grove.io", "podgangs", "pg", True),
    "ClusterTopologyBinding": ("grove.io", "clustertopologybindings", "ct", False),
}


def test_names() -> None:
    assert DEFINITIONS.keys() == NAMES.keys()
    for kind, (group, plural, short, is_namespaced) in NAMES.items():
        found = DEFINITIONS[kind]
        assert (found["group"], found["names"]["plural"]) == (group, plural)
        assert short in found["names"]["shortNames"]
        assert found["scope"] == ("Namespaced" if is_namespaced else "Cluster")
        (version,) = found["versions"]
        assert version["name"] == "v1alpha1"
        assert "status" in version["subresources"]


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("PodCliqueSet", ".status.hpaPodSelector"),
        ("PodClique", ".status.hpaPodSelector"),
        ("PodCliqueScalingGroup", ".status.selector"),
    ],
)
def test_what_can_be_scaled(kind: str, selector: str) -> None:
    (version,) = DEFINITIONS[kind]["versions"]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": selector,
    }


COLUMNS = {
    "PodClique": ["MinAvail", "Replicas", "Ready", "Scheduled", "Updated", "Gated*", "MinBreached*", "Age"],
    "PodCliqueScalingGroup": [
        "MinAvail",
        "Replicas",
        "Available",
        "Scheduled",
        "Updated",
        "PCLQs-Updated",
        "PCLQs-Total",
        "MinBreached*",
        "Age",
    ],
    "PodGang": ["Phase", "Age"],
    "ClusterTopologyBinding": ["Domains", "Age"],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns(kind: str) -> None:
    """Those with a star are for wide tables."""
    (version,) = DEFINITIONS[kind]["versions"]
    columns = version["additionalPrinterColumns"]
    assert [each["name"] + ("*" if each.get("priority") else "") for each in columns] == COLUMNS[kind]


def document(**template: Any) -> DynamicObject:
    clique = {
        "name": "a",
        "spec": {"roleName": "r", "replicas": 1, "podSpec": {"containers": [{"name": "m", "image": "i"}]}},
    }
    return DynamicObject(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"updateStrategy": {}, "template": {"cliques": [clique], **template}},
        }
    )


async def test_the_server_fills_in_defaults() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        groups = [{"name": "g", "cliqueNames": ["a"]}]
        made = await cluster.client.create(document(podCliqueScalingGroups=groups, headlessServiceConfig={}))
        spec = made.to_dict()["spec"]
        assert spec["replicas"] == 0
        assert spec["updateStrategy"] == {"type": "RollingRecreate"}
        template = spec["template"]
        assert template["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
        assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
        group = template["podCliqueScalingGroups"][0]
        assert (group["replicas"], group["minAvailable"]) == (1, 1)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ({"cliqueStartupType": "Whenever"}, 'spec.template.cliqueStartupType: Unsupported value: "Whenever"'),
        (
            {"podCliqueScalingGroups": [{"name": "g"}]},
            "podCliqueScalingGroups[0].cliqueNames: Required value",
        ),
        ({"terminationDelay": 5}, "spec.template.terminationDelay"),
        (
            {"topologyConstraint": {"topologyName": "t", "pack": {"required": "Rack"}}},
            "spec.template.topologyConstraint.pack.required",
        ),
        ({"resourceSharing": [{"name": "g", "scope": "Sometimes"}]}, "resourceSharing[0].scope: Unsupported"),
    ],
)
async def test_the_server_refuses_by_itself(template: dict[str, Any], text: str) -> None:
    async with TestCluster(crds=definitions()[:1]) as cluster:
        with pytest.raises(Invalid) as error:
            await cluster.client.create(document(**template))
        assert text in str(error.value)
