"""Lists, watches and what the cache makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from quarterdeck.api import GroupVersionKind, ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import Call, Stream, metadata_of
from quarterdeck.client.call import ProceedStream
from quarterdeck.errors import BadRequest, Invalid
from quarterdeck.runtime.cache import Cache, CacheOptions
from quarterdeck.testing import (
    CutWatch,
    FaultPlan,
    FaultRule,
    Refuse,
    RefuseConnection,
    SilenceWatch,
    TestCluster,
    WatchError,
    eventually,
    intercept,
)

from .gadget import GADGETS, Gadget, Wire, gadget, watching

WATCH = frozenset({"watch"})


@pytest.mark.parametrize("where", ["in the stream", "when opening"])
async def test_causes_exactly_one_list_loses_and_doubles_nothing_and_leaves_tombstones(
    wire: Wire, where: str
) -> None:
    await wire.create("kept", "doomed", "changed")
    async with watching(wire) as seen:
        assert sorted(seen.diary.texts) == ["+changedi", "+doomedi", "+kepti"]
        seen.diary.deltas.clear()
        seen.link.cut()
        await wire.delete("doomed")
        await wire.create("fresh")
        await wire.touch("changed", 5)
        fault: FaultRule = Refuse(410, verbs=WATCH, times=1)
        if where == "in the stream":
            fault = WatchError(410, (0.0, 0.0), times=1)
        seen.link.plan = FaultPlan(0, fault)
        seen.link.restore()
        await eventually(lambda: seen.names == {"kept", "fresh", "changed"})
        await eventually(lambda: len(seen.diary.texts) >= 3)
        await wire.create("later")
        await eventually(lambda: "+later" in seen.diary.texts)
        assert seen.lists == 2
        assert sorted(seen.diary.texts) == ["+fresh", "+later", "-doomed?", "~changed"]
        assert list(seen.link.plan.struck.values()) == [1]


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(429, retry_after=1, verbs=WATCH, times=2),
        RefuseConnection(verbs=WATCH, times=2),
        WatchError(429, (1.5, 1.5), times=1),
    ],
    ids=["429", "connection refused", "429 in the stream"],
)
async def test_and_connection_refused_cause_no_list(wire: Wire, fault: FaultRule) -> None:
    await wire.create("a")
    async with watching(wire) as seen:
        seen.link.plan = FaultPlan(0, fault)
        seen.link.end_watches()
        await wire.create("b")
        await eventually(lambda: sum(seen.link.plan.struck.values()) == fault.times, timeout=60)
        await wire.create("c")
        await eventually(lambda: seen.names == {"a", "b", "c"}, timeout=60)
        assert seen.lists == 1
        assert seen.link.count("list", GADGETS) == 0
        assert seen.diary.texts == ["+ai", "+b", "+c"]


async def test_short_watch_backs_off(wire: Wire) -> None:
    await wire.create("a")
    async with watching(wire) as seen:
        # Cut three times: a short watch, the list that follows it, and the short watch behind that.
        seen.link.plan = FaultPlan(0, CutWatch((0.05, 0.05), times=3))
        seen.link.end_watches()
        await eventually(lambda: seen.link.plan.struck["CutWatch"] == 3, timeout=60)
        await wire.create("b")
        await eventually(lambda: seen.names == {"a", "b"}, timeout=60)
        opened = [each.at for each in seen.link.log if each.verb == "watch"][1:]
        waits = [after - before - 0.05 for before, after in pairwise(opened)]
        assert waits[0] >= 0.75
        assert waits[2] >= 1.5, "twice as long as before"
        assert seen.diary.texts == ["+ai", "+b"]


async def test_streamed_list_is_synced_only_after_the_marked_bookmark(wire: Wire) -> None:
    await wire.create("a", "b")
    release = asyncio.Event()
    delivered: list[bytes] = []

    async def hold(call: Call, proceed: ProceedStream) -> Stream:
        stream = await proceed(call)
        return Stream(stream.status, _without_end(stream, release, delivered), stream.headers, stream.aclose)

    link = wire.cluster.link(name="cache")
    client = intercept(link.client, watch=hold)
    cache = Cache(client, client.mapper, options=CacheOptions(namespaces=(wire.namespace,)))
    informer = cache.informer(Gadget)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        await eventually(lambda: b"".join(delivered).count(b'"ADDED"') == 2)
        await asyncio.sleep(2)
        assert not informer.has_synced
        assert list(informer.entries()) == [], "nothing is shown before it is complete"
        release.set()
        await eventually(lambda: informer.has_synced)
        assert {entry.name for entry in informer.entries()} == {"a", "b"}
        task.cancel()
    assert link.count("list", GADGETS) == 0
    first = next(each for each in link.log if each.verb == "watch")
    assert first.query["sendInitialEvents"] == "true"
    assert first.query["resourceVersionMatch"] == "NotOlderThan"


async def _without_end(
    stream: Stream, release: asyncio.Event, delivered: list[bytes]
) -> AsyncIterator[bytes]:
    """The stream line by line, with the bookmark that ends the initial events held back."""
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if b"k8s.io/initial-events-end" in line:
                await release.wait()
            delivered.append(line)
            yield line + b"\n"


@pytest.mark.parametrize("refusal", [Invalid, BadRequest])
async def test_server_without_streamed_lists_gets_one_plain_list(
    wire: Wire, refusal: type[Invalid] | type[BadRequest]
) -> None:
    asked = 0

    async def refuse(call: Call, proceed: ProceedStream) -> Stream:
        nonlocal asked
        if call.has_query("sendInitialEvents"):
            asked += 1
            raise refusal("sendInitialEvents is forbidden for watch")
        return await proceed(call)

    await wire.create("a")
    link = wire.cluster.link(name="cache")
    client = intercept(link.client, watch=refuse)
    cache = Cache(client, client.mapper, options=CacheOptions(namespaces=(wire.namespace,)))
    informer = cache.informer(Gadget)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        await eventually(lambda: informer.has_synced and link.open_streams)
        assert (asked, link.count("list", GADGETS)) == (1, 1)
        link.plan = FaultPlan(0, Refuse(410, verbs=WATCH, times=1))
        link.end_watches()
        await wire.create("b")
        await eventually(lambda: {entry.name for entry in informer.entries()} == {"a", "b"})
        assert (asked, link.count("list", GADGETS)) == (1, 2), "what was refused once is not asked again"
        task.cancel()


async def test_bookmark_moves_the_version_without_handler_calls_and_is_resumed_from(
    wire: Wire,
) -> None:
    await wire.create("a")
    async with watching(wire) as seen:
        before = seen.informer.statistics().version
        # Something else happens in the cluster: versions move on, gadgets do not.
        for i in range(3):
            metadata = ObjectMeta(name=f"c{i}", namespace=wire.namespace)
            await wire.cluster.client.create(ConfigMap(metadata=metadata))
        await eventually(lambda: seen.informer.statistics().version != before, timeout=90, interval=0.5)
        marked = seen.informer.statistics().version
        assert int(marked) > int(before)
        assert seen.diary.texts == ["+ai"]
        opened = seen.link.count("watch")
        seen.link.end_watches()
        await eventually(lambda: seen.link.count("watch") > opened)
        last = [each for each in seen.link.log if each.verb == "watch"][-1]
        assert int(last.query["resourceVersion"]) >= int(marked)
        assert seen.lists == 1


async def test_uid_change_across_a_list_is_a_delete_and_an_add(wire: Wire) -> None:
    (old,) = await wire.create("a")
    async with watching(wire) as seen:
        seen.diary.deltas.clear()
        seen.link.cut()
        await wire.delete("a")
        (new,) = await wire.create("a")
        seen.link.plan = FaultPlan(0, Refuse(410, verbs=WATCH, times=1))
        seen.link.restore()
        await eventually(lambda: seen.diary.texts == ["-a?", "+a"])
        assert [each.entry.uid for each in seen.diary.deltas] == [old.metadata.uid, new.metadata.uid]
        assert (await seen.cache.get(Gadget, "a", wire.namespace)).metadata.uid == new.metadata.uid


async def test_silent_black_hole_is_left_within_the_watchdog_and_nothing_is_lost(wire: Wire) -> None:
    await wire.create("a")
    async with watching(wire, silence=4.0) as seen:
        seen.link.plan = FaultPlan(0, SilenceWatch((0.0, 0.0), times=1))
        seen.link.end_watches()
        await eventually(lambda: seen.link.plan.struck["SilenceWatch"] == 1)
        silent_since = asyncio.get_running_loop().time()
        await wire.create("b")
        await wire.delete("a")
        await asyncio.sleep(1)
        assert seen.names == {"a"}, "nobody says a word"
        await eventually(lambda: seen.names == {"b"}, timeout=10)
        assert asyncio.get_running_loop().time() - silent_since < 6
        assert seen.diary.texts == ["+ai", "+b", "-a"]
        assert seen.lists == 1


def _attempts(obj: Any) -> list[tuple[str, Any]]:
    """Ways to change an object in place."""

    def attribute() -> None:
        obj.kind = "Other"

    def deep_attribute() -> None:
        obj.metadata.name = "other"

    def item() -> None:
        obj.metadata.labels["x"] = "y"

    def deleted() -> None:
        del obj.metadata.labels["app"]

    def method() -> None:
        obj.metadata.labels.clear()

    def update() -> None:
        obj.metadata.labels.update(a="b")

    def finalizers() -> None:
        obj.metadata.finalizers.append("x")

    def force() -> None:
        object.__setattr__(obj.metadata, "nonsense", 1)

    return [(each.__name__, each) for each in (attribute, deep_attribute, item, deleted, method, update)] + [
        ("finalizers", finalizers),
        ("force", force),
    ]


@pytest.mark.cluster(crds=[Gadget])
async def test_frozen_cache_objects_every_mutation_attempt_raises(cluster: TestCluster) -> None:
    made = gadget("a", 3)
    await cluster.client.create(
        made.evolve(metadata=made.metadata.evolve(labels={"app": "x"}, finalizers=("example.com/f",)))
    )
    cache = Cache(cluster.client, cluster.client.mapper)
    dynamic = GroupVersionKind("guarantee.example.com", "v1", "Gadget")
    cache.informer(Gadget)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        await asyncio.sleep(0)
        typed = await cache.get(Gadget, "a", "default")
        metadata = await cache.get(metadata_of(Gadget), "a", "default")
        plain = await cache.get(dynamic, "a", "default")
        before = typed.to_bytes()
        for obj in (typed, metadata):
            for name, attempt in _attempts(obj):
                with pytest.raises((TypeError, AttributeError)):
                    attempt()
                assert obj.metadata.labels == {"app": "x"}, name
        with pytest.raises((TypeError, AttributeError)):
            typed.spec.size = 5  # type: ignore[misc]
        with pytest.raises((TypeError, AttributeError)):
            plain["spec"]["size"] = 5
        with pytest.raises((TypeError, AttributeError)):
            plain.at("metadata", "finalizers").append("x")
        assert (await cache.get(Gadget, "a", "default")).to_bytes() == before
        task.cancel()
