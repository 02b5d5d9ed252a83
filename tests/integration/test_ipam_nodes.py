"""Nodes get their pod ranges from pools, and give them back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Node
from quarterdeck.api.k8s.node import NodeSpec
from quarterdeck.client import Client, MergePatch
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.naming import owned_name
from quarterdeck.operators.ipam.logic.network import parse
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool
from quarterdeck.testing import FaultPlan, TestCluster

from .ipamkit import SPACE, Operator, check_invariants, claim, ipam_cluster, pool

pytestmark = pytest.mark.virtual_time

ON = {"podRanges": {"namespace": SPACE}}


def node(name: str, zone: str = "", *ranges: str) -> Node:
    labels = {names.ZONE_LABEL: zone} if zone else {}
    spec = NodeSpec(pod_cidr=ranges[0], pod_cidrs=ranges) if ranges else NodeSpec()
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=spec)


def zone_pool(name: str, cidr: str, zone: str = "", **spec: Any) -> SubnetPool:
    made = pool(name, cidr, **spec)
    return made.evolve(metadata=made.metadata.evolve(labels={names.POD_RANGES_LABEL: zone}))


async def ranges(client: Client) -> dict[str, Sequence[str]]:
    return {each.metadata.name: each.spec.pod_cidrs for each in await client.list(Node)}


def told(operator: Operator, reason: str) -> list[tuple[str, str]]:
    return [
        (each.regarding.metadata.name, each.note) for each in operator.events.events if each.reason == reason
    ]


async def test_ranges_come_from_the_pool_of_the_zone_and_go_back_with_the_node() -> None:
    async with ipam_cluster() as cluster:
        client, operator = cluster.client, Operator(cluster, ON)
        async with operator.running():
            await client.create(zone_pool("west-a", "10.1.0.0/22", "west-a"))
            await client.create(zone_pool("rest", "10.9.0.0/22"))
            for name, zone in (("a-0", "west-a"), ("a-1", "west-a"), ("b-0", "west-b"), ("n", "")):
                await client.create(node(name, zone))
            await operator.settle()
            found = await ranges(client)
            assert {found["a-0"], found["a-1"]} == {("10.1.0.0/24",), ("10.1.1.0/24",)}
            assert {found["b-0"], found["n"]} == {("10.9.0.0/24",), ("10.9.1.0/24",)}
            assert len(told(operator, "CIDRAssigned")) == 4

            await client.delete(Node, "a-0")
            await operator.settle()
            assert len(await client.list(Subnet)) == len(await client.list(SubnetClaim)) == 3
            await client.create(node("a-2", "west-a"))
            await operator.settle()
            assert (await ranges(client))["a-2"] == found["a-0"]
            await check_invariants(client)


async def test_without_the_setting_nodes_are_left_alone() -> None:
    async with ipam_cluster() as cluster:
        operator = Operator(cluster)
        async with operator.running():
            await cluster.client.create(zone_pool("rest", "10.9.0.0/22"))
            await cluster.client.create(node("n"))
            await operator.settle()
            assert await ranges(cluster.client) == {"n": ()}
            assert not await cluster.client.list(SubnetClaim)


async def test_a_node_waits_and_says_why() -> None:
    async with ipam_cluster() as cluster:
        client, operator = cluster.client, Operator(cluster, ON)
        async with operator.running():
            await client.create(node("a-0", "west-a"))
            await operator.settle()
            label = f"{names.POD_RANGES_LABEL}=west-a"
            missing = ("a-0", f"no IPv4 SubnetPool is labelled {label} for zone west-a")
            assert told(operator, "CIDRNotAvailable") == [missing]

            await client.create(zone_pool("west-a", "10.1.0.0/24", "west-a"))
            await operator.settle()
            assert (await ranges(client))["a-0"] == ("10.1.0.0/24",)
            await client.create(node("a-1", "west-a"))
            await operator.settle()
            [_, (name, why)] = told(operator, "CIDRNotAvailable")
            assert name == "a-1"
            assert why.endswith(
                "Pool west-a is exhausted: failed to find available CIDR of size /24: pool exhausted"
            )

            wider = MergePatch({"spec": {"cidr": "10.1.0.0/23"}})
            await client.patch(await client.get(SubnetPool, "west-a", SPACE), wider)
            await operator.settle()
            assert (await ranges(client))["a-1"] == ("10.1.1.0/24",)


async def test_a_waiting_node_takes_the_range_that_another_gives_back() -> None:
    async with ipam_cluster() as cluster:
        client, operator = cluster.client, Operator(cluster, ON)
        async with operator.running():
            await client.create(zone_pool("west-a", "10.1.0.0/24", "west-a"))
            await client.create(node("a-0", "west-a"))
            await operator.settle()
            await client.create(node("a-1", "west-a"))
            await operator.settle()
            await client.delete(Node, "a-0")
            await operator.settle()
            assert await ranges(client) == {"a-1": ("10.1.0.0/24",)}


async def test_ranges_that_nodes_have_are_claimed_before_anybody_gets_a_new_one() -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        await client.create(zone_pool("rest", "10.9.0.0/22"))
        for number in range(5):
            await client.create(node(f"a-{number}"))
        await client.create(node("old", "", "10.9.0.0/24"))
        await client.create(node("elsewhere", "", "172.16.0.0/24"))
        operator = Operator(cluster, ON)
        async with operator.running():
            await operator.settle()
            found = await ranges(client)
            assert (found["old"], found["elsewhere"]) == (("10.9.0.0/24",), ("172.16.0.0/24",))
            new = sorted(tuple(found[f"a-{number}"]) for number in range(5))
            assert new == [(), (), ("10.9.1.0/24",), ("10.9.2.0/24",), ("10.9.3.0/24",)]
            await check_invariants(client)


async def test_a_node_that_claims_the_range_of_another_is_told_so() -> None:
    async with ipam_cluster() as cluster:
        client, operator = cluster.client, Operator(cluster, ON)
        async with operator.running():
            await client.create(zone_pool("rest", "10.9.0.0/22"))
            await client.create(claim("somebody", "10.9.0.0/25", of="rest"))
            await operator.settle()
            await client.create(node("n", "", "10.9.0.0/24"))
            await operator.settle()
            [(name, why)] = told(operator, "CIDRNotAvailable")
            assert name == "n"
            assert why.startswith("pod range 10.9.0.0/24 is not safe: SubnetClaim default/n-")
            assert why.endswith("overlaps with existing allocation 10.9.0.0/25")


async def test_two_families_in_the_order_of_the_setting() -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        both = {"podRanges": {"namespace": SPACE, "families": ["IPv6", "IPv4"]}}
        operator = Operator(cluster, both)
        async with operator.running():
            await client.create(zone_pool("four", "10.9.0.0/16"))
            await client.create(node("n"))
            await operator.settle()
            assert (await ranges(client))["n"] == ()
            await client.create(zone_pool("six", "2001:db8::/48"))
            await operator.settle()
            assert (await ranges(client))["n"] == ("2001:db8::/64", "10.9.0.0/24")


async def live(cluster: TestCluster, seed: int) -> None:
    """One life of the operator under faults, while nodes come and go; it ends in the middle."""
    client, operator = cluster.client, Operator(cluster, ON, plan=FaultPlan.storm(seed))
    async with operator.running():
        for number in range(6):
            await client.create(node(f"n-{seed}-{number}", f"west-{number % 2}"))
        await asyncio.sleep(10.0)
        for number in range(0, 6, 2):
            await client.delete(Node, f"n-{seed}-{number}")


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_overlaps_and_nothing_is_lost_under_faults_and_restarts(seed: int) -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        await client.create(zone_pool("west-0", "10.1.0.0/21", "west-0"))
        await client.create(zone_pool("west-1", "10.2.0.0/20", "west-1"))
        for life in range(3):
            await live(cluster, seed * 10 + life)
        operator = Operator(cluster, ON)
        async with operator.running():
            await operator.settle()
            await check_invariants(client)
            found = await ranges(client)
            blocks = [parse(one) for each in found.values() for one in each]
            assert len(blocks) == len(found) == 9
            assert not any(a.overlaps(b) for a in blocks for b in blocks if a is not b)
            assert {each.status.allocated_cidr for each in await client.list(SubnetClaim)} == {
                str(each) for each in blocks
            }


@pytest.mark.parametrize("held", [(), ("10.9.3.0/24",)])
async def test_a_claim_of_somebody_else_under_the_name_is_neither_used_nor_changed(
    held: Sequence[str],
) -> None:
    async with ipam_cluster() as cluster:
        client, operator = cluster.client, Operator(cluster, ON)
        await client.create(zone_pool("rest", "10.9.0.0/22"))
        stored = await client.create(node("n", "", *held))
        name = owned_name("n", f"{stored.metadata.uid}/IPv4")
        theirs = await client.create(claim(name, 26, of="rest"))
        async with operator.running():
            await operator.settle()
            kept = await client.get(SubnetClaim, name, SPACE)
            assert (kept.metadata.uid, kept.spec) == (theirs.metadata.uid, theirs.spec)
            assert (await ranges(client))["n"] == tuple(held)
            ((about, why),) = told(operator, "CIDRNotAvailable")
            assert (about, f"SubnetClaim default/{name}" in why, "nobody controls it" in why) == (
                "n",
                True,
                True,
            )
            await client.delete(theirs)
            await operator.settle()
            assert len((await ranges(client))["n"]) == 1
            assert len(told(operator, "CIDRNotAvailable")) == 1
