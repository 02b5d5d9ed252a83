"""A watch that begins with very many objects: they come in pieces, and nothing overtakes them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.apiserver.registry import watch
from quarterdeck.apiserver.registry.watch import WatchStream
from quarterdeck.errors import StreamClosed
from quarterdeck.testing import TestCluster

QUERY = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
OLD = [f"old{number}" for number in range(7)]


def _map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels={"last": name[-1]}))


@pytest.mark.parametrize(
    ("selector", "seen"), [("", OLD), ("&labelSelector=last%20in%20(0,6)", ["old0", "old6"])]
)
async def test_what_happens_meanwhile_comes_after_the_initial_state(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, selector: str, seen: list[str]
) -> None:
    monkeypatch.setattr(watch, "AT_ONCE", 3)
    monkeypatch.setattr(watch, "PIECE", 2)
    client = cluster.client
    for name in OLD:
        await client.create(_map(name))
    pieces: list[int] = []
    send = WatchStream._send_events

    async def and_write(stream: WatchStream, events: Any) -> bool:
        pieces.append(len(events))
        if len(pieces) == 2:
            await client.create(_map("new0"))
            await client.delete(ConfigMap, "old6", "default")
        return await send(stream, events)

    monkeypatch.setattr(WatchStream, "_send_events", and_write)
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


async def test_a_reader_that_pauses_is_waited_for(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("AT_ONCE", 3), ("PIECE", 2), ("PIECES_BUFFERED", 0)):
        monkeypatch.setattr(watch, name, number)
    for name in OLD:
        await cluster.client.create(_map(name))
    found: list[str] = []
    async with cluster.client.watch(ConfigMap, namespace="default") as events:
        async with asyncio.timeout(60):
            async for event in events:
                found.append(event.object.metadata.name)
                await asyncio.sleep(0.1)
                if len(found) == len(OLD):
                    break
    assert found == OLD


async def test_a_reader_that_takes_nothing_is_cut_off(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody can have taken more than everything: there is never room for the first piece.
    for name, number in (("AT_ONCE", 3), ("PIECES_BUFFERED", -1), ("PIECE_PATIENCE", 0.1)):
        monkeypatch.setattr(watch, name, number)
    for name in OLD:
        await cluster.client.create(_map(name))
    async with cluster.client.watch(ConfigMap, namespace="default") as events, asyncio.timeout(60):
        with suppress(StreamClosed):
            assert [event async for event in events] == []


async def test_a_reader_for_which_too_many_events_wait_is_cut_off(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("AT_ONCE", 3), ("PIECES_BUFFERED", -1), ("MOST_PENDING", 2)):
        monkeypatch.setattr(watch, name, number)
    for name in OLD:
        await cluster.client.create(_map(name))
    async with cluster.client.watch(ConfigMap, namespace="default") as events, asyncio.timeout(60):
        for number in range(3):
            await cluster.client.create(_map(f"new{number}"))
        with suppress(StreamClosed):
            assert [event async for event in events] == []
