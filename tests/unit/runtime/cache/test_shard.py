"""Waiting for what a list/watch is going to show."""

from __future__ import annotations

from quarterdeck.runtime.cache import Cache
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.shard import Shard
from tests.unit.runtime.cachekit import running, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import colored_widgets


async def shard_of(cache: Cache) -> Shard:
    informer = cache.informer(Widget)
    await informer.wait_synced()
    (shard,) = informer.shards
    return shard


def is_labelled(entry: Entry | None) -> bool:
    return entry is not None and "seen" in entry.labels


async def test_who_gives_up_waiting_for_an_object_does_not_take_others_along() -> None:
    told: list[str] = []
    async with colored_widgets("a", "b") as api, running(api.link) as cache:
        shard = await shard_of(cache)
        give_up = shard.when_entry("ns", "a", is_labelled, lambda: told.append("first"))
        shard.when_entry("ns", "a", is_labelled, lambda: told.append("second"))
        shard.when_entry("ns", "b", lambda entry: entry is None, lambda: told.append("gone"))
        give_up()
        give_up()
        await api.put(Widget, "a", spec={"color": "other"})
        await api.put(Widget, "a", metadata={"labels": {"seen": "yes"}})
        await until(lambda: told == ["second"])
        give_up()
        await api.remove(Widget, "b")
        await until(lambda: told == ["second", "gone"])
        await api.put(Widget, "a", metadata={"labels": {"seen": "again"}})
        await until(lambda: (entry := shard.store.get("ns", "a")) and entry.labels["seen"] == "again")
    assert told == ["second", "gone"], "each is told once"


async def test_what_is_so_already_is_told_at_once() -> None:
    told: list[str] = []
    async with colored_widgets("a") as api, running(api.link) as cache:
        shard = await shard_of(cache)
        for give_up in (
            shard.when_entry("ns", "a", lambda entry: entry is not None, lambda: told.append("there")),
            shard.when_version(shard.store.version, lambda: told.append("seen")),
            shard.when_version("not a number", lambda: told.append("nobody can tell")),
        ):
            give_up()
        assert told == ["there", "seen", "nobody can tell"]


async def test_versions_are_told_as_they_are_seen_and_not_to_those_who_gave_up() -> None:
    told: list[str] = []
    async with colored_widgets("a") as api, running(api.link) as cache:
        shard = await shard_of(cache)
        now = int(shard.store.version)
        shard.when_version(str(now + 1000), lambda: told.append("far away"))
        shard.when_version(str(now + 2), lambda: told.append("later"))
        give_up = shard.when_version(str(now + 1), lambda: told.append("given up"))
        shard.when_version(str(now + 1), lambda: told.append("next"))
        give_up()
        for color in ("one", "two", "three"):
            await api.put(Widget, "a", spec={"color": color})
        await until(lambda: told == ["next", "later"])
