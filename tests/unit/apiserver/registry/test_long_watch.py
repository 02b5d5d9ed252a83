"""Watches that are behind: they begin with very many objects or in the past, or nobody reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.apiserver.app import Peer
from quarterdeck.apiserver.auth import ADMIN
from quarterdeck.apiserver.registry.watch import unsent
from quarterdeck.apiserver.registry.watch import watcher as watch
from quarterdeck.apiserver.registry.watch.watcher import WatchStream
from quarterdeck.apiserver.registry.watch.watchform import WatchForm
from quarterdeck.apiserver.storage import store
from quarterdeck.testing import TestCluster
from quarterdeck.wire.http import Request, Response, Stream, unframe
from quarterdeck.wire.timeslice import TimeSlice

QUERY = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
OLD = [f"old{number}" for number in range(7)]


def _map(name: str, **data: str) -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="default", labels={"last": name[-1]})
    return ConfigMap(metadata=meta, data=data)


@pytest.mark.parametrize(
    ("selector", "seen"), [("", OLD), ("&labelSelector=last%20in%20(0,6)", ["old0", "old6"])]
)
async def test_what_happens_meanwhile_comes_after_the_initial_state(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, selector: str, seen: list[str]
) -> None:
    monkeypatch.setattr(watch, "PIECE", 300)
    monkeypatch.setattr(watch, "SOME_OBJECTS", 2)
    client = cluster.client
    for name in OLD:
        await client.create(_map(name))
    pieces: list[int] = []
    send = WatchStream._send

    async def and_write(stream: WatchStream, events: Any, patience: float | None = None) -> None:
        pieces.append(len(events))
        if len(pieces) == 2:
            await client.create(_map("new0"))
            await client.delete(ConfigMap, "old6", "default")
        await send(stream, events, patience)

    monkeypatch.setattr(WatchStream, "_send", and_write)
    _, _, body = await cluster.server.local().exchange(
        "GET", "/api/v1/namespaces/default/configmaps", f"{QUERY}&timeoutSeconds=2{selector}", (), b""
    )
    lines = [json.loads(line) for line in body.splitlines()]
    texts = [f"{line['type']} {line['object']['metadata'].get('name', '')}".strip() for line in lines]
    added = [f"ADDED {name}" for name in seen]
    assert texts[: len(seen) + 1] == [*added, "BOOKMARK"]
    assert texts[len(seen) + 1 :][:2] == ["ADDED new0", "DELETED old6"]
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines[len(seen) :]]
    assert versions == sorted(set(versions)), "the mark is older than what happened after it"
    assert len(pieces) >= 4


class Reader:
    """The receiving end of a stream that takes only what it is told to."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self._stream: Stream | None = stream
        self._limit = limit
        self._waiting = b""
        self._taken = asyncio.Event()
        self.text = b""
        self.is_cut = False
        stream.start(self)

    def write(self, data: bytes) -> None:
        self._waiting += data

    def write_framed(self, chunk: bytes) -> None:
        self.write(unframe(chunk))

    def buffered(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) > self._limit

    async def drain(self) -> None:
        while self.is_full and self._stream is not None:
            self._taken.clear()
            await self._taken.wait()

    def take(self) -> None:
        self.text += self._waiting
        self._waiting = b""
        self._taken.set()

    def finish(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()
        self._taken.set()

    def abort(self) -> None:
        self.is_cut = True
        self.finish()

    def names(self) -> list[str]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        return [line["object"]["metadata"]["name"] for line in lines]


def _open(cluster: TestCluster, query: str = "", limit: int = 0, accept: str = "") -> Reader:
    headers = {"accept": accept} if accept else {}
    path = "/api/v1/namespaces/default/configmaps"
    request = Request("GET", path, f"watch=1{query}", headers, b"", peer=Peer(user=ADMIN.authenticated()))
    response = cluster.server.app(request)
    assert isinstance(response, Response)
    assert response.stream is not None
    return Reader(response.stream, limit)


async def test_a_reader_that_takes_nothing_holds_one_piece_and_gets_the_rest_later(
    cluster: TestCluster,
) -> None:
    reader = _open(cluster)
    for number in range(50):
        await cluster.client.create(_map(f"m{number}"))
    assert reader.buffered() < 2000, "only what was written before it was full"
    for _ in range(60):
        reader.take()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert reader.names() == [f"m{number}" for number in range(50)]
    await cluster.client.create(_map("later"))
    reader.take()
    assert reader.names()[-1] == "later", "it keeps up again"
    reader.finish()


async def test_streams_of_one_form_that_nobody_reads_hold_the_same_bytes(cluster: TestCluster) -> None:
    readers = [_open(cluster) for _ in range(20)]
    others = [_open(cluster, "&labelSelector=last%3D0") for _ in range(20)]
    size = 1_000_000
    for number in range(5):
        await cluster.client.create(_map(f"m{number}0", text="x" * size))
    await asyncio.sleep(0.1)
    unsent = cluster.server.app._watcher._unsent
    assert 2 * size < unsent.bytes < 3 * size + 40 * 200_000, "one object for each of two forms, and pieces"
    for _ in range(200):
        for reader in (*readers, *others):
            reader.take()
        await asyncio.sleep(0)
    names = [f"m{number}0" for number in range(5)]
    assert [reader.names() for reader in (*readers, *others)] == [names] * 40
    assert unsent.bytes == 0
    assert not unsent._large
    for reader in (*readers, *others):
        reader.finish()


async def test_when_the_budget_is_used_up_the_slowest_are_cut_off(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = _open(cluster)
    await cluster.client.create(_map("first"))
    await cluster.client.create(_map("second"))
    fast = [_open(cluster) for _ in range(5)]
    for reader in fast:
        reader.take()
    await cluster.client.create(_map("third"))
    monkeypatch.setattr(unsent, "BUDGET", 5 * fast[0].buffered())
    assert not slow.is_cut
    await cluster.client.create(_map("fourth"))
    await asyncio.sleep(0.1)
    assert slow.is_cut
    assert not any(reader.is_cut for reader in fast)
    assert 0 < cluster.server.app._watcher._unsent.bytes <= unsent.BUDGET
    for reader in fast:
        reader.finish()
    await asyncio.sleep(0.1)
    assert cluster.server.app._watcher._unsent.bytes == 0


async def test_what_a_webhook_has_converted_counts_until_it_is_sent(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchForm, "is_direct", lambda *_: False)
    size = 100_000
    for number in range(5):
        await cluster.client.create(_map(f"m{number}", text="x" * size))
    readers = [_open(cluster) for _ in range(3)]
    await asyncio.sleep(0.1)
    assert cluster.server.app._watcher._unsent.bytes > 3 * 5 * size, "each stream has its own"
    for reader in readers:
        for _ in range(10):
            reader.take()
            await asyncio.sleep(0)
        assert len(reader.names()) == 5
        reader.finish()
    assert cluster.server.app._watcher._unsent.bytes == 0


async def test_a_reader_that_takes_nothing_of_an_initial_state_is_cut_off(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PIECE", 300)
    for name in OLD:
        await cluster.client.create(_map(name))
    reader = _open(cluster)
    await asyncio.sleep(watch.PATIENCE / 2)
    assert not reader.is_cut
    await asyncio.sleep(watch.PATIENCE)
    assert reader.is_cut


async def test_a_reader_that_is_slower_than_history_is_told_that_it_is_gone(cluster: TestCluster) -> None:
    reader = _open(cluster)
    for name in OLD:
        await cluster.client.create(_map(name))
    await asyncio.sleep(0)
    await cluster.server.store.forget_history()
    for _ in range(10):
        reader.take()
        await asyncio.sleep(0)
    last = json.loads(reader.text.splitlines()[-1])
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize("failure", [RuntimeError("a defect"), asyncio.CancelledError()])
async def test_a_stream_whose_task_fails_is_cut_off_and_logged(
    cluster: TestCluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: BaseException,
) -> None:
    reader, other = _open(cluster), _open(cluster, limit=10**6)
    await cluster.client.create(_map("first"))

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(cluster.server.store, "some_changes", fail)
    await cluster.client.create(_map("second"))
    reader.take()
    await asyncio.sleep(0.1)
    assert reader.is_cut
    assert [each.message for each in caplog.records] == ["a watch failed"]
    other.take()
    assert other.names() == ["first", "second"]
    other.finish()


async def test_a_stream_that_cannot_encode_an_event_costs_no_other_one(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = _open(cluster, "&labelSelector=last%3Dt", limit=10**6), _open(cluster, limit=10**6)
    line = WatchForm.line

    def picky(form: WatchForm, event: Any) -> bytes:
        if not form._selection.is_empty:
            raise RuntimeError("a defect")
        return line(form, event)

    monkeypatch.setattr(WatchForm, "line", picky)
    await cluster.client.create(_map("first"))
    second.take()
    assert first.is_cut
    assert second.names() == ["first"]
    assert [each.message for each in caplog.records] == ["a watch failed"]
    second.finish()


async def test_tables_show_their_columns_once_whoever_encoded_them(cluster: TestCluster) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    early = _open(cluster, limit=10**6, accept=accept)
    await cluster.client.create(_map("first"))
    late = _open(cluster, "&resourceVersion=" + str(cluster.server.store.rev), limit=10**6, accept=accept)
    for name in ("second", "third"):
        await cluster.client.create(_map(name))
    shown = []
    for reader in (early, late):
        reader.take()
        tables = [json.loads(line)["object"] for line in reader.text.splitlines()]
        shown.append([bool(table["columnDefinitions"]) for table in tables])
        reader.finish()
    assert shown == [[True, False, False], [True, False]]


async def test_a_watch_from_the_past_leaves_others_their_turns(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rev = cluster.server.store.rev
    for number in range(200):
        await cluster.client.create(_map(f"m{number}"))
    monkeypatch.setattr(store, "SOME_BYTES", 1000)
    monkeypatch.setattr(watch, "TimeSlice", lambda: TimeSlice(0.0))
    reader = _open(cluster, f"&resourceVersion={rev}", limit=10**7)
    turns = 0
    while reader.text.count(b"\n") < 200:
        turns += 1
        reader.take()
        await asyncio.sleep(0)
    assert reader.names() == [f"m{number}" for number in range(200)]
    assert turns > 20
    reader.finish()


async def test_memory_of_much_that_was_unsent_goes_back_to_the_system(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back = 0

    def give_back() -> None:
        nonlocal given_back
        given_back += 1

    monkeypatch.setattr(unsent, "give_back", give_back)
    monkeypatch.setattr(unsent, "MUCH", 10_000)
    for size, times in ((1_000, 0), (100_000, 1)):
        readers = [_open(cluster) for _ in range(3)]
        for number in range(3):
            await cluster.client.create(_map(f"m{number}-{size}", text="x" * size))
        await asyncio.sleep(0.1)
        for reader in readers:
            reader.finish()
        await asyncio.sleep(5)
        assert given_back == times


async def test_a_watch_that_ends_before_it_has_caught_up_leaves_nothing(cluster: TestCluster) -> None:
    rev = cluster.server.store.rev
    await cluster.client.create(_map("first"))
    reader = _open(cluster, f"&resourceVersion={rev}")
    reader.finish()
    await asyncio.sleep(0.1)
    assert reader.text == b""
    assert not cluster.server.app._watcher.open_streams
