"""Changes reach every stream once and in order, however they are held back."""

from __future__ import annotations

import asyncio

from quarterdeck.apiserver.registry import fanout
from quarterdeck.apiserver.registry.fanout import Batch, Fanout
from quarterdeck.apiserver.storage import Bucket, Entry, Event, EventType


def change(rev: int) -> Event:
    return Event(rev, EventType.ADDED, Entry("ns", f"n{rev}", rev, rev, b""), None)


class Stream:
    """Notes what it gets; `cost` is how long a delivery takes."""

    def __init__(self, cost: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self._cost = cost

    def notify(self, batch: Batch) -> None:
        self.batches.append([event.rev for event in batch.events])
        if self._cost:
            # the loop is kept busy, as socket writes do
            end = fanout.perf_counter() + self._cost
            while fanout.perf_counter() < end:
                pass


def commit(bucket: Bucket, *revs: int) -> None:
    for notify in list(bucket.subscribers.values()):
        notify([change(rev) for rev in revs])


def make(cost: float) -> tuple[Bucket, Fanout, Stream]:
    bucket = Bucket("", "configmaps", namespaced=True, last_rev=0)
    target, stream = Fanout(bucket), Stream(cost)
    target.add(stream, stream.notify)
    return bucket, target, stream


async def _cheap() -> None:
    bucket, _, stream = make(0.0)
    for rev in (1, 2, 3):
        commit(bucket, rev)
    assert stream.batches == [[1], [2], [3]]


def test_cheap_rounds_are_sent_at_once() -> None:
    asyncio.run(_cheap())


async def _dear() -> None:
    bucket, _, stream = make(0.02)
    commit(bucket, 1)
    commit(bucket, 2)
    commit(bucket, 3)
    assert stream.batches == [[1]]
    await asyncio.sleep(0.06)
    assert stream.batches == [[1], [2, 3]]


def test_after_a_dear_round_changes_go_out_together() -> None:
    asyncio.run(_dear())


async def _flushed() -> None:
    bucket, target, stream = make(0.02)
    commit(bucket, 1)
    commit(bucket, 2)
    target.flush()
    assert stream.batches == [[1], [2]]
    await asyncio.sleep(0.06)
    assert stream.batches == [[1], [2]]


def test_what_is_held_back_can_be_flushed_and_is_not_sent_again() -> None:
    asyncio.run(_flushed())


async def _left() -> None:
    bucket, target, stream = make(0.02)
    commit(bucket, 1)
    commit(bucket, 2)
    target.remove(stream)
    assert not bucket.subscribers
    await asyncio.sleep(0.05)
    assert stream.batches == [[1]]


def test_without_streams_nothing_is_subscribed_or_held() -> None:
    asyncio.run(_left())
