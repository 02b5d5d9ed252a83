"""Which groups and versions the server tells of."""

from typing import Any

import pytest

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.codec import decode_json
from quarterdeck.testing import TestCluster

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "racks.scheduling.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": "scheduling.k8s.io",
        "names": {"plural": "racks", "singular": "rack", "kind": "Rack", "listKind": "RackList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1alpha9",
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
            for name in ("v1alpha9", "v1beta3")
        ],
    },
}


@pytest.mark.virtual_time
async def test_versions_that_a_definition_adds_to_a_built_in_group_come_first() -> None:
    async with TestCluster() as cluster:
        await cluster.install(DEFINITION)
        group = decode_json((await cluster.client.raw("GET", "/apis/scheduling.k8s.io")).body)
        assert [each["version"] for each in group["versions"]] == ["v1beta3", "v1alpha9", "v1"]
        assert group["preferredVersion"]["version"] == "v1beta3"
        await cluster.client.mapper.refresh()
        rack = await cluster.client.mapper.find("racks")
        assert rack.gvk == GroupVersionKind("scheduling.k8s.io", "v1beta3", "Rack")
