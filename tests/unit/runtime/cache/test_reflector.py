"""List and watch through every kind of trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import Stream
from quarterdeck.errors import (
    ApiError,
    ErrorCause,
    ErrorDetails,
    Gone,
    NotFound,
    QuarterdeckError,
    TransportError,
)
from quarterdeck.runtime.cache import Cache, CacheOptions, HealthState
from quarterdeck.runtime.cache.reflector import LIST_PACE, LONG_LIST, _is_version_gone
from quarterdeck.testing import DelayEvents, FaultPlan, FaultRule, LoseEvents, Refuse, RefuseConnection
from tests.unit.runtime.cachekit import Recorder, running, until
from tests.unit.runtime.runtimewidget import Widget
from tests.unit.runtime.widgetcluster import (
    WIDGETS,
    AlteredStreams,
    WidgetCluster,
    widget_cluster,
)

PLAIN = CacheOptions(stream_lists=False)
BOOKMARKS = frozenset({"BOOKMARK"})
WATCH = frozenset({"watch"})
BUSY = Refuse(429, retry_after=1, verbs=WATCH, resources=frozenset({WIDGETS}), times=3)
REFUSED = RefuseConnection(verbs=WATCH, resources=frozenset({WIDGETS}), times=3)


def names(cache: Cache) -> list[str]:
    return sorted(entry.name for entry in cache.informer(Widget).entries())


def queries(api: WidgetCluster, verb: str) -> list[dict[str, str]]:
    return [each.query for each in api.link.log if each.verb == verb]


def line(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


async def start(cache: Cache) -> Recorder:
    recorder = Recorder()
    registration = cache.informer(Widget).add_handler(recorder)
    await registration.wait_synced()
    return recorder


async def test_streamed_list_syncs_only_after_the_marked_bookmark() -> None:
    late = FaultPlan(0, DelayEvents((40.0, 40.0), types=BOOKMARKS))
    async with widget_cluster("a", "b", plan=late) as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await asyncio.sleep(30)
        assert not informer.has_synced
        assert not list(informer.entries())
        await informer.wait_synced()
        assert names(cache) == ["a", "b"]
        assert late.struck["DelayEvents"] == 1
    assert api.link.count("list", WIDGETS) == 0
    query = queries(api, "watch")[0]
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert query["allowWatchBookmarks"] == "true"
    assert 300 <= int(query["timeoutSeconds"]) < 600


async def paces(objects: int) -> list[float]:
    """What the reader of a streamed list of so many objects asks of its stream."""
    asked: list[float] = []

    async def by_line(stream: Stream) -> AsyncIterator[bytes]:
        async for chunk in stream:
            for each in chunk.splitlines(keepends=True):
                yield each

    def noting(query: str, stream: Stream) -> Stream:
        return Stream(stream.status, by_line(stream), close=stream.aclose, gather=asked.append)

    many = (f"w-{number}" for number in range(objects))
    async with widget_cluster(*many) as api, running(AlteredStreams(api.link, noting)) as cache:
        await start(cache)
        assert len(names(cache)) == objects
    return list(dict.fromkeys(asked))


async def test_long_streamed_list_is_left_to_gather_until_the_watch_begins() -> None:
    assert await paces(LONG_LIST + 1) == [LIST_PACE, 0.0]


async def test_short_streamed_list_is_read_as_it_arrives() -> None:
    assert await paces(3) == [0.0]


@pytest.mark.parametrize("code", [400, 405, 422])
async def test_unsupported_server_gets_one_list_and_a_plain_watch(code: int) -> None:
    refusing = FaultPlan(0, Refuse(code, parameter="sendInitialEvents"))
    async with widget_cluster("a", plan=refusing) as api, running(api.link) as cache:
        recorder = await start(cache)
        await api.put(Widget, "b")
        await until(lambda: len(recorder.deltas) == 2)
        api.link.fail_watches(410)
        await until(lambda: api.link.count("list", WIDGETS) == 2)
        await asyncio.sleep(1)
    assert recorder.texts == ["+ai", "+b"]
    assert [query.get("sendInitialEvents") for query in queries(api, "watch")] == ["true", None, None]


async def test_first_plain_list_asks_for_version_zero_and_pages_of_500() -> None:
    asked: list[str] = []

    def uncached(query: str) -> str:  # a server without a watch cache heeds the limit at version 0, too
        asked.append(query)
        return query.replace("&resourceVersion=0", "")

    many = (f"w{i:04d}" for i in range(1001))
    async with (
        widget_cluster(*many) as api,
        running(AlteredStreams(api.link, question=uncached), PLAIN) as cache,
    ):
        await start(cache)
        assert len(names(cache)) == 1001
    assert asked[0] == "limit=500&resourceVersion=0"
    first, second, third = queries(api, "list")
    assert first == {"limit": "500"}
    assert second.keys() == third.keys() == {"limit", "continue"}
    assert second["limit"] == third["limit"] == "500"
    assert second["continue"] != third["continue"]


async def test_relist_asks_for_the_last_version_without_paging() -> None:
    async with widget_cluster("a") as api, running(api.link, PLAIN) as cache:
        await start(cache)
        version = cache.informer(Widget).statistics().version
        await until(lambda: api.link.open_watches(WIDGETS))
        api.link.fail_watches(410)
        await until(lambda: api.link.count("list", WIDGETS) == 2)
        assert version == api.version
    assert queries(api, "list") == [{"limit": "500", "resourceVersion": "0"}, {"resourceVersion": version}]


async def test_list_at_a_version_the_server_does_not_have_is_repeated_at_any_version() -> None:
    async with (
        widget_cluster() as restored,
        widget_cluster(*"abcd") as api,
        running(api.link, PLAIN) as cache,
    ):
        await start(cache)
        version = api.version
        await until(lambda: api.link.open_watches(WIDGETS))
        api.link.move_to(restored.link)  # the server was restored from a backup
        api.link.fail_watches(410)
        await restored.put(Widget, "b")
        await until(lambda: names(cache) == ["b"])
        assert int(restored.version) < int(version)
    assert [query.get("resourceVersion", "") for query in queries(api, "list")] == ["0", version, ""]


@pytest.mark.parametrize("options", [CacheOptions(), PLAIN])
async def test_expired_version_causes_exactly_one_list_and_tombstones(options: CacheOptions) -> None:
    async with widget_cluster("a", "b", "c") as api, running(api.link, options) as cache:
        recorder = await start(cache)
        await until(lambda: api.link.open_watches(WIDGETS))
        lists = cache.informer(Widget).statistics().shards[0].lists
        api.link.silence_watches()  # events from here on are lost
        await api.remove(Widget, "b")
        await api.put(Widget, "c", spec={"replicas": 5})
        await api.put(Widget, "d")
        await api.cluster.compact()
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


async def test_an_expired_version_is_listed_at_once_and_one_that_expires_soon_again_later() -> None:
    async with widget_cluster("a") as api, running(api.link, PLAIN) as cache:
        await start(cache)
        waits: list[float] = []
        for lists in (2, 3):
            await until(lambda: api.link.open_watches(WIDGETS))
            before = asyncio.get_running_loop().time()
            api.link.fail_watches(410)
            await until(lambda: api.link.count("list", WIDGETS) == lists, step=0.001)  # noqa: B023  used at once
            waits.append(asyncio.get_running_loop().time() - before)
    assert waits[0] < 0.1
    assert 0.8 <= waits[1] <= 1.7


@pytest.mark.parametrize("code", [400, 405, 406, 422])
async def test_a_watch_that_is_refused_for_good_is_followed_by_a_list(code: int) -> None:
    refused = FaultPlan(0, Refuse(code, verbs=WATCH, times=1))
    async with widget_cluster("a", plan=refused) as api, running(api.link, PLAIN) as cache:
        await start(cache)
        await until(lambda: api.link.open_watches(WIDGETS))
        assert cache.informer(Widget).statistics().shards[0].relists == {"refused": 1}


@pytest.mark.parametrize("error", [BUSY, REFUSED], ids=["429", "refused"])
async def test_throttled_or_refused_watch_is_resumed_without_a_list(error: FaultRule) -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        await asyncio.sleep(5)
        api.link.plan.add(error)
        await api.put(Widget, "b")
        api.link.end_watches()
        await asyncio.sleep(1)
        await api.put(Widget, "c")
        await until(lambda: len(recorder.deltas) == 3)
        shard = cache.informer(Widget).statistics().shards[0]
        assert api.link.plan.struck[error.label] == 3
    assert shard.lists == 1
    assert recorder.texts == ["+ai", "+b", "+c"]


async def test_in_the_stream_backs_off_and_resumes_without_a_list() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        api.link.fail_watches(429, retry_after=1)
        await asyncio.sleep(0.5)
        assert not api.link.open_watches(WIDGETS)
        assert not cache.informer(Widget).statistics().shards[0].is_watching
        await api.put(Widget, "b")
        await until(lambda: len(recorder.deltas) == 2)
        assert cache.informer(Widget).statistics().shards[0].lists == 1


async def test_what_came_in_one_piece_with_an_error_is_not_asked_for_again() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        api.link.plan.add(LoseEvents(types=frozenset({"ADDED"}), times=1))
        written = await api.put(Widget, "b")
        await asyncio.sleep(1)
        assert recorder.texts == ["+ai"]
        api.link.deliver(line("ADDED", written.to_dict()) + line("ERROR", {"kind": "Status", "code": 429}))
        await until(lambda: api.link.count("watch", WIDGETS) == 2)
        assert recorder.texts == ["+ai", "+b"]
        assert queries(api, "watch")[1]["resourceVersion"] == written.metadata.resource_version


async def test_short_watch_backs_off_and_lists() -> None:
    async with widget_cluster("a") as api, running(api.link, PLAIN) as cache:
        await start(cache)
        await until(lambda: api.link.open_watches(WIDGETS))
        started = asyncio.get_running_loop().time()
        api.link.end_watches()
        await until(lambda: api.link.count("list", WIDGETS) == 2)
        waited = asyncio.get_running_loop().time() - started
        assert 0.8 <= waited <= 1.7
        assert cache.informer(Widget).statistics().shards[0].relists == {"short-watch": 1}


async def test_clean_end_and_lost_connection_resume_from_the_last_version() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        for reset in (False, True, False):
            await asyncio.sleep(50)
            api.link.end_watches(reset=reset)
            await until(lambda: api.link.open_watches(WIDGETS))
        await api.put(Widget, "b")
        await until(lambda: len(recorder.deltas) == 2)
        shard = cache.informer(Widget).statistics().shards[0]
    assert shard.lists == 1
    assert shard.watches == 4


async def test_bookmark_moves_the_version_without_handler_calls_and_is_resumed_from() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        version = cache.informer(Widget).statistics().version
        await api.put(ConfigMap, "c")
        await asyncio.sleep(61)  # the server sends a bookmark every minute
        assert cache.informer(Widget).statistics().version == api.version != version
        assert recorder.texts == ["+ai"]
        api.link.end_watches()
        await until(lambda: api.link.open_watches(WIDGETS))
        assert queries(api, "watch")[-1]["resourceVersion"] == api.version


async def test_uid_change_across_a_list_is_a_deletion_and_an_addition() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        api.link.silence_watches()
        await api.remove(Widget, "a")
        await api.put(Widget, "a")
        await api.cluster.compact()
        await until(lambda: len(recorder.deltas) == 3)
    assert recorder.texts == ["+ai", "-a?", "+a"]
    old, new = recorder.deltas[1].old, recorder.deltas[2].new
    assert old is not None
    assert new is not None
    assert old.uid != new.uid


async def test_silent_black_hole_is_left_within_the_watchdog_and_nothing_is_lost() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        await asyncio.sleep(61)
        api.link.silence_watches()
        started = asyncio.get_running_loop().time()
        await api.put(Widget, "b")
        await api.remove(Widget, "a")
        await until(lambda: len(recorder.deltas) == 3)
        assert asyncio.get_running_loop().time() - started <= 70.1
        assert cache.informer(Widget).statistics().shards[0].lists == 1
    assert recorder.texts == ["+ai", "+b", "-a"]


async def test_silence_alarm_is_switched_off_on_servers_without_bookmarks() -> None:
    silent = FaultPlan(0, LoseEvents(types=BOOKMARKS))
    async with widget_cluster("a", plan=silent) as api, running(api.link, PLAIN) as cache:
        await start(cache)
        await asyncio.sleep(400)
        assert cache.informer(Widget).statistics().shards[0].watches == 3


async def test_silence_during_the_initial_events_falls_back_to_a_list() -> None:
    silent = FaultPlan(0, LoseEvents(types=BOOKMARKS))
    async with widget_cluster("a", plan=silent) as api, running(api.link) as cache:
        await start(cache)
        assert names(cache) == ["a"]
    assert api.link.count("list", WIDGETS) == 1


async def test_list_that_falls_silent_in_the_middle_is_tried_again() -> None:
    hung: list[str] = []

    def hanging(query: str, stream: Stream) -> Stream:
        async def chunks() -> AsyncIterator[bytes]:
            hung.append(query)
            yield b'{"items":['
            await asyncio.get_running_loop().create_future()

        return stream if hung else Stream(200, chunks(), close=stream.aclose)

    async with widget_cluster("a") as api:
        started = asyncio.get_running_loop().time()
        async with running(AlteredStreams(api.link, hanging), PLAIN) as cache:
            await start(cache)
            assert names(cache) == ["a"]
            assert asyncio.get_running_loop().time() - started == pytest.approx(61, abs=1)
    assert len(hung) == 1


async def test_missing_permission_is_named_within_ten_seconds_and_heals() -> None:
    message = 'widgets.example.com is forbidden: User "x" cannot list resource'
    denied = FaultPlan(0, Refuse(403, message=message, verbs=WATCH, times=3))
    async with widget_cluster("a", plan=denied) as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.FORBIDDEN, within=10)
        assert "cannot watch widgets.example.com" in str(informer.health)
        assert informer.health.verb == "watch"
        assert informer.health.is_blocked
        await informer.wait_synced()
        assert informer.health.is_good


async def test_trouble_counts_from_its_beginning_and_not_from_its_last_try() -> None:
    denied = FaultPlan(0, Refuse(403, verbs=WATCH))
    async with widget_cluster("a", plan=denied) as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.FORBIDDEN)
        first = informer.health.since
        await asyncio.sleep(100)
        assert informer.health.state is HealthState.FORBIDDEN
        assert informer.health.since == first <= asyncio.get_running_loop().time() - 99
        api.link.plan = FaultPlan()
        await informer.wait_synced()
        assert informer.health.since > first + 99
        assert informer.health.verb == informer.health.resource == informer.health.message == ""


async def test_a_stream_that_is_too_old_at_its_start_is_asked_for_at_any_version() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        await start(cache)
        gone = Refuse(410, verbs=WATCH, parameter="sendInitialEvents", times=1)
        api.link.plan.add(gone)
        await until(lambda: api.link.open_watches(WIDGETS))
        version = cache.informer(Widget).statistics().version
        api.link.fail_watches(410)
        await until(lambda: api.link.plan.struck[gone.label] == 1)
        await until(lambda: api.link.open_watches(WIDGETS))
        assert cache.informer(Widget).statistics().shards[0].lists == 2
    streamed = [each for each in queries(api, "watch") if each.get("sendInitialEvents")]
    assert [each.get("resourceVersion", "") for each in streamed] == ["", version, ""]
    assert api.link.count("list", WIDGETS) == 0


@pytest.mark.parametrize(
    ("error", "is_gone"),
    [
        (Gone("too old"), True),
        (ApiError("Timeout: Too large resource version: 9, current: 7", code=504), True),
        (
            ApiError("no", details=ErrorDetails(causes=(ErrorCause(reason="ResourceVersionTooLarge"),))),
            True,
        ),
        (ApiError("no", details=ErrorDetails(causes=(ErrorCause(reason="Other"),))), False),
        (TransportError("Too large resource version"), False),
    ],
    ids=repr,
)
def test_a_version_is_unavailable_if_it_is_too_old_or_too_new(error: QuarterdeckError, is_gone: bool) -> None:
    assert _is_version_gone(error) is is_gone


async def test_a_page_that_is_gone_is_replaced_by_the_whole_list() -> None:
    def uncached(query: str) -> str:  # a server without a watch cache heeds the limit at version 0, too
        return query.replace("&resourceVersion=0", "")

    gone = FaultPlan(0, Refuse(410, verbs=frozenset({"list"}), parameter="continue", times=1))
    many = [f"w{i:04d}" for i in range(501)]
    async with (
        widget_cluster(*many, plan=gone) as api,
        running(AlteredStreams(api.link, question=uncached), PLAIN) as cache,
    ):
        await start(cache)
        assert names(cache) == many
    first, second, third = queries(api, "list")
    assert first["limit"] == second["limit"] == "500"
    assert third.keys() == {"resourceVersion"} or third == {}


async def test_unauthorized_is_retried_and_shown() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        await start(cache)
        api.link.plan.add(Refuse(401, verbs=WATCH, times=2))
        await asyncio.sleep(3)
        api.link.end_watches()
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.UNAUTHORIZED)
        await until(lambda: informer.health.is_good)
        assert informer.statistics().shards[0].lists == 1


async def test_kind_that_disappears_leaves_tombstones_and_resumes_when_it_returns() -> None:
    async with widget_cluster("a", "b") as api, running(api.link) as cache:
        recorder = await start(cache)
        await asyncio.sleep(3)
        api.link.plan.add(Refuse(404, message="the server could not find the requested resource"))
        api.link.end_watches()
        informer = cache.informer(Widget)
        await until(lambda: informer.health.state is HealthState.KIND_MISSING)
        await until(lambda: len(recorder.deltas) == 4)
        assert names(cache) == []
        tries = api.link.count("watch", WIDGETS)
        await asyncio.sleep(95)
        assert 9 <= api.link.count("watch", WIDGETS) - tries <= 10
        await api.remove(Widget, "a")
        await api.remove(Widget, "b")
        await api.put(Widget, "c")
        api.link.plan = FaultPlan()
        await until(lambda: names(cache) == ["c"], within=11)
    assert recorder.texts == ["+ai", "+bi", "-a?", "-b?", "+c"]


async def test_internal_error_in_the_stream_lists_unless_a_window_is_configured() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        await start(cache)
        api.link.fail_watches(500)
        await until(lambda: cache.informer(Widget).statistics().shards[0].lists == 2)


async def test_object_of_another_kind_or_without_a_name_is_skipped() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
        api.link.deliver(line("ADDED", table))
        api.link.deliver(line("ADDED", {"kind": "Widget", "metadata": {}}))
        api.link.deliver(b'{"type":"ADDED","object":{"kind":\n')
        await api.put(Widget, "b")
        await until(lambda: len(recorder.deltas) == 2)
        assert cache.informer(Widget).statistics().shards[0].skipped == 2


async def test_watch_at_no_version_does_not_trust_synthetic_events() -> None:
    def versionless(query: str, stream: Stream) -> Stream:
        async def chunks() -> AsyncIterator[bytes]:
            page = msgspec.json.decode(b"".join([chunk async for chunk in stream]))
            yield msgspec.json.encode({**page, "metadata": {}})

        if "watch=true" in query:
            return stream
        return Stream(stream.status, chunks(), stream.headers, stream.aclose)

    lost = FaultPlan(0, LoseEvents(types=BOOKMARKS))
    async with (
        widget_cluster("a", plan=lost) as api,
        running(AlteredStreams(api.link, versionless), PLAIN) as cache,
    ):
        await start(cache)
        await api.put(Widget, "b")
        await until(lambda: "b" in names(cache))
        assert cache.informer(Widget).statistics().shards[0].version == ""
        changed = await api.put(Widget, "b", spec={"replicas": 2})
        version = changed.metadata.resource_version
        await until(lambda: cache.informer(Widget).statistics().shards[0].version == version)


async def test_late_and_duplicate_events_change_nothing() -> None:
    async with widget_cluster("a") as api, running(api.link) as cache:
        recorder = await start(cache)
        old = (await api.client.get(Widget.type_info.gvk, "a", "ns")).to_dict()
        new = (await api.put(Widget, "a", spec={"replicas": 2})).to_dict()
        await until(lambda: len(recorder.deltas) == 2)
        for doc in (new, old, new):
            api.link.deliver(line("MODIFIED", doc))
        api.link.deliver(line("DELETED", {**old, "metadata": {**old["metadata"], "uid": "uid-earlier"}}))
        await api.put(Widget, "b")
        await until(lambda: "b" in names(cache))
        await asyncio.sleep(0.1)
    assert recorder.texts == ["+ai", "~a", "+b"]


@pytest.mark.parametrize("seed", range(8))
async def test_seeded_faults_lose_and_invent_nothing(seed: int) -> None:
    """Cuts, black holes, 410, 429, refusals in any order: the cache ends equal to the server."""
    chance = random.Random(seed)
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

    async def disturb(api: WidgetCluster) -> None:
        action = chance.randrange(12)
        name = f"w{chance.randrange(20)}"
        if action < 5:
            await api.put(Widget, name, spec={"replicas": chance.randrange(9)})
        elif action < 7:
            with suppress(NotFound):
                await api.remove(Widget, name)
        elif action == 7:
            api.link.end_watches(reset=chance.random() < 0.5)
        elif action == 8:
            api.link.fail_watches(chance.choice((410, 429, 500)))
        elif action == 9:
            verbs = frozenset({chance.choice(("watch", "list"))})
            refusal = Refuse(429, retry_after=1, verbs=verbs, times=1)
            api.link.plan.add(chance.choice((refusal, RefuseConnection(verbs=verbs, times=1))))
        elif action == 10 and chance.random() < 0.2:
            api.link.silence_watches()
        elif action == 11:
            await api.cluster.compact()

    options = CacheOptions(stream_lists=chance.random() < 0.5)
    async with widget_cluster(*(f"w{i}" for i in range(10))) as api:
        async with running(api.link, options, seed=seed) as cache:
            registration = cache.informer(Widget).add_handler(Follower())
            for _ in range(200):
                await disturb(api)
                await asyncio.sleep(chance.random() * 3)
            await registration.wait_synced()
            await asyncio.sleep(1500)
            wanted = {each.metadata.name: each.metadata for each in await api.client.list(Widget)}
            held = {e.name: e for e in cache.informer(Widget).entries()}
        assert {n: e.resource_version for n, e in held.items()} == {
            n: m.resource_version for n, m in wanted.items()
        }
        assert state == {n: m.uid for n, m in wanted.items()}
