"""Keys that wait until the cache shows what they wrote."""

from __future__ import annotations

import asyncio

from quarterdeck.api import Key
from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.shard import Shard
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.reconcile.consistency import WriteTracker
from tests.unit.runtime.cachekit import running
from tests.unit.runtime.controlkit import Spy
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import colored_widgets

KEY = Key("ns", "a")


class Tracked:
    """A tracker over one shard, and what it released."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.spy = Spy()
        self.released: list[tuple[str, int]] = []
        self.tracker = WriteTracker(release=self._release, clock=LoopClock(), timeout=5.0, metrics=self.spy)

    def _release(self, key: Key, priority: int) -> None:
        self.released.append((key.name, priority))

    def ahead(self, by: int) -> str:
        return str(int(self.shard.store.version) + by)


async def over(cache: Cache) -> Tracked:
    informer = cache.informer(Widget)
    await informer.wait_synced()
    (shard,) = informer.shards
    return Tracked(shard)


async def test_a_key_that_wrote_nothing_or_sees_it_already_goes_on() -> None:
    async with colored_widgets("a") as api, running(api.link) as cache:
        tracked = await over(cache)
        assert not tracked.tracker.park(KEY, 0)
        tracked.tracker.wrote(KEY, tracked.shard, tracked.shard.store.version)
        tracked.tracker.deleted(KEY, tracked.shard, "ns", "stranger", "u")
        tracked.tracker.deleted(KEY, tracked.shard, "ns", "a", "")
        assert not tracked.tracker.park(KEY, 0)
        assert tracked.tracker.statistics().keys == 0


async def test_a_key_is_released_once_with_the_highest_priority_it_was_woken_with() -> None:
    async with colored_widgets("a") as api, running(api.link) as cache:
        tracked = await over(cache)
        tracker = tracked.tracker
        tracker.wrote(KEY, tracked.shard, tracked.ahead(2))
        tracker.wrote(KEY, tracked.shard, tracked.ahead(1))
        assert [tracker.park(KEY, priority) for priority in (1, 7, 3)] == [True, True, True]
        assert (tracker.statistics().parked, tracker.statistics().waits) == (1, 1)
        await api.put(Widget, "a", spec={"color": "one"})
        await asyncio.sleep(1)
        assert tracked.released == [], "the later of its writes counts"
        await api.put(Widget, "a", spec={"color": "two"})
        await asyncio.sleep(1)
        assert tracked.released == [("a", 7)]
        assert [(round(seconds), in_time) for seconds, in_time in tracked.spy.waits] == [(1, True)]
        assert tracker.statistics().timeouts == 0
        assert not tracker.park(KEY, 0)


async def test_a_deletion_is_awaited_as_well_as_a_version() -> None:
    async with colored_widgets("a", "b") as api, running(api.link) as cache:
        tracked = await over(cache)
        entry = tracked.shard.store.get("ns", "b")
        assert entry is not None
        tracked.tracker.wrote(KEY, tracked.shard, tracked.ahead(1))
        tracked.tracker.deleted(KEY, tracked.shard, "ns", "b", entry.uid)
        assert tracked.tracker.park(KEY, 0)
        await api.put(Widget, "a", spec={"color": "one"})
        await asyncio.sleep(1)
        assert tracked.released == []
        await api.remove(Widget, "b")
        await asyncio.sleep(1)
        assert tracked.released == [("a", 0)]


async def test_a_key_waits_for_five_seconds_at_most() -> None:
    async with colored_widgets("a") as api, running(api.link) as cache:
        tracked = await over(cache)
        tracked.tracker.wrote(KEY, tracked.shard, tracked.ahead(100))
        assert tracked.tracker.park(KEY, 0)
        await asyncio.sleep(4.9)
        assert tracked.released == []
        await asyncio.sleep(0.2)
        assert tracked.released == [("a", 0)]
        assert [(round(seconds), in_time) for seconds, in_time in tracked.spy.waits] == [(5, False)]
        assert tracked.tracker.statistics().timeouts == 1


async def test_keys_that_are_discarded_are_never_released() -> None:
    other = Key("ns", "b")
    async with colored_widgets("a") as api, running(api.link) as cache:
        tracked = await over(cache)
        for key in (KEY, other):
            tracked.tracker.wrote(key, tracked.shard, tracked.ahead(1))
            assert tracked.tracker.park(key, 0)
        tracked.tracker.discard(lambda key: key == KEY)
        await asyncio.sleep(10)
        assert tracked.released == [("b", 0)]
        assert tracked.tracker.statistics().parked == 0
