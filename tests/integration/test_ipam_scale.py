"""Many claims at once on a pool that does not fit them; `python -m benchmarks ipam` has the full size."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool

from .ipamkit import SPACE, Operator, check_invariants, claim, ipam_cluster, pool, subnet

pytestmark = pytest.mark.virtual_time

CLAIMS, FITS, CLIENTS = 200, 180, 50


async def test_more_claims_than_blocks() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/20"))  # 256 blocks of /28
            await client.create(subnet("filler", "10.0.12.0/22"))
            for number in range(12):
                await client.create(subnet(f"small{number}", f"10.0.{number}.240/28"))
            await operator.settle()
            free = (await client.get(SubnetPool, "p", SPACE)).status.free_count_by_size["28"]
            assert free == FITS
            numbers = iter(range(CLAIMS))

            async def work() -> None:
                for number in numbers:
                    await client.create(claim(f"c{number:03}", 28))

            await asyncio.gather(*(work() for _ in range(CLIENTS)))
            await operator.settle()
            # Not one per claim: a pool that is claimed from gathers.
            assert operator.value("aquanaut_ipam_pool_status_update_total", SPACE, "p", "success") <= 20
            assert operator.events.reasons.count("SubnetAllocated") == FITS
            claims = list(await client.list(SubnetClaim, namespace=SPACE))
            bound = [each for each in claims if each.status.phase == "Bound"]
            waiting = [each for each in claims if each.status.phase == "Error"]
            assert (len(bound), len(waiting)) == (FITS, CLAIMS - FITS)
            assert {each.status.message for each in waiting} == {
                "Pool p is exhausted: failed to find available CIDR of size /28: pool exhausted"
            }
            await check_invariants(client)
            looks = sum(
                operator.value("controller_runtime_reconcile_total", "subnetclaim", result)
                for result in ("success", "requeue_after", "error")
            )
            for each in bound[:20]:
                await client.delete(each)
            await operator.settle()
            claims = list(await client.list(SubnetClaim, namespace=SPACE))
            assert sum(each.status.phase == "Bound" for each in claims) == FITS
            assert len(await client.list(Subnet, namespace=SPACE)) == FITS + 13
            after = sum(
                operator.value("controller_runtime_reconcile_total", "subnetclaim", result)
                for result in ("success", "requeue_after", "error")
            )
            # 20 claims that go, 20 that are bound, and at most one more look for each release.
            assert after - looks <= 90
            await check_invariants(client)
