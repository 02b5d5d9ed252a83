"""Claims first: who waits for whom, and for how long."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s.events import Event
from quarterdeck.operators.ipam.controllers.announcement import PACE, Announcements
from quarterdeck.operators.ipam.controllers.rush import PRECEDENCE, WINDOW, ClaimRush
from quarterdeck.operators.ipam.types import SubnetClaim
from quarterdeck.runtime.controller.source import SourceContext
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import EventLog, TestCluster

pytestmark = pytest.mark.virtual_time

POOL, OTHER = Key("ns", "p"), Key("ns", "other")


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_nobody_waits_when_no_claim_is_looked_at() -> None:
    rush, began = ClaimRush(), now()
    await rush.give_way()
    assert now() == began


async def test_others_go_on_a_window_after_the_last_claim() -> None:
    rush, began = ClaimRush(), now()
    with rush.claim(POOL):
        waiting = asyncio.create_task(rush.give_way())
        await asyncio.sleep(1)
    await asyncio.sleep(WINDOW / 2)
    with rush.claim(OTHER):
        await asyncio.sleep(1)
    await waiting
    assert now() - began == pytest.approx(2 + 1.5 * WINDOW)


async def test_a_rush_without_end_loses_its_precedence() -> None:
    rush, began = ClaimRush(), now()
    with rush.claim(POOL):
        await rush.give_way()
        assert now() - began == pytest.approx(PRECEDENCE)
        await rush.give_way()
        assert now() - began == pytest.approx(PRECEDENCE)


async def test_only_a_pool_that_is_claimed_from_gathers() -> None:
    rush = ClaimRush()
    with rush.claim(POOL):
        assert rush.gathers(POOL)
        assert not rush.gathers(OTHER)
    assert rush.gathers(POOL)
    await asyncio.sleep(2 * WINDOW)
    assert not rush.gathers(POOL)


def claim(name: str) -> SubnetClaim:
    return SubnetClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"u-{name}", resource_version="7")
    )


def context() -> SourceContext:
    nothing: Any = None
    return SourceContext(
        cache=nothing,
        cluster="",
        enqueue=nothing,
        predicates=(),
        clock=LoopClock(),
        rng=random.Random(1),
        synced=lambda: None,
    )


async def test_events_wait_for_claims_and_are_told_in_order_when_it_ends() -> None:
    rush, log = ClaimRush(), EventLog()
    told = Announcements(log, rush)
    running = asyncio.create_task(told.run(context()))
    with rush.claim(POOL):
        for name in ("a", "b"):
            told.tell(claim(name), "Normal", "SubnetAllocated", f"got {name}")
        await asyncio.sleep(1)
        assert not log.events
    await asyncio.sleep(2 * WINDOW)
    assert [event.note for event in log.events] == ["got a", "got b"]
    subject = log.events[0].regarding
    assert (subject.kind, subject.metadata.name, subject.metadata.uid) == ("SubnetClaim", "a", "u-a")
    with rush.claim(POOL):
        told.tell(claim("c"), "Warning", "SubnetPoolExhausted", "full")
        running.cancel()
        await asyncio.wait([running])
    assert log.reasons[-1] == "SubnetPoolExhausted"  # what is left is told at the end


async def test_events_are_not_told_faster_than_they_are_written() -> None:
    async with TestCluster() as cluster:
        broadcaster = EventBroadcaster(cluster.client, queue_size=10)
        told = Announcements(broadcaster.recorder("ipam"), ClaimRush())
        for number in range(40):
            told.tell(claim(f"c{number}"), "Normal", "SubnetAllocated", "text")
        running = asyncio.create_task(told.run(context()))
        await asyncio.sleep(PACE)
        assert not broadcaster.has_room
        async with broadcaster:
            await asyncio.sleep(40 * PACE)
        running.cancel()
        await asyncio.wait([running])
        assert len(await cluster.client.list(Event, namespace="default")) == 40
