"""The Service of the API server itself comes back, and nobody looks at it while nothing happens."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.testing import TestCluster

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/default/services", "/api/v1/namespaces/default/endpoints", SLICES]
)
async def test_what_is_deleted_is_back_within_ten_seconds(cluster: TestCluster, path: str) -> None:
    local = cluster.server.local()
    for _ in range(2):
        assert (await local.exchange("DELETE", f"{path}/kubernetes", "", (), b""))[0] == 200
        assert (await local.exchange("GET", f"{path}/kubernetes", "", (), b""))[0] == 404
        await asyncio.sleep(10.1)
        assert (await local.exchange("GET", f"{path}/kubernetes", "", (), b""))[0] == 200


async def test_a_year_without_changes_costs_nothing(cluster: TestCluster) -> None:
    looks = 0
    sync = cluster.server.table.versions_of

    def count(group: str, plural: str) -> object:
        nonlocal looks
        looks += 1
        return sync(group, plural)

    await asyncio.sleep(60)
    cluster.server.table.versions_of = count  # type: ignore[method-assign,assignment]  # counts looks at services
    await asyncio.sleep(3600 * 24)
    assert looks == 0
