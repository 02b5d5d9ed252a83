"""A page of a list costs what it holds: counted in function calls, so that no machine is too slow for it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.inprocess import LocalServer
from quarterdeck.apiserver.storage import Entry, encode_value
from quarterdeck.apiserver.storage.entry import body_at
from quarterdeck.apiserver.storage.store import ANY

LIMIT = 50


async def page(local: LocalServer, token: str) -> tuple[dict[str, Any], int]:
    """A page of all config maps, and the number of calls it took."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        query = f"limit={LIMIT}&continue={token}"
        status, _, body = await local.exchange("GET", "/api/v1/configmaps", query, (), b"")
    finally:
        sys.setprofile(None)
    assert status == 200
    return msgspec.json.decode(body), calls


async def calls_per_page(objects: int) -> list[int]:
    async with ApiServer() as server:
        local = server.local()
        bucket = server.store.bucket("", "configmaps", namespaced=True)
        there = bucket.count
        for rev in range(1, objects + 1):
            name = f"config-{rev:06}"
            text = encode_value({"metadata": {"name": name, "namespace": "default"}})
            bucket.load(Entry("default", name, rev, rev, body_at(text, rev)))
        server.store.rev = max(server.store.rev, bucket.last_rev)
        await page(local, "")
        taken, token = [], ""
        for number in range(4):
            answer, calls = await page(local, token)
            taken.append(calls)
            seen = (number + 1) * LIMIT
            assert answer["metadata"]["remainingItemCount"] == there + objects - seen
            token = answer["metadata"]["continue"]
            # what is written meanwhile concerns none of the pages that follow
            text = encode_value({"metadata": {"name": "z", "namespace": "default"}})
            await server.store.put(bucket, "default", f"z-{number}", text, expected=ANY)
        return taken


def test_pages_of_a_long_list_cost_what_pages_of_a_short_one_do() -> None:
    short = asyncio.run(calls_per_page(1_000))
    long = asyncio.run(calls_per_page(40_000))
    assert max(long) < 1.5 * max(short), f"calls per page: {short} of 1,000 objects, {long} of 40,000"
