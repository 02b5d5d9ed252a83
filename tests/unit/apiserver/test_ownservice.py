"""Clients in the cluster find the server by `default/kubernetes`."""

from __future__ import annotations

import asyncio

from quarterdeck.api.k8s import Endpoints, EndpointSlice, Service
from quarterdeck.client import MergePatch
from quarterdeck.testing import TestCluster, eventually


async def test_the_service_says_where_the_server_is(cluster: TestCluster) -> None:
    service = await cluster.client.get(Service, "kubernetes", "default")
    old = await cluster.client.get(Endpoints, "kubernetes", "default")
    new = await cluster.client.get(EndpointSlice, "kubernetes", "default")
    assert service.spec.ports[0].port == 443
    [subset] = old.subsets
    assert [each.ip for each in subset.addresses] == ["127.0.0.1"]
    assert (subset.ports[0].name, subset.ports[0].port) == ("https", 6443)
    assert old.metadata.labels == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert new.metadata.labels == {"kubernetes.io/service-name": "kubernetes"}
    assert new.address_type == "IPv4"
    assert [list(each.addresses) for each in new.endpoints] == [["127.0.0.1"]]
    assert (new.ports[0].name, new.ports[0].port) == ("https", 6443)


async def test_what_somebody_takes_away_is_back_ten_seconds_later(cluster: TestCluster) -> None:
    client = cluster.client
    for kind in (Service, Endpoints, EndpointSlice):
        await client.delete(kind, "kubernetes", "default")
    await asyncio.sleep(11)
    for kind in (Service, Endpoints, EndpointSlice):
        await client.get(kind, "kubernetes", "default")


async def test_what_somebody_changes_is_put_right(cluster: TestCluster) -> None:
    client = cluster.client
    old = await client.get(Endpoints, "kubernetes", "default")
    await client.patch(old, MergePatch({"subsets": None}))

    async def is_right() -> bool:
        return bool((await client.get(Endpoints, "kubernetes", "default")).subsets)

    await eventually(is_right, timeout=15)
