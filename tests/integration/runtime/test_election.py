"""Who leads, and what a Lease says about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quarterdeck.api import value_or
from quarterdeck.api.k8s import Lease
from quarterdeck.errors import NotFound
from quarterdeck.runtime import CacheOptions, Context, LeaderElectionLost, Manager
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.election import LeaderElection, LeaderElector
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import Link, LoopElector, eventually

from .gadget import Gadget, Wire

LEASE, RENEW, RETRY = 4.0, 3.0, 1.0
JITTER = 1.2


class Replica:
    """A manager that leads or waits, and writes all the time while it leads."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.name = name
        self.lease: Link = wire.cluster.link(name=f"{name} lease")
        self.link: Link = wire.cluster.link(name=name)
        options = LeaderElection(
            name="crew",
            namespace=wire.namespace,
            identity=name,
            lease_duration=LEASE,
            renew_deadline=RENEW,
            retry_period=RETRY,
        )
        self.manager: Manager = wire.cluster.manager(
            link=self.link,
            elector=LoopElector(self.lease, options),
            cache=CacheOptions(namespaces=(wire.namespace,)),
        )
        self.manager.add(Builder(Gadget, name="writer").build(self.write))

    async def write(self, ctx: Context[Gadget]) -> None:
        await asyncio.sleep(0.05)  # its own write wakes it again
        obj = ctx.obj.evolve(spec=ctx.obj.spec.evolve(size=ctx.obj.spec.size + 1, note=self.name))
        await ctx.update(obj)

    @property
    def last_renewal(self) -> float:
        """When the last renewal was sent that the server has seen."""
        return max(each.at for each in self.lease.writes if each.target.resource.startswith("leases"))


@pytest.mark.parametrize("silently", [False, True], ids=["refused", "swallowed"])
async def test_after_a_partition_the_other_leads_in_time_and_the_first_writes_nothing_more(
    wire: Wire, silently: bool
) -> None:
    """The leader can reach everything but its Lease: only the fence keeps it from writing."""
    first, second = Replica(wire, "first"), Replica(wire, "second")
    await wire.create("a")
    commits: list[tuple[float, str]] = []
    loop = asyncio.get_running_loop()

    async def read_the_log_of_writes() -> None:
        async with wire.cluster.client.watch(Gadget, namespace=wire.namespace) as events:
            async for event in events:
                commits.append((loop.time(), event.object.spec.note))

    async def lead_until_lost() -> float:
        with pytest.raises(LeaderElectionLost):
            await first.manager.serve()
        return loop.time()

    async with asyncio.TaskGroup() as group:
        log = group.create_task(read_the_log_of_writes())
        leading = group.create_task(lead_until_lost())
        await eventually(lambda: first.manager.is_leading)
        async with wire.cluster.serving(second.manager):
            await eventually(lambda: any(note == "first" for _, note in commits))
            await asyncio.sleep(2 * RETRY)
            first.lease.cut(silently=silently)
            cut_at = loop.time()
            await eventually(lambda: second.manager.is_leading, timeout=20)
            taken_at = loop.time()
            await eventually(lambda: commits[-1][1] == "second", timeout=10)
            await asyncio.sleep(3)
        assert leading.done()
        log.cancel()
    renewed = first.last_renewal
    assert taken_at - cut_at <= LEASE + RETRY * (1 + JITTER) + 1, "within lease and retry"
    assert leading.result() <= renewed + RETRY + RENEW + 1, "it notices later than its fence"
    by_first = [at for at, note in commits if note == "first"]
    assert max(by_first) > cut_at, "it was still writing when the link was cut"
    assert max(by_first) <= renewed + RENEW + 0.5, "nothing lands after its deadline"
    assert all(note == "second" for at, note in commits if at > taken_at)
    assert (await wire.cluster.client.get(Gadget, "a", wire.namespace)).spec.note == "second"


async def test_lease_record_after_acquire_renew_and_release(wire: Wire) -> None:
    client, namespace = wire.cluster.client, wire.namespace

    def candidate(identity: str) -> LeaderElector:
        settings = LeaderElection(name="crew", namespace=namespace, identity=identity, labels={"app": "crew"})
        return LeaderElector(wire.cluster.link().client, settings, clock=LoopClock())

    async def record() -> Any:
        return (await client.get(Lease, "crew", namespace)).spec

    with pytest.raises(NotFound):
        await record()
    first, second = candidate("first"), candidate("second")
    await first.acquire()
    acquired = await record()
    assert acquired.holder_identity == "first"
    assert acquired.lease_duration_seconds == 15
    assert acquired.lease_transitions == 0
    assert acquired.acquire_time == acquired.renew_time
    assert (await client.get(Lease, "crew", namespace)).metadata.labels == {"app": "crew"}

    await asyncio.sleep(1.5)
    assert await first.try_acquire_or_renew()
    renewed = await record()
    assert renewed.acquire_time == acquired.acquire_time
    assert str(renewed.renew_time) > str(acquired.renew_time)
    assert renewed.lease_transitions == 0
    assert not await second.try_acquire_or_renew()
    assert (await record()) == renewed, "a candidate that loses writes nothing"

    assert await first.release()
    released = await record()
    assert value_or(released.holder_identity, "") == ""
    assert released.lease_duration_seconds == 1
    assert released.lease_transitions == 0
    assert released.acquire_time == released.renew_time

    assert await second.try_acquire_or_renew()
    taken = await record()
    assert (taken.holder_identity, taken.lease_transitions) == ("second", 1)
    assert taken.lease_duration_seconds == 15
