"""No block is given twice: pools that are deleted, forced, replaced, edited, restored, or overlap others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from quarterdeck.api import Resource
from quarterdeck.api.finalizer import remove_finalizer
from quarterdeck.api.invariant import Objects
from quarterdeck.apiserver import Durability, ServerOptions
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import Conflict, Forbidden
from quarterdeck.operators.ipam.logic.invariant import INVARIANTS
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.runtime.reconcile.finalizer import change_finalizers
from quarterdeck.testing import FaultPlan, Latency, TestCluster, has_condition

from .ipamkit import SPACE, Operator, claim, exists, force, ipam_cluster, meta, outcome, pool, subnet

pytestmark = pytest.mark.virtual_time
FINALIZER = "ipam.plexaubnet.io/finalizer"


async def broken(client: Client) -> list[tuple[str, str]]:
    """What ``quarterdeck check ipam`` finds."""
    kinds: Sequence[type[Resource]] = (SubnetPool, Subnet, SubnetClaim)
    objects = Objects({kind: list(await client.list(kind)) for kind in kinds})
    return [(each.invariant, each.object) for one in INVARIANTS for each in one.broken(objects)]


async def message(client: Client, name: str, kind: str) -> str:
    """The text of a condition of a pool; empty if it has none."""
    found = await client.get(SubnetPool, name, SPACE)
    return next((each.message for each in found.status.conditions if each.type == kind), "")


async def bound(cluster: TestCluster, operator: Operator, *, of: str = "small") -> None:
    """A pool with two blocks in use."""
    await cluster.client.create(pool(of, "192.168.0.0/16"))
    for name in ("a", "b"):
        await cluster.client.create(claim(name, of=of))
    await operator.settle()
    assert [(await outcome(cluster.client, name))[0] for name in "ab"] == ["Bound", "Bound"]


async def test_a_pool_with_blocks_in_use_stays_and_says_who_has_them() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await bound(cluster, operator)
            await client.create(subnet("hand", "192.168.7.0/24", of="small"))
            await operator.settle()
            await client.delete(SubnetPool, "small", SPACE)
            await operator.settle()
            found = await client.get(SubnetPool, "small", SPACE)
            assert has_condition(found, "DeletionBlocked", True, "BlocksInUse")
            text = await message(client, "small", "DeletionBlocked")
            for part in ("192.168.0.0/24 by SubnetClaim a", "192.168.7.0/24 by Subnet hand", FINALIZER):
                assert part in text
            assert (await outcome(client, "a"))[:2] == ("Bound", "192.168.0.0/24")
            assert await broken(client) == []
            for kind, name in ((SubnetClaim, "a"), (Subnet, "hand"), (SubnetClaim, "b")):
                assert await exists(client, SubnetPool, "small")
                await client.delete(kind, name, SPACE)
                await operator.settle()
            assert not await exists(client, SubnetPool, "small")


@pytest.mark.parametrize("restarts", [False, True])
async def test_blocks_of_a_pool_that_was_forced_out_are_not_given_again(restarts: bool) -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await bound(cluster, operator)
            await client.delete(SubnetPool, "small", SPACE)
            if not restarts:
                await force(client, "small")
            await operator.settle()
        if restarts:  # while nobody looks
            await force(client, "small")
        operator = Operator(cluster)
        async with operator.running():
            await operator.settle()
            assert await outcome(client, "a") == ("Error", "192.168.0.0/24", "Pool small not found")
            await client.create(pool("other", "192.168.0.0/16"))
            await client.create(claim("c", of="other"))
            await operator.settle()
            assert await outcome(client, "c") == ("Bound", "192.168.2.0/24", "")
            text = await message(client, "other", "Consistent")
            assert "192.168.0.0/24 is in use by Subnet small-192-168-0-0-24 of pool small" in text
            await client.delete(SubnetClaim, "a", SPACE)
            await operator.settle()
            await client.create(claim("d", of="other"))
            await operator.settle()
            assert await outcome(client, "d") == ("Bound", "192.168.0.0/24", "")
            assert await broken(client) == []


@pytest.mark.parametrize(
    ("cidr", "phase", "text"),
    [
        ("192.168.0.0/16", "Bound", ""),
        ("10.0.0.0/16", "Error", "allocated CIDR 192.168.0.0/24 is outside pool 10.0.0.0/16"),
    ],
)
async def test_a_pool_that_is_replaced_under_its_name(cidr: str, phase: str, text: str) -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await bound(cluster, operator)
            await client.delete(SubnetPool, "small", SPACE)
            await force(client, "small")
            await client.create(pool("small", cidr))
            await operator.settle()
            assert await outcome(client, "a") == (phase, "192.168.0.0/24", text)
            new = await client.get(SubnetPool, "small", SPACE)
            assert (new.metadata.finalizers, new.status.allocated_count) == ((FINALIZER,), 2)
            # Nobody else gets what they have, wherever it is now.
            if phase == "Error":
                await client.create(pool("other", "192.168.0.0/16"))
                await client.create(claim("c", of="other"))
                await operator.settle()
                assert await outcome(client, "c") == ("Bound", "192.168.2.0/24", "")
            await client.create(claim("d", of="small"))
            await operator.settle()
            assert (await outcome(client, "d"))[0] == "Bound"
            assert await broken(client) == []


async def test_a_finalizer_that_somebody_takes_off_a_living_pool_comes_back() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await bound(cluster, operator)
            await force(client, "small")
            await operator.settle()
            assert (await client.get(SubnetPool, "small", SPACE)).metadata.finalizers == (FINALIZER,)


async def test_overlapping_pools_are_refused_at_admission() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        await cluster.serve_webhooks(*operator.webhooks.admission)
        async with operator.running():
            first = await client.create(pool("first", "10.0.0.0/16"))
            await operator.settle()
            with pytest.raises(Forbidden, match=r"pool second \(10.0.1.0/24\) overlaps pool first"):
                await client.create(pool("second", "10.0.1.0/24"))
            inside = await client.create(pool("inside", "10.0.1.0/24", parent="first"))
            apart = await client.create(pool("apart", "10.1.0.0/16"))
            await operator.settle()
            with pytest.raises(Forbidden, match="overlaps pool first"):
                await client.patch(apart, MergePatch({"spec": {"cidr": "10.0.0.0/8"}}))
            with pytest.raises(Forbidden, match="overlaps pool first"):
                await client.patch(inside, MergePatch({"metadata": {"labels": None}}))
            with pytest.raises(Forbidden, match="overlaps pool inside"):
                await client.create(pool("sister", "10.0.1.128/25", parent="first"))
            await client.create(subnet("s", "10.0.2.0/24", of="first"))
            await operator.settle()
            with pytest.raises(Forbidden, match=r"contains 10.0.2.0/24: Subnet s of pool first"):
                await client.create(pool("over", "10.0.2.0/23", parent="first"))
            # A pool that is being deleted still has its range.
            await client.create(subnet("t", "10.1.0.0/24", of="apart"))
            await operator.settle()
            await client.delete(SubnetPool, "apart", SPACE)
            await operator.settle()
            with pytest.raises(Forbidden, match="overlaps pool apart"):
                await client.create(pool("again", "10.1.0.0/16"))
            # What is no change of the range is nobody's business.
            await client.patch(first, MergePatch({"spec": {"strategy": "Buddy"}}))


async def test_pools_that_came_to_overlap_give_nothing_twice_and_say_so() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool("a-old", "10.0.0.0/23"))
            made = await client.create(pool("b-new", "10.1.0.0/24"))
            await client.create(claim("first", 25, of="b-new"))
            await operator.settle()
            # The older one is edited to have the younger one's range, in use already, as well.
            await client.patch(
                await client.get(SubnetPool, "a-old", SPACE), MergePatch({"spec": {"cidr": "10.0.0.0/15"}})
            )
            await client.create(claim("taken", "10.1.0.0/25", of="a-old"))
            await client.create(claim("second", 25, of="b-new"))
            await client.create(claim("third", "10.1.0.128/25", of="a-old"))
            await operator.settle()
            assert await outcome(client, "first") == ("Bound", "10.1.0.0/25", "")
            assert (await outcome(client, "taken"))[2] == (
                "requested CIDR 10.1.0.0/25 overlaps with existing allocation 10.1.0.0/25"
            )
            assert (await outcome(client, "second"))[0] == "Error"
            assert (await outcome(client, "third"))[0] == "Bound"
            for name, says in (("a-old", "is younger, and gives nothing"), ("b-new", "is older, and keeps")):
                found = await client.get(SubnetPool, name, SPACE)
                assert has_condition(found, "Consistent", False, "OverlappingPools")
                assert says in await message(client, name, "Consistent")
            assert await broken(client) == [("ipam/pools-apart", "SubnetPool default/b-new")]
            # Apart again, everybody is served.
            await client.patch(made, MergePatch({"spec": {"cidr": "10.2.0.0/24"}}))
            await operator.settle()
            assert (await outcome(client, "second"))[0] == "Bound"
            assert await message(client, "a-old", "Consistent") != ""  # the block that was left behind
            await client.delete(SubnetClaim, "first", SPACE)
            await operator.settle()
            assert has_condition(await client.get(SubnetPool, "a-old", SPACE), "Consistent", True, "OK")
            assert (await outcome(client, "taken"))[:2] == ("Bound", "10.1.0.0/25")
            assert await broken(client) == []


async def test_a_pool_inside_another_leaves_alone_what_its_parent_had_given() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(claim("a"))
            await operator.settle()
            await client.create(pool("kid", "10.0.0.0/20", parent="p"))  # nobody asked the hook
            await client.create(claim("b", of="kid"))
            await operator.settle()
            assert await outcome(client, "b") == ("Bound", "10.0.1.0/24", "")


async def test_two_pools_with_one_range_share_it_out_without_the_hook() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            for name in ("p", "q"):
                await client.create(pool(name, "10.0.0.0/22"))
                for number in range(4):
                    await client.create(claim(f"{name}-{number}", of=name))
            await operator.settle()
            given = [
                (await outcome(client, f"{name}-{number}"))[1] for name in ("p", "q") for number in range(4)
            ]
            assert len({each for each in given if each}) == 4
            assert [name for name, _ in await broken(client)] == ["ipam/pools-apart"]


async def test_the_finalizer_of_a_pool_is_not_taken_off_another_one_of_its_name() -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        old = await client.create(pool("p").evolve(metadata=meta("p", finalizers=(FINALIZER,))))
        await client.delete(old)
        gone = await client.get(SubnetPool, "p", SPACE)
        await force(client, "p")
        new = await client.create(pool("p").evolve(metadata=meta("p", finalizers=(FINALIZER,))))
        with pytest.raises(Conflict):  # as a cache that is late would have it
            await change_finalizers(client, gone, remove_finalizer(gone.metadata, FINALIZER))
        kept = await client.get(SubnetPool, "p", SPACE)
        assert (kept.metadata.uid, kept.metadata.finalizers) == (new.metadata.uid, (FINALIZER,))


async def test_a_block_whose_subnet_is_back_with_a_backup_is_not_given_again(tmp_path: Path) -> None:
    """Its Subnet had been deleted, and nobody has looked at it again yet: reads are slow."""
    server = ServerOptions(data_dir=tmp_path / "data", durability=Durability.NORMAL)
    async with ipam_cluster(server=server) as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool("small", "192.168.0.0/24"))
            await client.create(subnet("hand", "192.168.0.0/24", of="small"))
            await operator.settle()
            cluster.backup(tmp_path / "backup")
            await client.delete(Subnet, "hand", SPACE)
            await operator.settle()
            link = operator.link
            verbs, resources = frozenset({"get"}), frozenset({"subnets.plexaubnet.io"})
            link.plan = FaultPlan(1, Latency((30.0, 30.0), verbs=verbs, resources=resources))
            await cluster.restore(tmp_path / "backup")
            await asyncio.sleep(5)
            await client.create(claim("half", 25, of="small"))
            await asyncio.sleep(10)
            assert (await outcome(client, "half"))[0] != "Bound"
            await asyncio.sleep(60)
            assert (await outcome(client, "half"))[0] == "Error"
            assert await broken(client) == []


async def test_a_claim_whose_status_is_lost_with_a_backup_is_bound_again(tmp_path: Path) -> None:
    """Its spec is the same, so its generation is; only its version says that it was bound in vain."""
    server = ServerOptions(data_dir=tmp_path / "data", durability=Durability.NORMAL)
    async with ipam_cluster(server=server) as cluster:
        operator, client = Operator(cluster), cluster.client
        await client.create(pool("small", "192.168.0.0/24"))
        await client.create(claim("a", of="small"))
        await client.create(subnet("left", "192.168.0.0/24", of="small", cluster="a"))
        cluster.backup(tmp_path / "backup")
        async with operator.running():
            await operator.settle()
            assert (await outcome(client, "a"))[0] == "Bound"
            await cluster.restore(tmp_path / "backup")
            assert (await outcome(client, "a"))[0] == ""
            await asyncio.sleep(10)
            await operator.settle()
            assert (await outcome(client, "a"))[0] == "Bound"
            assert await broken(client) == []
