"""List and watch through every kind of trouble."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from quarterdeck.client import Stream
from quarterdeck.errors import StreamClosed
from quarterdeck.runtime.cache import Cache, CacheOptions, HealthState
from quarterdeck.runtime.cache.reflector import LIST_PACE, LONG_LIST
from tests.unit.runtime.cachekit import Recorder, running, until
from tests.unit.runtime.fakeapi import REFUSED, Call, FakeApi, status
from tests.unit.runtime.runtimewidget import Widget

EXPIRED = status(410, "Expired", "too old resource version")
BUSY = status(429, "TooManyRequests", "slow down", retryAfterSeconds=1)
PLAIN = CacheOptions(stream_lists=False)


def names(cache: Cache) -> list[str]:
    return sorted(entry.name for entry in cache.informer(Widget).entries())


def filled(*names: str) -> FakeApi:
    api = FakeApi()
    for name in names:
        api.put("widgets", name)
    return api


async def start(cache: Cache) -> Recorder:
    recorder = Recorder()
    registration = cache.informer(Widget).add_handler(recorder)
    await registration.wait_synced()
    return recorder


async def test_streamed_list_syncs_only_after_the_marked_bookmark() -> None:
    api = filled("a", "b")
    gate = asyncio.Event()
    original = api.watch

    def held_back(call: Call) -> Any:
        stream = original(call)
        watch = api.watches[-1]
        last: list[Any] = []
        while not watch.queue.empty():
            last.append(watch.queue.get_nowait())
        for line in last[:-1]:
            watch.queue.put_nowait(line)

        async def release() -> None:
            await gate.wait()
            watch.queue.put_nowait(last[-1])

        tasks.append(asyncio.ensure_future(release()))
        return stream

    tasks: list[asyncio.Future[None]] = []
    api.watch = held_back  # type: ignore[method-assign]
    async with running(api) as cache:
        informer = cache.informer(Widget)
        await asyncio.sleep(30)
        assert not informer.has_synced
        assert not list(informer.entries())
        gate.set()
        await informer.wait_synced()
        assert names(cache) == ["a", "b"]
    await asyncio.gather(*tasks)
    assert api.count("list widgets") == 0
    query = next(call.query for call in api.calls if call.verb == "watch")
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) < 600


async def paces(objects: int) -> list[float]:
    """What the reader of a streamed list of so many objects asks of its stream."""
    api = filled(*(f"w-{number}" for number in range(objects)))
    original = api.watch
    asked: list[float] = []

    def noting(call: Call) -> Stream:
        stream = original(call)
        return Stream(stream.status, aiter(stream), close=stream.aclose, gather=asked.append)

    api.watch = noting  # type: ignore[method-assign]
    async with running(api) as cache:
        await start(cache)
        assert len(names(cache)) == objects
    return list(dict.fromkeys(asked))


async def test_long_streamed_list_is_left_to_gather_until_the_watch_begins() -> None:
    assert await paces(LONG_LIST + 1) == [LIST_PACE, 0.0]


async def test_short_streamed_list_is_read_as_it_arrives() -> None:
    assert await paces(3) == [0.0]


async def test_unsupported_server_gets_one_list_and_a_plain_watch() -> None:
    api = filled("a")
    api.streams_lists = False
    async with running(api) as cache:
        recorder = await start(cache)
        api.put("widgets", "b")
        await until(lambda: len(recorder.deltas) == 2)
        api.fail_streams("widgets", EXPIRED)
        await until(lambda: api.count("list widgets") == 2)
        await asyncio.sleep(1)
    assert recorder.texts == ["+ai", "+b"]
    assert [c.query.get("sendInitialEvents") for c in api.calls if c.verb == "watch"] == ["true", None, None]


async def test_first_plain_list_asks_for_version_zero_and_pages_of_500() -> None:
    api = filled(*(f"w{i:04d}" for i in range(1200)))
    async with running(api, PLAIN) as cache:
        await start(cache)
        assert len(names(cache)) == 1200
    lists = [call.query for call in api.calls if call.verb == "list"]
    assert lists == [
        {"limit": "500", "resourceVersion": "0"},
        {"limit": "500", "continue": "500"},
        {"limit": "500", "continue": "1000"},
    ]


async def test_relist_asks_for_the_last_version_without_paging() -> None:
    api = filled("a")
    async with running(api, PLAIN) as cache:
        await start(cache)
        api.fail_streams("widgets", EXPIRED)
        await until(lambda: api.count("list widgets") == 2)
    assert api.calls[-2].query == {"resourceVersion": "101"} or api.calls[-1].query == {
        "resourceVersion": "101"
    }


async def test_list_at_a_version_the_server_does_not_have_is_repeated_at_any_version() -> None:
    api = filled("a")
    async with running(api, PLAIN) as cache:
        await start(cache)
        api.version = 50  # the server was restored from a backup
        api.fail_streams("widgets", EXPIRED)
        api.put("widgets", "b")
        await until(lambda: "b" in names(cache))
    lists = [call.query.get("resourceVersion", "") for call in api.calls if call.verb == "list"]
    assert lists == ["0", "101", ""]


@pytest.mark.parametrize("options", [CacheOptions(), PLAIN])
async def test_expired_version_causes_exactly_one_list_and_tombstones(options: CacheOptions) -> None:
    api = filled("a", "b", "c")
    async with running(api, options) as cache:
        recorder = await start(cache)
        lists = cache.informer(Widget).statistics().shards[0].lists
        api.black_hole()  # events from here on are lost
        api.remove("widgets", "b")
        api.put("widgets", "c", spec={"replicas": 5})
        api.put("widgets", "d")
        api.compact()
        await until(lambda: "d" in names(cache))
        await asyncio.sleep(300)
        shard = cache.informer(Widget).statistics().shards[0]
        assert shard.lists == lists + 1
        assert shard.relists == {"expired": 1}
        assert names(cache) == ["a", "c", "d"]
    assert recorder.texts == ["+ai", "+bi", "+ci", "-b?", "~c", "+d"]
    gone = recorder.deltas[3].old
    assert gone is not None
    assert gone.name == "b"


@pytest.mark.parametrize("error", [BUSY, REFUSED], ids=["429", "refused"])
async def test_throttled_or_refused_watch_is_resumed_without_a_list(error: Any) -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        await asyncio.sleep(5)
        api.refuse("watch widgets", error, times=3)
        api.put("widgets", "b")
        api.cut("widgets")
        await asyncio.sleep(1)
        api.put("widgets", "c")
        await until(lambda: len(recorder.deltas) == 3)
        shard = cache.informer(Widget).statistics().shards[0]
    assert shard.lists == 1
    assert recorder.texts == ["+ai", "+b", "+c"]


async def test_in_the_stream_backs_off_and_resumes_without_a_list() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        api.fail_streams("widgets", BUSY)
        await asyncio.sleep(0.5)
        assert not api.open("widgets")
        api.put("widgets", "b")
        await until(lambda: len(recorder.deltas) == 2)
        assert cache.informer(Widget).statistics().shards[0].lists == 1


async def test_what_came_in_one_piece_with_an_error_is_not_asked_for_again() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        await until(lambda: api.open("widgets"))
        [watch] = api.open("widgets")
        watch.is_silent = True
        written = api.put("widgets", "b")
        await asyncio.sleep(0)
        events = [{"type": "ADDED", "object": written}, {"type": "ERROR", "object": BUSY}]
        watch.queue.put_nowait(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
        api.watches.remove(watch)
        await until(lambda: api.open("widgets"))
        assert recorder.texts == ["+ai", "+b"]
        assert api.calls[-1].query["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_short_watch_backs_off_and_lists() -> None:
    api = filled("a")
    async with running(api, PLAIN) as cache:
        await start(cache)
        await until(lambda: api.open("widgets"))
        started = asyncio.get_running_loop().time()
        api.cut("widgets")
        await until(lambda: api.count("list widgets") == 2)
        waited = asyncio.get_running_loop().time() - started
        assert 0.8 <= waited <= 1.7
        assert cache.informer(Widget).statistics().shards[0].relists == {"short-watch": 1}


async def test_clean_end_and_lost_connection_resume_from_the_last_version() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        for i, error in enumerate((None, StreamClosed("reset"), None)):
            await asyncio.sleep(50 if i else 5)
            api.bookmark("widgets")
            api.cut("widgets", error)
            await until(lambda: api.open("widgets"))
        api.put("widgets", "b")
        await until(lambda: len(recorder.deltas) == 2)
        shard = cache.informer(Widget).statistics().shards[0]
    assert shard.lists == 1
    assert shard.watches == 4


async def test_bookmark_moves_the_version_without_handler_calls_and_is_resumed_from() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        for _ in range(3):
            await asyncio.sleep(60)
            api.bookmark("widgets")
        await asyncio.sleep(0)
        informer = cache.informer(Widget)
        await until(lambda: informer.statistics().version == "104")
        assert recorder.texts == ["+ai"]
        api.cut("widgets")
        await until(lambda: api.open("widgets"))
    assert api.calls[-1].query["resourceVersion"] == "104"


async def test_uid_change_across_a_list_is_a_deletion_and_an_addition() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        api.black_hole()
        api.remove("widgets", "a")
        api.put("widgets", "a")
        api.compact()
        await until(lambda: len(recorder.deltas) == 3)
    assert recorder.texts == ["+ai", "-a?", "+a"]
    old, new = recorder.deltas[1].old, recorder.deltas[2].new
    assert old is not None
    assert new is not None
    assert old.uid != new.uid


async def test_silent_black_hole_is_left_within_the_watchdog_and_nothing_is_lost() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        await asyncio.sleep(30)
        api.bookmark("widgets")
        await asyncio.sleep(1)
        api.black_hole("widgets")
        started = asyncio.get_running_loop().time()
        api.put("widgets", "b")
        api.remove("widgets", "a")
        await until(lambda: len(recorder.deltas) == 3)
        assert asyncio.get_running_loop().time() - started <= 70.1
        assert cache.informer(Widget).statistics().shards[0].lists == 1
    assert recorder.texts == ["+ai", "+b", "-a"]


async def test_silence_alarm_is_switched_off_on_servers_without_bookmarks() -> None:
    api = filled("a")
    async with running(api, PLAIN) as cache:
        await start(cache)
        await asyncio.sleep(400)
        assert cache.informer(Widget).statistics().shards[0].watches == 3


async def test_silence_during_the_initial_events_falls_back_to_a_list() -> None:
    api = filled("a")
    api.refuse("list widgets", status(500, "InternalError"), times=0)
    original = api.watch

    def without_bookmark(call: Call) -> Any:
        stream = original(call)
        if call.query.get("sendInitialEvents"):
            api.black_hole()
        return stream

    api.watch = without_bookmark  # type: ignore[method-assign]
    bookmark = api.bookmark_doc
    api.bookmark_doc = lambda resource, **_: bookmark(resource)  # type: ignore[method-assign]
    async with running(api) as cache:
        await start(cache)
        assert names(cache) == ["a"]
    assert api.count("list widgets") == 1


async def test_list_that_falls_silent_in_the_middle_is_tried_again() -> None:
    api = filled("a")
    original = api.whole
    hung: list[int] = []

    def hanging(code: int, doc: Any) -> Any:
        async def chunks() -> Any:
            hung.append(1)
            yield b'{"items":['
            await asyncio.get_running_loop().create_future()

        return original(code, doc) if hung else Stream(200, chunks())

    api.whole = hanging  # type: ignore[method-assign]
    async with running(api, PLAIN) as cache:
        await start(cache)
        assert names(cache) == ["a"]
        assert asyncio.get_running_loop().time() - 1000 == pytest.approx(61, abs=1)


async def test_missing_permission_is_named_within_ten_seconds_and_heals() -> None:
    api = filled("a")
    denied = status(403, "Forbidden", 'widgets.example.com is forbidden: User "x" cannot list resource')
    api.refuse("watch widgets", denied, times=3)
    async with running(api) as cache:
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.FORBIDDEN, within=10)
        assert "cannot watch widgets.example.com" in str(informer.health)
        assert informer.health.verb == "watch"
        assert informer.health.is_blocked
        await informer.wait_synced()
        assert informer.health.is_good


async def test_unauthorized_is_retried_and_shown() -> None:
    api = filled("a")
    async with running(api) as cache:
        await start(cache)
        api.refuse("watch widgets", status(401, "Unauthorized"), times=2)
        await asyncio.sleep(3)
        api.cut("widgets")
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.UNAUTHORIZED)
        await until(lambda: informer.health.is_good)
        assert informer.statistics().shards[0].lists == 1


async def test_kind_that_disappears_leaves_tombstones_and_resumes_when_it_returns() -> None:
    api = filled("a", "b")
    async with running(api) as cache:
        recorder = await start(cache)
        await asyncio.sleep(3)
        api.missing.add("widgets")
        api.cut("widgets")
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.KIND_MISSING)
        await until(lambda: len(recorder.deltas) == 4)
        assert names(cache) == []
        tries = api.count("watch widgets")
        await asyncio.sleep(95)
        assert 9 <= api.count("watch widgets") - tries <= 10
        api.missing.clear()
        api.objects["widgets"].clear()
        api.put("widgets", "c")
        await until(lambda: names(cache) == ["c"], within=11)
    assert recorder.texts == ["+ai", "+bi", "-a?", "-b?", "+c"]


async def test_internal_error_in_the_stream_lists_unless_a_window_is_configured() -> None:
    api = filled("a")
    async with running(api) as cache:
        await start(cache)
        api.fail_streams("widgets", status(500, "InternalError"))
        await until(lambda: cache.informer(Widget).statistics().shards[0].lists == 2)


async def test_object_of_another_kind_or_without_a_name_is_skipped() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        watch = api.open("widgets")[0]
        watch.send("ADDED", {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}})
        watch.send("ADDED", {"kind": "Widget", "metadata": {}})
        watch.queue.put_nowait(b'{"type":"ADDED","object":{"kind":\n')
        api.put("widgets", "b")
        await until(lambda: len(recorder.deltas) == 2)
        assert cache.informer(Widget).statistics().shards[0].skipped == 2


async def test_watch_at_no_version_does_not_trust_synthetic_events() -> None:
    api = filled("a")
    api.streams_lists = False
    original = api.list

    def versionless(call: Call, collection: Any) -> Any:
        code, doc = original(call, collection)
        return code, {**doc, "metadata": {**doc["metadata"], "resourceVersion": ""}}

    api.list = versionless  # type: ignore[method-assign]
    async with running(api) as cache:
        await start(cache)
        api.put("widgets", "b")
        await until(lambda: "b" in names(cache))
        assert cache.informer(Widget).statistics().shards[0].version == ""
        api.put("widgets", "b", spec={"replicas": 2})
        await until(lambda: cache.informer(Widget).statistics().shards[0].version == "103")


async def test_late_and_duplicate_events_change_nothing() -> None:
    api = filled("a")
    async with running(api) as cache:
        recorder = await start(cache)
        old = api.objects["widgets"]["ns", "a"]
        api.put("widgets", "a", spec={"replicas": 2})
        new = api.objects["widgets"]["ns", "a"]
        watch = api.open("widgets")[0]
        for doc in (new, old, new):
            watch.send("MODIFIED", doc)
        stale = {**old, "metadata": {**old["metadata"], "uid": "uid-earlier"}}
        watch.send("DELETED", stale)
        api.put("widgets", "b")
        await until(lambda: "b" in names(cache))
        await asyncio.sleep(0.1)
    assert recorder.texts == ["+ai", "~a", "+b"]


@pytest.mark.parametrize("seed", range(8))
async def test_seeded_faults_lose_and_invent_nothing(seed: int) -> None:
    """Cuts, black holes, 410, 429, refusals in any order: the cache ends equal to the server."""
    chance = random.Random(seed)
    api = filled(*(f"w{i}" for i in range(10)))
    state: dict[str, str] = {}

    class Follower:
        def handle(self, delta: Any) -> None:
            name = delta.entry.name
            if delta.change.value == "added":
                assert name not in state
                state[name] = delta.new.uid
            elif delta.change.value == "updated":
                assert state[name] == delta.new.uid == delta.old.uid
            else:
                del state[name]

    async with running(api, CacheOptions(stream_lists=chance.random() < 0.5), seed=seed) as cache:
        registration = cache.informer(Widget).add_handler(Follower())
        for _ in range(200):
            action = chance.randrange(12)
            name = f"w{chance.randrange(20)}"
            if action < 5:
                api.put("widgets", name, spec={"replicas": chance.randrange(9)})
            elif action < 7 and ("ns", name) in api.objects["widgets"]:
                api.remove("widgets", name)
            elif action == 7:
                api.cut("widgets", chance.choice((None, StreamClosed("reset"))))
            elif action == 8:
                api.fail_streams("widgets", chance.choice((EXPIRED, BUSY, status(500, "InternalError"))))
            elif action == 9:
                api.refuse(chance.choice(("watch widgets", "list widgets")), chance.choice((BUSY, REFUSED)))
            elif action == 10 and chance.random() < 0.2:
                api.black_hole("widgets")
            elif action == 11:
                api.compact()
            await asyncio.sleep(chance.random() * 3)
        await registration.wait_synced()
        await asyncio.sleep(1500)
        wanted = {key[1]: doc["metadata"] for key, doc in api.objects["widgets"].items()}
        held = {e.name: e for e in cache.informer(Widget).entries()}
        assert {n: e.resource_version for n, e in held.items()} == {
            n: m["resourceVersion"] for n, m in wanted.items()
        }
        assert state == {n: m["uid"] for n, m in wanted.items()}
