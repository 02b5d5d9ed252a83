"""The ipam operator on the embedded server, in virtual time: the rules that take more than one object."""

from __future__ import annotations

import asyncio

import pytest

from quarterdeck.api import controller_of
from quarterdeck.client import MergePatch
from quarterdeck.operators.ipam.logic.naming import collision_name
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool, SubnetPoolClaim
from quarterdeck.testing import has_condition

from .ipamkit import (
    SPACE,
    Operator,
    check_invariants,
    claim,
    exists,
    force,
    get_claim,
    ipam_cluster,
    key,
    outcome,
    pool,
    pool_claim,
    subnet,
)

pytestmark = pytest.mark.virtual_time


async def test_a_claim_that_came_before_its_pool_is_bound_when_the_pool_comes() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(claim("a"))
            await operator.settle()
            assert await outcome(client, "a") == ("Error", "", "Pool p not found")
            assert operator.events.events == []
            await client.create(pool())
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.0.0/24", "")
            await check_invariants(client)


async def test_waiting_claims_are_bound_oldest_first_as_space_returns() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/26"))
            for name in ("a", "b", "c", "d", "e", "f"):
                await client.create(claim(name, 27))
                await asyncio.sleep(1.1)  # dates have whole seconds
            await operator.settle()
            assert [(await outcome(client, name))[0] for name in "abcdef"] == ["Bound"] * 2 + ["Error"] * 4
            before = operator.metrics.registry.value(
                "controller_runtime_reconcile_total", "subnetclaim", "success"
            )
            await client.delete(SubnetClaim, "a", SPACE)
            await operator.settle()
            assert [(await outcome(client, name))[0] for name in "bcdef"] == ["Bound"] * 2 + ["Error"] * 3
            after = operator.metrics.registry.value(
                "controller_runtime_reconcile_total", "subnetclaim", "success"
            )
            assert after - before <= 6, "one release must not wake everybody"
            await client.patch(
                await client.get(SubnetPool, "p", SPACE), MergePatch({"spec": {"cidr": "10.0.0.0/25"}})
            )
            await operator.settle()
            assert [(await outcome(client, name))[0] for name in "bcdef"] == ["Bound"] * 4 + ["Error"]
            await check_invariants(client)


async def test_a_claim_for_a_certain_block_waits_for_that_block() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(subnet("x", "10.0.1.128/25"))
            await operator.settle()
            await client.create(claim("a", "10.0.1.0/24"))
            await operator.settle()
            text = "requested CIDR 10.0.1.0/24 overlaps with existing allocation 10.0.1.128/25"
            assert await outcome(client, "a") == ("Error", "", text)
            await client.delete(Subnet, "x", SPACE)
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.1.0/24", "")


async def test_a_lost_subnet_is_made_again_or_the_claim_says_that_it_cannot() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(claim("a"))
            await operator.settle()
            await client.delete(Subnet, "p-10-0-0-0-24", SPACE)
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.0.0/24", "")
            assert await exists(client, Subnet, "p-10-0-0-0-24")
        async with Operator(cluster).running():
            pass
        await client.delete(Subnet, "p-10-0-0-0-24", SPACE)
        await client.create(subnet("thief", "10.0.0.0/25"))
        again = Operator(cluster)
        async with again.running():
            await again.settle()
            assert (await outcome(client, "a"))[::2] == (
                "Error",
                "allocated CIDR 10.0.0.0/24 is no longer available",
            )
            await client.delete(Subnet, "thief", SPACE)
            await again.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.0.0/24", "")


async def test_claims_of_one_cluster_share_a_subnet_that_lives_until_the_last_is_gone() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            for name in ("a", "b", "c"):
                await client.create(claim(name, 24 if name != "c" else 20, cluster="same"))
                await operator.settle()
            assert [await outcome(client, name) for name in "abc"] == [("Bound", "10.0.0.0/24", "")] * 3
            shared = await client.get(Subnet, "p-10-0-0-0-24", SPACE)
            controller = controller_of(shared.metadata.owner_references)
            assert controller is not None
            assert (controller.name, len(shared.metadata.owner_references)) == ("a", 3)
            assert [event.reason for event in operator.events.events if event.type == "Warning"] == [
                "ExistingAllocation"
            ]
            for name in ("a", "c"):
                await client.delete(SubnetClaim, name, SPACE)
                await operator.settle()
                assert await exists(client, Subnet, "p-10-0-0-0-24")
            await client.delete(SubnetClaim, "b", SPACE)
            await operator.settle()
            assert not await exists(client, Subnet, "p-10-0-0-0-24")
            found = await client.get(SubnetPool, "p", SPACE)
            assert found.status.free_count_by_size["16"] == 1


async def test_a_subnet_made_by_hand_does_not_go_with_a_claim_that_uses_it() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(subnet("mine", "10.0.200.0/24", cluster="k"))
            await client.create(claim("a", cluster="k"))
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.200.0/24", "")
            await client.delete(SubnetClaim, "a", SPACE)
            await operator.settle()
            assert await exists(client, Subnet, "mine")


@pytest.mark.parametrize("moves", [False, True])
async def test_a_claim_gets_a_subnet_of_its_own_when_the_one_made_by_hand_is_lost(moves: bool) -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            mine = await client.create(subnet("mine", "10.0.200.0/24", cluster="k"))
            await client.create(claim("a", cluster="k"))
            await operator.settle()
            if moves:
                await client.patch(mine, MergePatch({"spec": {"cidr": "10.0.100.0/24"}}))
            else:
                await client.delete(Subnet, "mine", SPACE)
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.200.0/24", "")
            assert await exists(client, Subnet, "p-10-0-200-0-24")


async def test_a_subnet_that_only_has_the_name_of_the_cluster_is_not_its_subnet() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(pool("q", "10.1.0.0/16"))
            await client.create(subnet("cl-x", "10.1.0.0/24", of="q", cluster="another"))
            await operator.settle()
            await client.create(claim("a", cluster="cl-x"))
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.0.0/24", "")


async def test_a_name_that_belongs_to_another_block_is_a_collision_not_a_conflict() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(subnet("p-10-0-0-0-24", "192.168.0.0/24", of="elsewhere"))
            await client.create(claim("a"))
            await operator.settle()
            assert await outcome(client, "a") == ("Bound", "10.0.0.0/24", "")
            found = [each for each in await client.list(Subnet, namespace=SPACE) if each.pool_ref == "p"]
            assert [each.metadata.name for each in found] == [collision_name("p", parse("10.0.0.0/24"))]


async def test_editing_a_bound_claim_moves_nothing_but_its_generation() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(claim("a"))
            await operator.settle()
            await client.patch(await get_claim(client, "a"), MergePatch({"spec": {"blockSize": 20}}))
            await operator.settle()
            found = await get_claim(client, "a")
            assert (found.status.allocated_cidr, found.status.observed_generation) == ("10.0.0.0/24", 2)


async def test_objects_without_a_spec_do_no_harm() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            for kind in (SubnetPool, Subnet, SubnetClaim, SubnetPoolClaim):
                await client.create(kind(metadata=claim("bare").metadata))
            await client.create(pool())
            await client.create(claim("a"))
            await operator.settle()
            assert (await outcome(client, "a"))[0] == "Bound"
            bare = await client.get(SubnetPool, "bare", SPACE)
            assert has_condition(bare, "Ready", False, "Error")
            assert operator.value("controller_runtime_reconcile_panics_total", "PoolStatus") == 0


async def test_a_phase_follows_its_cause_both_ways() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client

        async def phases(*names: str) -> list[str]:
            await operator.settle()
            return [(await client.get(Subnet, name, SPACE)).status.phase for name in names]

        async with operator.running():
            await client.create(subnet("s", "10.0.0.0/24"))
            assert await phases("s") == ["Failed"]
            await client.create(pool())
            assert await phases("s") == ["Allocated"]
            since = (await client.get(Subnet, "s", SPACE)).status.allocated_at
            await asyncio.sleep(2)
            await client.create(subnet("t", "10.0.0.0/25"))
            await client.create(subnet("out", "10.9.0.0/24"))
            assert await phases("s", "t", "out") == ["Allocated", "Failed", "Failed"]
            found = await client.get(SubnetPool, "p", SPACE)
            assert has_condition(found, "Consistent", False, "OverlappingSubnets")
            assert (found.status.allocated_count, found.status.free_count_by_size["24"]) == (3, 255)
            await client.delete(Subnet, "s", SPACE)
            assert await phases("t") == ["Allocated"]
            await client.patch(
                await client.get(SubnetPool, "p", SPACE), MergePatch({"spec": {"cidr": "10.0.0.0/8"}})
            )
            assert await phases("out") == ["Allocated"]
            await client.delete(SubnetPool, "p", SPACE)
            assert await phases("t", "out") == ["Allocated", "Allocated"]
            await force(client, "p")
            assert await phases("t", "out") == ["Failed", "Failed"]
            await client.create(pool())
            assert await phases("t") == ["Allocated"]
            assert (await client.get(Subnet, "t", SPACE)).status.allocated_at != since


async def test_a_range_returns_to_the_parent_only_when_the_child_is_empty() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(pool_claim("pc"))
            await operator.settle()
            bound = await client.get(SubnetPoolClaim, "pc", SPACE)
            child = bound.status.bound_pool_name
            assert has_condition(bound, "Ready", True, "Bound")
            await client.create(claim("inner", of=child))
            await operator.settle()
            assert await outcome(client, "inner") == ("Bound", "10.0.0.0/24", "")
            await client.delete(SubnetPoolClaim, "pc", SPACE)
            await operator.settle()
            await client.create(claim("outer", "10.0.0.0/24"))
            await client.create(claim("late", of=child))
            await operator.settle()
            assert await exists(client, SubnetPool, child)
            assert (await outcome(client, "late"))[2] == f"Pool {child} is being deleted"
            assert (await outcome(client, "outer"))[0] == "Error"
            await client.delete(SubnetClaim, "inner", SPACE)
            await client.delete(SubnetClaim, "late", SPACE)
            await operator.settle()
            for kind in (SubnetPoolClaim, SubnetClaim, SubnetPool, Subnet):
                left = [each.metadata.name for each in await client.list(kind, namespace=SPACE)]
                assert left == {SubnetClaim: ["outer"], SubnetPool: ["p"], Subnet: ["p-10-0-0-0-24"]}.get(
                    kind, []
                )
            assert await outcome(client, "outer") == ("Bound", "10.0.0.0/24", "")


async def test_a_pool_claim_that_cannot_be_served_recovers_with_its_claim() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/20"))
            await client.create(subnet("x", "10.0.0.0/28"))
            await operator.settle()
            await client.create(pool_claim("pc"))
            await operator.settle()
            failed = await client.get(SubnetPoolClaim, "pc", SPACE)
            assert has_condition(failed, "Ready", False, "Error")
            await client.delete(Subnet, "x", SPACE)
            await operator.settle()
            assert (await client.get(SubnetPoolClaim, "pc", SPACE)).status.phase == "Bound"


async def test_a_pool_claim_that_is_edited_before_it_is_bound_asks_for_what_it_says_now() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/22"))
            await client.create(pool_claim("pc", 20))
            await operator.settle()
            failed = await client.get(SubnetPoolClaim, "pc", SPACE)
            assert failed.status.phase == "Error"
            await client.patch(failed, MergePatch({"spec": {"desiredBlockSize": 24}}))
            await operator.settle()
            bound = await client.get(SubnetPoolClaim, "pc", SPACE)
            assert (bound.status.phase, bound.status.observed_generation) == ("Bound", 2)
            child = await client.get(SubnetPool, bound.status.bound_pool_name, SPACE)
            assert child.spec
            assert child.spec.cidr == "10.0.0.0/24"


async def test_a_pool_has_a_finalizer_whatever_its_labels_and_waits_for_its_parent() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(pool("kid", "10.0.0.0/20", parent="p"))
            await client.create(pool("orphan", "10.0.0.0/20", parent="nobody"))
            await operator.settle()
            pools = {each.metadata.name: each for each in await client.list(SubnetPool, namespace=SPACE)}
            assert {each.metadata.finalizers for each in pools.values()} == {
                ("ipam.plexaubnet.io/finalizer",)
            }
            assert has_condition(pools["orphan"], "Ready", False, "WaitingParent")
            await client.create(pool("nobody", "10.0.0.0/8"))
            await client.patch(
                pools["kid"], MergePatch({"metadata": {"labels": {"plexaubnet.io/parent": None}}})
            )
            await operator.settle()
            pools = {each.metadata.name: each for each in await client.list(SubnetPool, namespace=SPACE)}
            assert pools["kid"].metadata.finalizers == ("ipam.plexaubnet.io/finalizer",)
            assert has_condition(pools["orphan"], "Ready", True, "CIDRAssigned")


async def test_conditions_of_others_survive_and_equal_states_are_not_written() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            made = await client.create(pool())
            await operator.settle()
            foreign = {
                "type": "Audited",
                "status": "True",
                "reason": "ByHand",
                "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }
            present = (await client.get(SubnetPool, "p", SPACE)).to_dict()["status"]["conditions"]
            await client.status.patch(made, MergePatch({"status": {"conditions": [*present, foreign]}}))
            await client.create(subnet("a", "10.0.0.0/24"))
            await operator.settle()
            found = await client.get(SubnetPool, "p", SPACE)
            assert has_condition(found, "Audited", True, "ByHand")
            writes = operator.link.count("patch", "subnetpools.plexaubnet.io")
            operator.manager.controllers[0].queue.add(key("p"))
            await operator.settle()
            assert operator.link.count("patch", "subnetpools.plexaubnet.io") == writes


async def test_status_writes_of_one_pool_can_be_spaced_out() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster, {"statusInterval": 10.0}), cluster.client
        async with operator.running():
            await client.create(pool())
            await operator.settle()
            for number in range(20):
                await client.create(subnet(f"s{number}", f"10.0.{number}.0/24"))
                await asyncio.sleep(1)
            await operator.settle()
            assert operator.link.count("patch", "subnetpools.plexaubnet.io") <= 1 + 4  # and the finalizer
            await check_invariants(client)


async def test_an_audit_repairs_the_ledger_and_counts_it() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool())
            await client.create(subnet("a", "10.0.0.0/24"))
            await operator.settle()
            trigger = operator.webhooks.endpoints["/requeue/subnetpools/"]
            shared = trigger.__self__._shared  # type: ignore[attr-defined]
            uid = (await client.get(Subnet, "a", SPACE)).metadata.uid
            shared.table.drop_subnet(uid)
            await operator.settle()
            assert (await client.get(SubnetPool, "p", SPACE)).status.allocated_count == 0
            await asyncio.sleep(1500)  # an audit every ten minutes
            await operator.settle()
            assert (await client.get(SubnetPool, "p", SPACE)).status.allocated_count == 1
            assert operator.value("subnetpool_status_drift_total", SPACE, "p") == 1
            await asyncio.sleep(1500)
            assert operator.value("subnetpool_status_drift_total", SPACE, "p") == 1


async def test_an_audit_counts_a_status_that_somebody_else_wrote() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            found = await client.create(pool())
            await client.create(subnet("a", "10.0.0.0/24"))
            await operator.settle()
            await client.status.patch(found, MergePatch({"status": {"allocatedCount": 99}}))
            await asyncio.sleep(1500)  # an audit every ten minutes
            await operator.settle()
            assert (await client.get(SubnetPool, "p", SPACE)).status.allocated_count == 1
            assert operator.value("subnetpool_status_drift_total", SPACE, "p") == 1


async def test_gauges_follow_a_pool_and_go_with_it() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/20"))
            await client.create(claim("a"))
            await operator.settle()
            assert operator.value("aquanaut_subnet_free", SPACE, "p", "24") == 15
            assert operator.value("subnetpool_utilization_ratio", SPACE, "p") == pytest.approx(1 / 16)
            assert operator.value("plexaubnet_claim_phase", SPACE, "Bound") == 1
            assert operator.value("subnetpool_parent_status_last_timestamp_seconds", SPACE, "p") > 0
            await client.delete(SubnetClaim, "a", SPACE)
            await operator.settle()
            assert operator.value("aquanaut_subnet_free", SPACE, "p", "24") == 16
            assert operator.value("plexaubnet_claim_phase", SPACE, "Bound") == 0
            await client.delete(SubnetPool, "p", SPACE)
            await operator.settle()
            text = operator.metrics.registry.expose().decode()
            assert 'pool="p"' not in "\n".join(line for line in text.splitlines() if "_free" in line)
            assert "subnetpool_parent_status_last_timestamp_seconds" not in text
