"""Changes reach every stream once and in order, however they are held back."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.registry.watch import fanout
from quarterdeck.apiserver.registry.watch.fanout import Batch, Fanout
from quarterdeck.apiserver.storage import Bucket, Entry, Event, EventType
from quarterdeck.testing import eventually


def change(rev: int) -> Event:
    return Event(rev, EventType.ADDED, Entry("ns", f"n{rev}", rev, rev, b""), None)


class Clock:
    """Stands in for the processor's clock: time passes only where a delivery says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fanout, "perf_counter", made)
    return made


class Stream:
    """Notes what it gets; `cost` is how long a delivery takes."""

    def __init__(self, clock: Clock, cost: float) -> None:
        self.batches: list[list[int]] = []
        self._clock = clock
        self._cost = cost

    def notify(self, batch: Batch) -> None:
        self.batches.append([event.rev for event in batch.events])
        self._clock.now += self._cost


def commit(bucket: Bucket, *revs: int) -> None:
    for notify in list(bucket.subscribers.values()):
        notify([change(rev) for rev in revs])


def make(clock: Clock, cost: float) -> tuple[Bucket, Fanout, Stream]:
    bucket = Bucket("", "configmaps", namespaced=True, last_rev=0)
    target, stream = Fanout(bucket), Stream(clock, cost)
    target.add(stream, stream.notify)
    return bucket, target, stream


@pytest.mark.real_time  # on virtual time nothing is held back
class TestRounds:
    async def test_cheap_ones_are_sent_at_once(self, clock: Clock) -> None:
        bucket, _, stream = make(clock, 0.0)
        for rev in (1, 2, 3):
            commit(bucket, rev)
        assert stream.batches == [[1], [2], [3]]

    async def test_after_a_dear_one_changes_go_out_together(self, clock: Clock) -> None:
        bucket, _, stream = make(clock, 0.02)
        commit(bucket, 1)
        commit(bucket, 2)
        commit(bucket, 3)
        assert stream.batches == [[1]]
        await eventually(lambda: stream.batches == [[1], [2, 3]])

    async def test_what_is_held_back_can_be_flushed_and_is_not_sent_again(self, clock: Clock) -> None:
        bucket, target, stream = make(clock, 0.02)
        commit(bucket, 1)
        commit(bucket, 2)
        target.flush()
        assert stream.batches == [[1], [2]]
        commit(bucket, 3)
        await eventually(lambda: len(stream.batches) == 3)
        assert stream.batches == [[1], [2], [3]]

    async def test_without_streams_nothing_is_subscribed_or_held(self, clock: Clock) -> None:
        bucket, target, stream = make(clock, 0.02)
        commit(bucket, 1)
        commit(bucket, 2)
        target.remove(stream)
        assert not bucket.subscribers
        target.add(stream, stream.notify)
        commit(bucket, 3)
        assert stream.batches == [[1], [3]], "there is no timer left, and nothing that it would send"
