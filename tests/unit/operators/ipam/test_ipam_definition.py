"""The four definitions: what the server admits, what it refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.errors import Invalid
from quarterdeck.operators.ipam.types import KINDS, definitions
from quarterdeck.testing import TestCluster

SIZE = "should be greater than or equal to 16"
ID = "'^[a-z0-9.-]{1,63}$'"


def manifest(kind: str, spec: Any) -> DynamicObject:
    metadata = {"name": "x", "namespace": "default"}
    document: dict[str, Any] = {"apiVersion": "plexaubnet.io/v1alpha1", "kind": kind, "metadata": metadata}
    return DynamicObject(document if spec is None else {**document, "spec": spec})


def subnet(**spec: Any) -> DynamicObject:
    return manifest("Subnet", {"poolRef": "p", "cidr": "10.0.0.0/24", "clusterID": "c", **spec})


def claim(**spec: Any) -> DynamicObject:
    return manifest("SubnetClaim", {"poolRef": "p", "clusterID": "c", **spec})


def pool(**spec: Any) -> DynamicObject:
    return manifest("SubnetPool", {"cidr": "10.0.0.0/16", **spec})


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            pool(cidr="10.0.0.0"),
            'spec.cidr: Invalid value: "10.0.0.0": spec.cidr in body must be of type cidr: "10.0.0.0"',
        ),
        (pool(cidr="10.0.0.0/33"), "must be of type cidr"),
        (pool(cidr="fe80::1%eth0/64"), "must be of type cidr"),
        (manifest("SubnetPool", {"strategy": "Linear"}), "spec.cidr: Required value"),
        (
            pool(strategy="linear"),
            'spec.strategy: Unsupported value: "linear": supported values: "Linear", "Buddy"',
        ),
        (
            pool(defaultBlockSize=15),
            f"spec.defaultBlockSize: Invalid value: 15: spec.defaultBlockSize in body {SIZE}",
        ),
        (pool(maxBlockSize=29), "spec: Invalid value: block sizes of an IPv4 pool must be between 16 and 28"),
        (pool(minBlockSize=64), "block sizes of an IPv4 pool must be between 16 and 28"),
        (pool(cidr="2001:db8::/48", maxBlockSize=129), "should be less than or equal to 128"),
        (
            subnet(poolRef=""),
            'spec.poolRef: Invalid value: "": spec.poolRef in body should be at least 1 chars long',
        ),
        (
            subnet(clusterID="Big"),
            f'spec.clusterID: Invalid value: "Big": spec.clusterID in body should match {ID}',
        ),
        (subnet(clusterID="a" * 64), "should match"),
        (claim(), "spec: Invalid value: either blockSize or requestedCIDR must be set"),
        (
            claim(blockSize=24, requestedCIDR="10.0.0.0/24"),
            "spec: Invalid value: blockSize and requestedCIDR are mutually exclusive",
        ),
        (claim(blockSize=15), f"spec.blockSize: Invalid value: 15: spec.blockSize in body {SIZE}"),
        (claim(blockSize=129), "less than or equal to 128"),
        (claim(requestedCIDR="10.0.0.0/x"), "must be of type cidr"),
        (manifest("SubnetPoolClaim", {"parentPoolRef": "p"}), "spec.desiredBlockSize: Required value"),
    ],
)
@pytest.mark.virtual_time
async def test_what_is_refused(document: DynamicObject, text: str) -> None:
    async with TestCluster(crds=KINDS) as cluster:
        with pytest.raises(Invalid) as refusal:
            await cluster.client.create(document)
        assert refusal.value.code == 422
        assert f'{document.kind}.plexaubnet.io "x" is invalid' in refusal.value.message
        assert text in refusal.value.message


@pytest.mark.parametrize(
    "document",
    [
        pool(),
        pool(cidr="10.7.9.0/16"),
        pool(cidr="10.0.00.0/16"),  # leading zeros: admitted, and said by the controller
        pool(cidr="2001:db8::/48", minBlockSize=56, maxBlockSize=64, defaultBlockSize=60),
        subnet(cidr="10.0.0.5/32"),
        subnet(cidr="2001:db8::1/128"),
        subnet(clusterID="-.-"),
        claim(blockSize=16),
        claim(blockSize=28),
        claim(requestedCIDR="10.0.0.5/24"),
        manifest("SubnetPoolClaim", {"parentPoolRef": "p", "desiredBlockSize": 20}),
        *(manifest(kind.type_info.kind, None) for kind in KINDS),
    ],
)
@pytest.mark.virtual_time
async def test_what_is_admitted(document: DynamicObject) -> None:
    async with TestCluster(crds=KINDS) as cluster:
        made = await cluster.client.create(document)
        assert made.metadata.generation == 1


@pytest.mark.virtual_time
async def test_defaults_and_pruning() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        made = await cluster.client.create(pool(bogus=1))
        assert made.to_dict()["spec"] == {"cidr": "10.0.0.0/16", "defaultBlockSize": 24, "strategy": "Linear"}


def test_definitions_are_namespaced_with_a_status_and_one_version() -> None:
    for definition in definitions():
        spec = definition["spec"]
        assert spec["scope"] == "Namespaced"
        (version,) = spec["versions"]
        assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
        assert version["subresources"] == {"status": {}}
        assert "required" not in version["schema"]["openAPIV3Schema"]
    names = {d["spec"]["names"]["plural"]: d["spec"]["names"]["shortNames"] for d in definitions()}
    assert names == {
        "subnetpools": ["subnetpool"],
        "subnets": ["subnet"],
        "subnetclaims": ["subnetclaim"],
        "subnetpoolclaims": ["subnetpc"],
    }
