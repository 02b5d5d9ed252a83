"""The invariants of the ipam operator under crashes, lost watches, doubled events and a second allocator."""

from __future__ import annotations

import asyncio
import random

import pytest

from quarterdeck.client import Client
from quarterdeck.errors import NotFound
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool, SubnetPoolClaim
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.testing import (
    WRITES,
    CutWatch,
    DelayEvents,
    FaultPlan,
    LoseAnswer,
    Refuse,
    RepeatEvents,
    TestCluster,
    eventually,
)
from quarterdeck.testing.election import LoopElector

from .ipamkit import (
    SPACE,
    Operator,
    check_invariants,
    claim,
    ipam_cluster,
    outcome,
    overlapping,
    pool,
    pool_claim,
    subnet,
)

pytestmark = pytest.mark.virtual_time


class Witness:
    """Watches all Subnets and remembers whether two of a pool ever overlapped, even for a moment."""

    def __init__(self, cluster: TestCluster) -> None:
        self._client = cluster.client
        self._live: dict[str, Subnet] = {}
        self.overlaps: list[tuple[str, str]] = []

    async def run(self) -> None:
        async with self._client.watch(Subnet, namespace=SPACE) as events:
            async for event in events:
                if event.type == "DELETED":
                    self._live.pop(event.object.metadata.uid, None)
                elif event.type in ("ADDED", "MODIFIED"):
                    self._live[event.object.metadata.uid] = event.object
                    self.overlaps += overlapping(list(self._live.values()))


async def workload(cluster: TestCluster) -> None:
    """A little of everything: sizes that do not fit each other, a shared cluster, a child pool, a refusal."""
    client = cluster.client
    await client.create(pool(cidr="10.0.0.0/20"))
    for name, size in (("a", 24), ("b", 26), ("c", 22), ("d", 28), ("e", "10.0.8.0/23"), ("f", 16)):
        await client.create(claim(name, size))
    await client.create(claim("twin", 24, cluster="a"))
    await client.create(pool_claim("pc", 24))


async def check_workload(cluster: TestCluster) -> None:
    client = cluster.client
    await check_invariants(client)
    for name in ("a", "b", "c", "d", "e", "twin"):
        assert (await outcome(client, name))[0] == "Bound", name
    assert (await outcome(client, "twin"))[1] == (await outcome(client, "a"))[1]
    assert (await outcome(client, "f"))[0] == "Error"
    assert len(await client.list(Subnet, namespace=SPACE)) == 6
    assert len(await client.list(SubnetPool, namespace=SPACE)) == 2
    assert (await client.get(SubnetPoolClaim, "pc", SPACE)).status.phase == "Bound"


async def clear(cluster: TestCluster, operator: Operator) -> None:
    """Everything goes, and nothing is left of it (I3)."""
    client = cluster.client
    await client.delete(SubnetPoolClaim, "pc", SPACE)
    for name in ("a", "b", "c", "d", "e", "f", "twin"):
        await client.delete(SubnetClaim, name, SPACE)
    await operator.settle()
    for kind in (Subnet, SubnetClaim, SubnetPoolClaim):
        assert list(await client.list(kind, namespace=SPACE)) == []
    left = await client.get(SubnetPool, "p", SPACE)
    assert left.status.free_count_by_size["20"] == 1


async def writes_of_the_workload() -> int:
    async with ipam_cluster() as cluster:
        operator = Operator(cluster)
        async with operator.running():
            await workload(cluster)
            await operator.settle()
            await check_workload(cluster)
            await clear(cluster, operator)
        return sum(each.is_write for each in operator.link.log)


class Crash(Exception):
    """The process is gone."""


async def crash_at(cluster: TestCluster, write: int, *, after: bool) -> None:
    """Run the operator until its n-th write, and end it there: nothing gets out or in any more."""
    operator = Operator(cluster)
    inner, count, crashed = operator.link._inner, 0, asyncio.Event()

    class Dying:
        """The transport under the link; the n-th write is the last thing it does (or does not)."""

        async def request(self, method: str, path: str, **options: object) -> object:
            nonlocal count
            if crashed.is_set():
                await asyncio.get_running_loop().create_future()
            count += method != "GET"
            if method == "GET" or count < write:
                return await inner.request(method, path, **options)  # type: ignore[arg-type]
            if after:
                await inner.request(method, path, **options)  # type: ignore[arg-type]
            crashed.set()
            return await asyncio.get_running_loop().create_future()

        async def stream(self, method: str, path: str, **options: object) -> object:
            return await inner.stream(method, path, **options)  # type: ignore[arg-type]

        async def aclose(self) -> None:
            await inner.aclose()

    operator.link._inner = Dying()  # type: ignore[assignment]
    async with operator.manager, asyncio.TaskGroup() as group:
        task = group.create_task(operator.manager.serve())
        waiting = group.create_task(crashed.wait())
        await asyncio.wait([waiting], timeout=120)
        waiting.cancel()
        task.cancel()


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("part", range(4))
async def test_a_crash_at_every_write_in_turn_is_harmless(part: int, after: bool) -> None:
    """I1 to I4: whatever write the process dies at, the next one brings everything to the same end."""
    total = await writes_of_the_workload()
    assert total > 30
    for write in range(1 + part, total + 1, 4):
        async with ipam_cluster() as cluster:
            await workload(cluster)
            await crash_at(cluster, write, after=after)
            operator = Operator(cluster)
            async with operator.running():
                await operator.settle()
                await check_workload(cluster)
                if write % 5 == 0:
                    await clear(cluster, operator)


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_of_faults_ends_in_the_same_state(seed: int) -> None:
    """Refusals, lost answers, cut watches, repeated events: no overlap on the way, all right at the end."""
    async with ipam_cluster(seed=seed) as cluster:
        operator, witness = Operator(cluster, plan=FaultPlan.storm(seed)), Witness(cluster)
        watching = asyncio.ensure_future(witness.run())
        async with operator.running():
            await workload(cluster)
            await asyncio.sleep(60)
            operator.link.plan = FaultPlan()
            await operator.settle()
            await check_workload(cluster)
            await clear(cluster, operator)
        watching.cancel()
        await asyncio.wait([watching])
        assert witness.overlaps == []


@pytest.mark.parametrize("seed", range(3))
async def test_lost_watches_and_late_doubled_events(seed: int) -> None:
    """The allocator's own knowledge is ahead of its watches, however late and torn those are."""
    plan = FaultPlan(seed, DelayEvents((0.0, 3.0)), RepeatEvents(rate=0.5), CutWatch((0.5, 4.0), rate=0.8))
    dice = random.Random(seed)
    async with ipam_cluster(seed=seed) as cluster:
        operator, witness, client = Operator(cluster, plan=plan), Witness(cluster), cluster.client
        watching = asyncio.ensure_future(witness.run())
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/22"))
            alive: list[str] = []
            for number in range(60):
                if alive and dice.random() < 0.4:
                    await client.delete(SubnetClaim, alive.pop(dice.randrange(len(alive))), SPACE)
                else:
                    name = f"c{number}"
                    await client.create(claim(name, dice.choice([24, 25, 26, 27, 28])))
                    alive.append(name)
                await asyncio.sleep(dice.random())
            operator.link.plan = FaultPlan()
            operator.link.end_watches()
            await operator.settle()
            await check_invariants(client)
        watching.cancel()
        await asyncio.wait([watching])
        assert witness.overlaps == []


async def test_a_subnet_deleted_while_the_watch_is_down_does_not_stay_in_the_ledger() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/24"))
            await operator.settle()
            # The watch is silent from here on: the Subnet comes and goes without the cache ever seeing it.
            operator.link.plan = FaultPlan(
                0, DelayEvents((500.0, 500.0), resources=frozenset({"subnets.plexaubnet.io"}))
            )
            operator.link.end_watches()
            await asyncio.sleep(5)
            await client.create(claim("a", 24))
            await asyncio.sleep(5)
            assert (await outcome(client, "a"))[0] == "Bound"
            await client.delete(SubnetClaim, "a", SPACE)
            await asyncio.sleep(5)
            assert list(await client.list(Subnet, namespace=SPACE)) == []
            operator.link.plan = FaultPlan()
            operator.link.end_watches()
            await client.create(claim("b", 24))
            await operator.settle()
            assert await outcome(client, "b") == ("Bound", "10.0.0.0/24", "")
            await check_invariants(client)


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_create_without_an_answer_keeps_its_block_until_it_is_known(lost: int) -> None:
    plan = FaultPlan(
        0, LoseAnswer(verbs=frozenset({"create"}), resources=frozenset({"subnets.plexaubnet.io"}), times=lost)
    )
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster, plan=plan), cluster.client
        async with operator.running():
            await client.create(pool())
            for name in ("a", "b"):
                await client.create(claim(name))
            await operator.settle()
            assert sorted([(await outcome(client, name))[1] for name in "ab"]) == [
                "10.0.0.0/24",
                "10.0.1.0/24",
            ]
            assert len(await client.list(Subnet, namespace=SPACE)) == 2
            await check_invariants(client)


async def is_pending(client: Client, name: str) -> bool:
    return (await outcome(client, name))[0] == "Pending"


async def test_while_nothing_is_known_the_claim_is_pending_and_its_block_is_kept() -> None:
    subnets = frozenset({"subnets.plexaubnet.io"})
    plan = FaultPlan(
        0,
        Refuse(500, verbs=frozenset({"create"}), resources=subnets, times=1),
        Refuse(503, verbs=frozenset({"get"}), resources=subnets, until=20.0),
    )
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster, plan=plan), cluster.client
        async with operator.running():
            await client.create(pool())
            await operator.settle()
            await client.create(claim("a"))
            await eventually(lambda: is_pending(client, "a"))
            await client.create(claim("b"))
            await operator.settle(horizon=60)
            found = [await outcome(client, name) for name in "ab"]
            assert found == [("Bound", "10.0.0.0/24", ""), ("Bound", "10.0.1.0/24", "")]


async def test_a_claim_deleted_while_its_create_is_unclear_leaves_nothing_behind() -> None:
    plan = FaultPlan(
        0, Refuse(500, verbs=frozenset({"create"}), resources=frozenset({"subnets.plexaubnet.io"}), times=1)
    )
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster, plan=plan), cluster.client
        async with operator.running():
            await client.create(pool(cidr="10.0.0.0/24"))
            await operator.settle()
            await client.create(claim("a"))
            await asyncio.sleep(0.2)
            await client.delete(SubnetClaim, "a", SPACE)
            await operator.settle()
            await client.create(claim("b"))
            await operator.settle()
            assert await outcome(client, "b") == ("Bound", "10.0.0.0/24", "")


def _elector(cluster: TestCluster) -> LoopElector:
    return LoopElector(
        cluster.link(name="election"), LeaderElection(name="ipam", namespace=SPACE, identity="b")
    )


@pytest.mark.parametrize("is_elected", [False, True])
async def test_subnets_are_listed_again_only_by_who_was_elected(is_elected: bool) -> None:
    """What a leader's cache has may be from before its term; otherwise the term began with the cache."""
    async with ipam_cluster() as cluster:
        await cluster.client.create(pool())
        await cluster.client.create(subnet("x", "10.0.0.0/24"))
        operator = Operator(cluster, elector=_elector(cluster) if is_elected else None)
        async with operator.running():
            await cluster.client.create(claim("a"))
            await operator.settle()
            assert await outcome(cluster.client, "a") == ("Bound", "10.0.1.0/24", "")
            assert (operator.value("subnet_list_pages_total") > 0) is is_elected


async def test_a_new_leader_knows_what_the_old_one_created_a_moment_ago() -> None:
    """(c): the cache of the new process is behind; its allocations are not."""
    async with ipam_cluster() as cluster:
        client = cluster.client
        await client.create(pool(cidr="10.0.0.0/24"))
        first = Operator(cluster)
        async with first.running():
            await client.create(claim("a", 25))
            await first.settle()
        plan = FaultPlan(0, DelayEvents((30.0, 30.0), resources=frozenset({"subnets.plexaubnet.io"})))
        second = Operator(cluster, plan=plan, elector=_elector(cluster))
        async with second.running():
            await asyncio.sleep(1)
            await client.create(subnet("x", "10.0.0.128/26"))
            await client.create(claim("b", 26))
            await second.settle(horizon=5)
            await asyncio.sleep(40)
            await second.settle()
            await check_invariants(client, overlaps_allowed=True)


def slow_watch(seed: int) -> FaultPlan:
    return FaultPlan(seed, DelayEvents((0.0, 2.0), resources=frozenset({"subnets.plexaubnet.io"})))


async def race(cluster: TestCluster, seed: int, settings: dict[str, object]) -> Witness:
    """Two allocators, each behind, and claims of sizes that contain each other."""
    first, second = (Operator(cluster, settings, plan=slow_watch(seed + each)) for each in range(2))
    witness, client, dice = Witness(cluster), cluster.client, random.Random(seed)
    watching = asyncio.ensure_future(witness.run())
    async with first.running(), second.running():
        await client.create(pool(cidr="10.0.0.0/22"))
        await asyncio.sleep(3)
        for number in range(24):
            await client.create(claim(f"c{number}", dice.choice([24, 25, 26, 27, 28])))
            if number % 7 == 6:
                await client.delete(SubnetClaim, f"c{number - 3}", SPACE)
            await asyncio.sleep(dice.random() * 0.5)
        for each in (first, second):
            each.link.plan = FaultPlan()
            each.link.end_watches()
        await first.settle(second)
        await asyncio.sleep(30)
        await first.settle(second)
    watching.cancel()
    await asyncio.wait([watching])
    return witness


@pytest.mark.parametrize("seed", range(4))
async def test_two_active_allocators_in_strict_mode_never_overlap(seed: int) -> None:
    async with ipam_cluster(seed=seed) as cluster:
        witness = await race(cluster, seed, {"strictAllocation": True})
        assert witness.overlaps == []
        await check_invariants(cluster.client)
        left = (await cluster.client.get(SubnetPool, "p", SPACE)).metadata.annotations
        assert '"inFlight":[]' in left["ipam.plexaubnet.io/reservations"]


@pytest.mark.parametrize("seed", range(4))
async def test_two_active_allocators_end_without_overlapping_bound_claims(seed: int) -> None:
    """Rule (e): of two Subnets that overlap the younger one loses."""
    async with ipam_cluster(seed=seed) as cluster:
        await race(cluster, seed, {})
        client = cluster.client
        await check_invariants(client, overlaps_allowed=True)
        bound = set()
        for each in await client.list(SubnetClaim, namespace=SPACE):
            if each.status.phase == "Bound":
                bound.add(each.status.allocated_cidr)
            else:
                assert each.status.phase == "Error"
        subnets = [
            each
            for each in await client.list(Subnet, namespace=SPACE)
            if each.spec and each.spec.cidr in bound
        ]
        assert overlapping(subnets) == []


async def test_strict_mode_survives_a_crash_between_reservation_and_create() -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        await client.create(pool(cidr="10.0.0.0/23"))
        await client.create(claim("a"))
        plan = FaultPlan(0, Refuse(500, verbs=WRITES, resources=frozenset({"subnets.plexaubnet.io"})))
        first = Operator(cluster, {"strictAllocation": True}, plan=plan)
        async with first.running():
            await asyncio.sleep(1)
        with pytest.raises(NotFound):
            await client.get(Subnet, "p-10-0-0-0-24", SPACE)
        second = Operator(cluster, {"strictAllocation": True})
        async with second.running():
            await client.create(claim("b"))
            await second.settle()
            assert [(await outcome(client, name))[:2] for name in "ab"] == [
                ("Bound", "10.0.0.0/24"),
                ("Bound", "10.0.1.0/24"),
            ]
            await client.delete(SubnetClaim, "a", SPACE)
            await client.create(claim("c"))
            await second.settle()
            assert (await outcome(client, "c"))[:2] == ("Bound", "10.0.0.0/24")
